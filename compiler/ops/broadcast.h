// PyTorch's broadcasting of two operands.
#pragma once

#include <algorithm>
#include <optional>

#include "compiler/ir/type.h"

namespace dtr::ops {

// The shape of the result; std::nullopt if two extents differ and neither is 1.
std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b);

// Element strides of a contiguous operand in the shape of the result: 0 along repeated dimensions.
std::vector<int64_t> broadcast_strides(const Shape& operand, const Shape& result);

// Calls row(index of result, index in a, index in b, count, step in a, step in b) for every run
// along the last dimension of the result.
template <class Row>
void for_each_broadcast_row(const Shape& a, const Shape& b, const Shape& result, Row row) {
  if (element_count(result) == 0) return;
  if (a == result && b == result)
    return row(int64_t{0}, int64_t{0}, int64_t{0}, element_count(result), int64_t{1}, int64_t{1});
  if (result.empty())
    return row(int64_t{0}, int64_t{0}, int64_t{0}, int64_t{1}, int64_t{0}, int64_t{0});
  const std::vector<int64_t> strides_a = broadcast_strides(a, result);
  const std::vector<int64_t> strides_b = broadcast_strides(b, result);
  const size_t last = result.size() - 1;
  Shape index(last, 0);
  int64_t at_a = 0;
  int64_t at_b = 0;
  for (int64_t at = 0;; at += result[last]) {
    row(at, at_a, at_b, result[last], strides_a[last], strides_b[last]);
    size_t dim = last;
    for (;; --dim) {
      if (dim == 0) return;
      const size_t d = dim - 1;
      at_a += strides_a[d];
      at_b += strides_b[d];
      if (++index[d] < result[d]) break;
      at_a -= strides_a[d] * result[d];
      at_b -= strides_b[d] * result[d];
      index[d] = 0;
    }
  }
}

}  // namespace dtr::ops
