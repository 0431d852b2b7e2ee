// aten::grid_sampler_2d.out(input, grid, interpolation_mode, padding_mode, align_corners, out): an
// image (N, C, H, W) at the places (N, h, w, 2) of a grid, x before y, −1 and 1 being its borders;
// float. Modes: 0 bilinear, 1 nearest, 2 bicubic; outside of the image 0 zeros, 1 its border, 2
// reflections at it.
#include <cmath>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

struct GridAxis {
  int32_t size, stride;
  int64_t padding;
  bool align_corners;

  // The pixel at a place of the grid, with a fraction. What an integer cannot hold, NaN and
  // infinity are outside of the image, at its end or at its first pixel, as in PyTorch.
  float position(float x) const {
    const auto extent = static_cast<float>(size);
    const float at = align_corners ? (x + 1) / 2 * (extent - 1) : ((x + 1) * extent - 1) / 2;
    if (std::fabs(at) <= 1e9F) return at;
    if (padding == 0) return -100.0F;
    return padding == 1 && at > 0 ? extent - 1 : 0.0F;
  }
  // Moves x into the image if the padding requires it.
  float inside(float x) const {
    if (padding == 2) x = reflected(x);
    return padding == 0 ? x : std::min(std::max(x, 0.0F), static_cast<float>(size - 1));
  }
  bool has(int32_t i) const { return i >= 0 && i < size; }

 private:
  float reflected(float x) const {
    const float low = align_corners ? 0.0F : -0.5F;
    const float span = static_cast<float>(align_corners ? size - 1 : size);
    if (span == 0) return 0;
    x = std::fabs(x - low);
    const float rest = std::fmod(x, span);
    const bool even = std::fmod(std::floor(x / span), 2.0F) == 0;
    return (even ? rest : span - rest) + low;
  }
};

float pixel(const float* plane, const GridAxis& rows, const GridAxis& columns, int32_t y,
            int32_t x) {
  return rows.has(y) && columns.has(x) ? plane[y * rows.stride + x * columns.stride] : 0.0F;
}

float bilinear(const float* plane, const GridAxis& rows, const GridAxis& columns, float y,
               float x) {
  const float top = std::floor(y), left = std::floor(x);
  const float down = y - top, right = x - left;
  const auto i = static_cast<int32_t>(top), j = static_cast<int32_t>(left);
  return pixel(plane, rows, columns, i, j) * (1 - down) * (1 - right) +
         pixel(plane, rows, columns, i, j + 1) * (1 - down) * right +
         pixel(plane, rows, columns, i + 1, j) * down * (1 - right) +
         pixel(plane, rows, columns, i + 1, j + 1) * down * right;
}

// Weights of the four neighbors of a position that is `t` behind the second.
void cubic_weights(float t, float weights[4]) {
  constexpr float kA = -0.75F;
  const auto near = [](float d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](float d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  weights[0] = far(t + 1);
  weights[1] = near(t);
  weights[2] = near(1 - t);
  weights[3] = far(2 - t);
}

float bicubic(const float* plane, const GridAxis& rows, const GridAxis& columns, float y, float x) {
  const float top = std::floor(y), left = std::floor(x);
  float down[4], right[4];
  cubic_weights(y - top, down);
  cubic_weights(x - left, right);
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    const auto row = static_cast<int32_t>(rows.inside(top + static_cast<float>(i - 1)));
    float line = 0;
    for (int j = 0; j < 4; ++j) {
      const auto column = static_cast<int32_t>(columns.inside(left + static_cast<float>(j - 1)));
      line += right[j] * pixel(plane, rows, columns, row, column);
    }
    sum += down[i] * line;
  }
  return sum;
}

}  // namespace

Error grid_sampler_2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& grid = arguments.tensor(1);
  const int64_t mode = arguments.integer(2);
  const int64_t padding = arguments.integer(3);
  const bool align_corners = arguments.flag(4);
  const Tensor& out = arguments.output(5);
  if (!arguments.good() || in.rank != 4 || grid.rank != 4 || out.rank != 4 || mode < 0 ||
      mode > 2 || padding < 0 || padding > 2 || grid.sizes[3] != 2 || in.sizes[0] != out.sizes[0] ||
      grid.sizes[0] != out.sizes[0] || in.sizes[1] != out.sizes[1] ||
      grid.sizes[1] != out.sizes[2] || grid.sizes[2] != out.sizes[3] || in.sizes[2] < 1 ||
      in.sizes[3] < 1)
    return Error::kKernelArguments;
  for (const Tensor* of : {&in, &grid, &out}) {
    if (of->dtype != ScalarType::kFloat) return Error::kKernelDtype;
  }
  const Strides from = strides_of(in), places = strides_of(grid), to = strides_of(out);
  const GridAxis rows{in.sizes[2], from.of[2], padding, align_corners};
  const GridAxis columns{in.sizes[3], from.of[3], padding, align_corners};
  Strides planes, of_grid;  // by dimension of the result
  planes.of[0] = from.of[0];
  planes.of[1] = from.of[1];
  of_grid.of[0] = places.of[0];
  of_grid.of[2] = places.of[1];
  of_grid.of[3] = places.of[2];
  for_each_offset(
      out.shape(),
      [&](int32_t at, int32_t place, int32_t k) {
        const float* plane = in.values<float>() + at;
        float x = columns.position(grid.values<float>()[place]);
        float y = rows.position(grid.values<float>()[place + places.of[3]]);
        float& result = out.values<float>()[k];
        if (mode == 2) {
          result = bicubic(plane, rows, columns, y, x);
          return;
        }
        x = columns.inside(x);
        y = rows.inside(y);
        result = mode == 0 ? bilinear(plane, rows, columns, y, x)
                           : pixel(plane, rows, columns, static_cast<int32_t>(std::nearbyint(y)),
                                   static_cast<int32_t>(std::nearbyint(x)));
      },
      planes, of_grid, to);
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
