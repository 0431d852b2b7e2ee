#include "compiler/recipes/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/ir/rewriter.h"
#include "compiler/support/text.h"
#include "compiler/transforms/pass_manager.h"

namespace dtr {
namespace {

// "conv2d" of "aten.conv2d.default"; the name also as "aten.conv2d", "aten::conv2d" and
// "torch.ops.aten.conv2d".
bool names_operator(std::string_view name, std::string_view op) {
  if (op == name) return true;
  if (name.starts_with("torch.ops.")) name.remove_prefix(10);
  if (name.starts_with("aten.")) name.remove_prefix(5);
  if (name.starts_with("aten::")) name.remove_prefix(6);
  if (op.starts_with("aten.")) op.remove_prefix(5);
  return op == name || op.substr(0, op.rfind('.')) == name;
}

constexpr std::string_view kOperatorPrefix = "op:";

// What an option names: without a prefix a node or an operator.
struct Selected {
  std::string_view name;
  bool as_node = true, as_operator = true;

  explicit Selected(std::string_view text) : name(text) {
    if (text.starts_with(kNodePrefix)) {
      name.remove_prefix(kNodePrefix.size());
      as_operator = false;
    } else if (text.starts_with(kOperatorPrefix)) {
      name.remove_prefix(kOperatorPrefix.size());
      as_node = false;
    }
  }
};

struct Found {
  std::vector<OpId> as_node, as_operator;
  // Which of the two is meant matters, and nothing tells.
  bool is_ambiguous() const {
    return !as_node.empty() && !as_operator.empty() && as_node != as_operator;
  }
};

Found find_ops(const Module& module, const Graph& graph, const Selected& selected) {
  Found found;
  for (const OpId op : graph.ops()) {
    if (selected.as_node && has_name(module, graph, op, selected.name)) found.as_node.push_back(op);
    if (selected.as_operator && is_operator(module, graph, op, selected.name))
      found.as_operator.push_back(op);
  }
  return found;
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

// `operators`: the name could have been one of an operator.
tl::unexpected<Diagnostic> unknown(const Module& module, std::string_view name, bool operators) {
  constexpr size_t kNear = 3;
  const std::set<std::string> names = all_names(module, operators);
  std::string list;
  for (const std::string& near : nearest(std::string(name), {names.begin(), names.end()}, kNear))
    list += fmt::format("{}`{}`", list.empty() ? "" : ", ", near);
  return fail(
      DiagnosticId::kNodeUnknown,
      fmt::format("the model has no {} `{}`", operators ? "node or operator" : "node", name),
      list.empty() ? std::string("the model is empty")
                   : fmt::format("names that are near: {}", list),
      {.file = module.file, .node = std::string(name)});
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
    for (const std::string& text : names) {
      if (text == kAllNodes) {
        std::ranges::fill(overrides, choice);
        continue;
      }
      const Selected selected(text);
      const Found found = find_ops(module, graph, selected);
      if (found.is_ambiguous())
        return fail(
            DiagnosticId::kNodeUnknown,
            fmt::format("`{}` is the name of a node and of an operator that the model has {} times",
                        text, found.as_operator.size()),
            fmt::format("name the node with {}{}, or every node of the operator with {}{}",
                        kNodePrefix, text, kOperatorPrefix, text),
            {.file = module.file, .node = text});
      for (const std::vector<OpId>& ops : {found.as_node, found.as_operator})
        for (const OpId op : ops) overrides[op.index] = choice;
      if (!found.as_node.empty() || !found.as_operator.empty()) continue;
      const bool was_there = std::ranges::any_of(module.sources, [&](const SourceOp& source) {
        return (selected.as_node && source.name == selected.name) ||
               (selected.as_operator && names_operator(selected.name, source.target));
      });
      if (!was_there) return unknown(module, selected.name, selected.as_operator);
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

std::string selector_of(const Module& module, const Graph& graph, const std::string& node) {
  const Selected bare(node);
  const bool needs_prefix = bare.name != node || find_ops(module, graph, bare).is_ambiguous();
  return needs_prefix ? std::string(kNodePrefix) + node : node;
}

Result<void> stop_at(Module& module, const std::string& name) {
  Graph& graph = module.forward();
  const Selected selected(name);
  const std::string_view node = selected.as_operator ? name : selected.name;
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
