// aten.hardsigmoid: relu6(x + 3) / 6.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return RealBounds{0, 6}.clamp(x + 3) / 6; };

}  // namespace

constinit const OpDef kHardsigmoid =
    unary_op<kFunction>({.name = "aten.hardsigmoid", .summary = "relu6(x + 3) / 6"});

}  // namespace dtr::ops
