// aten.floor: the greatest integer not above x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::floor(x); };

}  // namespace

constinit const OpDef kFloor = unary_op<kFunction>(
    {.name = "aten.floor", .summary = "the greatest integer not above x", .tflite = {"FLOOR", 0}});

}  // namespace dtr::ops
