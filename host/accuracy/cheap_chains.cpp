#include "host/accuracy/cheap_chains.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

namespace dtr {
namespace {

bool is_cheap(const Graph& graph, OpId id) { return graph.op(id).def->macs == nullptr; }

// The ops that are connected with `first` through cheap ones, in program order.
std::vector<OpId> chain_of(const Graph& graph, OpId first, std::vector<bool>& seen) {
  std::vector<OpId> chain{first};
  seen[first.index] = true;
  const auto add = [&](OpId id) {
    if (!id.valid() || seen[id.index] || !is_cheap(graph, id)) return;
    seen[id.index] = true;
    chain.push_back(id);
  };
  for (size_t i = 0; i < chain.size(); ++i) {
    const Op& op = graph.op(chain[i]);
    for (const ValueId operand : op.operands)
      if (operand.valid()) add(graph.producer(operand));
    for (const ValueId result : op.results)
      for (const Use& use : graph.value(result).uses) add(use.op);
  }
  std::vector<bool> is_in(graph.op_slots());
  for (const OpId id : chain) is_in[id.index] = true;
  std::vector<OpId> ordered;
  for (const OpId id : graph.ops())
    if (is_in[id.index]) ordered.push_back(id);
  return ordered;
}

}  // namespace

std::vector<std::vector<std::string>> cheap_chains(const Module& module, const Graph& graph,
                                                   const QuantizationReport& report, size_t most) {
  std::map<std::string, double> added;  // relative to each operator's result
  for (const ErrorRow& row : report.operators)
    if (!row.name.empty()) added[row.name] += std::pow(10, -row.adds_db / 10);
  struct Chain {
    double sum = 0;
    std::vector<std::string> names;
  };
  std::vector<bool> seen(graph.op_slots());
  std::vector<Chain> chains;
  for (const OpId first : graph.ops()) {
    if (seen[first.index] || !is_cheap(graph, first)) continue;
    Chain chain;
    for (const OpId id : chain_of(graph, first, seen)) {
      std::string name = place_of(module, graph, id).node;
      if (name.empty() || std::ranges::find(chain.names, name) != chain.names.end()) continue;
      if (const auto at = added.find(name); at != added.end()) chain.sum += at->second;
      chain.names.push_back(std::move(name));
    }
    if (chain.names.size() > 1 && chain.sum > 0) chains.push_back(std::move(chain));
  }
  std::ranges::stable_sort(chains, std::greater<>(), &Chain::sum);
  std::vector<std::vector<std::string>> found;
  for (size_t i = 0; i < std::min(most, chains.size()); ++i)
    found.push_back(std::move(chains[i].names));
  return found;
}

}  // namespace dtr
