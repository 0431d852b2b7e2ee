// Finds the operators that options of a compilation name: by the name of the node in the model
// ("name:relu_1", or "relu_1" alone), or by operator ("op:relu", or "relu", "aten.relu",
// "aten::relu" alone).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/partitioner/placement.h"

namespace dtr {

// In front of a name that is a node's, whatever operators are called.
inline constexpr std::string_view kNodePrefix = "name:";
// Names every node; a node or an operator of this name needs its prefix.
inline constexpr std::string_view kAllNodes = "all";

// True if the op is of that operator now or was in the model: "softmax" and "aten.softmax.int" name
// the same one.
bool is_operator(const Module& module, const Graph& graph, OpId op, std::string_view name);
// True if the op is part of that node of the model. An op without a node is found by the names of
// its results.
bool has_name(const Module& module, const Graph& graph, OpId op, std::string_view name);

// The placement override of each op, by op slot; kAllNodes in `keep_off` keeps all of them off. An
// op that both lists name, one by node and one by operator, is kept off. Error: kNodeUnknown, with
// the nearest names; or for a name in both lists, or without a prefix for a name that selects other
// ops as a node than as an operator.
Result<std::vector<PlacementOverride>> resolve_overrides(const Module& module,
                                                         const std::vector<std::string>& keep_off,
                                                         const std::vector<std::string>& force_on);

// The text that selects this node alone: its name, with a prefix where it needs one.
std::string selector_of(const Module& module, const Graph& graph, const std::string& node);

// Makes the results of the node's last op the outputs of the graph and removes ops that only the
// other outputs need. Error: kNodeUnknown.
Result<void> stop_at(Module& module, const std::string& name);

}  // namespace dtr
