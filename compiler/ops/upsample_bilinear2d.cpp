// aten.upsample_bilinear2d: height and width resized to `output_size`, each element interpolated
// between its four neighbours.
#include <cmath>

#include "compiler/ops/resize.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const ResizeRule height = resize_rule(view, 0), width = resize_rule(view, 1);
  const std::vector<BilinearTaps> rows = bilinear_taps(height), columns = bilinear_taps(width);
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  const int64_t planes = operands[0].elements() / (height.in * width.in);
  for (int64_t plane = 0; plane < planes; ++plane, x += height.in * width.in)
    for (const BilinearTaps& row : rows)
      for (const BilinearTaps& column : columns) {
        const auto between = [&](const T* line) {
          return static_cast<double>(line[column.lower]) * (1 - column.weight) +
                 static_cast<double>(line[column.upper]) * column.weight;
        };
        *y++ = static_cast<T>(between(x + row.lower * width.in) * (1 - row.weight) +
                              between(x + row.upper * width.in) * row.weight);
      }
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const bool as_tflite = view.attributes->find("fraction_bits") != nullptr;
  const numerics::ResizeAxis height = bilinear_axis(resize_rule(view, 0), as_tflite),
                             width = bilinear_axis(resize_rule(view, 1), as_tflite);
  const int8_t* x = operands[0].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  const int64_t planes = operands[0].elements() / (height.in * width.in);
  for (int64_t plane = 0; plane < planes; ++plane, x += height.in * width.in)
    for (int64_t oh = 0; oh < height.out; ++oh) {
      const auto row = height.taps(oh);
      const int8_t *lower = x + row.lower * width.in, *upper = x + row.upper * width.in;
      for (int64_t ow = 0; ow < width.out; ++ow) {
        const auto column = width.taps(ow);
        *y++ = numerics::bilinear(lower[column.lower], lower[column.upper], upper[column.lower],
                                  upper[column.upper], row.weight, column.weight);
      }
    }
}

}  // namespace

constinit const OpDef kUpsampleBilinear2d{
    .name = "aten.upsample_bilinear2d",
    .summary = "height and width resized to `output_size` by bilinear interpolation",
    .schema =
        "(Tensor self, int[] output_size, bool align_corners "
        "| float[]? scales=None, bool? half_pixel_centers=None, int? fraction_bits=None)",
    .traits = kKeepsQuantization,
    .verify = verify_resize,
    .infer = infer_resize,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
