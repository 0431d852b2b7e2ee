// What importers and executors need of the operator `deuteron.custom`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "compiler/ir/graph.h"
#include "compiler/ops/ops.h"

namespace dtr::ops {

// Types of results as the attribute `results` writes them; without layout and quantization.
std::string types_text(std::span<const Type> types);

// The options of an operator as a JSON object: {"alpha": 0.5, "axes": [0, 1], "name": null}.
// Infinite numbers and NaN are written as Python's json writes them.
using CustomOption = std::pair<std::string, std::optional<AttributeValue>>;
std::string options_text(std::span<const CustomOption> options);

// Whether the evaluation of this op that just ended in this thread failed: an Evaluation returns
// nothing. Success for every other operator. Error: kPluginKernelFailed.
Result<void> kernel_status(const Module& module, const Graph& graph, OpId op);

}  // namespace dtr::ops
