// aten.round: the nearest integer, ties to even.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::nearbyint(x); };

}  // namespace

constinit const OpDef kRound = unary_op<kFunction>(
    {.name = "aten.round", .summary = "the nearest integer, ties to even", .tflite = {"ROUND", 0}});

}  // namespace dtr::ops
