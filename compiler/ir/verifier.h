// Checks every rule of the IR. Runs after each pass in tests, and on every imported graph.
#pragma once

#include "compiler/ir/graph.h"

namespace dtr {

// Linear in the size of the graph. Rules: names unique and well-formed; operands defined before
// their use; lists of uses, of ops and of outputs consistent; constants hold as many bytes as their
// type; every op obeys the rules of `verify_op`, every type those of `verify_quantization`. Errors:
// kIrInvalid, naming op or value and rule.
Result<void> verify(const Module& module, const Graph& graph);
Result<void> verify(const Module& module);

// States are the last inputs and outputs: the value after the run has dtype, shape and quantization
// of the value before it, and the initial value has its dtype and bytes. Error: kIrInvalid.
Result<void> verify_states(const Module& module, const Graph& graph);

// The rules of one op: its `verify` succeeds and its results have the inferred dtype and shape; the
// sources of its origin exist; a bias (int32 operand 2 beside quantized operands 0 and 1) has zero
// point 0 and scale s_in·s_w within 1e-6 relative. Errors: kIrInvalid, or the id that `verify`
// returns.
Result<void> verify_op(const Module& module, const Graph& graph, OpId op);

// Integer dtype of at most 32 bits; finite scales > 0; qmin < qmax inside the dtype; zero points in
// qmin…qmax; as many scales and zero points as the axis has channels. Error: kIrInvalid.
Result<void> verify_quantization(const Type& type);

}  // namespace dtr
