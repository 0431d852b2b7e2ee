// aten::_native_batch_norm_legit_no_training.out(self, weight, bias, running_mean, running_var,
// momentum, eps, out, save_mean, save_invstd): (x − mean) / √(var + eps) · weight + bias along
// dimension 1, float. Nothing is saved: the last two outputs have no elements.
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

}  // namespace dtr::runtime::portable
