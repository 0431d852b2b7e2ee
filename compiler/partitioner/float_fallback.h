// A quantized op that no backend takes runs in float: dequantize, the float op, quantize, with the
// same quantization at both ends.
#pragma once

#include "compiler/partitioner/backend.h"

namespace dtr {

// Rewrites `op`; constants become float constants. The new ops carry the origin of the op they
// serve.
Result<void> fall_back_to_float(Module& module, Graph& graph, OpId op);
// Whether the op works on quantized integers and could be rewritten.
bool can_fall_back_to_float(const Graph& graph, OpId op);

}  // namespace dtr
