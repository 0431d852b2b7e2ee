#include "compiler/recipes/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/rewriter.h"
#include "compiler/support/text.h"
#include "compiler/transforms/pass_manager.h"

namespace dtr {
namespace {

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
  const std::set<std::string> names = all_names(module, operators);
  std::string list;
  for (const std::string& near : nearest(name, {names.begin(), names.end()}, kNear))
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", near);
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
  for (const std::string& name : keep_off)
    if (std::ranges::find(force_on, name) != force_on.end())
      return fail(DiagnosticId::kNodeUnknown,
                  fmt::format("`{}` is both kept off the NPU and forced on it", name),
                  "name it once: with --keep-off or with --force-on",
                  {.file = module.file, .node = name});
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
