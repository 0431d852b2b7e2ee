// Rescaling as device/numerics/requantize.h defines it, in the fewest instructions of a core with a
// 32 × 32 → 64-bit multiplication. The judge is the definition: test/unit/cortex_m_kernels_test.cpp
// compares both.
#pragma once

#include <cstdint>

#include "device/numerics/requantize.h"

#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif

namespace dtr::runtime::cortex_m {

// Multipliers and shifts that a kernel takes: those that quantize_multiplier makes.
constexpr bool good_rescaling(int64_t multiplier, int64_t shift) {
  return multiplier >= 0 && multiplier <= INT32_MAX && shift >= -31 && shift <= 30;
}

// x · multiplier / 2^31, rounded half up, for a multiplier ≥ 0: from −2^31 + 1 to 2^31 − 2.
[[gnu::always_inline]] inline int32_t high_product(int32_t x, int32_t multiplier) {
  return static_cast<int32_t>((static_cast<int64_t>(x) * multiplier + (1 << 30)) >> 31);
}

// numerics::requantize for a multiplier ≥ 0 and shift < 0, at most 2^30 away from 0. Half away from
// zero is half up of one less for negatives, and nothing overflows.
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

inline int32_t rescale(int32_t x, numerics::Requantization by) {
  return rescale(x, by.multiplier, by.shift);
}

// numerics::requantize_with_one_rounding.
inline int32_t rescale_once(int32_t x, int32_t multiplier, int32_t shift) {
  return numerics::requantize_with_one_rounding(x, {multiplier, shift});
}

// Functions of one value or of four. Sums wrap as the machine's do: with multipliers that no
// compiler makes, they may leave int32.
inline int32_t add_wrapping(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline int32_t subtract_wrapping(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}
inline int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }
inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
// a where x ≥ 0, b elsewhere.
inline int32_t by_sign(int32_t x, int32_t a, int32_t b) { return x >= 0 ? a : b; }

#if defined(__ARM_FEATURE_MVE)
// ---- the same for four values

using Lanes = int32x4_t;

inline Lanes add_wrapping(Lanes a, Lanes b) { return vaddq_s32(a, b); }
inline Lanes subtract_wrapping(Lanes a, Lanes b) { return vsubq_s32(a, b); }
inline Lanes larger(Lanes a, Lanes b) { return vmaxq_s32(a, b); }
inline Lanes smaller(Lanes a, Lanes b) { return vminq_s32(a, b); }
inline Lanes by_sign(Lanes x, Lanes a, Lanes b) { return vpselq_s32(a, b, vcmpgeq_n_s32(x, 0)); }

// With one multiplier each; shifts ≤ 0.
[[gnu::always_inline]] inline Lanes rescale_down(Lanes x, Lanes multipliers, Lanes shifts) {
  const Lanes high = vqrdmulhq_s32(x, multipliers);
  return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(vandq_s32(high, shifts), 31)), shifts);
}
// With the same for all.
[[gnu::always_inline]] inline Lanes rescale(Lanes x, numerics::Requantization by) {
  const int32_t down = by.shift < 0 ? by.shift : 0;
  x = vqrdmulhq_n_s32(vshlq_r_s32(x, by.shift > 0 ? by.shift : 0), by.multiplier);
  return vrshlq_n_s32(vaddq_s32(x, vandq_s32(vshrq_n_s32(x, 31), vdupq_n_s32(down >> 31))), down);
}
// rescale_once for shifts ≤ 0: what a product without rounding leaves out is below the half that
// the shift rounds at, if there is one.
[[gnu::always_inline]] inline Lanes rescale_once_down(Lanes x, Lanes multipliers, Lanes shifts) {
  const mve_pred16_t unshifted = vcmpeqq_n_s32(shifts, 0);
  return vpselq_s32(vqrdmulhq_s32(x, multipliers), vrshlq_s32(vqdmulhq_s32(x, multipliers), shifts),
                    unshifted);
}

// Finish for four values.
[[gnu::always_inline]] inline Lanes finish_lanes(Lanes rescaled, int32_t zero_point, Lanes low,
                                                 Lanes high) {
  return vminq_s32(vmaxq_s32(vqaddq_n_s32(rescaled, zero_point), low), high);
}
#endif

// What is left to do with a rescaled sum: zero point and range. Kernels keep a copy beside their
// loops: a store of int8 may change anything that a pointer leads to.
struct Finish {
  int32_t zero_point = 0;
  int32_t low = -128;
  int32_t high = 127;

  int8_t operator()(int32_t rescaled) const {
    int32_t sum = 0;
    if (__builtin_add_overflow(rescaled, zero_point, &sum))
      sum = rescaled < 0 ? INT32_MIN : INT32_MAX;
    return clamp(sum);
  }
#if defined(__ARM_FEATURE_MVE)
  [[gnu::always_inline]] Lanes operator()(Lanes rescaled) const {
    return finish_lanes(rescaled, zero_point, vdupq_n_s32(low), vdupq_n_s32(high));
  }
#endif
  // The same of a sum that is yet to be rescaled.
  [[gnu::always_inline]] int8_t operator()(int32_t sum, int32_t multiplier, int32_t shift) const {
    return shift < 0 ? clamp(rescale_down(sum, multiplier, shift) + zero_point)
                     : (*this)(rescale_up(sum, multiplier, shift));
  }

 private:
  int8_t clamp(int32_t value) const {
    return static_cast<int8_t>(value < low ? low : value > high ? high : value);
  }
};

}  // namespace dtr::runtime::cortex_m
