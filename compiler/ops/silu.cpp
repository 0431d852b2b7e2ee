// aten.silu: x / (1 + exp(-x)).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return x / (1 + std::exp(-x)); };

}  // namespace

constinit const OpDef kSilu =
    unary_op<kFunction>({.name = "aten.silu", .summary = "x / (1 + exp(-x))"});

}  // namespace dtr::ops
