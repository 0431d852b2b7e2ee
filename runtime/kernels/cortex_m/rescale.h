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

// x · multiplier / 2^31, rounded half up, for a multiplier ≥ 0: from −2^31 + 1 to 2^31 − 2.
[[gnu::always_inline]] inline int32_t high_product(int32_t x, int32_t multiplier) {
  return static_cast<int32_t>((static_cast<int64_t>(x) * multiplier + (1 << 30)) >> 31);
}

// numerics::requantize for a multiplier ≥ 0 and shift < 0, at most 2^30 away from 0. Half away from zero is half up of one less for
// negatives, and nothing overflows.
[[gnu::always_inline]] inline int32_t rescale_down(int32_t x, int32_t multiplier, int32_t shift) {
  const int32_t high = high_product(x, multiplier);
  return (((high + (high >> 31)) >> (-shift - 1)) + 1) >> 1;
}
// For shift ≥ 0.
inline int32_t rescale_up(int32_t x, int32_t multiplier, int32_t shift) {
  return high_product(static_cast<int32_t>(static_cast<uint32_t>(x) << shift), multiplier);
}
[[gnu::always_inline]] inline int32_t rescale(int32_t x, int32_t multiplier, int32_t shift) {
  return shift < 0 ? rescale_down(x, multiplier, shift) : rescale_up(x, multiplier, shift);
}

inline int32_t rescale(int32_t x, numerics::Requantization by) { return rescale(x, by.multiplier, by.shift); }

// numerics::requantize_with_one_rounding.
inline int32_t rescale_once(int32_t x, int32_t multiplier, int32_t shift) {
  return numerics::requantize_with_one_rounding(x, {multiplier, shift});
}

// What is left to do with a rescaled sum: zero point and range. Kernels keep a copy beside their loops: a store of int8 may change anything
// that a pointer leads to.
struct Finish {
  int32_t zero_point = 0;
  int32_t low = -128;
  int32_t high = 127;

  int8_t operator()(int32_t rescaled) const {
    int32_t sum = 0;
    if (__builtin_add_overflow(rescaled, zero_point, &sum)) sum = rescaled < 0 ? INT32_MIN : INT32_MAX;
    return clamp(sum);
  }
  // The same of a sum that is yet to be rescaled.
  [[gnu::always_inline]] int8_t operator()(int32_t sum, int32_t multiplier, int32_t shift) const {
    return shift < 0 ? clamp(rescale_down(sum, multiplier, shift) + zero_point) : (*this)(rescale_up(sum, multiplier, shift));
  }

 private:
  int8_t clamp(int32_t value) const { return static_cast<int8_t>(value < low ? low : value > high ? high : value); }
};

}  // namespace dtr::runtime::cortex_m
