// Forms of float operators that no kernel of ExecuTorch has, as several that it has: padding of one
// end, activations, pools over such padding, and pixels that are placed as TFLite and ONNX do. And
// squares as products.
#pragma once

#include "compiler/ir/graph.h"

namespace dtr::portable {

// Replaces the op where it has such a form. True if it did. Errors: those of Rewriter.
Result<bool> rewrite(Module& module, Graph& graph, OpId id);

// Instructions of the ops that `rewrite` makes, less those of the op if it is none of them.
int64_t instructions_of_rewriting(const Graph& graph, OpId id);

}  // namespace dtr::portable
