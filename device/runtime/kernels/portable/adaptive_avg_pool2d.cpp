// aten::_adaptive_avg_pool2d.out(self, output_size, out): mean over windows that divide the input
// into `output_size`; float.
#include "device/runtime/kernels/portable/adaptive_window.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error adaptive_avg_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto size = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  Pool pool;
  if (!arguments.good() || !make_adaptive_pool(in, out, size, &pool))
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  for_each_window(pool, [&](int32_t from, int32_t row, int32_t column, int32_t to) {
    float sum = 0;
    int32_t count = 0;
    for_each_in_window(pool, from, row, column, [&](int32_t at, int32_t, int32_t) {
      sum += in.values<float>()[at];
      ++count;
    });
    out.values<float>()[to] = sum / static_cast<float>(count);
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
