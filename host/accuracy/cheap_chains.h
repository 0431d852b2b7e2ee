// Operators that a search keeps float together, because one by one they gain nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "host/accuracy/quantization_report.h"

namespace dtr {

// Chains of operators that multiply no matrices, as the names of their nodes, at most so many,
// those that add most error first. The additions and normalizations of a residual stream round the
// same values again and again: one of them in float removes nothing, and all of them cost less than
// a layer. `graph`: the float graph after the passes.
std::vector<std::vector<std::string>> cheap_chains(const Module& module, const Graph& graph,
                                                   const QuantizationReport& report, size_t most);

}  // namespace dtr
