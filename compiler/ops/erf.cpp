// aten.erf: the error function.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::erf(x); };

}  // namespace

constinit const OpDef kErf =
    unary_op<kFunction>({.name = "aten.erf", .summary = "the error function"});

}  // namespace dtr::ops
