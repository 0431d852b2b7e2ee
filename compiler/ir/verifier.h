// Checks that a graph keeps every rule of the IR. Run after each pass in test builds and on
// everything that comes from outside.
#pragma once

#include "compiler/ir/graph.h"

namespace dtr {

// Linear in the size of the graph. Rules: names unique and well-formed; operands defined before
// their use; lists of uses, of ops and of outputs consistent; constants hold as many bytes as their
// type; every op keeps the rules of `verify_op`; every type those of `verify_quantization`. Errors:
// kIrInvalid, naming op or value and rule.
Result<void> verify(const Module& module, const Graph& graph);
Result<void> verify(const Module& module);

// The rules of one op: it verifies by itself and its results have the dtype and shape that it
// infers; the sources of its origin exist; a bias (int32 operand 2 beside quantized operands 0 and
// 1) has zero point 0 and scale s_in·s_w within 1e-6 relative.
Result<void> verify_op(const Module& module, const Graph& graph, OpId op);

// Integer dtype of at most 32 bits; finite scales > 0; qmin < qmax inside the dtype; zero points in
// qmin…qmax; as many scales and zero points as the axis has channels.
Result<void> verify_quantization(const Type& type);

}  // namespace dtr
