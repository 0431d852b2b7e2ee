// aten::upsample_nearest2d.out(self, output_size, scales_h, scales_w, out): float.
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/resize.h"

namespace dtr::runtime::portable {

Error upsample_nearest2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto size = arguments.ints(1);
  const double factor_h = arguments.number_or(2, 0);
  const double factor_w = arguments.number_or(3, 0);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !resizes_to(in, out, size)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const Image from = image_of(in), to = image_of(out);
  const ResizeAxis height = resize_axis(from.height, to.height, factor_h, false);
  const ResizeAxis width = resize_axis(from.width, to.width, factor_w, false);
  for_each_row(from, to, [&](int32_t plane, int32_t y, int32_t at) {
    const int32_t row = plane + height.nearest(y) * from.row_stride;
    for (int32_t x = 0; x < to.width; ++x) {
      out.values<float>()[at + x * to.column_stride] = in.values<float>()[row + width.nearest(x) * from.column_stride];
    }
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
