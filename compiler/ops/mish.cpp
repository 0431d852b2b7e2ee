// aten.mish: x * tanh(log(1 + exp(x))).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return x * std::tanh(std::log1p(std::exp(x))); };

}  // namespace

constinit const OpDef kMish =
    unary_op<kFunction>({.name = "aten.mish", .summary = "x * tanh(log(1 + exp(x)))"});

}  // namespace dtr::ops
