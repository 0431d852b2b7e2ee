// Fixed-point rescaling as TensorFlow Lite's integer specification does it: a real factor becomes a 32-bit mantissa and a power of
// two, and every product is rounded the same way on the reference, the NPU, and a Cortex-M. Freestanding, constexpr.
//
// Source: TensorFlow Lite 8-bit quantization specification; gemmlowp's fixed-point definitions of the two roundings.
#pragma once

#include <cstdint>

namespace dtr::numerics {

// real ≈ multiplier · 2^(shift − 31), multiplier in [2^30, 2^31) or 0. shift > 0 is a left shift.
struct Requantization {
  int32_t multiplier = 0;
  int32_t shift = 0;
  constexpr bool operator==(const Requantization&) const = default;
};

// (a · b) / 2^31 rounded to nearest, ties away from zero by adding the nudge of a's sign; saturates for a = b = INT32_MIN.
constexpr int32_t saturating_rounding_doubling_high_mul(int32_t a, int32_t b) {
  if (a == b && a == INT32_MIN) return INT32_MAX;
  const int64_t product = static_cast<int64_t>(a) * b;
  const int64_t nudge = product >= 0 ? int64_t{1} << 30 : 1 - (int64_t{1} << 30);
  return static_cast<int32_t>((product + nudge) / (int64_t{1} << 31));
}

// x / 2^exponent rounded to nearest, ties away from zero; exponent in [0, 31].
constexpr int32_t rounding_divide_by_power_of_two(int32_t x, int exponent) {
  const auto mask = static_cast<int32_t>((int64_t{1} << exponent) - 1);
  const int32_t remainder = x & mask;
  const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

// x · real of the Requantization, with TFLite's double rounding: left shift, high multiply, right shift. The left shift wraps as
// two's complement where TFLite's would overflow.
constexpr int32_t requantize(int32_t x, Requantization by) {
  const int left = by.shift > 0 ? by.shift : 0;
  const int right = by.shift > 0 ? 0 : -by.shift;
  const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(x) << left);
  return rounding_divide_by_power_of_two(saturating_rounding_doubling_high_mul(shifted, by.multiplier), right);
}

constexpr int32_t clamp(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }

}  // namespace dtr::numerics
