#include "compiler/ops/binary.h"

#include <cmath>

#include "compiler/ops/ops.h"

namespace dtr::ops {
namespace {

using numerics::BinaryKind;

struct Row {
  const OpDef* def;
  BinaryKind kind;
};
constexpr Row kRows[] = {
    {&kAddTensor, BinaryKind::kAdd},      {&kSubTensor, BinaryKind::kSubtract},
    {&kMulTensor, BinaryKind::kMultiply}, {&kMaximum, BinaryKind::kMaximum},
    {&kMinimum, BinaryKind::kMinimum},    {&kPrelu, BinaryKind::kPrelu},
};

double alpha_of(const OpView& view) {
  return view.attribute_or("alpha", 1.0);
}  // most operators have none

}  // namespace

Result<void> verify_binary(const OpView& view) {
  DTR_TRY(check_activation(view, 0));
  DTR_TRY(check_activation(view, 1));
  DTR_TRY(check_fused_activation(view));
  const Type& a = view.operand(0);
  const Type& b = view.operand(1);
  if (a.dtype != b.dtype)
    return broken(view,
                  fmt::format("operand 0 is {} and operand 1 is {}", name(a.dtype), name(b.dtype)));
  if (is_integral(a) && activation_bounds(view) != RealBounds{})
    return broken(view, "an operator on integers has no activation");
  if (a.quantized() && !std::isfinite(static_cast<float>(alpha_of(view))))
    return broken(view, "`alpha` of a quantized operator is not finite");
  const std::optional<Shape> shape = broadcast_shape(a.shape, b.shape);
  if (!shape)
    return broken(view, fmt::format("the shapes {} and {} do not broadcast", to_string(a.shape),
                                    to_string(b.shape)));
  return check_result_shape(view, *shape);
}

std::vector<Type> infer_binary(const OpView& view) {
  return {{.dtype = view.operand(0).dtype,
           .shape = *broadcast_shape(view.operand(0).shape, view.operand(1).shape)}};
}

std::optional<numerics::BinaryParameters> binary_parameters(const OpView& view) {
  const auto* row = std::ranges::find(kRows, view.def, &Row::def);
  if (row == std::end(kRows)) return std::nullopt;
  const auto affine = [](const Quantization& q) {
    return numerics::Affine{q.scale(), q.zero_point()};
  };
  const Quantization& out = *view.result().quantization;
  numerics::Affine b = affine(*view.operand(1).quantization);
  BinaryKind kind = row->kind;
  // a ± alpha · b is a sum or difference of values whose scale is |alpha| times as large.
  const auto alpha = static_cast<float>(alpha_of(view));
  if (alpha < 0) kind = kind == BinaryKind::kAdd ? BinaryKind::kSubtract : BinaryKind::kAdd;
  b.scale *= std::abs(alpha);
  return numerics::binary_parameters(kind, affine(*view.operand(0).quantization), b, affine(out),
                                     activation_range(activation_bounds(view), out),
                                     is_rounded_once(view));
}

void evaluate_binary_integer(const OpView& view, std::span<const TensorView> operands,
                             std::span<const TensorView> results) {
  const numerics::BinaryParameters function = *binary_parameters(view);
  const int8_t* a = operands[0].values<int8_t>().data();
  const int8_t* b = operands[1].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  for_each_broadcast_row(
      operands[0].shape, operands[1].shape, results[0].shape,
      [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
        for (int64_t i = 0; i < count; ++i)
          y[at + i] = function(a[at_a + i * step_a], b[at_b + i * step_b]);
      });
}

}  // namespace dtr::ops
