// Fixed-point arithmetic at its edges: hand-computed cases, most of them already at compile time.
// LiteRT judges the rest (tflite_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "device/numerics/binary.h"
#include "device/numerics/hardswish.h"
#include "device/numerics/mean.h"
#include "device/numerics/normalize.h"
#include "device/numerics/resize.h"
#include "device/numerics/softmax.h"
#include "device/numerics/tables.h"

namespace dtr::numerics {
namespace {

// --- multipliers
static_assert(quantize_multiplier(0.0) == Requantization{0, 0});
static_assert(quantize_multiplier(-1.0) == Requantization{0, 0});
static_assert(quantize_multiplier(1.0) == Requantization{1 << 30, 1});
static_assert(quantize_multiplier(0.5) == Requantization{1 << 30, 0});
static_assert(quantize_multiplier(0.75) == Requantization{3 << 29, 0});
static_assert(quantize_multiplier(1.0 - 0x1p-40) ==
              Requantization{1 << 30, 1});  // the mantissa carries over
static_assert(quantize_multiplier(0x1p-32) == Requantization{1 << 30, -31});
static_assert(quantize_multiplier(0x1p-33) == Requantization{0, 0});
static_assert(quantize_multiplier(0x1p29) == Requantization{1 << 30, 30});
static_assert(quantize_multiplier(0x1p30) == Requantization{INT32_MAX, 30});
static_assert(quantize_multiplier(std::numeric_limits<double>::infinity()) ==
              Requantization{INT32_MAX, 30});
static_assert(quantize_multiplier(std::numeric_limits<double>::quiet_NaN()) ==
              Requantization{0, 0});
static_assert(quantize_multiplier(std::numeric_limits<double>::denorm_min()) ==
              Requantization{0, 0});

// --- roundings
static_assert(saturating_rounding_doubling_high_mul(INT32_MIN, INT32_MIN) == INT32_MAX);
static_assert(saturating_rounding_doubling_high_mul(1, 1 << 30) == 1);   // 0.5 rounds up
static_assert(saturating_rounding_doubling_high_mul(-1, 1 << 30) == 0);  // −0.5 rounds up too
static_assert(saturating_rounding_doubling_high_mul(-3, 1 << 30) == -1);
static_assert(rounding_divide_by_power_of_two(5, 1) == 3);
static_assert(rounding_divide_by_power_of_two(-5, 1) == -3);  // away from zero
static_assert(rounding_divide_by_power_of_two(-6, 2) == -2);
static_assert(rounding_divide_by_power_of_two(7, 0) == 7);
static_assert(rounding_divide_by_power_of_two(INT32_MIN, 31) == -1);
static_assert(rounding_divide_by_power_of_two(INT32_MAX, 31) == 1);
static_assert(requantize(-7, quantize_multiplier(1.0)) == -7);
static_assert(requantize(INT32_MIN, quantize_multiplier(1.0)) == 0);  // the left shift wraps
static_assert(requantize(100, quantize_multiplier(0x1p-32)) == 0);
// 21 · (1/8): the high multiply gives 10.5 → 11, the shift by 2 makes 2.75 → 3; one rounding
// of 2.625 agrees, of 2.5 it does not:
static_assert(requantize(20, quantize_multiplier(0.125)) == 3 &&
              requantize_with_one_rounding(20, quantize_multiplier(0.125)) == 3);
static_assert(requantize(-20, quantize_multiplier(0.125)) == -3 &&
              requantize_with_one_rounding(-20, quantize_multiplier(0.125)) == -2);
static_assert(requantize(19, quantize_multiplier(0.125)) == 3 &&
              requantize_with_one_rounding(19, quantize_multiplier(0.125)) == 2);
// A multiplier without shift: requantize rounds once.
static_assert(unshifted_multiplier(0.125) == Requantization{1 << 28, 0});
static_assert(requantize(19, unshifted_multiplier(0.125)) == 2 &&
              requantize(-20, unshifted_multiplier(0.125)) == -2);
static_assert(unshifted_multiplier(0x1p-13) == Requantization{1 << 18, 0});
static_assert(unshifted_multiplier(0x1p-14) == quantize_multiplier(0x1p-14));
static_assert(unshifted_multiplier(0.75) == quantize_multiplier(0.75) &&
              unshifted_multiplier(3) == quantize_multiplier(3));
static_assert(unshifted_multiplier(0) == Requantization{} &&
              unshifted_multiplier(std::numeric_limits<double>::quiet_NaN()) == Requantization{});
static_assert(requantize_with_one_rounding(INT32_MAX, {INT32_MAX, 30}) == INT32_MAX);
static_assert(requantize_with_one_rounding(INT32_MIN, {INT32_MAX, 30}) == INT32_MIN);
static_assert(round_half_away(2.5F) == 3 && round_half_away(-2.5F) == -3 &&
              round_half_away(0.49999997F) == 0);
static_assert(round_half_away(1e30F) == INT32_MAX && round_half_away(-1e30F) == INT32_MIN);
static_assert(round_half_away(std::numeric_limits<float>::quiet_NaN()) == 0);

// Reals that no integer is near to.
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
static_assert(saturating_cast<int32_t>(1e20) == INT32_MAX &&
              saturating_cast<int32_t>(-1e300) == INT32_MIN);
static_assert(saturating_cast<int64_t>(kInfinite) == INT64_MAX &&
              saturating_cast<int64_t>(-kInfinite) == INT64_MIN);
static_assert(saturating_cast<int64_t>(0x1p63) == INT64_MAX &&
              saturating_cast<int64_t>(-0x1p63) == INT64_MIN);
static_assert(saturating_cast<uint64_t>(-1.0) == 0 && saturating_cast<int8_t>(127.9) == 127 &&
              saturating_cast<int32_t>(-2.9) == -2);
static_assert(saturating_cast<int64_t>(kNotANumber) == 0 && saturating_cast<int32_t>(5e-324) == 0);
static_assert(code_of(-1e20, 0.05F, 4, {}) == -128 && code_of(1e20, 0.05F, 4, {}) == 127 &&
              code_of(-1e300, 0.05F, 4, {}) == -128);
static_assert(code_of(-kInfinite, 0.05F, 4, {}) == -128 &&
              code_of(kInfinite, 0.05F, 4, {-127, 126}) == 126);
static_assert(code_of(kNotANumber, 0.05F, 4, {}) == 4 && code_of(5e-324, 0.05F, 4, {}) == 4 &&
              code_of(0, 1e-45F, 4, {}) == 4);

TEST(Codes, AreTheEndOfTheRangeBeyondIt) {
  EXPECT_EQ(code_of(-1e300, 1e-45F, 4, {}), -128);
  EXPECT_EQ(code_of(1e-30, 1e-45F, 4, {}), 127);
  EXPECT_EQ(nearest_code(-1e300, 1e-45, 3, {-128, 127}), -128);
  EXPECT_EQ(nearest_code(kInfinite, 0.1, 3, {-127, 127}), 127);
  EXPECT_EQ(nearest_code(kNotANumber, 0.1, 3, {-128, 127}), 3);
  EXPECT_EQ(nearest_code(0.25, 0.1, 3, {-128, 127}), 5);  // 2.5: to even
  EXPECT_EQ(nearest_code(-0.25, 0.1, 3, {-128, 127}), 1);
  EXPECT_EQ(nearest_code(1e300, 1, 0, {INT32_MIN, INT32_MAX}), INT32_MAX);
}
static_assert(rounded_mean(7, 2) == 4 && rounded_mean(-7, 2) == -4 && rounded_mean(0, 3) == 0);
static_assert(saturating_add(INT32_MAX, 1) == INT32_MAX &&
              saturating_add(INT32_MIN, -1) == INT32_MIN);

// --- bounds of activations
constexpr float kInfinity = std::numeric_limits<float>::infinity();
static_assert(activation_range(0, kInfinity, 0.1F, -128, {}) == Range{-128, 127});
static_assert(activation_range(0, kInfinity, 0.1F, 127, {}) ==
              Range{127, 127});  // only zero is left
static_assert(activation_range(0, 6, 0.1F, -10, {}) == Range{-10, 50});
static_assert(activation_range(0, 6, 1e-6F, -10, {}) == Range{-10, 127});
static_assert(activation_range(-1, 1, 0.3F, 0, {}) == Range{-3, 3});
static_assert(activation_range(-kInfinity, kInfinity, 0.3F, 0, {-127, 127}) == Range{-127, 127});
static_assert(activation_range(5, 6, 0.01F, -128, {}) ==
              Range{127, 127});  // beyond what int8 can say
static_assert(activation_range(-9, -8, 0.01F, -128, {}) == Range{-128, -128});
static_assert(activation_range(1, -1, 0.1F, 0, {}) ==
              Range{-10, -10});  // min > max gives max, as in PyTorch

// --- output stage
static_assert(OutputStage{quantize_multiplier(0.5), 10, {}}(1000) == 127);
static_assert(OutputStage{quantize_multiplier(0.5), 10, {-5, 100}}(-1000) == -5);
static_assert(OutputStage{{INT32_MAX, 0}, 127, {}}(INT32_MAX) == 127);  // saturates, does not wrap

// --- sums
constexpr BinaryParameters binary(BinaryKind kind, Affine a, Affine b, Affine out) {
  return binary_parameters(kind, a, b, out, {});
}
static_assert(binary(BinaryKind::kAdd, {0.5F, 0}, {0.5F, 0}, {0.5F, 0})(3, 4) == 7);
// 127.5 − 63.75 = 63.75 = 127.5 steps
static_assert(binary(BinaryKind::kAdd, {0.5F, -128}, {0.25F, 127}, {0.5F, -128})(127, -128) == 0);
static_assert(binary(BinaryKind::kSubtract, {0.5F, 0}, {0.25F, 0}, {0.5F, 1})(3, 4) == 2);
static_assert(binary(BinaryKind::kMultiply, {0.5F, 0}, {0.25F, 10}, {0.125F, -5})(-3, 14) ==
              -17);  // −1.5 · 1
static_assert(binary(BinaryKind::kMaximum, {0.5F, 0}, {0.25F, 10}, {0.5F, 3})(2, 16) ==
              6);  // 1 and 1.5
static_assert(binary(BinaryKind::kMinimum, {0.5F, 0}, {0.25F, 10}, {0.5F, 3})(2, 16) == 5);
static_assert(binary(BinaryKind::kMaximum, {1e9F, 0}, {1e-9F, 0}, {1e-9F, 0})(1, 127) ==
              127);  // saturates, does not wrap
static_assert(binary(BinaryKind::kPrelu, {0.5F, 1}, {0.25F, 2}, {0.25F, 4})(3, 100) ==
              8);  // 1 = 4 steps
static_assert(binary(BinaryKind::kPrelu, {0.5F, 1}, {0.25F, 2}, {0.25F, 4})(-3, 6) ==
              -4);  // −2 · 1 = −8 steps

// TFLite divides the scales of PReLU's operand and result as floats: the multiplier has their 24
// bits, no more.
constexpr Requantization prelu_factor(float a, float out) {
  return binary(BinaryKind::kPrelu, {a, 0}, {1, 0}, {out, 0}).a;
}
static_assert(prelu_factor(0.1F, 0.3F) ==
              quantize_multiplier(0x1.555554p-2));  // 0.1 / 0.3 as a float
static_assert(prelu_factor(0.1F, 0.3F) !=
              quantize_multiplier(static_cast<double>(0.1F) / static_cast<double>(0.3F)));

// --- resizing: the weight of the upper neighbour is the nearest of 1/1024, of positions in 1/4096
constexpr int32_t resize_weight(int64_t position) {
  return ResizeAxis{.in = 2, .out = 1, .start = position, .fraction_bits = 12}.taps(0).weight;
}
static_assert(resize_weight(1) == 0 && resize_weight(2) == 1 && resize_weight(5) == 1 &&
              resize_weight(6) == 2);
static_assert(resize_weight(0) == 0 && resize_weight(4094) == 1024);

// --- mean: what comes out is the mean of constants, for every count
constexpr bool mean_keeps_constants() {
  for (int64_t count = 1; count < 3000; count = count * 3 + 1)
    for (int32_t q = -128; q <= 127; ++q)
      if (requantize(static_cast<int32_t>(q * count), mean_requantization(0.1F, 0.1F, count)) != q)
        return false;
  return true;
}
static_assert(mean_keeps_constants());
// Rounded once: 49 elements, one multiplication; many of them, or few, have a shift as ever.
static_assert(mean_requantization(sum_rounded_once(1, 1), 49) == Requantization{43826197, 0});
static_assert(mean_requantization(sum_rounded_once(1, 1), 64) == unshifted_multiplier(0x1p-6));
static_assert(mean_requantization(sum_rounded_once(1, 1), 1 << 20) == quantize_multiplier(0x1p-20));
static_assert(mean_requantization(sum_rounded_once(3, 1), 2) == quantize_multiplier(1.5));

// --- functions
static_assert(hardswish(0, hardswish_parameters(0.1F, 0, 0.1F, 5, {})) == 5);
static_assert(hardswish(127, hardswish_parameters(0.1F, 0, 0.1F, 0, {})) ==
              127);  // x ≥ 3: the identity
static_assert(hardswish(-128, hardswish_parameters(0.1F, 0, 0.1F, 3, {})) == 3);  // x ≤ −3: zero

constexpr bool equal_rows_are_uniform() {
  int8_t row[4] = {9, 9, 9, 9};
  softmax(row, row, 4, 1, softmax_parameters(0.1F));
  return row[0] == -64 && row[1] == -64 && row[2] == -64 && row[3] == -64;
}
static_assert(equal_rows_are_uniform());

// 1 / (1 + x) to 7 of 2^-31: what three steps of Newton's iteration leave in Q2.29; two leave
// 25,713.
constexpr bool reciprocal_has_28_bits() {
  for (int64_t x = 0; x <= INT32_MAX; x += (1 << 22) + 1) {
    const int64_t exact = (int64_t{1} << 62) / ((int64_t{1} << 31) + x);
    const int64_t off = fixed_point::reciprocal_of_one_plus(static_cast<int32_t>(x)) - exact;
    if (off < -7 || off > 7) return false;
  }
  return true;
}
static_assert(reciprocal_has_28_bits());

TEST(Numerics, SoftmaxIsWithinOneStepOfTheRealOne) {
  std::mt19937 random(7);
  for (const float scale : {1e-30F, 0.001F, 0.02F, 0.1F, 1.0F, 40.0F, 1e30F})
    for (const int64_t count : {1, 2, 10, 300, 2040, 4096}) {
      std::vector<int8_t> x(static_cast<size_t>(count));
      std::vector<int8_t> y(x.size());
      for (int8_t& value : x) value = static_cast<int8_t>(random() % 256 - 128);
      softmax(x.data(), y.data(), count, 1, softmax_parameters(scale));
      double sum = 0;
      const int highest = *std::max_element(x.begin(), x.end());
      const auto difference = [&](int8_t value) {
        return static_cast<double>(scale) * (value - highest);
      };
      for (const int8_t value : x) sum += std::exp(difference(value));
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_LE(std::abs(std::min(std::exp(difference(x[i])) / sum * 256 - 128, 127.0) - y[i]),
                  1.0)
            << scale << " " << count << " " << i;
    }
}

// Rescaling of the quotient is rounded once: half a step, and what the fixed-point exponential
// loses.
TEST(Numerics, SoftmaxOfAnyScale) {
  std::mt19937 random(8);
  for (const float scale_out : {0x1p-20F, 0.0003F, 1.0F / 256, 0.02F})
    for (const int64_t count : {1, 7, 300, 4095}) {
      const float scale = 0.03F;
      std::vector<int8_t> x(static_cast<size_t>(count)), y(x.size()), z(x.size());
      for (int8_t& value : x) value = static_cast<int8_t>(random() % 256 - 128);
      softmax(x.data(), y.data(), count, 1, softmax_parameters(scale, scale_out, -100));
      log_softmax(x.data(), z.data(), count, 1, log_softmax_parameters(scale, 0.06F, 127));
      double sum = 0;
      for (const int8_t value : x) sum += std::exp(static_cast<double>(scale) * value);
      for (size_t i = 0; i < x.size(); ++i) {
        const double real = std::exp(static_cast<double>(scale) * x[i]) / sum;
        const double steps = std::clamp(real / static_cast<double>(scale_out) - 100, -128.0, 127.0);
        EXPECT_LE(std::abs(steps - y[i]), 0.51 + 1e-5 * (steps + 100))
            << scale_out << " " << count << " " << i;
        const double log_steps =
            std::clamp(std::log(real) / static_cast<double>(0.06F) + 127, -128.0, 127.0);
        EXPECT_LE(std::abs(log_steps - z[i]), 0.501) << count << " " << i;
      }
    }
}

// Of what stands between two int8 tensors nothing is lost but the rounding of the result, whatever
// the spread of the row.
TEST(Numerics, NormalizationRoundsOnce) {
  std::mt19937 random(11);
  for (const bool center : {true, false})
    for (const int64_t count : {2, 7, 64, 1000, 30000})
      for (const int spread : {1, 3, 20, 255})
        for (const double epsilon : {0.0, 1e-5, 0.1}) {
          const float scale = 0.03F;
          const double step = std::sqrt(static_cast<double>(count)) / 120;  // |quotient| ≤ √n
          const double gain = (static_cast<double>(random() % 2000) / 1000 - 1) / step,
                       offset = static_cast<double>(random() % 600) / 100 - 3;
          std::vector<int32_t> x(static_cast<size_t>(count));
          for (int32_t& value : x)
            value = static_cast<int32_t>(random() % static_cast<unsigned>(spread + 1)) - spread / 3;
          x[0] = spread;
          x[1] = 0;
          int64_t sum = 0, squares = 0;
          for (const int32_t value : x) {
            sum += value;
            squares += value * value;
          }
          const NormalizedRow row(
              {.center = center, .epsilon = normalize_epsilon(epsilon, scale, count)}, count, sum,
              static_cast<uint64_t>(squares));
          const int shift = gain_shift(std::abs(gain));
          const double n = static_cast<double>(count),
                       mean = center ? static_cast<double>(sum) / n : 0;
          const double variance = static_cast<double>(squares) / n - mean * mean +
                                  epsilon / static_cast<double>(scale * scale);
          for (size_t i = 0; i < std::min<size_t>(x.size(), 50); ++i) {
            const int8_t y =
                row(x[i], {to_fixed(gain, shift), to_fixed(offset, kOffsetFraction)}, shift, 1, {});
            const double real = (x[i] - mean) / std::sqrt(variance) * gain + offset + 1;
            EXPECT_LE(std::abs(std::clamp(real, -128.0, 127.0) - y), 0.51)
                << count << " " << spread << " " << epsilon << " " << x[i];
          }
        }
}

TEST(Numerics, HardswishIsWithinTwoStepsOfTheRealOne) {
  for (const float scale : {0.0001F, 0.01F, 0.1F, 1.0F})
    for (const int32_t zero_point : {-128, 0, 127}) {
      const float scale_out = scale;
      const HardswishParameters by =
          hardswish_parameters(scale, zero_point, scale_out, zero_point, {});
      for (int32_t q = -128; q <= 127; ++q) {
        const double x = static_cast<double>(scale) * (q - zero_point);
        const double real =
            x * std::clamp(x + 3, 0.0, 6.0) / 6 / static_cast<double>(scale_out) + zero_point;
        EXPECT_LE(std::abs(std::clamp(real, -128.0, 127.0) - hardswish(static_cast<int8_t>(q), by)),
                  2.0)
            << scale << " " << zero_point << " " << q;
      }
    }
}

TEST(Numerics, TablesSaturateAndKeepTheZeroPoint) {
  const Table table = make_table(100.0F, 0, 1.0F / 256, -128, {}, sigmoid);
  EXPECT_EQ(table[0], -128);
  EXPECT_EQ(table[128], 0);  // sigmoid(0) = 128 / 256
  EXPECT_EQ(table[255], 127);
}

}  // namespace
}  // namespace dtr::numerics
