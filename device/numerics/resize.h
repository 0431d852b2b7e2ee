// Resizing of one axis in fixed point, and bilinear interpolation of int8 values.
//
// Source: TFLite's RESIZE_BILINEAR for int8 (reference_ops::ResizeBilinearInteger): positions and
// weights with 10 fractional bits, one rounding at the end, half away from zero. Here positions may
// have more fractional bits than weights: with 10, as a .tflite file asks for, they step as
// TFLite's do; with more, as PyTorch's real positions do, whatever the extents.
#pragma once

#include "device/numerics/requantize.h"

namespace dtr::numerics {

inline constexpr int kResizeWeightBits = 10;
inline constexpr int32_t kResizeOne = 1 << kResizeWeightBits;

// Output o of an axis is at (o · step + start) / 2^fraction_bits of the input.
struct ResizeAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t step = 0;
  int64_t start = 0;
  int32_t fraction_bits = kResizeWeightBits;

  constexpr int64_t position(int64_t o) const { return o * step + start; }
  // The input below, for nearest neighbours.
  constexpr int64_t nearest(int64_t o) const { return inside(position(o) >> fraction_bits); }

  // The inputs on both sides, and the weight of the upper one in 1/1024.
  struct Taps {
    int64_t lower = 0, upper = 0;
    int32_t weight = 0;
  };
  constexpr Taps taps(int64_t o) const {
    const int64_t at = position(o);
    const int64_t one = int64_t{1} << fraction_bits;
    const int64_t lower = inside(at / one);
    const int64_t upper = inside((at + one - 1) / one);
    const int extra = fraction_bits - kResizeWeightBits;
    const int64_t fraction = at - lower * one;
    const int64_t half = extra > 0 ? int64_t{1} << (extra - 1) : 0;
    return {lower, upper, lower == upper ? 0 : static_cast<int32_t>((fraction + half) >> extra)};
  }

 private:
  constexpr int64_t inside(int64_t index) const {
    return index < 0 ? 0 : index >= in ? in - 1 : index;
  }
};

// Of the four neighbours `lower row, lower column`, `lower, upper`, `upper, lower`, `upper, upper`.
constexpr int8_t bilinear(int32_t ll, int32_t lu, int32_t ul, int32_t uu, int32_t row_weight,
                          int32_t column_weight) {
  const int32_t lower = ll * (kResizeOne - column_weight) + lu * column_weight;
  const int32_t upper = ul * (kResizeOne - column_weight) + uu * column_weight;
  const int32_t sum = lower * (kResizeOne - row_weight) + upper * row_weight;
  constexpr int32_t kOne = 1 << (2 * kResizeWeightBits);
  return static_cast<int8_t>((sum + (sum > 0 ? kOne / 2 : -kOne / 2)) / kOne);
}

}  // namespace dtr::numerics
