#include "host/executorch/partition.h"

#include <algorithm>
#include <map>

#include "compiler/program/reader.h"
#include "device/executorch/backend.h"
#include "device/pte/debug_map_generated.h"
#include "host/profiler/operator_map.h"

namespace dtr {

std::vector<NodePlacement> node_placements(const Compilation& compilation) {
  const Module& module = compilation.module;
  const Graph& graph = module.forward();
  std::map<uint32_t, NodePlacement> rows;  // by source
  for (const OpId id : graph.ops()) {
    const uint8_t at = compilation.placement.backend[id.index];
    const bool delegated =
        at != Placement::kNowhere && compilation.recipe[at]->as_delegate() != nullptr;
    const auto& reason = id.index < compilation.placement.reasons.size()
                             ? compilation.placement.reasons[id.index]
                             : std::nullopt;
    for (const uint32_t source : graph.op(id).origin.sources) {
      const auto [found, added] = rows.try_emplace(source);
      NodePlacement& row = found->second;
      row.node = module.sources[source].name;
      // A node of several ops is delegated if all of them are.
      row.delegated = delegated && (added || row.delegated);
      if (!reason || !row.id.empty()) continue;
      row.id = reason->refusal.id;
      row.reason = reason->refusal.reason;
      row.remedy = reason->refusal.remedy;
      row.because_of = reason->because_of;
    }
  }
  std::vector<NodePlacement> list;
  for (auto& [source, row] : rows) list.push_back(std::move(row));
  return list;
}

std::vector<std::pair<int32_t, std::vector<std::string>>> event_nodes(
    const Compilation& compilation) {
  std::vector<std::pair<int32_t, std::vector<std::string>>> events;
  const auto pte_file = PteFile::borrow(compilation.pte(), "program", false);
  if (!pte_file || pte_file->debug_map() == nullptr) return events;
  const OperatorMap operators(*pte_file->debug_map());
  for (const auto& [place, step] : operators.steps()) {
    const auto [instruction, command] = place;
    if (instruction < 0 || instruction >= static_cast<int32_t>(executorch::kMaxInstructions) ||
        command >= static_cast<int32_t>(executorch::kMaxCommands))
      continue;
    std::vector<std::string> nodes;
    for (const uint32_t source : step.origin.sources)
      nodes.push_back(operators.sources()[source].name);
    events.emplace_back(executorch::event_id(static_cast<uint32_t>(instruction), command),
                        std::move(nodes));
  }
  return events;
}

}  // namespace dtr
