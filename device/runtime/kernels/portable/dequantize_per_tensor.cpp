// quantized_decomposed::dequantize_per_tensor.out(input, scale, zero_point, quant_min, quant_max,
// dtype, out_dtype, out)
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/quantization.h"

namespace dtr::runtime::portable {

Error dequantize_per_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto scale = static_cast<float>(arguments.number(1));
  const auto zero_point = static_cast<int32_t>(arguments.integer(2));
  const Tensor& out = arguments.output(7);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  return for_quantized_type(in.dtype, [&]<class T>(T*) {
    map_dequantized<T>(zero_point, scale, [&](auto f) { map_elements<T, float>(in, out, f); });
    return Error::kOk;
  });
}

}  // namespace dtr::runtime::portable
