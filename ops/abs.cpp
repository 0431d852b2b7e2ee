// aten.abs: |x|.
#include <cmath>

#include "ops/define.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  if (!is_float(view.operand(0).dtype)) return broken(view, fmt::format("the operand is {}, expected float", name(view.operand(0).dtype)));
  return {};
}

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto x = operands[0].values<T>();
  const auto y = results[0].values<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::abs(x[i]);
}

}  // namespace

constinit const OpDef kAbs{
    .name = "aten.abs",
    .summary = "|x|",
    .traits = kElementwise,
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
};

}  // namespace dtr::ops
