// aten::_native_batch_norm_legit_no_training.out(self, weight, bias, running_mean, running_var,
// momentum, eps, out, save_mean, save_invstd): (x − mean) / √(var + eps) · weight + bias along
// dimension 1, float. Nothing is saved: the last two outputs have no elements.
// aten::_native_batch_norm_legit.no_stats_out(self, weight, bias, training, momentum, eps, out,
// save_mean, save_invstd): by mean and variance of the tensor itself, which are saved.
#include <cmath>

#include "device/runtime/kernels/portable/channels.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error batch_norm_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor* weight = arguments.optional_tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const Tensor& mean = arguments.tensor(3);
  const Tensor& variance = arguments.tensor(4);
  const auto eps = static_cast<float>(arguments.number_or(6, 0));
  const Tensor& out = arguments.output(7);
  const Tensor& save_mean = arguments.output(8);
  const Tensor& save_invstd = arguments.output(9);
  if (!arguments.good() || !same_shape(in, out) || in.rank < 2 || save_mean.elements() != 0 ||
      save_invstd.elements() != 0)
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  for (const Tensor* parameter : {weight, bias, &mean, &variance}) {
    if (parameter == nullptr) continue;
    if (parameter->rank != 1 || parameter->sizes[0] != in.sizes[1]) return Error::kKernelArguments;
    if (parameter->dtype != ScalarType::kFloat) return Error::kKernelDtype;
  }
  for (int32_t c = 0; c < in.sizes[1]; ++c) {
    const float scale = (weight == nullptr ? 1.0f : weight->values<float>()[c]) /
                        std::sqrt(variance.values<float>()[c] + eps);
    const float offset =
        (bias == nullptr ? 0.0f : bias->values<float>()[c]) - mean.values<float>()[c] * scale;
    map_channel<float, float>(in, out, 1, c, [=](float x) { return x * scale + offset; });
  }
  return Error::kOk;
}

Error batch_norm_no_stats_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor* weight = arguments.optional_tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const auto eps = static_cast<float>(arguments.number(5));
  const Tensor& out = arguments.output(6);
  const Tensor& save_mean = arguments.output(7);
  const Tensor& save_invstd = arguments.output(8);
  if (!arguments.good() || !same_shape(in, out) || in.rank < 2) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  for (const Tensor* parameter : {weight, bias, &save_mean, &save_invstd}) {
    if (parameter == nullptr) continue;
    if (parameter->rank != 1 || parameter->sizes[0] != in.sizes[1]) return Error::kKernelArguments;
    if (parameter->dtype != ScalarType::kFloat) return Error::kKernelDtype;
  }
  const Strides strides = strides_of(in);
  int32_t plane[kMaxRank];
  std::copy_n(in.sizes, in.rank, plane);
  plane[1] = 1;
  for (int32_t c = 0; c < in.sizes[1]; ++c) {
    const float* x = in.values<float>() + c * strides.of[1];
    float count = 0, sum = 0, squares = 0;
    for_each_offset(
        {plane, in.rank}, [&](int32_t at) { sum += x[at], count += 1; }, strides);
    const float mean = sum / count;
    for_each_offset(
        {plane, in.rank}, [&](int32_t at) { squares += (x[at] - mean) * (x[at] - mean); }, strides);
    const float inverse = 1 / std::sqrt(squares / count + eps);
    const float scale = (weight == nullptr ? 1.0f : weight->values<float>()[c]) * inverse;
    const float offset = (bias == nullptr ? 0.0f : bias->values<float>()[c]) - mean * scale;
    map_channel<float, float>(in, out, 1, c, [=](float value) { return value * scale + offset; });
    save_mean.values<float>()[c] = mean;
    save_invstd.values<float>()[c] = inverse;
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
