// Evaluation of ops that read constants only.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace dtr::ops {

// The op reads constants, at least one result, and can be evaluated. Quantize and dequantize are
// left as they are: their constants are what the quantized form of a model consists of.
bool reads_only_constants(const Graph& graph, OpId op);
// Bytes of the operands, and of the results.
int64_t operand_bytes(const Graph& graph, OpId op);
int64_t result_bytes(const Graph& graph, OpId op);

// The results of an op that reads only constants, in their own dtypes: floats are evaluated in
// double and rounded once.
std::vector<Tensor> evaluate_on_constants(const Program& program, const Graph& graph, OpId op);

}  // namespace dtr::ops
