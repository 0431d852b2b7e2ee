// aten.grid_sampler_2d: an image (N, C, H, W) at the places (N, h, w, 2) of a grid, x before y,
// where −1 and 1 are its borders, or with align_corners the centers of its border pixels. Modes: 0
// bilinear, 1 nearest, 2 bicubic; outside 0 zeros, 1 the border, 2 reflections at it.
#include <cmath>

#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Type &x = view.operand(0), &grid = view.operand(1);
  if (x.quantized() || grid.quantized()) return broken(view, "an operand is quantized");
  if (x.rank() != 4 || grid.rank() != 4 || grid.shape[3] != 2 || grid.shape[0] != x.shape[0] ||
      x.shape[2] < 1 || x.shape[3] < 1 || grid.dtype != x.dtype || !is_float(x.dtype))
    return broken(
        view, fmt::format("an image {} at places {}", to_string(x.shape), to_string(grid.shape)));
  for (const std::string_view mode : {"interpolation_mode", "padding_mode"}) {
    const auto value = view.attribute<int64_t>(mode);
    if (value < 0 || value > 2) return broken(view, fmt::format("`{}` is {}", mode, value));
  }
  return {};
}

std::vector<Type> infer(const OpView& view) {
  const Shape &x = view.operand(0).shape, &grid = view.operand(1).shape;
  return {{.dtype = view.operand(0).dtype, .shape = {x[0], x[1], grid[1], grid[2]}}};
}

// The pixels along an axis that a place reads, and their weights; −1: none.
struct Taps {
  int64_t pixel[4] = {-1, -1, -1, -1};
  double weight[4] = {};
};

class GridAxis {
 public:
  GridAxis(const OpView& view, int64_t extent)
      : extent_(extent),
        mode_(view.attribute<int64_t>("interpolation_mode")),
        padding_(view.attribute<int64_t>("padding_mode")),
        aligned_(view.attribute<bool>("align_corners")) {}

  Taps taps(double place) const {
    const auto count = static_cast<double>(extent_);
    double at = aligned_ ? (place + 1) / 2 * (count - 1) : ((place + 1) * count - 1) / 2;
    Taps taps;
    if (!(std::abs(at) <= 1e9)) {  // as in PyTorch, where an integer cannot hold it
      if (padding_ == 0) return taps;
      at = padding_ == 1 && at > 0 ? count - 1 : 0;
    }
    if (mode_ == 2) {
      const double left = std::floor(at), t = at - left;
      const double distances[] = {t + 1, t, 1 - t, 2 - t};
      for (int i = 0; i < 4; ++i) {
        taps.pixel[i] = existing(padded(left + i - 1));
        taps.weight[i] = cubic(distances[i]);
      }
      return taps;
    }
    const double inside = padded(at);
    if (mode_ == 1) {
      taps.pixel[0] = existing(std::nearbyint(inside));
      taps.weight[0] = 1;
      return taps;
    }
    const double left = std::floor(inside);
    for (int i = 0; i < 2; ++i) taps.pixel[i] = existing(left + i);
    taps.weight[0] = 1 - (inside - left);
    taps.weight[1] = inside - left;
    return taps;
  }

 private:
  // Keys' kernel with a = −0.75, as PyTorch's.
  static double cubic(double d) {
    constexpr double kA = -0.75;
    if (d <= 1) return (kA + 2) * d * d * d - (kA + 3) * d * d + 1;
    return kA * (d * d * d - 5 * d * d + 8 * d - 4);
  }
  double padded(double at) const {
    if (padding_ == 0) return at;
    if (padding_ == 2) {
      const double low = aligned_ ? 0 : -0.5,
                   span = static_cast<double>(extent_) - (aligned_ ? 1 : 0);
      if (span == 0) return 0;
      const double rest = std::fmod(std::abs(at - low), 2 * span);
      at = (rest > span ? 2 * span - rest : rest) + low;
    }
    return std::clamp(at, 0.0, static_cast<double>(extent_ - 1));
  }
  int64_t existing(double pixel) const {
    return pixel >= 0 && pixel < static_cast<double>(extent_) ? static_cast<int64_t>(pixel) : -1;
  }

  int64_t extent_, mode_, padding_;
  bool aligned_;
};

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Shape &shape = operands[0].shape, &out = results[0].shape;
  const GridAxis rows(view, shape[2]), columns(view, shape[3]);
  const T* grid = operands[1].values<T>().data();
  const int64_t plane = shape[2] * shape[3], places = out[2] * out[3];
  for (int64_t n = 0; n < out[0]; ++n)
    for (int64_t place = 0; place < places; ++place, grid += 2) {
      const Taps across = columns.taps(static_cast<double>(grid[0])),
                 down = rows.taps(static_cast<double>(grid[1]));
      for (int64_t c = 0; c < out[1]; ++c) {
        const T* image = operands[0].values<T>().data() + (n * out[1] + c) * plane;
        double sum = 0;
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j)
            if (down.pixel[i] >= 0 && across.pixel[j] >= 0)
              sum += down.weight[i] * across.weight[j] *
                     static_cast<double>(image[down.pixel[i] * shape[3] + across.pixel[j]]);
        results[0].values<T>()[static_cast<size_t>((n * out[1] + c) * places + place)] =
            static_cast<T>(sum);
      }
    }
}

}  // namespace

constinit const OpDef kGridSampler2d{
    .name = "aten.grid_sampler_2d",
    .summary = "an image at the places of a grid",
    .schema =
        "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
        "bool align_corners)",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>};

}  // namespace dtr::ops
