// aten.rsqrt: 1 / sqrt(x).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return 1 / std::sqrt(x); };

}  // namespace

constinit const OpDef kRsqrt =
    unary_op<kFunction>({.name = "aten.rsqrt", .summary = "1 / sqrt(x)", .tflite = {"RSQRT", 2}});

}  // namespace dtr::ops
