// Views a dense tensor as rows along one of its dimensions.
#pragma once

#include <optional>

#include "compiler/backends/neutron/layout/strided_layout.h"

namespace dtr::neutron {

// The tensor as (outer, columns, inner) bytes; `columns` is the extent of the dimension.
struct Rows {
  StridedLayout layout;
  int64_t outer = 1, columns = 1, inner = 1;
};

// `layout` is dense; nullopt if the dimension has no single byte stride in it.
std::optional<Rows> rows_of(const StridedLayout& layout, const Shape& shape, size_t dim);

}  // namespace dtr::neutron
