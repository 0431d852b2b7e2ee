// aten.hardswish: x · min(max(x + 3, 0), 6) / 6.
#include <algorithm>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "device/numerics/hardswish.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto x) {
  constexpr RealBounds kGate{0, 6};
  return x * kGate.clamp(x + 3) / 6;
};

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands, std::span<const TensorView> results) {
  std::ranges::transform(operands[0].values<T>(), results[0].values<T>().begin(), kFunction);
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  if (view.attribute_or("qdq", false)) return look_up(view, kFunction, operands[0], results[0]);
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const auto parameters = numerics::hardswish_parameters(in.scale(), in.zero_point(), out.scale(), out.zero_point(), range_of(out));
  std::ranges::transform(operands[0].values<int8_t>(), results[0].values<int8_t>().begin(),
                         [&](int8_t q) { return numerics::hardswish(q, parameters); });
}

constexpr AttributeDef kAttributes[] = {kQdqAttribute};

}  // namespace

constinit const OpDef kHardswish{
    .name = "aten.hardswish",
    .summary = "x * relu6(x + 3) / 6",
    .attributes = kAttributes,
    .traits = kElementwise,
    .verify = verify_activation,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
