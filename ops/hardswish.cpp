// aten.hardswish: x · min(max(x + 3, 0), 6) / 6.
#include "ops/define.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto x = operands[0].values<T>();
  const auto y = results[0].values<T>();
  constexpr RealBounds kGate{0, 6};
  for (size_t i = 0; i < y.size(); ++i) y[i] = x[i] * kGate.clamp(x[i] + T{3}) / T{6};
}

}  // namespace

constinit const OpDef kHardswish{
    .name = "aten.hardswish",
    .summary = "x * relu6(x + 3) / 6",
    .traits = kElementwise,
    .verify = verify_activation,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
};

}  // namespace dtr::ops
