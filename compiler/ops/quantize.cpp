// quantize: converts float to int8; the result's type has scale and zero point.
#include <cmath>

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

// zero_point + round-half-even(x · (1 / scale)) in float32, as PyTorch and ExecuTorch quantize; NaN
// becomes the zero point.
template <class T>
void quantize(const Quantization& q, std::span<const T> x, std::span<int8_t> y) {
  const T inverse_scale = T{1} / static_cast<T>(q.scale());
  const auto low = static_cast<T>(q.qmin - q.zero_point());
  const auto high = static_cast<T>(q.qmax - q.zero_point());
  for (size_t i = 0; i < y.size(); ++i) {
    const T steps = std::nearbyint(x[i] * inverse_scale);
    const T limited = steps < low ? low : steps > high ? high : steps == steps ? steps : T{0};
    y[i] = static_cast<int8_t>(static_cast<int32_t>(limited) + q.zero_point());
  }
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& q = *view.result().quantization;
  if (operands[0].dtype == DType::kFloat64)
    return quantize<double>(q, operands[0].values<double>(), results[0].values<int8_t>());
  quantize<float>(q, operands[0].values<float>(), results[0].values<int8_t>());
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
