// quantized_decomposed::dequantize_per_channel.out(input, scales, zero_points, axis, quant_min,
// quant_max, dtype, out_dtype, out)
#include "device/runtime/kernels/portable/channels.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/quantization.h"

namespace dtr::runtime::portable {

Error dequantize_per_channel_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Channels channels(arguments.tensor(1), arguments.optional_tensor(2));
  const int axis = wrap_dim(arguments.integer(3), in.rank);
  const Tensor& out = arguments.output(8);
  if (!arguments.good() || !same_shape(in, out) || !channels.fit(in, axis))
    return Error::kKernelArguments;
  if (out.dtype != ScalarType::kFloat || !channels.dtypes_known()) return Error::kKernelDtype;
  return for_quantized_type(in.dtype, [&]<class T>(T*) {
    for (int32_t channel = 0; channel < in.sizes[axis]; ++channel) {
      const auto scale = static_cast<float>(channels.scale(channel));
      const int64_t zero_point = channels.zero_point(channel);
      if (zero_point < INT32_MIN || zero_point > INT32_MAX) return Error::kKernelArguments;
      map_dequantized<T>(static_cast<int32_t>(zero_point), scale,
                         [&](auto f) { map_channel<T, float>(in, out, axis, channel, f); });
    }
    return Error::kOk;
  });
}

}  // namespace dtr::runtime::portable
