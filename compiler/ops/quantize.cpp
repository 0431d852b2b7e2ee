// quantize: converts float to int8; the result's type has scale and zero point.
#include "compiler/ir/quantized_values.h"
#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  if (!is_float(view.operand(0).dtype))
    return broken(view,
                  fmt::format("the operand is {}, expected float", name(view.operand(0).dtype)));
  if (!view.results.empty() && !per_tensor(view.result()))
    return broken(view, "the result is not quantized per tensor");
  return {};
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = DType::kInt8, .shape = view.operand(0).shape}};
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& q = *view.result().quantization;
  if (operands[0].dtype == DType::kFloat64)
    return quantize_values<double>(q, operands[0].values<double>(), results[0].values<int8_t>());
  quantize_values<float>(q, operands[0].values<float>(), results[0].values<int8_t>());
}

}  // namespace

constinit const OpDef kQuantize{
    .name = "quantize",
    .summary = "float to int8 with the quantization of the result",
    .traits = kElementwise,
    .verify = verify,
    .infer = infer,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
