#include "compiler/pipeline/spell_states.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace dtr {
namespace {

using Editor = pt2::ExportEditor;
using Name = Editor::Name;

constexpr std::string_view kCopy = "aten.copy_.default";

// Operators whose result may be a part of their operand's memory.
constexpr std::string_view kViews[] = {
    "alias",   "as_strided",   "chunk",     "contiguous", "detach",    "diagonal", "expand",
    "flatten", "mT",           "movedim",   "narrow",     "numpy_T",   "permute",  "ravel",
    "reshape", "select",       "slice",     "split",      "squeeze",   "swapaxes", "swapdims",
    "t",       "tensor_split", "transpose", "unbind",     "unflatten", "unfold",   "unsqueeze",
    "view",    "view_as",      "expand_as"};

// "index_put_" of "aten.index_put_.default"; empty: another library's.
std::string_view name_of(std::string_view target) {
  constexpr std::string_view kPrefix = "aten.";
  if (!target.starts_with(kPrefix)) return {};
  target.remove_prefix(kPrefix.size());
  return target.substr(0, target.find('.'));
}
bool is_in_place(std::string_view target) { return name_of(target).ends_with('_'); }
bool is_view(std::string_view target) {
  return std::ranges::find(kViews, name_of(target)) != std::end(kViews);
}

// "aten.index_put.default" of "aten.index_put_.default".
std::string without_underscore(std::string target) {
  const size_t overload = target.find('.', target.find('.') + 1);
  return target.erase(overload - 1, 1);
}

}  // namespace

std::optional<std::vector<uint32_t>> direct_writes(const Module& module, const Editor& editor,
                                                   const std::string& name) {
  std::vector<uint32_t> nodes;
  std::set<std::string> before{name}, views;  // of the buffer before any write; of its last name
  std::string last = name;
  for (uint32_t node = 0; node < module.sources.size(); ++node) {
    const std::vector<std::string> tensors = editor.tensors(node);
    if (tensors.empty()) continue;
    const std::string& target = module.sources[node].target;
    const bool writes = is_in_place(target);
    if (writes && tensors[0] == last) {
      nodes.push_back(node);
      last = editor.result(node);
      continue;
    }
    const auto is_in = [&](const std::set<std::string>& names) {
      return std::ranges::any_of(tensors, [&](const auto& each) { return names.contains(each); });
    };
    const bool reads_before = is_in(before), reads_view = is_in(views) || tensors[0] == last;
    if (writes && (before.contains(tensors[0]) || views.contains(tensors[0]))) return std::nullopt;
    if (reads_before && !nodes.empty()) return std::nullopt;
    if (!is_view(target) || !(reads_before || reads_view)) continue;
    for (const std::string& result : editor.results(node))
      (nodes.empty() ? before : views).insert(result);
  }
  return nodes;
}

size_t spell_states(const Module& module, Editor& editor) {
  const Graph& graph = module.forward();
  size_t count = 0;
  for (size_t i = 0; i < graph.state_count(); ++i) {
    const Value& state = graph.value(graph.state(i));
    if (state.type.dtype != DType::kFloat32) continue;
    const std::string name = editor.buffer(state.name);
    for (const uint32_t node :
         direct_writes(module, editor, name).value_or(std::vector<uint32_t>())) {
      const std::string& target = module.sources[node].target;
      if (target == kCopy) continue;
      editor.set_target(node, without_underscore(target));
      editor.add_node(node + 1, node, kCopy,
                      {{"self", Name{name}}, {"src", Name{editor.result(node)}}}, name + "_next",
                      state.type.dtype, state.type.shape);
      ++count;
    }
  }
  return count;
}

}  // namespace dtr
