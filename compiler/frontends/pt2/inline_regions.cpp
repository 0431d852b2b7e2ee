#include "compiler/frontends/pt2/inline_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontends/pt2/schema.h"

namespace dtr::pt2 {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kRegions[] = {
    "torch.ops.higher_order.invoke_subgraph", "torch.ops.higher_order.tag_activation_checkpoint",
    "torch.ops.higher_order.wrap", "torch.ops.higher_order.wrap_with_autocast",
    "torch.ops.higher_order.wrap_with_set_grad_enabled"};
constexpr std::string_view kWithoutGradient = "torch.ops.higher_order.wrap_with_set_grad_enabled";

// The names of tensors in arguments, those in lists too.
template <class Visit>
void for_each_name(Json& argument, Visit visit) {
  if (!argument.is_structured() || argument.contains("as_graph")) return;
  if (argument.is_object() && argument.contains("name") && argument["name"].is_string())
    return visit(argument["name"]);
  for (Json& each : argument) for_each_name(each, visit);
}
std::vector<std::string> names_in(Json& arguments) {
  std::vector<std::string> names;
  for_each_name(arguments, [&](const Json& name) { names.push_back(name); });
  return names;
}

// A region's graph, what goes in, by the graph's own names, and what comes out.
struct Region {
  Json* graph = nullptr;
  std::vector<std::string> taken, operands, made, results;
  bool detaches = false;
};

class Inliner {
 public:
  explicit Inliner(Json& graph) : graph_(graph) {
    for (const char* const kind : {"tensor_values", "sym_int_values", "sym_bool_values"})
      if (graph.contains(kind))
        for (const auto& [name, meta] : graph[kind].items()) names_.insert(name);
  }

  bool run() {
    Json nodes = Json::array();
    for (Json& node : graph_.at("nodes")) add(std::move(node), nodes);
    graph_["nodes"] = std::move(nodes);
    return any_;
  }

 private:
  // nullopt: another operator, or operands and results that do not pair.
  static std::optional<Region> region_of(Json& node) {
    const std::string target = node.at("target");
    if (std::ranges::find(kRegions, target) == std::end(kRegions)) return std::nullopt;
    Region region{.results = names_in(node.at("outputs"))};
    for (Json& input : node.at("inputs")) {
      Json& argument = input.at("arg");
      if (argument.contains("as_graph")) {
        region.graph = &argument["as_graph"].at("graph");
      } else if (region.graph != nullptr) {
        for_each_name(argument, [&](const Json& name) { region.operands.push_back(name); });
      } else if (target == kWithoutGradient && argument.contains("as_bool")) {
        region.detaches = !argument["as_bool"].get<bool>();
      }
    }
    if (region.graph == nullptr) return std::nullopt;
    region.taken = names_in(region.graph->at("inputs"));
    region.made = names_in(region.graph->at("outputs"));
    const bool pairs = region.taken.size() == region.operands.size() &&
                       region.made.size() == region.results.size();
    return pairs ? std::optional(region) : std::nullopt;
  }

  void add(Json node, Json& nodes) {
    const std::optional<Region> region = region_of(node);
    if (!region) return nodes.push_back(std::move(node));
    any_ = true;
    std::map<std::string, std::string> renamed;  // names of the region's graph around it
    for (size_t i = 0; i < region->taken.size(); ++i)
      renamed[region->taken[i]] = region->operands[i];
    std::vector<size_t> copied;  // results that are no node's of the region, or another result too
    for (size_t i = 0; i < region->made.size(); ++i)
      if (region->detaches || !renamed.emplace(region->made[i], region->results[i]).second)
        copied.push_back(i);
    Json& graph = *region->graph;
    for (auto& [name, meta] : graph.at("tensor_values").items())
      if (renamed.emplace(name, std::string()).second) {
        renamed[name] = unique(name);
        graph_["tensor_values"][renamed[name]] = meta;
      }
    const auto rename = [&](Json& name) {
      if (const auto to = renamed.find(name); to != renamed.end()) name = to->second;
    };
    for (Json& inner : graph.at("nodes")) {
      for (Json& input : inner.at("inputs")) for_each_name(input.at("arg"), rename);
      for_each_name(inner.at("outputs"), rename);
      const std::vector<std::string> results = names_in(inner["outputs"]);
      if (!results.empty()) inner["name"] = results.front();
      add(std::move(inner), nodes);
    }
    for (const size_t i : copied)
      nodes.push_back(copy_of(renamed.at(region->made[i]), region->results[i],
                              region->detaches ? "detach" : "alias", node.at("metadata")));
  }

  static Json copy_of(const std::string& from, const std::string& to, std::string_view op,
                      const Json& metadata) {
    const auto tensor = [](const std::string& name) {
      return Json{{"as_tensor", {{"name", name}}}};
    };
    return {
        {"target", fmt::format("torch.ops.aten.{}.default", op)},
        {"inputs", Json::array({{{"name", "self"}, {"arg", tensor(from)}, {"kind", kPositional}}})},
        {"outputs", Json::array({tensor(to)})},
        {"metadata", metadata},
        {"is_hop_single_tensor_return", nullptr},
        {"name", to}};
  }

  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    return name;
  }

  Json& graph_;
  std::set<std::string> names_;
  bool any_ = false;
};

}  // namespace

bool inline_regions(Json& graph) { return Inliner(graph).run(); }

}  // namespace dtr::pt2
