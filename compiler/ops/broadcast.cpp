#include "compiler/ops/broadcast.h"

namespace dtr::ops {

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= shape.size(); ++i) {
    const int64_t from_a = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t from_b = i <= b.size() ? b[b.size() - i] : 1;
    if (from_a != from_b && from_a != 1 && from_b != 1) return std::nullopt;
    shape[shape.size() - i] = from_a == 1 ? from_b : from_a;
  }
  return shape;
}

std::vector<int64_t> broadcast_strides(const Shape& operand, const Shape& result) {
  std::vector<int64_t> own = strides(operand, Layout::kContiguous);
  for (size_t i = 0; i < operand.size(); ++i)
    if (operand[i] == 1) own[i] = 0;
  own.insert(own.begin(), result.size() - operand.size(), 0);
  return own;
}

}  // namespace dtr::ops
