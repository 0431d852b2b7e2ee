// aten.upsample_nearest2d: height and width resized to `output_size`, each element the nearest one.
#include "compiler/ops/resize.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const ResizeRule height = resize_rule(view, 0), width = resize_rule(view, 1);
  std::vector<int64_t> columns;
  for (int64_t o = 0; o < width.out; ++o) columns.push_back(nearest_input(width, o));
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  const int64_t planes = operands[0].elements() / (height.in * width.in);
  for (int64_t plane = 0; plane < planes; ++plane, x += height.in * width.in)
    for (int64_t o = 0; o < height.out; ++o) {
      const T* row = x + nearest_input(height, o) * width.in;
      for (const int64_t column : columns) *y++ = row[column];
    }
}

}  // namespace

constinit const OpDef kUpsampleNearest2d{
    .name = "aten.upsample_nearest2d",
    .summary = "height and width resized to `output_size` by nearest neighbours",
    .schema =
        "(Tensor self, int[] output_size "
        "| float[]? scales=None, bool align_corners=False, bool half_pixel_centers=False)",
    .traits = kKeepsQuantization,
    .verify = verify_resize,
    .infer = infer_resize,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate<int8_t>,
};

}  // namespace dtr::ops
