// aten::upsample_nearest2d.out(self, output_size, scales_h, scales_w, out) and .vec_out(self,
// output_size, scale_factors, out): float.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/resize.h"

namespace dtr::runtime::portable {

namespace {

Error resize(const Tensor& in, const ResizeTo& size, const Tensor& out) {
  if (!resizes_to(in, out, size)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const Image from = image_of(in), to = image_of(out);
  const ResizeAxis height = resize_axis(from.height, to.height, size.factor_h, false);
  const ResizeAxis width = resize_axis(from.width, to.width, size.factor_w, false);
  for_each_row(from, to, [&](int32_t plane, int32_t y, int32_t at) {
    const int32_t row = plane + height.nearest(y) * from.row_stride;
    for (int32_t x = 0; x < to.width; ++x) {
      out.values<float>()[at + x * to.column_stride] =
          in.values<float>()[row + width.nearest(x) * from.column_stride];
    }
  });
  return Error::kOk;
}

}  // namespace

Error upsample_nearest2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const ResizeTo size = resize_to_size(arguments, 1, 2);
  const Tensor& out = arguments.output(4);
  return arguments.good() ? resize(in, size, out) : Error::kKernelArguments;
}

Error upsample_nearest2d_vec_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const ResizeTo size = resize_to_either(arguments, 1, 2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? resize(in, size, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
