// aten.exp: e to the power of x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::exp(x); };

}  // namespace

constinit const OpDef kExp = unary_op<kFunction>(
    {.name = "aten.exp", .summary = "e to the power of x", .tflite = {"EXP", 2}});

}  // namespace dtr::ops
