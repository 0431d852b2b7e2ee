#include "compiler/backends/neutron/lowering/rows.h"

#include <algorithm>

namespace dtr::neutron {

std::optional<Rows> rows_of(const Order& order, const Shape& shape, size_t dim) {
  Rows rows{.order = order};
  if (shape.empty()) return rows;
  rows.columns = shape[dim];
  rows.outer = element_count(shape) / rows.columns;
  if (rows.columns == 1) return rows;
  const auto digits = split_at_dims(order, shape);
  if (!digits) return std::nullopt;
  const int64_t place = strides(shape, Layout::kContiguous)[dim];
  const auto digit = std::ranges::find_if(
      *digits, [&](const Digit& d) { return d.place == place && d.extent == rows.columns; });
  if (digit == digits->end()) return std::nullopt;
  rows.inner = digit->step;
  rows.outer /= rows.inner;
  return rows;
}

}  // namespace dtr::neutron
