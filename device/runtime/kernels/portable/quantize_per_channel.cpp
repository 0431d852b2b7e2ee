// quantized_decomposed::quantize_per_channel.out(input, scales, zero_points, axis, quant_min,
// quant_max, dtype, out)
#include <limits>

#include "device/runtime/kernels/portable/channels.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/quantization.h"

namespace dtr::runtime::portable {

Error quantize_per_channel_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Channels channels(arguments.tensor(1), arguments.optional_tensor(2));
  const int axis = wrap_dim(arguments.integer(3), in.rank);
  const int64_t qmin = arguments.integer(4);
  const int64_t qmax = arguments.integer(5);
  const Tensor& out = arguments.output(7);
  if (!arguments.good() || !same_shape(in, out) || !channels.fit(in, axis))
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || !channels.dtypes_known()) return Error::kKernelDtype;
  return for_quantized_type(out.dtype, [&]<class T>(T*) {
    if (sizeof(T) > 2) return Error::kKernelDtype;
    for (int32_t channel = 0; channel < in.sizes[axis]; ++channel) {
      const double scale = channels.scale(channel);
      const int64_t zero_point = channels.zero_point(channel);
      if (!quantization_fits<T>(scale, zero_point, qmin, qmax)) return Error::kKernelArguments;
      const Quantizer quantize(scale, zero_point, qmin, qmax);
      map_channel<float, T>(in, out, axis, channel,
                            [&](float x) { return static_cast<T>(quantize(x)); });
    }
    return Error::kOk;
  });
}

}  // namespace dtr::runtime::portable
