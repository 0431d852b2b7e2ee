// aten.sigmoid: 1 / (1 + exp(-x)).
#include <cmath>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto x = operands[0].values<T>();
  const auto y = results[0].values<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = T{1} / (T{1} + std::exp(-x[i]));
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  look_up(view, numerics::sigmoid, operands[0], results[0]);
}

}  // namespace

constinit const OpDef kSigmoid{
    .name = "aten.sigmoid",
    .summary = "1 / (1 + exp(-x))",
    .traits = kElementwise,
    .verify = verify_activation,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
