// Rescaling as numerics/requantize.h defines it, in the fewest instructions of a core with a 32 × 32 → 64-bit multiplication. The judge is
// the definition: test/unit/cortex_m_kernels_test.cpp compares both.
#pragma once

#include <cstdint>

#include "numerics/requantize.h"

namespace dtr::runtime::cortex_m {

// Multipliers and shifts that a kernel takes: those that quantize_multiplier makes.
constexpr bool good_rescaling(int64_t multiplier, int64_t shift) {
  return multiplier >= 0 && multiplier <= INT32_MAX && shift >= -31 && shift <= 30;
}

// numerics::requantize for a multiplier ≥ 0. The product cannot be INT32_MIN, so half away from zero is half up of one less for negatives.
inline int32_t rescale(int32_t x, int32_t multiplier, int32_t shift) {
  if (shift > 0) x = static_cast<int32_t>(static_cast<uint32_t>(x) << shift);
  const auto high = static_cast<int32_t>((static_cast<int64_t>(x) * multiplier + (1 << 30)) >> 31);
  if (shift >= 0) return high;
  const int32_t half = (high + (high >> 31)) >> (-shift - 1);
  return (half >> 1) + (half & 1);
}

inline int32_t rescale(int32_t x, numerics::Requantization by) { return rescale(x, by.multiplier, by.shift); }

// numerics::requantize_with_one_rounding.
inline int32_t rescale_once(int32_t x, int32_t multiplier, int32_t shift) {
  return numerics::requantize_with_one_rounding(x, {multiplier, shift});
}

// What is left to do with a rescaled sum: zero point and range.
struct Finish {
  int32_t zero_point = 0;
  int32_t low = -128;
  int32_t high = 127;

  int8_t operator()(int32_t rescaled) const {
    int32_t sum = 0;
    if (__builtin_add_overflow(rescaled, zero_point, &sum)) sum = rescaled < 0 ? INT32_MIN : INT32_MAX;
    return static_cast<int8_t>(sum < low ? low : sum > high ? high : sum);
  }
};

}  // namespace dtr::runtime::cortex_m
