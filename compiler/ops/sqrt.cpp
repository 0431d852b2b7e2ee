// aten.sqrt: square root of x. The quantized form is rounded; with `truncates` it is TFLite's SQRT,
// whose quotient by the result's scale loses its fraction.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) { return std::sqrt(x); };

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  if (!view.argument<bool>("truncates"))
    return evaluate_unary_integer<PlainFunction<kFunction>>(view, operands, results);
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const float steps = 1.0F / out.scale();
  std::ranges::transform(
      operands[0].values<int8_t>(), results[0].values<int8_t>().begin(), [&](int8_t q) {
        const float x = in.scale() * static_cast<float>(std::max(q - in.zero_point(), 0));
        const auto root =
            numerics::saturating_cast<int32_t>(static_cast<double>(std::sqrt(x) * steps));
        return static_cast<int8_t>(
            range_of(out).clamp(numerics::saturating_add(root, out.zero_point())));
      });
}

}  // namespace

constinit const OpDef kSqrt = unary_op<kFunction>({.name = "aten.sqrt",
                                                   .summary = "square root of x",
                                                   .schema = "(Tensor self | bool truncates=False)",
                                                   .tflite = {"SQRT"},
                                                   .evaluate_integer = evaluate_integer});

}  // namespace dtr::ops
