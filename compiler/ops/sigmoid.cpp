// aten.sigmoid: 1 / (1 + exp(-x)).
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return 1 / (1 + std::exp(-x)); };

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  look_up(view, numerics::sigmoid, operands[0], results[0]);
}

}  // namespace

constinit const OpDef kSigmoid = unary_op<kFunction>({.name = "aten.sigmoid",
                                                      .summary = "1 / (1 + exp(-x))",
                                                      .tflite = {"LOGISTIC", 2},
                                                      .evaluate_integer = evaluate_integer});

}  // namespace dtr::ops
