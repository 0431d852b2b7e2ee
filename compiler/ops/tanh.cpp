// aten.tanh: hyperbolic tangent.
#include <cmath>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto x = operands[0].values<T>();
  const auto y = results[0].values<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = std::tanh(x[i]);
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  look_up(
      view, [](float x) { return std::tanh(x); }, operands[0], results[0]);
}

}  // namespace

constinit const OpDef kTanh{
    .name = "aten.tanh",
    .summary = "hyperbolic tangent",
    .traits = kElementwise,
    .verify = verify_activation,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
