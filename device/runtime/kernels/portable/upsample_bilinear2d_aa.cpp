// aten::_upsample_bilinear2d_aa.out(self, output_size, align_corners, scales_h, scales_w, out): as
// upsample_bilinear2d, where the image shrinks with a triangle that is as wide as the step between
// the results; float.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/resize.h"

namespace dtr::runtime::portable {
namespace {

// The inputs of one result along an axis, and the weight of each.
struct Triangle {
  int32_t first, end;
  float center, inverse, total = 0;

  Triangle(const ResizeAxis& axis, int32_t o) {
    const float support = std::max(axis.step, 1.0F);
    inverse = 1 / support;
    center = axis.step * (static_cast<float>(o) + 0.5F);
    first = limited(center - support + 0.5F, axis.in);
    end = limited(center + support + 0.5F, axis.in);
    for (int32_t i = first; i < end; ++i) total += raw(i);
  }
  float weight(int32_t i) const { return total != 0 ? raw(i) / total : 0.0F; }

 private:
  static int32_t limited(float at, int32_t extent) {
    if (!(at > 0)) return 0;
    return at < static_cast<float>(extent) ? static_cast<int32_t>(at) : extent;
  }
  float raw(int32_t i) const {
    return std::max(1 - std::fabs((static_cast<float>(i) - center + 0.5F) * inverse), 0.0F);
  }
};

}  // namespace

Error upsample_bilinear2d_aa_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const bool align_corners = arguments.flag(2);
  const ResizeTo size = resize_to_size(arguments, 1, 3);
  const Tensor& out = arguments.output(5);
  if (!arguments.good() || !resizes_to(in, out, size)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const Image from = image_of(in), to = image_of(out);
  const ResizeAxis height = resize_axis(from.height, to.height, size.factor_h, align_corners);
  const ResizeAxis width = resize_axis(from.width, to.width, size.factor_w, align_corners);
  for_each_row(from, to, [&](int32_t plane, int32_t y, int32_t at) {
    const Triangle rows(height, y);
    for (int32_t x = 0; x < to.width; ++x) {
      const Triangle columns(width, x);
      float sum = 0;
      for (int32_t i = rows.first; i < rows.end; ++i) {
        const float* row = in.values<float>() + plane + i * from.row_stride;
        float line = 0;
        for (int32_t j = columns.first; j < columns.end; ++j)
          line += row[j * from.column_stride] * columns.weight(j);
        sum += line * rows.weight(i);
      }
      out.values<float>()[at + x * to.column_stride] = sum;
    }
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
