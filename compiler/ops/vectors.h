// Evaluates elementwise ops on chosen values, to tabulate the function that they are.
#pragma once

#include <span>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace dtr::ops {

// The result of an elementwise op on vectors of one length, in float32 or in codes as the types of
// the graph say. `vectors`: what stands for each operand; null for its constant of one element.
Tensor evaluate_on_vectors(const Module& module, const Graph& graph, OpId op,
                           std::span<const TensorView* const> vectors);

}  // namespace dtr::ops
