// aten.hardswish: x · min(max(x + 3, 0), 6) / 6.
#include "device/numerics/hardswish.h"
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) {
  constexpr RealBounds kGate{0, 6};
  return x * kGate.clamp(x + 3) / 6;
};

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  if (is_rounded_once(view)) return look_up(view, kFunction, operands[0], results[0]);
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const auto parameters = numerics::hardswish_parameters(in.scale(), in.zero_point(), out.scale(),
                                                         out.zero_point(), range_of(out));
  std::ranges::transform(operands[0].values<int8_t>(), results[0].values<int8_t>().begin(),
                         [&](int8_t q) { return numerics::hardswish(q, parameters); });
}

}  // namespace

constinit const OpDef kHardswish = unary_op<kFunction>({.name = "aten.hardswish",
                                                        .summary = "x * relu6(x + 3) / 6",
                                                        .schema = "(Tensor self | bool qdq=False)",
                                                        .tflite = {"HARD_SWISH"},
                                                        .evaluate_integer = evaluate_integer});

}  // namespace dtr::ops
