// aten.ceil: the least integer not below x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::ceil(x); };

}  // namespace

constinit const OpDef kCeil = unary_op<kFunction>(
    {.name = "aten.ceil", .summary = "the least integer not below x", .tflite = {"CEIL", 0}});

}  // namespace dtr::ops
