// aten.clamp: min(max(x, min), max); hardtanh and relu6 are written as this.
#include <cmath>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/integral.h"

namespace dtr::ops {
namespace {

RealBounds bounds(const OpView& view) {
  const RealBounds none;
  return {view.attribute_or("min", none.low), view.attribute_or("max", none.high)};
}

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  const RealBounds limits = bounds(view);
  if (std::isnan(limits.low) || std::isnan(limits.high)) return broken(view, "a bound is NaN");
  return {};
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  if (!is_float(operands[0].dtype)) {
    const auto low = numerics::saturating_cast<int64_t>(bounds(view).low);
    const auto high = numerics::saturating_cast<int64_t>(bounds(view).high);
    return map_integers<int64_t>(operands[0], results[0], [&](int64_t value) {
      return std::min(std::max(value, low), high);
    });
  }
  const auto x = operands[0].values<T>();
  const auto y = results[0].values<T>();
  const RealBounds limits = bounds(view);
  for (size_t i = 0; i < y.size(); ++i) {
    const T raised = x[i] < static_cast<T>(limits.low) ? static_cast<T>(limits.low) : x[i];
    y[i] = raised > static_cast<T>(limits.high) ? static_cast<T>(limits.high)
                                                : raised;  // min > max gives max; NaN stays NaN
  }
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  rescale(view, bounds(view), operands[0], results[0]);
}

}  // namespace

constinit const OpDef kClamp{
    .name = "aten.clamp",
    .summary = "x limited to [min, max], either may be absent",
    .schema = "(Tensor self, Scalar? min=None, Scalar? max=None | bool qdq=False)",
    .traits = kElementwise | kOnIntegers,
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
