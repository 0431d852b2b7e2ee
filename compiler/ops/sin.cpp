// aten.sin: sine of x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::sin(x); };

}  // namespace

constinit const OpDef kSin =
    unary_op<kFunction>({.name = "aten.sin", .summary = "sine of x", .tflite = {"SIN", 0}});

}  // namespace dtr::ops
