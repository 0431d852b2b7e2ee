// Sum and mean of int8 values over any number of elements, rescaled in the same step.
//
// Source: TFLite's SUM and MEAN (QuantizedMeanOrSum): for a mean the division by the count is
// folded into the multiplier.
#pragma once

#include "device/numerics/requantize.h"

namespace dtr::numerics {

// Factor from Σ (q − zero_point) to the steps of the sum.
constexpr Requantization sum_requantization(float scale_in, float scale_out) {
  return quantize_multiplier(static_cast<double>(scale_in) / static_cast<double>(scale_out));
}

// The same for sums and means that are to be rounded once: a multiplier below 2^30, by which
// mean_requantization knows it.
constexpr Requantization sum_rounded_once(float scale_in, float scale_out) {
  const Requantization by = sum_requantization(scale_in, scale_out);
  return {by.multiplier >> 1, by.shift + 1};
}

// Factor from Σ (q − zero_point) over `count` elements to the result's steps, from that of the sum.
// count ≥ 1. Of a sum that is rounded once, as unshifted_multiplier.
constexpr Requantization mean_requantization(Requantization by, int64_t count) {
  constexpr int32_t kHalf = 1 << 30, kLeast = 1 << 18;
  if (by.multiplier > 0 && by.multiplier < kHalf) {
    const int64_t divisor = count << (by.shift > 0 ? 0 : -by.shift);
    const int64_t multiplier =
        ((static_cast<int64_t>(by.multiplier) << (by.shift > 0 ? by.shift : 0)) + divisor / 2) /
        divisor;
    if (multiplier >= kLeast && multiplier < kHalf) return {static_cast<int32_t>(multiplier), 0};
    if (by.shift > -31) by = {by.multiplier << 1, by.shift - 1};
  }
  int32_t shift = 63 - std::countl_zero(static_cast<uint64_t>(count));
  if (shift > 32) shift = 32;
  if (shift > 31 + by.shift) shift = 31 + by.shift;
  return {static_cast<int32_t>((static_cast<int64_t>(by.multiplier) << shift) / count),
          by.shift - shift};
}
constexpr Requantization mean_requantization(float scale_in, float scale_out, int64_t count) {
  return mean_requantization(sum_requantization(scale_in, scale_out), count);
}

}  // namespace dtr::numerics
