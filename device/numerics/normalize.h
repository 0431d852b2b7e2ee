// Normalization of int8 values: a row minus its mean, divided by its standard deviation (layer,
// group and instance normalization), or divided by its root mean square, then times a gain plus an
// offset. Freestanding, constexpr.
//
// Source: ours; TFLite has no such operator. With d = q − zero_point of n elements, S = Σ d (0 if
// the mean stays) and ε the real one:
//
//     (x − mean) / √(variance + ε) = (n·d − S) / √(n·Σd² − S² + n²·ε/s²)
//
// Numerator and radicand are exact integers, but for the radicand's last term, which is rounded
// once when the parameters are made; where n is small, the radicand has fractional bits for it. The
// inverse square root has 31 bits; the quotient is rounded to 20 fractional bits, its product with
// the gain to 8, and the sum with the offset to a whole step.
#pragma once

#include "device/numerics/requantize.h"

namespace dtr::numerics {

// Rows of more elements could overflow 64 bits.
constexpr int64_t kMaxNormalizeElements = int64_t{1} << 20;

constexpr int kNormalizedFraction = 20;  // fractional bits of the quotient; it is at most √n
constexpr int kOffsetFraction = 8;       // of the offset and of the product with the gain

// The gain is gain · 2^−gain_shift steps of the result, the offset offset · 2^−8 steps.
struct NormalizeParameter {
  int32_t gain = 0;
  int32_t offset = 0;
};

struct NormalizeRow {
  bool center = true;
  int32_t zero_point = 0;  // of the operand
  uint64_t epsilon = 0;    // n² · ε / s² in units of 2^−radicand_fraction(n), at most 2^61
};

// Fractional bits of the radicand of n elements, even. Unless all elements are equal it is at least
// n − 1: the rounding of its last term is at most 2^−12 of it.
constexpr int radicand_fraction(int64_t count) {
  int bits = 12;
  while (bits > 0 && count > 3) {
    bits -= 2;
    count >>= 2;
  }
  return bits;
}

// n² · ε / s² for elements of that scale, in units of 2^−radicand_fraction(n), limited to 2^61.
constexpr uint64_t normalize_epsilon(double epsilon, float scale, int64_t count) {
  const double n = static_cast<double>(count), s = static_cast<double>(scale);
  const double real =
      n * n * epsilon / (s * s) * static_cast<double>(int64_t{1} << radicand_fraction(count));
  constexpr uint64_t kLargest = uint64_t{1} << 61;
  const auto rounded = saturating_cast<uint64_t>(real + 0.5);
  return rounded < kLargest ? rounded : kLargest;
}

// How many fractional bits gains get when the largest absolute one is `largest` steps: as many as
// int32 holds, from 0 to 40.
constexpr int gain_shift(double largest) {
  int shift = 0;
  while (shift < 40 && largest * 2 < 1073741824.0) {
    largest *= 2;
    ++shift;
  }
  return shift;
}

// real · 2^shift to the nearest int32, ties away from zero; saturates.
constexpr int32_t to_fixed(double real, int shift) {
  for (int i = 0; i < shift; ++i) real *= 2;
  const auto rounded = saturating_cast<int32_t>(real < 0 ? real - 0.5 : real + 0.5);
  return rounded == INT32_MIN ? -INT32_MAX : rounded;
}

namespace internal {

constexpr int64_t rounding_shift_right(int64_t x, int shift) {
  return shift == 0 ? x : (x + (int64_t{1} << (shift - 1))) >> shift;
}

// ⌊√x⌋, a bit at a time.
constexpr uint64_t integer_square_root(uint64_t x) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 62; bit != 0; bit >>= 2) {
    if (x >= root + bit) {
      x -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return root;
}

}  // namespace internal

// 1 / √x = multiplier · 2^(half_shift − 61); {0, 0} for 0. x below 2^63.
struct InverseSquareRoot {
  int64_t multiplier = 0;  // at most 2^31
  int half_shift = 0;
};
constexpr InverseSquareRoot inverse_square_root(uint64_t x) {
  if (x == 0) return {};
  const int left = (std::countl_zero(x) & ~1) - 2;  // x · 2^left lies in [2^60, 2^62)
  const uint64_t root = internal::integer_square_root(left >= 0 ? x << left : x >> -left);
  return {static_cast<int64_t>(((uint64_t{1} << 61) + root / 2) / root), left / 2};
}

// What a row has in common. Sums are over its elements; |n · d − S| stays below 2^30.
struct NormalizedRow {
  int64_t count = 0, sum = 0;
  InverseSquareRoot by;

  constexpr NormalizedRow(const NormalizeRow& row, int64_t n, int64_t sum_of_differences,
                          uint64_t sum_of_squares)
      : count(n),
        sum(row.center ? sum_of_differences : 0),
        by(inverse_square_root(
            ((static_cast<uint64_t>(n) * sum_of_squares - static_cast<uint64_t>(sum * sum))
             << radicand_fraction(n)) +
            row.epsilon)) {
    by.half_shift += radicand_fraction(n) / 2;
  }

  // The result of the element q − zero_point.
  constexpr int8_t operator()(int32_t difference, NormalizeParameter parameter, int shift,
                              int32_t zero_point, Range range) const {
    const int64_t quotient = internal::rounding_shift_right(
        (count * difference - sum) * by.multiplier, 61 - kNormalizedFraction - by.half_shift);
    const int down = kNormalizedFraction + shift - kOffsetFraction;
    const int64_t steps =
        internal::rounding_shift_right(quotient * parameter.gain, down) + parameter.offset;
    const int64_t result = internal::rounding_shift_right(steps, kOffsetFraction) + zero_point;
    return static_cast<int8_t>(result < range.low    ? range.low
                               : result > range.high ? range.high
                                                     : result);
  }
};

}  // namespace dtr::numerics
