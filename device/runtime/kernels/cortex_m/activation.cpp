// cortex_m::quantized_activation.out(input, lut [256], out): entry q + 128 of the table for every
// code q. int8, any order of dimensions.
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/cortex_m/rescale.h"
#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {

Error quantized_activation_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& table = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out) || table.elements() != 256)
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar ||
      table.dtype != ScalarType::kChar)
    return Error::kKernelDtype;
  const int8_t* middle = table.values<int8_t>() + 128;
#if defined(__ARM_FEATURE_MVE)
  if (same_order(in, out)) {
    const int8_t* x = in.values<int8_t>();
    int8_t* y = out.values<int8_t>();
    for (auto left = static_cast<int32_t>(in.elements()); left > 0; left -= 16, x += 16, y += 16) {
      const mve_pred16_t mask = vctp8q(static_cast<uint32_t>(left));
      const uint8x16_t places =
          veorq_u8(vreinterpretq_u8_s8(vldrbq_z_s8(x, mask)), vdupq_n_u8(0x80));
      vstrbq_p_s8(y, vldrbq_gather_offset_s8(middle - 128, places), mask);
    }
    return Error::kOk;
  }
#endif
  portable::map_elements<int8_t, int8_t>(in, out, [middle](int8_t q) { return middle[q]; });
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
