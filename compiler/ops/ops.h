// Declares the operators, for code that builds or matches them: `graph.producer_if(value,
// ops::kRelu)`.
#pragma once

#include "compiler/ir/op_def.h"

namespace dtr::ops {

#define DTR_OP(symbol, file) extern const OpDef symbol;
#include "compiler/ops/ops.inc"
#undef DTR_OP

}  // namespace dtr::ops
