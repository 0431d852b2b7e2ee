#include "compiler/recipes/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/ir/rewriter.h"
#include "compiler/transforms/pass_manager.h"

namespace dtr {
namespace {

// Levenshtein's distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// "conv2d" of "aten.conv2d.default", "aten.convolution" too.
bool names_operator(std::string_view name, std::string_view op) {
  if (op == name) return true;
  if (op.starts_with("aten.")) op.remove_prefix(5);
  return op == name || op.substr(0, op.find('.')) == name;
}

bool is_named(const Module& module, const Graph& graph, OpId id, std::string_view name) {
  return is_operator(module, graph, id, name) || has_name(module, graph, id, name);
}

// Names of nodes and operators; an operator without a source goes by the name of its result.
std::set<std::string> all_names(const Module& module, bool operators) {
  std::set<std::string> names;
  for (const SourceOp& source : module.sources) {
    names.insert(source.name);
    if (operators) names.insert(source.target);
  }
  const Graph& graph = module.forward();
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (operators) names.insert(std::string(op.def->name));
    if (op.origin.sources.empty())
      for (const ValueId result : op.results) names.insert(graph.value(result).name);
  }
  return names;
}

tl::unexpected<Diagnostic> unknown(const Module& module, const std::string& name, bool operators) {
  constexpr size_t kNear = 3;
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& known : all_names(module, operators))
    near.emplace_back(distance(name, known), known);
  std::sort(near.begin(), near.end());
  std::string list;
  for (size_t i = 0; i < std::min(kNear, near.size()); ++i)
    list += fmt::format("{}`{}`", i == 0 ? "" : ", ", near[i].second);
  return fail(
      DiagnosticId::kNodeUnknown,
      fmt::format("the model has no {} `{}`", operators ? "node or operator" : "node", name),
      list.empty() ? std::string("the model is empty")
                   : fmt::format("names that are near: {}", list),
      {.file = module.file, .node = name});
}

}  // namespace

bool is_operator(const Module& module, const Graph& graph, OpId id, std::string_view name) {
  const Op& op = graph.op(id);
  return names_operator(name, op.def->name) ||
         std::ranges::any_of(op.origin.sources, [&](uint32_t source) {
           return names_operator(name, module.sources[source].target);
         });
}

bool has_name(const Module& module, const Graph& graph, OpId id, std::string_view name) {
  const Op& op = graph.op(id);
  if (op.origin.sources.empty())
    return std::ranges::any_of(op.results,
                               [&](ValueId result) { return graph.value(result).name == name; });
  return std::ranges::any_of(op.origin.sources,
                             [&](uint32_t source) { return module.sources[source].name == name; });
}

Result<std::vector<PlacementOverride>> resolve_overrides(const Module& module,
                                                         const std::vector<std::string>& keep_off,
                                                         const std::vector<std::string>& force_on) {
  const Graph& graph = module.forward();
  std::vector<PlacementOverride> overrides(graph.op_slots(), PlacementOverride::kNone);
  const auto apply = [&](const std::vector<std::string>& names,
                         PlacementOverride choice) -> Result<void> {
    for (const std::string& name : names) {
      bool found =
          std::any_of(module.sources.begin(), module.sources.end(), [&](const SourceOp& source) {
            return source.name == name || names_operator(name, source.target);
          });
      for (const OpId op : graph.ops())
        if (is_named(module, graph, op, name)) {
          overrides[op.index] = choice;
          found = true;
        }
      if (!found) return unknown(module, name, true);
    }
    return {};
  };
  DTR_TRY(apply(force_on, PlacementOverride::kForceOn));
  DTR_TRY(apply(keep_off, PlacementOverride::kKeepOff));
  return overrides;
}

Result<void> stop_at(Module& module, const std::string& node) {
  Graph& graph = module.forward();
  OpId last;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    const bool is_source =
        std::any_of(op.origin.sources.begin(), op.origin.sources.end(),
                    [&](uint32_t source) { return module.sources[source].name == node; });
    const bool is_value = std::any_of(op.results.begin(), op.results.end(),
                                      [&](ValueId v) { return graph.value(v).name == node; });
    if (is_source || is_value) last = id;
  }
  if (!last.valid()) return unknown(module, node, false);
  Rewriter rewriter(graph);
  std::vector<ValueId> outputs = graph.op(last).results;
  for (size_t i = 0; i < graph.state_count(); ++i) outputs.push_back(graph.next_state(i));
  rewriter.set_outputs(std::move(outputs));
  constexpr const PassDef* kSweep[] = {&passes::kRemoveDeadCode};
  DTR_TRY(run_passes(module, graph, kSweep));
  return {};
}

}  // namespace dtr
