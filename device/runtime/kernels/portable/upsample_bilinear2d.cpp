// aten::upsample_bilinear2d.out(self, output_size, align_corners, scales_h, scales_w, out) and
// .vec_out(self, output_size, align_corners, scale_factors, out): float.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/resize.h"

namespace dtr::runtime::portable {

namespace {

Error resize(const Tensor& in, const ResizeTo& size, bool align_corners, const Tensor& out) {
  if (!resizes_to(in, out, size)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const Image from = image_of(in), to = image_of(out);
  const ResizeAxis height = resize_axis(from.height, to.height, size.factor_h, align_corners);
  const ResizeAxis width = resize_axis(from.width, to.width, size.factor_w, align_corners);
  for_each_row(from, to, [&](int32_t plane, int32_t y, int32_t at) {
    const ResizeAxis::Taps rows = height.taps(y, align_corners);
    const float* lower = in.values<float>() + plane + rows.lower * from.row_stride;
    const float* upper = in.values<float>() + plane + rows.upper * from.row_stride;
    for (int32_t x = 0; x < to.width; ++x) {
      const ResizeAxis::Taps columns = width.taps(x, align_corners);
      const auto between = [&](const float* row) {
        return row[columns.lower * from.column_stride] * (1 - columns.weight) +
               row[columns.upper * from.column_stride] * columns.weight;
      };
      out.values<float>()[at + x * to.column_stride] =
          between(lower) * (1 - rows.weight) + between(upper) * rows.weight;
    }
  });
  return Error::kOk;
}

}  // namespace

Error upsample_bilinear2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const bool align_corners = arguments.flag(2);
  const ResizeTo size = resize_to_size(arguments, 1, 3);
  const Tensor& out = arguments.output(5);
  return arguments.good() ? resize(in, size, align_corners, out) : Error::kKernelArguments;
}

Error upsample_bilinear2d_vec_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const bool align_corners = arguments.flag(2);
  const ResizeTo size = resize_to_either(arguments, 1, 3);
  const Tensor& out = arguments.output(4);
  return arguments.good() ? resize(in, size, align_corners, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
