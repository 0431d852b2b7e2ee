// aten.cos: cosine of x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::cos(x); };

}  // namespace

constinit const OpDef kCos =
    unary_op<kFunction>({.name = "aten.cos", .summary = "cosine of x", .tflite = {"COS", 0}});

}  // namespace dtr::ops
