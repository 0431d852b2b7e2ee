// aten.relu: max(x, 0).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) {
  return x > 0 || x != x ? x : decltype(x){0};
};  // NaN stays NaN, as in PyTorch

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  rescale(view, {.low = 0}, operands[0], results[0]);
}

}  // namespace

constinit const OpDef kRelu =
    unary_op_on_numbers<kFunction, int64_t>({.name = "aten.relu",
                                             .summary = "max(x, 0)",
                                             .schema = "(Tensor self | bool qdq=False)",
                                             .tflite = {"RELU", 2},
                                             .evaluate_integer = evaluate_integer});

}  // namespace dtr::ops
