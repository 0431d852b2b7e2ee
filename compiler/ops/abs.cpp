// aten.abs: |x|. Source of the quantized form: TFLite's ABS.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::abs(x); };

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const double factor = static_cast<double>(in.scale() / out.scale());
  const numerics::OutputStage stage{multiplier_of(view, factor), out.zero_point(), range_of(out)};
  std::ranges::transform(operands[0].values<int8_t>(), results[0].values<int8_t>().begin(),
                         [&](int8_t q) { return stage(std::abs(q - in.zero_point())); });
}

}  // namespace

constinit const OpDef kAbs =
    unary_op_on_numbers<kFunction, int64_t>({.name = "aten.abs",
                                             .summary = "|x|",
                                             .schema = "(Tensor self | bool qdq=False)",
                                             .tflite = {"ABS"},
                                             .evaluate_integer = evaluate_integer});

}  // namespace dtr::ops
