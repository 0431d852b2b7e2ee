// cortex_m::quantize_per_tensor.out and dequantize_per_tensor.out(input, scale, zero_point,
// quant_min, quant_max, dtype, out): float to int8 and back, any order. Rounded half to even; NaN
// gives the zero point.
#include <limits>

#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/quantization.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Conversion {
  Tensor in, out;
  double scale = 1;
  int64_t zero_point = 0, low = -128, high = 127;
};

Error read_conversion(std::span<Value* const> values, ScalarType from, ScalarType to,
                      Conversion* conversion) {
  Arguments arguments(values);
  *conversion = {arguments.tensor(0),  arguments.output(6),  arguments.number(1),
                 arguments.integer(2), arguments.integer(3), arguments.integer(4)};
  const Conversion& by = *conversion;
  if (!arguments.good() || !same_shape(by.in, by.out) ||
      !portable::quantization_fits<int8_t>(by.scale, by.zero_point, by.low, by.high)) {
    return Error::kKernelArguments;
  }
  return by.in.dtype == from && by.out.dtype == to ? Error::kOk : Error::kKernelDtype;
}

}  // namespace

Error quantize_per_tensor_out(std::span<Value* const> values) {
  Conversion by;
  if (const Error error = read_conversion(values, ScalarType::kFloat, ScalarType::kChar, &by);
      error != Error::kOk)
    return error;
  const portable::Quantizer quantize(by.scale, by.zero_point, by.low, by.high);
  portable::map_elements<float, int8_t>(by.in, by.out,
                                        [&](float x) { return static_cast<int8_t>(quantize(x)); });
  return Error::kOk;
}

Error dequantize_per_tensor_out(std::span<Value* const> values) {
  Conversion by;
  if (const Error error = read_conversion(values, ScalarType::kChar, ScalarType::kFloat, &by);
      error != Error::kOk)
    return error;
  const auto step = static_cast<float>(by.scale);
  const auto zero = static_cast<int32_t>(by.zero_point);
  portable::map_elements<int8_t, float>(
      by.in, by.out, [=](int8_t q) { return static_cast<float>(q - zero) * step; });
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
