#include "compiler/backends/neutron/lowering/rows.h"

#include <algorithm>

namespace dtr::neutron {

std::optional<Rows> rows_of(const StridedLayout& layout, const Shape& shape, size_t dim) {
  Rows rows{.layout = layout};
  if (shape.empty()) return rows;
  rows.columns = shape[dim];
  rows.outer = element_count(shape) / rows.columns;
  if (rows.columns == 1) return rows;
  const auto modes = split_at_dims(layout, shape);
  if (!modes) return std::nullopt;
  const int64_t place = strides(shape, Layout::kContiguous)[dim];
  const auto mode = std::ranges::find_if(
      *modes, [&](const Mode& d) { return d.logical_stride == place && d.extent == rows.columns; });
  if (mode == modes->end()) return std::nullopt;
  rows.inner = mode->byte_stride;
  rows.outer /= rows.inner;
  return rows;
}

}  // namespace dtr::neutron
