// Forms of float operators that no kernel of ExecuTorch has, as several that it has: padding of one
// end, activations, pools over such padding, and pixels that are placed as TFLite and ONNX do.
#pragma once

#include "compiler/ir/graph.h"

namespace dtr::portable {

// Replaces the op where it has such a form. True if it did. Errors: those of Rewriter.
Result<bool> rewrite(Module& module, Graph& graph, OpId id);

// Instructions of the ops that `rewrite` adds, beside the op's own.
int64_t added_instructions(const Graph& graph, OpId id);

}  // namespace dtr::portable
