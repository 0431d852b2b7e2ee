// Plans operands of concatenations as subviews of the result, so that joining them needs no copy.
#pragma once

#include <map>

#include "compiler/backends/neutron/layout/strided_layout.h"
#include "compiler/ir/graph.h"

namespace dtr::neutron {

// The memory of a value inside of a larger one, the result of the outermost concatenation.
struct Subview {
  ValueId whole;
  int64_t offset = 0;          // bytes
  std::vector<int64_t> steps;  // byte strides of the whole, along each dimension
  StridedLayout layout;        // of the value with these strides
};

// A subview for every operand of a concatenation whose other readers, if any, accept it at any
// strides.
std::map<ValueId, Subview> plan_subviews(const Graph& graph);

// True if no byte belongs to both; `distance` is in bytes from the first element of `a` to that of
// `b`. The rule of `device/npu/microcode.h` for calls that read and write one tensor.
bool disjoint(const StridedLayout& a, const StridedLayout& b, int64_t distance);

}  // namespace dtr::neutron
