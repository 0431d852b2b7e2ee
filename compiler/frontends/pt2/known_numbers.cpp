// Python numbers in the graph: sizes and arguments that follow from elements of constants, which
// are computed in front of the import, and those that depend on an input, which are refused.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/pt2/importer.h"
#include "compiler/frontends/pt2/node_reads.h"
#include "compiler/frontends/pt2/remedies.h"

namespace dtr::pt2 {
namespace {

constexpr std::string_view kExportStatic =
    "export the model without dynamic_shapes, for one fixed input shape";

// `.item()`.
bool takes_number(const Node& node) {
  const std::string_view name = operator_name(node);
  return name.starts_with("aten.item.") || name.starts_with("aten._local_scalar_dense.");
}

// x[:, a:b] with numbers that are known now: the file has a symbol of its own for that size, here
// "u1". std::nullopt for other nodes.
std::optional<std::pair<std::string_view, int64_t>> size_of_slice(const ExportedGraph& graph,
                                                                  const Node& node) {
  if (!operator_name(node).starts_with("aten.slice.Tensor") || node.outputs.size() != 1)
    return std::nullopt;
  const auto result = graph.tensors.find(node.outputs[0]);
  const auto operand = graph.tensors.find(first_read(node));
  if (result == graph.tensors.end() || operand == graph.tensors.end() ||
      !operand->second.symbol.empty() || !result->second.symbol.starts_with('u'))
    return std::nullopt;
  const auto rank = static_cast<int64_t>(operand->second.sizes.size());
  // `dim`, `start`, `end`, `step`; absent and None ones have their defaults.
  int64_t dim = 0, start = 0, end = INT64_MAX, step = 1;
  for (const auto& [argument, value] : node.inputs) {
    for (const auto& [name, to] :
         {std::pair{"dim", &dim}, {"start", &start}, {"end", &end}, {"step", &step}}) {
      if (argument != name) continue;
      if (std::holds_alternative<Symbolic>(value)) return std::nullopt;
      if (const auto* number = std::get_if<int64_t>(&value)) *to = *number;
    }
  }
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank || step < 1) return std::nullopt;
  const int64_t extent = operand->second.sizes[static_cast<size_t>(dim)];
  const auto clipped = [&](int64_t bound) {
    return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
  };
  const int64_t length = std::max<int64_t>(clipped(end) - clipped(start), 0);
  return std::pair(result->second.symbol, (length + step - 1) / step);
}

}  // namespace

Result<void> Importer::check_static() {
  for (const InputSpec& spec : file_.inputs)
    if (const auto at = file_.tensors.find(spec.name);
        at != file_.tensors.end() && !at->second.symbol.empty())
      return fail(DiagnosticId::kPt2SymbolicShape,
                  fmt::format("`{}` has the symbolic size {}", spec.name, at->second.symbol),
                  std::string(kExportStatic),
                  {.file = archive_.file(), .node = std::string(spec.name)});
  return check_static(program_);
}

// A Python number that is not known when the model compiles: a size, or an element of a tensor.
tl::unexpected<Diagnostic> Importer::refuse_symbolic(const ExportedGraph& graph,
                                                     std::string_view argument,
                                                     std::string_view symbol,
                                                     const Place& place) const {
  const auto maker = std::ranges::find(graph.nodes, symbol, &Node::name);
  const std::string_view made_by =
      maker == graph.nodes.end() ? std::string_view{} : operator_name(*maker);
  const bool of_data = maker != graph.nodes.end() && takes_number(*maker);
  return fail(DiagnosticId::kPt2SymbolicShape,
              of_data ? fmt::format("argument `{}` is {}, an element of a tensor", argument, symbol)
                      : fmt::format("argument `{}` is the symbolic value {}", argument, symbol),
              std::string(of_data ? remedy_of_data(made_by) : kExportStatic), place);
}

// Sizes that do not follow from those of the inputs: torch.export names those that depend on
// elements u0, u1, … Nodes that no output depends on, such as assertions, do not matter.
Result<void> Importer::check_static(const Scope& scope) {
  const ExportedGraph& graph = *scope.graph;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!scope.live[i]) continue;
    for (const std::string_view name : graph.nodes[i].outputs) {
      const auto at = graph.tensors.find(name);
      if (at == graph.tensors.end() || at->second.symbol.empty()) continue;
      const bool of_data = at->second.symbol.find('u') != std::string_view::npos;
      return fail(DiagnosticId::kPt2SymbolicShape,
                  fmt::format("`{}` has the symbolic size {}{}", name, at->second.symbol,
                              of_data ? ", which depends on elements of a tensor" : ""),
                  of_data ? std::string(remedy_of_data(operator_name(graph.nodes[i])))
                          : std::string(kExportStatic),
                  place_of_source(scope.first_source + i));
    }
    for (const auto& [argument, value] : graph.nodes[i].inputs) {
      if (const auto* symbolic = std::get_if<Symbolic>(&value))
        return refuse_symbolic(graph, argument, symbolic->name,
                               place_of_source(scope.first_source + i));
      if (const auto* subgraph = std::get_if<Subgraph>(&value)) {
        Scope inner = scope_of(subgraph->index);
        find_live_nodes(inner);
        DTR_TRY(check_static(inner));
      }
    }
  }
  return {};
}

// The nodes in front of each number are imported on their own: what they read is constant, or one
// of their reads is not found, which ends it.
void Importer::find_known_numbers(KnownNumbers& numbers) {
  for (const Node& node : file_.nodes)
    if (const auto size = size_of_slice(file_, node)) numbers.emplace(size->first, size->second);
  const auto wanted = [&](const Node& node) {
    return takes_number(node) && !numbers.contains(node.name);
  };
  if (std::ranges::none_of(file_.nodes, wanted)) return;
  add_sources();
  find_written_buffers();
  std::unordered_map<std::string_view, bool> constant;  // by name; others depend on an input
  for (const InputSpec& spec : file_.inputs)
    if (!spec.name.empty() && spec.kind != InputKind::kUser && spec.kind != InputKind::kOther &&
        find_written(spec.name) == nullptr)
      constant.emplace(spec.name, true);
  const auto reads_constants = [&](const Node& node) {
    bool all = true;
    for_each_read(node, [&](std::string_view name) { all = all && constant.contains(name); });
    for (const auto& [argument, value] : node.inputs)
      all = all && !std::holds_alternative<Symbolic>(value) &&
            !std::holds_alternative<Subgraph>(value);
    return all;
  };
  std::vector<size_t> found;  // nodes that take a number of what is constant
  for (size_t i = 0; i < file_.nodes.size(); ++i) {
    const Node& node = file_.nodes[i];
    if (!reads_constants(node)) continue;
    for (const std::string_view output : node.outputs) constant.emplace(output, true);
    if (!wanted(node)) continue;
    found.push_back(i);
    scope_->last_use.emplace(first_read(node), i);
  }
  if (found.empty() || !bind_inputs()) return;
  find_live_nodes(program_);
  size_t imported = 0;
  for (const size_t number : found) {
    const Node& node = file_.nodes[number];
    for (; imported < number; ++imported) {
      const Node& each = file_.nodes[imported];
      if (!program_.live[imported] || !reads_constants(each) || match_of(each).row == nullptr)
        continue;
      if (!import_node(imported)) return;
    }
    const auto value = value_of(first_read(node), place_of_node(number));
    if (!value) continue;
    NodeImport context(*this, number);
    const auto elements = context.GraphBuilder::constant_elements(context.known(*value));
    if (!elements || elements->size() != 1) continue;
    const double element = elements->front();
    numbers.emplace(node.name, is_float(context.type(*value).dtype)
                                   ? Number(element)
                                   : Number(static_cast<int64_t>(element)));
  }
}

}  // namespace dtr::pt2
