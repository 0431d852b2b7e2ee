// aten.gelu: x · Φ(x) with the normal distribution's Φ, or with its approximation by tanh. Source
// of both forms: TFLite's GELU.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

bool by_tanh(const OpView& view) { return view.argument<std::string>("approximate") == "tanh"; }

Result<void> verify(const OpView& view) {
  const std::string approximate = view.argument<std::string>("approximate");
  if (approximate != "none" && approximate != "tanh")
    return broken(view, fmt::format("`approximate` is `{}`, expected none or tanh", approximate));
  return verify_activation(view);
}

struct Function {
  bool tanh;

  explicit Function(const OpView& view) : tanh(by_tanh(view)) {}
  template <class T>
  T operator()(T x) const {
    constexpr T kSqrtHalf = static_cast<T>(0.70710678118654752440);
    constexpr T kSqrtTwoOverPi = static_cast<T>(0.79788456080286535588);
    constexpr T kHalf = static_cast<T>(0.5);
    if (!tanh) return kHalf * x * std::erfc(-x * kSqrtHalf);
    return kHalf * x * (1 + std::tanh(kSqrtTwoOverPi * (x + static_cast<T>(0.044715) * x * x * x)));
  }
};

}  // namespace

constinit const OpDef kGelu =
    unary_op<Function>({.name = "aten.gelu",
                        .summary = "x * (1 + erf(x / sqrt 2)) / 2, or its approximation by tanh",
                        .schema = "(Tensor self, *, str approximate='none')",
                        .verify = verify});

}  // namespace dtr::ops
