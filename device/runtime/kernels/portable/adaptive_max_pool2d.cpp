// aten::adaptive_max_pool2d.out(self, output_size, out, indices): maximum over windows that divide
// the input into `output_size`, and its row · width + column; NaN wins; float.
#include "device/runtime/kernels/portable/adaptive_window.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error adaptive_max_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto size = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  const Tensor& indices = arguments.output(3);
  Pool pool;
  if (!arguments.good() || !make_adaptive_pool(in, out, size, &pool) || !same_shape(out, indices) ||
      !same_order(out, indices)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat ||
      indices.dtype != ScalarType::kLong)
    return Error::kKernelDtype;
  for_each_window(pool, [&](int32_t from, int32_t out_row, int32_t out_column, int32_t to) {
    float best = 0;
    int64_t where = -1;
    for_each_in_window(pool, from, out_row, out_column,
                       [&](int32_t at, int32_t row, int32_t column) {
                         const float value = in.values<float>()[at];
                         if (where >= 0 && !(value > best) && value == value) return;
                         best = value;
                         where = int64_t{row} * pool.in.width + column;
                       });
    out.values<float>()[to] = best;
    indices.values<int64_t>()[to] = where;
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
