// aten.neg: -x.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return -x; };

}  // namespace

constinit const OpDef kNeg = unary_op_on_numbers<kFunction, uint64_t>(
    {.name = "aten.neg", .summary = "-x", .tflite = {"NEG", 0}});

}  // namespace dtr::ops
