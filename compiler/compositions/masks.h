// Selections by masks. Masks of models mostly are known when the model is read: they are compared,
// combined and cut there. A selection by a known mask is a product and a sum with constants; a mask
// that is computed may put a number in place of elements.
#pragma once

#include <functional>

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// A constant as numbers, or one number.
struct Known {
  Shape shape;
  std::vector<double> values;
};

// function(a, b) of all pairs, broadcast. Errors: shapes that do not broadcast, or to more than
// 2^24 elements.
Result<Known> paired(const GraphBuilder& builder, const Known& a, const Known& b,
                     const std::function<double(double, double)>& function);

// Zeroes of each matrix what is not on the `diagonal` or above it (`upper`), or below it.
void keep_triangle(Known& matrices, bool upper, int64_t diagonal);

// x where the mask is true (`keeps`) or false, else `other`: x · keep + other · (1 − keep). An
// infinite number is added to x alone.
Result<ValueId> select_by_constant(GraphBuilder& builder, const Known& mask, ValueId x, bool keeps,
                                   const Known& other);

// x with `number`, seen as a tensor of `shape`, where a computed mask is true, or where it is
// false.
Result<ValueId> fill_by_mask(GraphBuilder& builder, ValueId x, ValueId mask, bool fills_where_true,
                             double number, const Shape& shape);

}  // namespace dtr::compositions
