// Builds selections by masks. Most masks are known at compile time: comparisons, combinations and
// triangles of them are evaluated here. A selection by a known mask is a product and a sum with
// constants; a computed mask can replace elements by a number.
#pragma once

#include <functional>

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// A constant tensor, or a scalar.
struct Known {
  Shape shape;
  std::vector<double> values;
};

// function(a, b) of all pairs, broadcast. Error: `unsupported` of the builder, for shapes that do
// not broadcast or broadcast to more than 2^24 elements.
Result<Known> paired(const GraphBuilder& builder, const Known& a, const Known& b,
                     const std::function<double(double, double)>& function);

// Sets elements of each matrix to zero: those below the `diagonal` (`upper`), or those above it.
void keep_triangle(Known& matrices, bool upper, int64_t diagonal);

// x where the mask equals `keeps`, else `other`: x · keep + other · (1 − keep). An infinite `other`
// is only added to x. Errors: those of GraphBuilder.
Result<ValueId> select_by_constant(GraphBuilder& builder, const Known& mask, ValueId x, bool keeps,
                                   const Known& other);

// x with `number`, which has the shape `shape`, where a computed mask equals `fills_where_true`.
// Errors: those of GraphBuilder.
Result<ValueId> fill_by_mask(GraphBuilder& builder, ValueId x, ValueId mask, bool fills_where_true,
                             double number, const Shape& shape);

// a where the mask is true, else b, of one type. Where one of them is a float number everywhere,
// the mask fills it in, which passes for attention know; else it chooses. Errors: those of
// GraphBuilder.
Result<ValueId> select(GraphBuilder& builder, ValueId mask, ValueId a, ValueId b);

}  // namespace dtr::compositions
