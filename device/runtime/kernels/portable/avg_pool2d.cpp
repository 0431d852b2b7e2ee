// aten::avg_pool2d.out(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
// divisor_override, out): float.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/pool.h"

namespace dtr::runtime::portable {

Error avg_pool2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto kernel = arguments.ints(1);
  const auto stride = arguments.ints(2);
  const auto padding = arguments.ints(3);
  const bool ceil = arguments.flag(4);
  const bool count_include_pad = arguments.flag(5);
  const int64_t divisor_override = arguments.is_none(6) ? 0 : arguments.integer(6);
  const Tensor& out = arguments.output(7);
  Pool pool;
  if (!arguments.good() || !make_pool(in, out, kernel, stride, padding, {}, ceil, &pool))
    return Error::kKernelArguments;
  if (!arguments.is_none(6) && divisor_override == 0) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const float* x = in.values<float>();
  // Taps of a window that lie inside the input and its padding: with ceil_mode the last window may
  // reach beyond.
  const auto padded_taps = [](const Axis& axis, int32_t position, int32_t extent) {
    return std::min(axis.start(position) + axis.kernel, extent + axis.padding) -
           axis.start(position);
  };
  for_each_window(pool, [&](int32_t from, int32_t row, int32_t column, int32_t to) {
    const auto top = pool.vertical.first_tap(row);
    const auto bottom = pool.vertical.end_tap(row, pool.in.height);
    const auto left = pool.horizontal.first_tap(column);
    const auto right = pool.horizontal.end_tap(column, pool.in.width);
    float sum = 0;
    for (auto kh = top; kh < bottom; ++kh) {
      for (auto kw = left; kw < right; ++kw) {
        sum += x[from + (pool.vertical.start(row) + kh) * pool.in.row_stride +
                 (pool.horizontal.start(column) + kw) * pool.in.column_stride];
      }
    }
    int64_t divisor = divisor_override;
    if (divisor == 0) {
      divisor = count_include_pad ? padded_taps(pool.vertical, row, pool.in.height) *
                                        padded_taps(pool.horizontal, column, pool.in.width)
                                  : (bottom - top) * (right - left);
    }
    out.values<float>()[to] = sum / static_cast<float>(divisor);
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
