// aten.tanh: hyperbolic tangent.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::tanh(x); };

}  // namespace

constinit const OpDef kTanh = unary_op<kFunction>(
    {.name = "aten.tanh", .summary = "hyperbolic tangent", .tflite = {"TANH", 2}});

}  // namespace dtr::ops
