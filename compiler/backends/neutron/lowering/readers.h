// How the readers of a value want it to lie, so that the call that makes it can write it so.
#pragma once

#include <optional>

#include "compiler/backends/neutron/layout/strided_layout.h"
#include "compiler/ir/graph.h"

namespace dtr::neutron {

// The kernel reads its operands at any distance of their pixels and rows.
bool reads_in_place(const Graph& graph, OpId op);

// Views and permutations behind a value, each of which alone reads the one before it.
struct ViewChain {
  ValueId last;                         // what the last of them gives; without any, the value
  OpId reader;                          // what alone reads that, if one op does
  std::optional<StridedLayout> layout;  // of the value, if `last` is to lie as its type says
};
ViewChain trailing_views(const Graph& graph, ValueId value);

// The order in which an output of the graph, or a kernel that reads pixels, takes a value that
// nobody else reads.
std::optional<StridedLayout> layout_preferred_by_readers(const Graph& graph, ValueId value);

}  // namespace dtr::neutron
