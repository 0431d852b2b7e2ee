// aten.atan: the inverse of the tangent.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::atan(x); };

}  // namespace

constinit const OpDef kAtan =
    unary_op<kFunction>({.name = "aten.atan", .summary = "inverse tangent of x"});

}  // namespace dtr::ops
