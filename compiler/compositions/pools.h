// Places of the greatest elements of windows, and elements put back to them.
#pragma once

#include "compiler/ir/builder.h"
#include "compiler/ops/window.h"

namespace dtr::compositions {

// Of each pooled dimension, and of each window along it, the places in the operand that it has.
using Windows = std::vector<std::vector<Ints>>;

// The windows along one dimension; padding is no part of them. Error: more than 2^24 elements of
// all of them.
Result<std::vector<Ints>> windows_of(const GraphBuilder& builder, const ops::WindowAxis& axis);

// The places of the greatest element of each window of x (…, pooled dimensions), numbered over the
// pooled dimensions, in the shape of the pool's result: int64. The first of equal ones. Errors:
// those of GraphBuilder::emit; a window without elements; more than 2^24 elements of all windows.
Result<ValueId> places_of_greatest(GraphBuilder& builder, ValueId x, const Windows& windows,
                                   const Shape& of_result);

// The greatest element of each window, of any dtype. Errors: the same.
Result<ValueId> greatest_of_windows(GraphBuilder& builder, ValueId x, const Windows& windows);

// Zeros of `size` in place of the last dimensions of x, with each element of x at the place of its
// plane that `places` numbers. Errors: those of GraphBuilder::emit; shapes that do not fit.
Result<ValueId> put_to_places(GraphBuilder& builder, ValueId x, ValueId places, const Ints& size);

}  // namespace dtr::compositions
