// dequantize: where int8 (or the int32 of a bias) becomes float, (q − zero_point) · scale.
#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  if ((x.dtype != DType::kInt8 && x.dtype != DType::kInt32) || !x.quantized())
    return broken(view, fmt::format("the operand is {}{}, expected quantized i8 or i32",
                                    name(x.dtype), x.quantized() ? "" : " without quantization"));
  const Quantization& q = *x.quantization;
  const size_t rank = x.rank();
  if (q.per_channel() && static_cast<size_t>(q.axis) >= rank)
    return broken(view,
                  fmt::format("the axis {} is out of range for {}", q.axis, to_string(x.shape)));
  const size_t entries =
      q.per_channel() ? static_cast<size_t>(x.shape[static_cast<size_t>(q.axis)]) : 1;
  if (q.scales.size() != entries || q.zero_points.size() != entries)
    return broken(view, fmt::format("{} scales and {} zero points, expected {}", q.scales.size(),
                                    q.zero_points.size(), entries));
  if (!view.results.empty() && view.result().quantized())
    return broken(view, "the result has a quantization");
  return {};
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = DType::kFloat32, .shape = view.operand(0).shape}};
}

template <class From, class To>
void dequantize(const Quantization& q, const TensorView& operand, const TensorView& result) {
  const auto x = operand.values<From>();
  const auto y = result.values<To>();
  const int64_t channels = q.per_channel() ? operand.shape[static_cast<size_t>(q.axis)] : 1;
  const int64_t run = q.per_channel()
                          ? strides(operand.shape, Layout::kContiguous)[static_cast<size_t>(q.axis)]
                          : static_cast<int64_t>(y.size());
  for (size_t i = 0; i < y.size();) {
    const auto c = static_cast<size_t>(static_cast<int64_t>(i) / run % channels);
    for (const size_t end = i + static_cast<size_t>(run); i < end; ++i)
      y[i] = static_cast<To>(static_cast<int64_t>(x[i]) - q.zero_points[c]) *
             static_cast<To>(q.scales[c]);
  }
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& q = *view.operand(0).quantization;
  const bool to_double = results[0].dtype == DType::kFloat64;
  if (operands[0].dtype == DType::kInt8)
    return to_double ? dequantize<int8_t, double>(q, operands[0], results[0])
                     : dequantize<int8_t, float>(q, operands[0], results[0]);
  return to_double ? dequantize<int32_t, double>(q, operands[0], results[0])
                   : dequantize<int32_t, float>(q, operands[0], results[0]);
}

}  // namespace

constinit const OpDef kDequantize{
    .name = "dequantize",
    .summary = "quantized integer to float",
    .traits = kElementwise,
    .tflite = {"DEQUANTIZE", 0},
    .verify = verify,
    .infer = infer,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
