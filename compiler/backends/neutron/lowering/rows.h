// A tensor in dense memory as rows along one of its dimensions.
#pragma once

#include <optional>

#include "compiler/backends/neutron/layout/strided_layout.h"

namespace dtr::neutron {

// (outer, columns, inner) bytes, columns being the dimension.
struct Rows {
  StridedLayout layout;
  int64_t outer = 1, columns = 1, inner = 1;
};

// `order` is dense; nullopt if the dimension has no single stride in it.
std::optional<Rows> rows_of(const StridedLayout& layout, const Shape& shape, size_t dim);

}  // namespace dtr::neutron
