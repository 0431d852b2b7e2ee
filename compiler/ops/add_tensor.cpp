// aten.add.Tensor: a + alpha · b with broadcasting, then the fused activation.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto alpha = static_cast<T>(view.attribute_or("alpha", 1.0));
  map_pairs<T>(view, operands, results[0], [&](T a, T b) { return a + alpha * b; });
}

constexpr AttributeDef kAttributes[] = {{"alpha", AttributeKind::kFloat, false}, kActivationAttribute};

}  // namespace

constinit const OpDef kAddTensor{
    .name = "aten.add.Tensor",
    .summary = "a + alpha * b with broadcasting",
    .min_operands = 2,
    .max_operands = 2,
    .attributes = kAttributes,
    .traits = kElementwise,
    .verify = verify_binary,
    .infer = infer_binary,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_binary_integer,
};

}  // namespace dtr::ops
