// Rewrites a quantized op that no backend runs to float: dequantize, the float op, quantize with
// the same quantization.
#pragma once

#include "compiler/partitioner/backend.h"

namespace dtr {

// Rewrites `op`; its constants become float constants. The new ops have the origin of `op`. Errors:
// those of type inference for the float op, which mean an invalid graph.
Result<void> fall_back_to_float(Module& module, Graph& graph, OpId op);
// True if the op computes on quantized integers and has a float evaluation.
bool can_fall_back_to_float(const Graph& graph, OpId op);

}  // namespace dtr
