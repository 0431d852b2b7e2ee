// Operators that the options of a compilation name: by the name of the node in the model, or by
// operator ("aten.relu", "relu").
#pragma once

#include <string>
#include <vector>

#include "compiler/partitioner/placement.h"

namespace dtr {

// Whether an op is of that operator, or was in the model: "softmax" and "aten.softmax.int" name
// one.
bool is_operator(const Module& module, const Graph& graph, OpId op, std::string_view name);
// Whether an op stands for that node; one that stands for none goes by the names of its results.
bool has_name(const Module& module, const Graph& graph, OpId op, std::string_view name);

// A wish for each op of the graph that stands for a named operator; who is named in both lists is
// kept off. Errors: kNodeUnknown, with the nearest names.
Result<std::vector<PlacementOverride>> resolve_overrides(const Module& module,
                                                         const std::vector<std::string>& keep_off,
                                                         const std::vector<std::string>& force_on);

// Makes the results of the last op that stands for the node the outputs of the program, and removes
// what only served the others. Errors: kNodeUnknown.
Result<void> stop_at(Module& module, const std::string& node);

}  // namespace dtr
