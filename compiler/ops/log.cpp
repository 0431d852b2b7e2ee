// aten.log: natural logarithm of x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::log(x); };

}  // namespace

constinit const OpDef kLog = unary_op<kFunction>(
    {.name = "aten.log", .summary = "natural logarithm of x", .tflite = {"LOG", 2}});

}  // namespace dtr::ops
