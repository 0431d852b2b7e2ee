// Evaluates ops whose operands are constants, for constant folding.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace dtr::ops {

// True if all operands are constants and the op can be evaluated. False for quantize and
// dequantize: their constants are kept, as they define the quantized form of a model.
bool reads_only_constants(const Graph& graph, OpId op);
// A constant, or computed from constants alone by ops that can be evaluated.
bool is_static(const Graph& graph, ValueId value);
// The op reads static values alone, and can be evaluated. Where static values of up to `stored`
// bytes are constants already, the search ends at them.
bool reads_only_static(const Graph& graph, OpId op, int64_t stored = 0);
// False for results that are much larger than what they are made of: those of repetitions and
// padding from `growth` bytes on, of arithmetic from a megabyte on. Kept as ops, because constants
// cost flash; what is computed of them may be small again.
bool worth_storing(const Graph& graph, OpId op, int64_t growth);

// The results of an op that reads static values alone, in their own dtypes: floats are evaluated in
// double and each op's result is rounded once.
std::vector<Tensor> evaluate_on_constants(const Module& module, const Graph& graph, OpId op);

}  // namespace dtr::ops
