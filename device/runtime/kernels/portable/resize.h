// Shared by the resizing kernels: which inputs an output position reads. Positions are computed in
// float as PyTorch does.
#pragma once

#include <cmath>

#include "device/runtime/kernels/portable/window.h"

namespace dtr::runtime::portable {

struct ResizeAxis {
  int32_t in = 1, out = 1;
  float step = 1;

  int32_t nearest(int32_t o) const { return input_at(static_cast<float>(o) * step); }
  // Inputs on both sides and the weight of the upper one.
  struct Taps {
    int32_t lower, upper;
    float weight;
  };
  Taps taps(int32_t o, bool align_corners) const {
    const auto real = static_cast<float>(o);
    const float at = align_corners ? real * step : std::max((real + 0.5F) * step - 0.5F, 0.0F);
    const int32_t lower = input_at(at);
    return {lower, std::min(lower + 1, in - 1), std::min(at - static_cast<float>(lower), 1.0F)};
  }

 private:
  // The input at a position ≥ 0 or NaN; the factors of a program may make it larger than any
  // integer.
  int32_t input_at(float position) const {
    return position < 0x1p31F ? std::min(static_cast<int32_t>(position), in - 1) : in - 1;
  }
};

// `factor`: PyTorch's scale argument, 0 for none.
inline ResizeAxis resize_axis(int32_t in, int32_t out, double factor, bool align_corners) {
  ResizeAxis axis{in, out, 0};
  if (align_corners) {
    axis.step = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0F;
  } else {
    axis.step = factor > 0 ? static_cast<float>(1.0 / factor)
                           : static_cast<float>(in) / static_cast<float>(out);
  }
  return axis;
}

// Size of the result and the factors with which positions are computed, 0 for none.
struct ResizeTo {
  std::span<const int64_t> size;
  double factor_h = 0, factor_w = 0;
  bool by_factors = false;  // the size follows from the factors
};

// Arguments (…, output_size, …, scales_h, scales_w, …).
inline ResizeTo resize_to_size(Arguments& arguments, size_t size, size_t first_factor) {
  return {arguments.ints(size), arguments.number_or(first_factor, 0),
          arguments.number_or(first_factor + 1, 0)};
}
// Arguments of the overload `vec`, which has either output_size or scale_factors.
inline ResizeTo resize_to_either(Arguments& arguments, size_t size, size_t factors) {
  if (arguments.is_none(factors)) return {arguments.ints(size)};
  const auto list = arguments.doubles(factors);
  if (list.size() != 2) return {};
  return {{}, list[0], list[1], true};
}

// [N, C, H, W] to [N, C, …].
inline bool resizes_to(const Tensor& in, const Tensor& out, const ResizeTo& to) {
  if (in.rank != 4 || out.rank != 4) return false;
  for (const int32_t extent : in.shape()) {
    if (extent < 1) return false;
  }
  if (in.sizes[0] != out.sizes[0] || in.sizes[1] != out.sizes[1] || out.sizes[2] < 1 ||
      out.sizes[3] < 1)
    return false;
  if (!to.by_factors)
    return to.size.size() == 2 && out.sizes[2] == to.size[0] && out.sizes[3] == to.size[1];
  const auto fits = [](int32_t from, double factor, int32_t size) {
    return static_cast<double>(size) == std::floor(from * factor);
  };
  return fits(in.sizes[2], to.factor_h, out.sizes[2]) &&
         fits(in.sizes[3], to.factor_w, out.sizes[3]);
}

// Calls row(offset of the plane in the input, output row, offset of the row in the output) for
// every output row.
template <class Row>
void for_each_row(const Image& in, const Image& out, Row row) {
  for (int32_t n = 0; n < out.batch; ++n) {
    for (int32_t c = 0; c < out.channels; ++c) {
      for (int32_t y = 0; y < out.height; ++y) {
        row(n * in.batch_stride + c * in.channel_stride, y,
            n * out.batch_stride + c * out.channel_stride + y * out.row_stride);
      }
    }
  }
}

}  // namespace dtr::runtime::portable
