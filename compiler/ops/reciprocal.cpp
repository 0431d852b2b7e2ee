// aten.reciprocal: 1 / x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return 1 / x; };

}  // namespace

constinit const OpDef kReciprocal =
    unary_op<kFunction>({.name = "aten.reciprocal", .summary = "1 / x"});

}  // namespace dtr::ops
