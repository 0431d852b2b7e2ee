// Softmax of int8 values in 32-bit fixed point: exponential of negative numbers, sum, reciprocal.
//
// Source: TFLite's SOFTMAX for int8 (reference_ops::Softmax) with gemmlowp's definitions of exp and 1 / (1 + x). A number "Qm.n"
// has m integer and n = 31 − m fractional bits.
#pragma once

#include "numerics/requantize.h"

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

// exp(x) for x ≤ 0, Q5.26 to Q0.31: the part below a quarter by series, every higher bit of −x by one multiplication.
constexpr int32_t exp_of_negative(int32_t x) {
  constexpr int kFraction = 26;
  constexpr int32_t kQuarter = 1 << (kFraction - 2);
  // exp(−2^i) in Q0.31 for i from −2 to 4.
  constexpr int32_t kFactors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  if (x == 0) return INT32_MAX;
  const int32_t low = (x & (kQuarter - 1)) - kQuarter;
  int32_t result = exp_of_small_negative(shift_left(low, 5));
  const auto rest = static_cast<int32_t>(static_cast<uint32_t>(low) - static_cast<uint32_t>(x));
  for (int i = 0; i < 7; ++i)
    if ((rest & (kQuarter << i)) != 0) result = saturating_rounding_doubling_high_mul(result, kFactors[i]);
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

struct SoftmaxParameters {
  Requantization to_exponent;  // from differences of quantized values to Q5.26
  int32_t difference_min = 0;  // differences below it contribute nothing
};

// For β = 1; scale > 0.
constexpr SoftmaxParameters softmax_parameters(float scale) {
  constexpr int kIntegerBits = 5;
  constexpr double kLargest = 2147483647.0;
  const double real = static_cast<double>(scale) * (1 << (31 - kIntegerBits));
  const Requantization by = quantize_multiplier(real < kLargest ? real : kLargest);
  const int64_t radius = static_cast<int64_t>((1 << kIntegerBits) - 1) << (31 - kIntegerBits);
  const int64_t differences = by.shift >= 0 ? radius >> by.shift : radius;
  return {by, differences > 256 ? -256 : -static_cast<int32_t>(differences)};
}

// One row of `count` values at x[0], x[stride], …; y likewise and it may be x. The result has scale 1/256 and zero point −128.
constexpr void softmax(const int8_t* x, int8_t* y, int64_t count, int64_t stride, const SoftmaxParameters& by) {
  constexpr int kSumBits = 12;  // integer bits of the sum, Q12.19
  int32_t highest = -128;
  for (int64_t i = 0; i < count; ++i) highest = x[i * stride] > highest ? x[i * stride] : highest;
  const auto exponential = [&](int32_t difference) { return fixed_point::exp_of_negative(requantize(difference, by.to_exponent)); };
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t difference = x[i * stride] - highest;
    if (difference >= by.difference_min) sum += static_cast<uint32_t>(rounding_divide_by_power_of_two(exponential(difference), kSumBits));
  }
  const int leading_zeros = std::countl_zero(sum);
  const auto fraction = static_cast<int32_t>((sum << leading_zeros) - (uint32_t{1} << 31));
  const int32_t reciprocal = fixed_point::reciprocal_of_one_plus(fraction);
  const int shift = kSumBits - leading_zeros + 31 - 8;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t difference = x[i * stride] - highest;
    int32_t result = -128;
    if (difference >= by.difference_min) {
      const int32_t product = saturating_rounding_doubling_high_mul(reciprocal, exponential(difference));
      // Beyond 31 the quotient is below a half; gemmlowp's division is not defined there.
      result = shift > 31 ? -128 : clamp(rounding_divide_by_power_of_two(product, shift) - 128, -128, 127);
    }
    y[i * stride] = static_cast<int8_t>(result);
  }
}

}  // namespace dtr::numerics
