// Fixed-point rescaling as TensorFlow Lite's integer specification does it: a real factor becomes a
// 32-bit mantissa and a power of two, and every product is rounded the same way on the reference,
// the NPU, and a Cortex-M. Freestanding, constexpr.
//
// Source: TensorFlow Lite 8-bit quantization specification; gemmlowp's fixed-point definitions of
// the two roundings. LiteRT's reference kernels round twice like this, except in FULLY_CONNECTED
// (checked by test/unit/tflite_test.cpp).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace dtr::numerics {

// real ≈ multiplier · 2^(shift − 31), multiplier in [2^30, 2^31) or 0. shift > 0 is a left shift.
struct Requantization {
  int32_t multiplier = 0;
  int32_t shift = 0;
  constexpr bool operator==(const Requantization&) const = default;
};

// The multiplier nearest to a real factor ≥ 0. Factors below 2^-32 (and NaN) give 0, factors of
// 2^30 and more the largest one.
constexpr Requantization quantize_multiplier(double real) {
  if (!(real > 0)) return {};
  const auto bits = std::bit_cast<uint64_t>(real);
  const auto exponent = static_cast<int32_t>(bits >> 52) -
                        1022;  // real = fraction · 2^exponent, fraction in [0.5, 1)
  const uint64_t fraction = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const uint64_t rounded = (fraction + (uint64_t{1} << 21)) >> 22;  // fraction · 2^31
  const bool carried = rounded == uint64_t{1} << 31;
  const int32_t shift = exponent + (carried ? 1 : 0);
  if (shift < -31) return {};
  if (shift > 30) return {INT32_MAX, 30};
  return {static_cast<int32_t>(carried ? rounded >> 1 : rounded), shift};
}

// The multiplier of a factor for values that are to be rounded once. Below one it takes no shift,
// so that only the first of the two roundings of `requantize` does anything (ties towards plus
// infinity). It is off by up to 2^-32: a result of 256 steps by 2^-24 / real of a step. Below 2^-13
// the nearest multiplier is the better one: its second rounding changes fewer results than that
// error does.
constexpr Requantization unshifted_multiplier(double real) {
  if (!(real >= 0x1p-13 && real < 0.5)) return quantize_multiplier(real);
  const double scaled = real * 0x1p31;
  const auto whole = static_cast<int32_t>(scaled);
  return {whole + (scaled - whole >= 0.5 ? 1 : 0), 0};
}

// a · b / 2^31 rounded to nearest, ties towards plus infinity; saturates for a = b = INT32_MIN.
constexpr int32_t saturating_rounding_doubling_high_mul(int32_t a, int32_t b) {
  if (a == b && a == INT32_MIN) return INT32_MAX;
  return static_cast<int32_t>((static_cast<int64_t>(a) * b + (int64_t{1} << 30)) >> 31);
}

// x / 2^exponent rounded to nearest, ties away from zero; exponent in [0, 31].
constexpr int32_t rounding_divide_by_power_of_two(int32_t x, int exponent) {
  const auto mask = static_cast<int32_t>((int64_t{1} << exponent) - 1);
  const int32_t remainder = x & mask;
  const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

// x · real of the Requantization, with TFLite's double rounding: left shift, high multiply, right
// shift. The left shift wraps as two's complement where TFLite's would overflow.
constexpr int32_t requantize(int32_t x, Requantization by) {
  const int left = by.shift > 0 ? by.shift : 0;
  const int right = by.shift > 0 ? 0 : -by.shift;
  const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(x) << left);
  return rounding_divide_by_power_of_two(
      saturating_rounding_doubling_high_mul(shifted, by.multiplier), right);
}

// The same with one rounding, ties towards plus infinity, shift at most 30: how LiteRT's
// FULLY_CONNECTED rescales its accumulators.
constexpr int32_t requantize_with_one_rounding(int32_t x, Requantization by) {
  const int shift = 31 - by.shift;
  const int64_t rounded =
      (static_cast<int64_t>(x) * by.multiplier + (int64_t{1} << (shift - 1))) >> shift;
  return static_cast<int32_t>(rounded < INT32_MIN   ? INT32_MIN
                              : rounded > INT32_MAX ? INT32_MAX
                                                    : rounded);
}

constexpr int32_t clamp(int32_t x, int32_t low, int32_t high) {
  return x < low ? low : x > high ? high : x;
}

// a + b, at the limit where it would overflow.
constexpr int32_t saturating_add(int32_t a, int32_t b) {
  const int64_t sum = static_cast<int64_t>(a) + b;
  return static_cast<int32_t>(sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum);
}

// What quantized values may be: [low, high].
struct Range {
  int32_t low = -128;
  int32_t high = 127;
  constexpr int32_t clamp(int32_t x) const { return numerics::clamp(x, low, high); }
  constexpr bool operator==(const Range&) const = default;
};

// The end of every integer operator: accumulator to quantized result.
struct OutputStage {
  Requantization by;
  int32_t zero_point = 0;
  Range range;

  constexpr int8_t operator()(int32_t accumulator) const {
    return finish(requantize(accumulator, by));
  }
  constexpr int8_t with_one_rounding(int32_t accumulator) const {
    return finish(requantize_with_one_rounding(accumulator, by));
  }
  // Of values that are rescaled already.
  constexpr int8_t finish(int32_t rescaled) const {
    return static_cast<int8_t>(range.clamp(saturating_add(rescaled, zero_point)));
  }
};

// x as an integer: its fraction is cut off; beyond the limits the limit; 0 for NaN. A plain cast of
// such reals is undefined.
template <class Integer>
constexpr Integer saturating_cast(double x) {
  constexpr Integer kLow = std::numeric_limits<Integer>::min();
  constexpr Integer kHigh = std::numeric_limits<Integer>::max();
  if (x != x) return 0;
  if (x <= static_cast<double>(kLow)) return kLow;
  if (x >= static_cast<double>(kHigh)) return kHigh;
  return static_cast<Integer>(x);
}

// x rounded to nearest, ties away from zero; saturates; 0 for NaN.
constexpr int32_t round_half_away(float x) {
  if (x != x) return 0;
  if (x >= 2147483648.0F) return INT32_MAX;
  if (x <= -2147483648.0F) return INT32_MIN;
  const auto whole = static_cast<int32_t>(x);
  const float rest = x - static_cast<float>(whole);
  return whole + (rest >= 0.5F ? 1 : 0) - (rest <= -0.5F ? 1 : 0);
}

// The quantized value nearest to a real one, not limited to any range: how activation bounds and
// constants are quantized. Source: CalculateActivationRangeQuantized of TFLite's kernel_util.
constexpr int32_t quantize_real(float real, float scale, int32_t zero_point) {
  return saturating_add(round_half_away(real / scale), zero_point);
}

// The code that stands for a real constant in a tensor, as TFLite quantizes constants: nearest,
// ties away from zero; beyond the range its end; the zero point for NaN. Every executor of one
// operator has to take the same, so that all of them call this.
constexpr int32_t code_of(double real, float scale, int32_t zero_point, Range range) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (real > kLargest) return range.high;
  if (real < -kLargest) return range.low;
  return range.clamp(quantize_real(static_cast<float>(real), scale, zero_point));
}

// The code nearest to a real number, ties to even, as PyTorch quantizes weights; beyond the range
// its end; the zero point for NaN.
inline int32_t nearest_code(double real, double scale, int32_t zero_point, Range range) {
  const double code = __builtin_nearbyint(real / scale) + zero_point;
  return code != code ? range.clamp(zero_point) : range.clamp(saturating_cast<int32_t>(code));
}

// Quantized bounds of a result that is limited to the reals [low, high]: the one rule for fused
// activations, relu and clamp. Infinite bounds do not limit. Inside `all`, also where the bounds
// lie beyond it.
constexpr Range activation_range(float low, float high, float scale, int32_t zero_point,
                                 Range all) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Range range = all;
  if (low > -kInfinity) range.low = all.clamp(quantize_real(low, scale, zero_point));
  if (high < kInfinity) range.high = all.clamp(quantize_real(high, scale, zero_point));
  if (range.low > range.high) range.low = range.high;
  return range;
}

// sum / count rounded to nearest, ties away from zero: the mean of a pool. count > 0, both far from
// the limits of int64.
constexpr int64_t rounded_mean(int64_t sum, int64_t count) {
  return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

}  // namespace dtr::numerics
