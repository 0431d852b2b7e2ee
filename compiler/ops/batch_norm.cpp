// aten.batch_norm in evaluation mode: (x − mean) / √(var + eps) · weight + bias along dimension 1.
#include <cmath>
#include <vector>

#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  if (!is_float(x.dtype))
    return broken(view, fmt::format("the operand is {}, expected float", name(x.dtype)));
  if (x.rank() < 2)
    return broken(view, fmt::format("the operand has shape {}, expected at least 2 dimensions",
                                    to_string(x.shape)));
  for (size_t i = 1; i < 5; ++i) {
    if (!view.has(i) && i < 3) continue;
    if (!view.has(i)) return broken(view, "mean or variance is missing");
    const Type& parameter = view.operand(i);
    if (parameter.dtype != x.dtype || parameter.shape != Shape{x.shape[1]})
      return broken(view, fmt::format("operand {} is {} of shape {}, expected {} of shape {}", i,
                                      name(parameter.dtype), to_string(parameter.shape),
                                      name(x.dtype), x.shape[1]));
  }
  const double eps = view.attribute<double>("eps");
  if (!(eps >= 0) || std::isinf(eps)) return broken(view, fmt::format("`eps` is {}", eps));
  return {};
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const auto parameter = [&](size_t i, size_t c, T absent) {
    return view.has(i) ? operands[i].values<T>()[c] : absent;
  };
  const Shape& shape = operands[0].shape;
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  const auto channels = static_cast<size_t>(shape[1]);
  const auto elements = static_cast<size_t>(operands[0].elements());
  if (elements == 0) return;
  size_t plane = 1;
  for (size_t i = 2; i < shape.size(); ++i) plane *= static_cast<size_t>(shape[i]);
  const T eps = static_cast<T>(view.attribute<double>("eps"));
  std::vector<T> scale(channels), offset(channels);
  for (size_t c = 0; c < channels; ++c) {
    scale[c] = parameter(1, c, T{1}) / std::sqrt(parameter(4, c, T{}) + eps);
    offset[c] = parameter(2, c, T{0}) - parameter(3, c, T{}) * scale[c];
  }
  for (size_t at = 0; at < elements; at += plane * channels) {
    if (plane == 1) {
      for (size_t c = 0; c < channels; ++c) y[at + c] = x[at + c] * scale[c] + offset[c];
      continue;
    }
    for (size_t c = 0; c < channels; ++c)
      for (size_t i = at + c * plane; i < at + (c + 1) * plane; ++i)
        y[i] = x[i] * scale[c] + offset[c];
  }
}

}  // namespace

constinit const OpDef kBatchNorm{
    .name = "aten.batch_norm",
    .summary =
        "batch normalization with stored mean and variance; operands x, weight?, bias?, mean, var",
    .schema =
        "(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
        "float eps)",
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
};

}  // namespace dtr::ops
