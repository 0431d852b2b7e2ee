// The kernel call of each operator that the portable backend runs. Most follow from the operator's
// schema: ExecuTorch's out variant of the same name, with the same arguments.
#pragma once

#include "compiler/partitioner/backend.h"

namespace dtr::portable {

struct Row {
  const OpDef* op;
  std::string_view
      kernel;  // a kernel whose arguments follow from the schema; empty: `special` makes the call
  // also runs on quantized integers: it moves data, compares codes or selects one
  bool moves_any_dtype;
  KernelCall (*special)(Module& module, const Graph& graph, const Op& op);

  KernelCall call(Module& module, const Graph& graph, const Op& call_of) const;
};

// Whether an aten.index_select is a call of ExecuTorch's kernel for tables, aten::embedding.
bool is_embedding(const Graph& graph, const Op& index_select);

// nullptr if there is no kernel for the operator.
const Row* find_row(const OpDef* op);

}  // namespace dtr::portable
