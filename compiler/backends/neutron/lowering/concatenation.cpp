#include "compiler/backends/neutron/lowering/concatenation.h"

#include <algorithm>
#include <numeric>

#include "compiler/backends/neutron/lowering/readers.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"

namespace dtr::neutron {
namespace {

bool wanted_once(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind != ValueKind::kResult || value.output_uses > 0) return false;
  const auto joins = std::ranges::count_if(
      value.uses, [&](const Use& use) { return graph.op(use.op).def == &ops::kCat; });
  return joins == 1 && std::ranges::all_of(value.uses, [&](const Use& use) {
           return graph.op(use.op).def == &ops::kCat || reads_in_place(graph, use.op);
         });
}

struct Box {
  int64_t run = 1, length = 1;  // bytes side by side, and from the first to behind the last
  int64_t period = 0;           // divides the distance of any two runs; 0: there is one run
};
Box box_of(const StridedLayout& layout) {
  Box box;
  for (size_t i = layout.size(); i-- > 0;) {
    box.length += (layout[i].extent - 1) * layout[i].byte_stride;
    if (box.period == 0 && layout[i].byte_stride == box.run) {
      box.run *= layout[i].extent;
    } else {
      box.period = std::gcd(box.period, layout[i].byte_stride);
    }
  }
  return box;
}

}  // namespace

std::map<ValueId, Subview> plan_subviews(const Graph& graph) {
  std::vector<OpId> joins;
  for (const OpId op : graph.ops())
    if (graph.op(op).def == &ops::kCat) joins.push_back(op);
  std::ranges::reverse(joins);  // outer ones first
  std::map<ValueId, Subview> parts;
  for (const OpId id : joins) {
    const Op& op = graph.op(id);
    const Type& type = graph.type(op.results[0]);
    const size_t dim = *ops::normalize_dim(op.attributes.get<int64_t>("dim"), type.rank());
    const auto outer = parts.find(op.results[0]);
    Subview part = outer != parts.end()
                       ? outer->second
                       : Subview{op.results[0], 0, strides(type.shape, type.layout), {}};
    for (const ValueId operand : op.operands) {
      const Shape& shape = graph.type(operand).shape;
      if (wanted_once(graph, operand)) {
        part.layout = strided_layout(shape, part.steps);
        parts[operand] = part;
      }
      part.offset += shape[dim] * part.steps[dim];
    }
  }
  return parts;
}

bool disjoint(const StridedLayout& a, const StridedLayout& b, int64_t distance) {
  const auto rises = [](const StridedLayout& layout) {
    return std::ranges::all_of(layout, [](const Mode& mode) { return mode.byte_stride > 0; });
  };
  if (!rises(a) || !rises(b)) return false;  // read backwards or again and again
  const Box first = box_of(a), second = box_of(b);
  if (distance >= first.length || -distance >= second.length) return true;
  const int64_t period = std::gcd(first.period, second.period);
  if (period == 0) return false;
  const int64_t from = (distance % period + period) % period;
  return first.run <= from && from + second.run <= period;
}

}  // namespace dtr::neutron
