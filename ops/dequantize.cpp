// dequantize: where int8 (or the int32 of a bias) becomes float, (q − zero_point) · scale.
#include "ops/define.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  const Type& x = view.operand(0);
  if ((x.dtype != DType::kInt8 && x.dtype != DType::kInt32) || !x.quantized())
    return broken(view, fmt::format("the operand is {}{}, expected quantized i8 or i32", name(x.dtype),
                                    x.quantized() ? "" : " without quantization"));
  const Quantization& q = *x.quantization;
  const size_t rank = x.rank();
  if (q.per_channel() && static_cast<size_t>(q.axis) >= rank)
    return broken(view, fmt::format("the axis {} is out of range for {}", q.axis, to_string(x.shape)));
  const size_t entries = q.per_channel() ? static_cast<size_t>(x.shape[static_cast<size_t>(q.axis)]) : 1;
  if (q.scales.size() != entries || q.zero_points.size() != entries)
    return broken(view, fmt::format("{} scales and {} zero points, expected {}", q.scales.size(), q.zero_points.size(), entries));
  if (!view.results.empty() && view.result().quantized()) return broken(view, "the result has a quantization");
  return {};
}

std::vector<Type> infer(const OpView& view) { return {{.dtype = DType::kFloat32, .shape = view.operand(0).shape}}; }

}  // namespace

constinit const OpDef kDequantize{
    .name = "dequantize",
    .summary = "quantized integer to float",
    .traits = kElementwise,
    .verify = verify,
    .infer = infer,
};

}  // namespace dtr::ops
