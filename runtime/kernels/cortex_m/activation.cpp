// cortex_m::quantized_activation.out(input, lut [256], out): entry q + 128 of the table for every code q. int8, any order of dimensions.
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {

Error quantized_activation_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& table = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out) || table.elements() != 256) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar || table.dtype != ScalarType::kChar) return Error::kKernelDtype;
  const int8_t* middle = table.values<int8_t>() + 128;
  portable::map_elements<int8_t, int8_t>(in, out, [middle](int8_t q) { return middle[q]; });
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
