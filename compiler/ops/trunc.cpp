// aten.trunc: x without its fraction.
#include "compiler/ops/unary.h"

namespace dtr::ops {

constinit const OpDef kTrunc = unary_op<[](auto x) { return std::trunc(x); }>(
    {.name = "aten.trunc", .summary = "x without its fraction"});

}  // namespace dtr::ops
