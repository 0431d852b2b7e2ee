// aten::max_pool2d_with_indices.out(self, kernel_size, stride, padding, dilation, ceil_mode, out,
// indices): float; the index is row · width + column of the maximum in its channel, the first one
// of equals; NaN wins.
#include <limits>

#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/pool.h"

namespace dtr::runtime::portable {

Error max_pool2d_with_indices_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto kernel = arguments.ints(1);
  const auto stride = arguments.ints(2);
  const auto padding = arguments.ints(3);
  const auto dilation = arguments.ints(4);
  const bool ceil = arguments.flag(5);
  const Tensor& out = arguments.output(6);
  const Tensor& indices = arguments.output(7);
  Pool pool;
  if (!arguments.good() || !make_pool(in, out, kernel, stride, padding, dilation, ceil, &pool) ||
      !same_shape(out, indices) || !same_order(out, indices)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat ||
      indices.dtype != ScalarType::kLong)
    return Error::kKernelDtype;
  const float* x = in.values<float>();
  for_each_window(pool, [&](int32_t from, int32_t row, int32_t column, int32_t to) {
    const Taps vertical = taps_of(pool.vertical, row, pool.in.height),
               horizontal = taps_of(pool.horizontal, column, pool.in.width);
    const auto down = static_cast<int32_t>(pool.vertical.dilation),
               right = static_cast<int32_t>(pool.horizontal.dilation);
    float max = -std::numeric_limits<float>::infinity();
    int32_t where = -1;
    for (int32_t i = 0, in_row = vertical.from; i < vertical.count; ++i, in_row += down) {
      for (int32_t j = 0, in_column = horizontal.from; j < horizontal.count;
           ++j, in_column += right) {
        const float value =
            x[from + in_row * pool.in.row_stride + in_column * pool.in.column_stride];
        if (where < 0 || value > max || value != value) {
          max = value;
          where = in_row * pool.in.width + in_column;
        }
      }
    }
    out.values<float>()[to] = max;
    indices.values<int64_t>()[to] = where;
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
