// deuteron::quantized_upsample_nearest2d.out and deuteron::quantized_upsample_bilinear2d.out(input,
// rows [step, start, fraction_bits], columns [step, start, fraction_bits], out): output o of an
// axis lies at (o · step + start) / 2^fraction_bits of the input (device/numerics/resize.h). int8
// images in channels-last order.
#include "device/numerics/resize.h"

#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"

namespace dtr::runtime::cortex_m {
namespace {

bool read_axis(std::span<const int64_t> list, int32_t in, int32_t out, numerics::ResizeAxis* axis) {
  constexpr int64_t kMax = int64_t{1} << 31;
  if (list.size() != 3 || list[0] < 0 || list[0] > kMax || list[1] < -kMax || list[1] > kMax ||
      list[2] < numerics::kResizeWeightBits || list[2] > 30) {
    return false;
  }
  *axis = {in, out, list[0], list[1], static_cast<int32_t>(list[2])};
  return true;
}

// Calls pixel(y, sample, oy, ox, rows, columns) for every output pixel.
template <class Pixel>
Error resize(std::span<Value* const> values, Pixel pixel) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto rows = arguments.ints(1), columns = arguments.ints(2);
  const Tensor& out = arguments.output(3);
  Image from, to;
  numerics::ResizeAxis h, w;
  if (!arguments.good() || !read_image(in, &from) || !read_image(out, &to) ||
      from.batch != to.batch || from.channels != to.channels || from.pixels() < 1 ||
      !read_axis(rows, from.height, to.height, &h) ||
      !read_axis(columns, from.width, to.width, &w)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  if (is_empty(out)) return Error::kOk;
  int8_t* y = out.values<int8_t>();
  for (int32_t n = 0; n < to.batch; ++n) {
    const int8_t* x = in.values<int8_t>() + n * from.pixels() * from.channels;
    for (int32_t oy = 0; oy < to.height; ++oy) {
      for (int32_t ox = 0; ox < to.width; ++ox, y += to.channels) pixel(from, x, h, w, oy, ox, y);
    }
  }
  return Error::kOk;
}

const int8_t* pixel_at(const Image& image, const int8_t* x, int64_t row, int64_t column) {
  return x + (row * image.width + column) * image.channels;
}

}  // namespace

Error quantized_upsample_nearest2d_out(std::span<Value* const> values) {
  return resize(values, [](const Image& image, const int8_t* x, const numerics::ResizeAxis& h,
                           const numerics::ResizeAxis& w, int32_t oy, int32_t ox, int8_t* y) {
    std::copy_n(pixel_at(image, x, h.nearest(oy), w.nearest(ox)), image.channels, y);
  });
}

Error quantized_upsample_bilinear2d_out(std::span<Value* const> values) {
  return resize(values, [](const Image& image, const int8_t* x, const numerics::ResizeAxis& h,
                           const numerics::ResizeAxis& w, int32_t oy, int32_t ox, int8_t* y) {
    const auto row = h.taps(oy), column = w.taps(ox);
    const int8_t* const ll = pixel_at(image, x, row.lower, column.lower);
    const int8_t* const lu = pixel_at(image, x, row.lower, column.upper);
    const int8_t* const ul = pixel_at(image, x, row.upper, column.lower);
    const int8_t* const uu = pixel_at(image, x, row.upper, column.upper);
    for (int32_t c = 0; c < image.channels; ++c)
      y[c] = numerics::bilinear(ll[c], lu[c], ul[c], uu[c], row.weight, column.weight);
  });
}

}  // namespace dtr::runtime::cortex_m
