// cortex_m::quantize_per_tensor.out and dequantize_per_tensor.out(input, scale, zero_point, quant_min, quant_max, dtype, out): float to
// int8 and back, any order. Rounded half to even; NaN gives the zero point.
#include <limits>

#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/portable/elements.h"
#include "runtime/kernels/portable/quantization.h"

namespace dtr::runtime::cortex_m {

Error quantize_per_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double scale = arguments.number(1);
  const int64_t zero_point = arguments.integer(2), low = arguments.integer(3), high = arguments.integer(4);
  const Tensor& out = arguments.output(6);
  if (!arguments.good() || !same_shape(in, out) || !portable::quantization_fits<int8_t>(scale, zero_point, low, high)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  const portable::Quantizer quantize(scale, zero_point, low, high);
  portable::map_elements<float, int8_t>(in, out, [&](float x) { return static_cast<int8_t>(quantize(x)); });
  return Error::kOk;
}

Error dequantize_per_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double scale = arguments.number(1);
  const int64_t zero_point = arguments.integer(2), low = arguments.integer(3), high = arguments.integer(4);
  const Tensor& out = arguments.output(6);
  if (!arguments.good() || !same_shape(in, out) || !portable::quantization_fits<int8_t>(scale, zero_point, low, high)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const auto step = static_cast<float>(scale);
  const auto zero = static_cast<int32_t>(zero_point);
  portable::map_elements<int8_t, float>(in, out, [=](int8_t q) { return static_cast<float>(q - zero) * step; });
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
