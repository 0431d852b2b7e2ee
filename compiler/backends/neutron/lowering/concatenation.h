// Values that are computed where a concatenation wants them, so that joining them costs no copy.
#pragma once

#include <map>

#include "compiler/backends/neutron/layout/strided_layout.h"
#include "compiler/ir/graph.h"

namespace dtr::neutron {

// The place of a value in the memory of a larger one, the result of the outermost concatenation.
struct Subview {
  ValueId whole;
  int64_t offset = 0;          // bytes
  std::vector<int64_t> steps;  // of the whole, along each dimension
  StridedLayout layout;        // of the value with these steps
};

// For every operand of a concatenation that nothing else wants elsewhere: its other readers, if
// any, take it at any strides.
std::map<ValueId, Subview> plan_subviews(const Graph& graph);

// No byte belongs to both; `distance` in bytes from the first element of `a` to that of `b`. The
// rule of `device/npu/microcode.h` for calls that read and write one tensor.
bool disjoint(const StridedLayout& a, const StridedLayout& b, int64_t distance);

}  // namespace dtr::neutron
