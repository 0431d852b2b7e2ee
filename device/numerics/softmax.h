// Softmax of int8 values, and its logarithm, in 32-bit fixed point: exponential of negative
// numbers, sum, reciprocal.
//
// Source: TFLite's SOFTMAX for int8 (reference_ops::Softmax) with gemmlowp's definitions of exp and
// 1 / (1 + x). A number "Qm.n" has m integer and n = 31 − m fractional bits.
#pragma once

#include "device/numerics/requantize.h"

namespace dtr::numerics {

namespace fixed_point {

// x · 2^exponent, saturating.
constexpr int32_t shift_left(int32_t x, int exponent) {
  const int64_t wide = static_cast<int64_t>(x) * (int64_t{1} << exponent);
  return static_cast<int32_t>(wide > INT32_MAX ? INT32_MAX : wide < INT32_MIN ? INT32_MIN : wide);
}

// exp(x) for x in [−1/4, 0), Q0.31 to Q0.31: Taylor series of four terms around −1/8.
constexpr int32_t exp_of_small_negative(int32_t x) {
  constexpr int32_t kExpOfMinusEighth = 1895147668;
  constexpr int32_t kThird = 715827883;
  const auto mul = saturating_rounding_doubling_high_mul;
  const int32_t t = x + (1 << 28);
  const int32_t t2 = mul(t, t);
  const int32_t t3 = mul(t2, t);
  const int32_t t4_over_4 = rounding_divide_by_power_of_two(mul(t2, t2), 2);
  const int32_t terms_2_to_4 = rounding_divide_by_power_of_two(mul(t4_over_4 + t3, kThird) + t2, 1);
  return kExpOfMinusEighth + mul(kExpOfMinusEighth, t + terms_2_to_4);
}

// exp(x) for x ≤ 0, Q5.26 to Q0.31: the part below a quarter by series, every higher bit of −x by
// one multiplication.
constexpr int32_t exp_of_negative(int32_t x) {
  constexpr int kFraction = 26;
  constexpr int32_t kQuarter = 1 << (kFraction - 2);
  // exp(−2^i) in Q0.31 for i from −2 to 4.
  constexpr int32_t kFactors[] = {1672461947, 1302514674, 790015084, 290630308,
                                  39332535,   720401,     242};
  if (x == 0) return INT32_MAX;
  const int32_t low = (x & (kQuarter - 1)) - kQuarter;
  int32_t result = exp_of_small_negative(shift_left(low, 5));
  const auto rest = static_cast<int32_t>(static_cast<uint32_t>(low) - static_cast<uint32_t>(x));
  for (int i = 0; i < 7; ++i)
    if ((rest & (kQuarter << i)) != 0)
      result = saturating_rounding_doubling_high_mul(result, kFactors[i]);
  return result;
}

// 1 / (1 + x) for x in [0, 1), Q0.31 to Q0.31: three steps of Newton's iteration in Q2.29.
constexpr int32_t reciprocal_of_one_plus(int32_t x) {
  constexpr int32_t k48Over17 = 1515870810;
  constexpr int32_t kMinus32Over17 = -1010580540;
  constexpr int32_t kOne = 1 << 29;
  const auto mul = saturating_rounding_doubling_high_mul;
  const auto half_denominator = static_cast<int32_t>((static_cast<int64_t>(x) + INT32_MAX + 1) / 2);
  int32_t y = k48Over17 + mul(half_denominator, kMinus32Over17);
  for (int i = 0; i < 3; ++i) y += shift_left(mul(y, kOne - mul(half_denominator, y)), 2);
  return shift_left(y, 1);
}

}  // namespace fixed_point

// The longest row: its sum of exponentials has 12 integer bits.
constexpr int64_t kMaxSoftmaxColumns = 4095;

struct SoftmaxParameters {
  Requantization to_exponent;  // from differences of quantized values to Q5.26
  int32_t difference_min = 0;  // differences below it contribute nothing
  Requantization to_result;    // softmax: 1 / s_out; its logarithm: 2^−10 / s_out
  Requantization
      to_difference;  // logarithm: from differences to steps of the result, 16 fractional bits
  int32_t zero_point = -128;
};

// For β = 1; scales > 0. TFLite knows results of scale 1/256 and zero point −128 only.
constexpr SoftmaxParameters softmax_parameters(float scale, float scale_out = 1.0F / 256,
                                               int32_t zero_point = -128) {
  constexpr int kIntegerBits = 5;
  constexpr double kLargest = 2147483647.0;
  const double real = static_cast<double>(scale) * (1 << (31 - kIntegerBits));
  const Requantization by = quantize_multiplier(real < kLargest ? real : kLargest);
  const int64_t radius = static_cast<int64_t>((1 << kIntegerBits) - 1) << (31 - kIntegerBits);
  const int64_t differences = by.shift >= 0 ? radius >> by.shift : radius;
  return {by,
          differences > 256 ? -256 : -static_cast<int32_t>(differences),
          quantize_multiplier(1 / static_cast<double>(scale_out)),
          {},
          zero_point};
}

// The same for the logarithm. scale_out ≥ kMinLogSoftmaxScale and scale ≤ kMaxLogSoftmaxRatio ·
// scale_out, or 32 bits overflow.
constexpr float kMinLogSoftmaxScale = 0x1p-10F;
constexpr float kMaxLogSoftmaxRatio = 64;
constexpr SoftmaxParameters log_softmax_parameters(float scale, float scale_out,
                                                   int32_t zero_point) {
  SoftmaxParameters by = softmax_parameters(scale, scale_out, zero_point);
  by.to_result = quantize_multiplier(1 / (1024 * static_cast<double>(scale_out)));
  by.to_difference =
      quantize_multiplier(65536 * static_cast<double>(scale) / static_cast<double>(scale_out));
  return by;
}

namespace internal {

constexpr int kSumBits = 12;  // integer bits of the sum of exponentials, Q12.19

constexpr int32_t exponential(int32_t difference, const SoftmaxParameters& by) {
  return fixed_point::exp_of_negative(requantize(difference, by.to_exponent));
}

struct SoftmaxRow {
  int32_t highest = -128;
  uint32_t sum = 0;  // Σ exp(x − highest), Q12.19; 0 if no value takes part
};
constexpr SoftmaxRow softmax_row(const int8_t* x, int64_t count, int64_t stride,
                                 const SoftmaxParameters& by, const int8_t* mask = nullptr) {
  const auto takes_part = [mask](int64_t i) { return mask == nullptr || mask[i] != 0; };
  SoftmaxRow row;
  for (int64_t i = 0; i < count; ++i)
    if (takes_part(i) && x[i * stride] > row.highest) row.highest = x[i * stride];
  for (int64_t i = 0; i < count; ++i) {
    if (!takes_part(i)) continue;
    const int32_t difference = x[i * stride] - row.highest;
    if (difference >= by.difference_min)
      row.sum += static_cast<uint32_t>(
          rounding_divide_by_power_of_two(exponential(difference, by), kSumBits));
  }
  return row;
}

}  // namespace internal

// One row of `count` values at x[0], x[stride], …; y likewise and it may be x. The quotient is
// brought to the result's scale and rounded in one step, half away from zero, which at scale 1/256
// is TFLite's division by a power of two. With a mask, only values whose byte is not 0 take part;
// the others give 0.
constexpr void softmax(const int8_t* x, int8_t* y, int64_t count, int64_t stride,
                       const SoftmaxParameters& by, const int8_t* mask = nullptr) {
  const internal::SoftmaxRow row = internal::softmax_row(x, count, stride, by, mask);
  if (row.sum == 0) {
    for (int64_t i = 0; i < count; ++i) y[i * stride] = static_cast<int8_t>(by.zero_point);
    return;
  }
  const int leading_zeros = std::countl_zero(row.sum);
  const auto fraction = static_cast<int32_t>((row.sum << leading_zeros) - (uint32_t{1} << 31));
  const int32_t reciprocal = fixed_point::reciprocal_of_one_plus(fraction);
  const int shift = internal::kSumBits - leading_zeros + 62 - by.to_result.shift;  // at least 31
  for (int64_t i = 0; i < count; ++i) {
    const int32_t difference = x[i * stride] - row.highest;
    int64_t result = by.zero_point;
    const bool takes_part = mask == nullptr || mask[i] != 0;
    if (takes_part && difference >= by.difference_min &&
        shift <= 62) {  // beyond, the quotient is below a half
      const int32_t product =
          saturating_rounding_doubling_high_mul(reciprocal, internal::exponential(difference, by));
      result +=
          (static_cast<int64_t>(product) * by.to_result.multiplier + (int64_t{1} << (shift - 1))) >>
          shift;
    }
    y[i * stride] = static_cast<int8_t>(result < -128 ? -128 : result > 127 ? 127 : result);
  }
}

namespace fixed_point {

// ln(x · 2^−19) as Q5.26 for x ≥ 2^19: bits of the binary logarithm by repeated squaring, then ·
// ln 2. Ours: TFLite's LOG_SOFTMAX has another approximation and one scale, 1/16.
constexpr int32_t logarithm(uint32_t x) {
  constexpr int kFraction = 26;
  constexpr int64_t kLn2 = 1488522236;  // Q0.31
  const int leading_zeros = std::countl_zero(x);
  uint64_t mantissa = uint64_t{x} << leading_zeros;  // [1, 2) in Q1.31
  int64_t binary = int64_t{12 - leading_zeros} << kFraction;
  for (int bit = kFraction - 1; bit >= 0; --bit) {
    mantissa = mantissa * mantissa >> 31;
    if (mantissa >> 32 == 0) continue;
    mantissa >>= 1;
    binary += int64_t{1} << bit;
  }
  return static_cast<int32_t>((binary * kLn2 + (int64_t{1} << 30)) >> 31);
}

}  // namespace fixed_point

// The logarithm of softmax, x − max − ln Σ exp(x − max): both terms in steps of the result with 16
// fractional bits, rounded once.
constexpr void log_softmax(const int8_t* x, int8_t* y, int64_t count, int64_t stride,
                           const SoftmaxParameters& by) {
  const internal::SoftmaxRow row = internal::softmax_row(x, count, stride, by);
  const int32_t log_of_sum = requantize(fixed_point::logarithm(row.sum), by.to_result);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t steps =
        int64_t{requantize(x[i * stride] - row.highest, by.to_difference)} - log_of_sum;
    const int64_t result = ((steps + (1 << 15)) >> 16) + by.zero_point;
    y[i * stride] = static_cast<int8_t>(result < -128 ? -128 : result > 127 ? 127 : result);
  }
}

}  // namespace dtr::numerics
