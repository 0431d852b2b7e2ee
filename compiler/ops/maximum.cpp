// aten.maximum: the larger of a and b with broadcasting; NaN if one of them is.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto a, auto b) { return a > b || a != a ? a : b; };

}  // namespace

constinit const OpDef kMaximum = binary_op_on_numbers<kFunction, int64_t>(
    {.name = "aten.maximum",
     .summary = "the larger of a and b with broadcasting",
     .schema = "(Tensor self, Tensor other | bool qdq=False)",
     .traits = kCommutative,
     .tflite = {"MAXIMUM"}});

}  // namespace dtr::ops
