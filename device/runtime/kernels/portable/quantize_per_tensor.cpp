// quantized_decomposed::quantize_per_tensor.out(input, scale, zero_point, quant_min, quant_max,
// dtype, out)
#include <limits>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/quantization.h"

namespace dtr::runtime::portable {

Error quantize_per_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double scale = arguments.number(1);
  const int64_t zero_point = arguments.integer(2);
  const int64_t qmin = arguments.integer(3);
  const int64_t qmax = arguments.integer(4);
  const Tensor& out = arguments.output(6);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  return for_quantized_type(out.dtype, [&]<class T>(T*) {
    // In int32 the bounds are not exact in float: such a tensor is a bias, which is quantized at
    // compile time.
    if (sizeof(T) > 2) return Error::kKernelDtype;
    if (!quantization_fits<T>(scale, zero_point, qmin, qmax)) return Error::kKernelArguments;
    const Quantizer quantize(scale, zero_point, qmin, qmax);
    map_elements<float, T>(in, out, [quantize](float x) { return static_cast<T>(quantize(x)); });
    return Error::kOk;
  });
}

}  // namespace dtr::runtime::portable
