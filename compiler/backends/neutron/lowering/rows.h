// A tensor in dense memory as rows along one of its dimensions.
#pragma once

#include <optional>

#include "compiler/backends/neutron/layout/order.h"

namespace dtr::neutron {

// (outer, columns, inner) bytes, columns being the dimension.
struct Rows {
  Order order;
  int64_t outer = 1, columns = 1, inner = 1;
};

// `order` is dense; nullopt if the dimension has no single stride in it.
std::optional<Rows> rows_of(const Order& order, const Shape& shape, size_t dim);

}  // namespace dtr::neutron
