// aten.add.Tensor: a + alpha · b with broadcasting, then the fused activation.
#include <cmath>

#include "numerics/add.h"
#include "ops/broadcast.h"
#include "ops/define.h"
#include "ops/integer.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  DTR_TRY(check_activation(view, 0));
  DTR_TRY(check_activation(view, 1));
  DTR_TRY(check_fused_activation(view));
  const Type& a = view.operand(0);
  const Type& b = view.operand(1);
  if (a.dtype != b.dtype) return broken(view, fmt::format("operand 0 is {} and operand 1 is {}", name(a.dtype), name(b.dtype)));
  if (a.quantized() && view.attribute_or("alpha", 1.0) != 1.0) return broken(view, "`alpha` of a quantized sum is not 1");
  const std::optional<Shape> shape = broadcast_shape(a.shape, b.shape);
  if (!shape) return broken(view, fmt::format("the shapes {} and {} do not broadcast", to_string(a.shape), to_string(b.shape)));
  return check_result_shape(view, *shape);
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = *broadcast_shape(view.operand(0).shape, view.operand(1).shape)}};
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const T* a = operands[0].values<T>().data();
  const T* b = operands[1].values<T>().data();
  T* y = results[0].values<T>().data();
  const auto alpha = static_cast<T>(view.attribute_or("alpha", 1.0));
  const RealBounds bounds = activation_bounds(view);
  for_each_broadcast_row(operands[0].shape, operands[1].shape, results[0].shape,
                         [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
                           for (int64_t i = 0; i < count; ++i)
                             y[at + i] = bounds.clamp(a[at_a + i * step_a] + alpha * b[at_b + i * step_b]);
                         });
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const Quantization& qa = *view.operand(0).quantization;
  const Quantization& qb = *view.operand(1).quantization;
  const Quantization& out = *view.result().quantization;
  const auto add = numerics::add_parameters(qa.scale(), qa.zero_point(), qb.scale(), qb.zero_point(), out.scale(), out.zero_point(),
                                            activation_range(activation_bounds(view), out));
  const int8_t* a = operands[0].values<int8_t>().data();
  const int8_t* b = operands[1].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  for_each_broadcast_row(operands[0].shape, operands[1].shape, results[0].shape,
                         [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
                           for (int64_t i = 0; i < count; ++i) y[at + i] = add(a[at_a + i * step_a], b[at_b + i * step_b]);
                         });
}

constexpr AttributeDef kAttributes[] = {{"alpha", AttributeKind::kFloat, false}, kActivationAttribute};

}  // namespace

constinit const OpDef kAddTensor{
    .name = "aten.add.Tensor",
    .summary = "a + alpha * b with broadcasting",
    .min_operands = 2,
    .max_operands = 2,
    .attributes = kAttributes,
    .traits = kElementwise | kCommutative,
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
