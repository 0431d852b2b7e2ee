// aten.relu: max(x, 0).
#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView&, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto x = operands[0].values<T>();
  const auto y = results[0].values<T>();
  for (size_t i = 0; i < y.size(); ++i) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : T{0};  // NaN stays NaN, as in PyTorch
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  rescale(view, {.low = 0}, operands[0], results[0]);
}

constexpr AttributeDef kAttributes[] = {kQdqAttribute};

}  // namespace

constinit const OpDef kRelu{
    .name = "aten.relu",
    .summary = "max(x, 0)",
    .attributes = kAttributes,
    .traits = kElementwise,
    .verify = verify_activation,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
