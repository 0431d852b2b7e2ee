#include "partitioner/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/rewriter.h"

namespace dtr {

Result<Placement> place(const Program& program, const Graph& graph, const Recipe& recipe) {
  Placement placement;
  placement.backend.assign(graph.op_slots(), Placement::kNowhere);
  placement.refusals.resize(graph.op_slots());
  std::string homeless;
  Place first_place;
  for (const OpId op : graph.ops()) {
    for (size_t i = 0; i < recipe.size(); ++i) {
      std::optional<Refusal> refusal = recipe[i]->refuse(program, graph, op);
      if (!refusal) {
        placement.backend[op.index] = static_cast<uint8_t>(i);
        break;
      }
      placement.refusals[op.index].push_back({i, std::move(*refusal)});
    }
    if (placement.backend[op.index] != Placement::kNowhere) continue;
    const Place place = place_of(program, graph, op);
    if (homeless.empty()) first_place = place;
    homeless += fmt::format("\n  `{}` ({})", place.node, graph.op(op).def->name);
    for (const RefusedBy& by : placement.refusals[op.index])
      homeless += fmt::format("\n    {}: {}", recipe[by.backend]->name(), by.refusal.reason);
  }
  if (!homeless.empty())
    return fail(DiagnosticId::kNoBackend, "no backend of the target runs these operators:" + homeless,
                "replace the operators, or choose a target whose recipe has a backend for them", first_place);
  return placement;
}

std::vector<Unit> partition(const Graph& graph, const Placement& placement, const Recipe& recipe) {
  // Depth of an op: how often a path to it has changed between delegates and everything else. Ops of one delegate at one depth form a
  // unit: a path that leaves the unit and comes back would have become deeper, so units cannot depend on each other in a circle.
  const auto is_delegate = [&](OpId op) { return !recipe[placement.backend[op.index]]->delegate_id().empty(); };
  const auto group_key = [&](OpId op) { return is_delegate(op) ? placement.backend[op.index] : Placement::kNowhere; };
  std::vector<uint32_t> depth(graph.op_slots(), 0);
  for (const OpId op : graph.ops())
    for (const ValueId operand : graph.op(op).operands) {
      const OpId from = graph.producer(operand);
      if (!from.valid()) continue;
      const uint32_t change = group_key(from) == group_key(op) ? 0 : 1;
      depth[op.index] = std::max(depth[op.index], depth[from.index] + change);
    }

  // Units in order of depth; inside a depth, kernel calls in program order. A unit of depth d reads only from depths ≤ d, and at its own
  // depth only from kernel calls that stand before it if it is one itself.
  std::map<std::pair<uint32_t, uint8_t>, std::vector<OpId>> groups;
  for (const OpId op : graph.ops()) groups[{depth[op.index], group_key(op)}].push_back(op);

  std::vector<Unit> units;
  std::vector<uint32_t> unit_of(graph.op_slots(), UINT32_MAX);
  for (const auto& [key, ops] : groups) {
    const bool delegate = key.second != Placement::kNowhere;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (i == 0 || !delegate) units.push_back({.backend = placement.backend[ops[i].index]});
      units.back().ops.push_back(ops[i]);
      unit_of[ops[i].index] = static_cast<uint32_t>(units.size() - 1);
    }
  }

  std::vector<uint32_t> last_reader(graph.value_slots(), UINT32_MAX);
  for (uint32_t index = 0; index < units.size(); ++index) {
    Unit& unit = units[index];
    std::vector<ValueId> seen;
    for (const OpId op : unit.ops) {
      for (const ValueId operand : graph.op(op).operands) {
        if (!operand.valid() || graph.is_constant(operand)) continue;
        const OpId from = graph.producer(operand);
        if (!from.valid() || unit_of[from.index] != index) seen.push_back(operand);
      }
      for (const ValueId result : graph.op(op).results) {
        const Value& value = graph.value(result);
        const bool leaves = value.output_uses > 0 || std::any_of(value.uses.begin(), value.uses.end(),
                                                                 [&](const Use& use) { return unit_of[use.op.index] != index; });
        if (leaves) unit.outputs.push_back(result);
      }
    }
    for (const ValueId input : seen) {
      if (last_reader[input.index] == index) continue;
      last_reader[input.index] = index;
      unit.inputs.push_back(input);
    }
  }
  return units;
}

Graph extract(const Graph& graph, const Unit& unit) {
  Graph part;
  part.name = graph.name;
  Rewriter rewriter(part);
  std::map<ValueId, ValueId> inside;
  for (const ValueId input : unit.inputs) inside[input] = rewriter.add_input(graph.type(input), graph.value(input).name);
  for (const OpId id : unit.ops) {
    const Op& op = graph.op(id);
    OpSpec spec{.def = op.def, .attributes = op.attributes, .origin = op.origin, .name = graph.value(op.results.front()).name};
    for (const ValueId operand : op.operands) {
      if (graph.is_constant(operand) && !inside.contains(operand))
        inside[operand] = rewriter.add_constant(graph.type(operand), graph.value(operand).constant, graph.value(operand).name);
      spec.operands.push_back(operand.valid() ? inside.at(operand) : ValueId{});
    }
    spec.quantization = graph.type(op.results.front()).quantization;
    const Result<OpId> copy = rewriter.insert(OpId{}, std::move(spec));
    DTR_CHECK(copy.has_value());  // the op stood in a verified graph
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId result = part.op(*copy).results[i];
      rewriter.set_quantization(result, graph.type(op.results[i]).quantization);
      rewriter.set_layout(result, graph.type(op.results[i]).layout);
      inside[op.results[i]] = result;
    }
  }
  std::vector<ValueId> outputs;
  for (const ValueId output : unit.outputs) outputs.push_back(inside.at(output));
  rewriter.set_outputs(std::move(outputs));
  return part;
}

}  // namespace dtr
