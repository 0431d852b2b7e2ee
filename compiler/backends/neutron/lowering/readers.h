// Finds the layout in which the readers of a value need it, so that the call that computes the
// value can write it in that layout.
#pragma once

#include <optional>

#include "compiler/backends/neutron/layout/strided_layout.h"
#include "compiler/ir/graph.h"

namespace dtr::neutron {

// True if the op's kernel reads its operands at any pixel and row stride.
bool reads_in_place(const Graph& graph, OpId op);

// The chain of views and permutations that follows a value, where each is the only reader of the
// one before it.
struct ViewChain {
  ValueId last;  // the result of the last one; the value itself if the chain is empty
  OpId reader;   // the only op that reads `last`, if there is exactly one
  // of the value, such that `last` has the layout of its type; nullopt: there is none
  std::optional<StridedLayout> layout;
};
ViewChain trailing_views(const Graph& graph, ValueId value);

// The layout in which an output of the graph or a kernel that reads pixels takes the value, if it
// is the only reader; else nullopt.
std::optional<StridedLayout> layout_preferred_by_readers(const Graph& graph, ValueId value);

}  // namespace dtr::neutron
