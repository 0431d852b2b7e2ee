// aten.neg: -x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return -x; };

}  // namespace

constinit const OpDef kNeg = unary_op<kFunction>({.name = "aten.neg", .summary = "-x"});

}  // namespace dtr::ops
