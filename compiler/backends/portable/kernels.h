// One row per operator that the portable backend runs: the ExecuTorch kernel and its arguments in the order of its schema.
#pragma once

#include "compiler/partitioner/backend.h"

namespace dtr::portable {

struct Row {
  const OpDef* op;
  bool moves_any_dtype;  // runs on quantized integers as well: it moves data, compares codes or selects one
  KernelCall (*call)(Program& program, const Graph& graph, const Op& op);
};

const Row* find_row(const OpDef* op);

}  // namespace dtr::portable
