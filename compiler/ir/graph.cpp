#include "compiler/ir/graph.h"

#include <algorithm>

namespace dtr {

Origin merge(const Origin& a, const Origin& b) {
  Origin merged;
  std::set_union(a.sources.begin(), a.sources.end(), b.sources.begin(), b.sources.end(),
                 std::back_inserter(merged.sources));
  if (a.part == b.part && a.parts == b.parts) {
    merged.part = a.part;
    merged.parts = a.parts;
  }
  // One without sources is the start of a merge over several ops.
  const auto keeps = [](const Origin& one) { return one.keeps_float || one.sources.empty(); };
  merged.keeps_float = keeps(a) && keeps(b) && (a.keeps_float || b.keeps_float);
  return merged;
}

void Graph::mark_constants(std::vector<bool>& used) const {
  for (const Value& value : values_)
    if (value.kind == ValueKind::kConstant && !value.unused()) used.at(value.constant.index) = true;
  for (const ConstantId initial : initial_states_) used.at(initial.index) = true;
}

OpId Graph::producer_if(ValueId id, const OpDef& def) const {
  const OpId made_by = producer(id);
  return made_by.valid() && op(made_by).def == &def ? made_by : OpId{};
}

OpId Graph::sole_user(ValueId id) const {
  const Value& of = value(id);
  return of.uses.size() == 1 && of.output_uses == 0 ? of.uses.front().op : OpId{};
}

BoundOpView::BoundOpView(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  for (const ValueId operand : op.operands)
    types_.push_back(operand.valid() ? &graph.type(operand) : nullptr);
  for (const ValueId result : op.results) types_.push_back(&graph.type(result));
  const std::span<const Type* const> all = types_;
  view_ = {op.def, all.first(op.operands.size()), &op.attributes, all.subspan(op.operands.size())};
}

bool is_quantized(const Graph& graph) {
  for (const OpId id : graph.ops())
    for (const ValueId result : graph.op(id).results)
      if (graph.type(result).quantized()) return true;
  return false;
}

Place place_of(const Module& module, const Origin& origin) {
  Place place{.file = module.file};
  if (!origin.sources.empty() && origin.sources.front() < module.sources.size()) {
    const SourceOp& source = module.sources[origin.sources.front()];
    place.node = source.name;
    place.module_path = source.module_path;
    place.source_line = source.source_line;
  }
  return place;
}

std::vector<Origin> readers(const Graph& graph, ValueId value) {
  std::vector<Use> uses = graph.value(value).uses;
  std::ranges::sort(uses, {}, [](const Use& use) { return use.op.index; });
  std::vector<Origin> origins;
  for (const Use& use : uses)
    if (const Origin& origin = graph.op(use.op).origin;
        std::ranges::find(origins, origin) == origins.end())
      origins.push_back(origin);
  return origins;
}

Place place_of(const Module& module, const Graph& graph, OpId op) {
  Place place = place_of(module, graph.op(op).origin);
  if (place.node.empty() && !graph.op(op).results.empty())
    place.node = graph.value(graph.op(op).results.front()).name;
  return place;
}

}  // namespace dtr
