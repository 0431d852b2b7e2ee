// The parts of the Cortex-M kernels: fast forms against their definitions.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/cortex_m/loops.h"
#include "runtime/kernels/cortex_m/rescale.h"

namespace dtr::runtime::cortex_m {
namespace {

TEST(CortexMKernels, AreSorted) { EXPECT_TRUE(std::ranges::is_sorted(kernels(), {}, &Kernel::name)); }

TEST(CortexMKernels, RescaleIsTheSpecification) {
  std::mt19937 random(1);
  const std::array<int32_t, 9> limits{INT32_MIN, INT32_MIN + 1, -1 << 30, -1, 0, 1, 1 << 30, INT32_MAX - 1, INT32_MAX};
  const std::array<int32_t, 5> multipliers{0, 1, 1 << 30, INT32_MAX - 1, INT32_MAX};
  for (int32_t shift = -31; shift <= 30; ++shift) {
    for (int i = 0; i < 3000; ++i) {
      const auto x = i < 45 ? limits[static_cast<size_t>(i % 9)] : static_cast<int32_t>(random()) >> random() % 32;
      const auto multiplier = i < 45 ? multipliers[static_cast<size_t>(i / 9)] : static_cast<int32_t>(random() >> 1);
      ASSERT_EQ(rescale(x, multiplier, shift), numerics::requantize(x, {multiplier, shift})) << x << " " << multiplier << " " << shift;
    }
  }
}

// Both loops on the same random operands, at every count up to three words.
class LoopForms : public testing::Test {
 protected:
  std::vector<int8_t> bytes(size_t count) {
    std::vector<int8_t> made(count);
    for (int8_t& value : made) value = static_cast<int8_t>(random_());
    return made;
  }

  template <class L, int kRows, int kColumns>
  static std::array<int32_t, kRows * kColumns> multiply(const std::vector<int8_t>& weights, const std::vector<int8_t>& x, int32_t count,
                                                        int32_t offset) {
    std::vector<int16_t> columns(static_cast<size_t>(kColumns * count));
    for (int32_t c = 0; c < kColumns; ++c) {
      const Column column{columns.data(), c, kColumns, count};
      const int32_t cleared = count / 8 * 4;  // padding in front
      L::clear(cleared, column, 0);
      L::expand(x.data() + c * count, count - cleared, offset, column, cleared);
    }
    int32_t sums[kRows][kColumns];
    for (int32_t row = 0; row < kRows; ++row)
      for (int32_t column = 0; column < kColumns; ++column) sums[row][column] = row * 10 + column;
    L::template multiply<kRows, kColumns>(weights.data(), columns.data(), count, sums);
    std::array<int32_t, kRows * kColumns> flat;
    std::copy_n(&sums[0][0], flat.size(), flat.begin());
    return flat;
  }

  std::mt19937 random_{7};
};

TEST_F(LoopForms, Multiply) {
  for (int32_t count = 0; count <= 13; ++count) {
    for (const int32_t offset : {-127, 0, 5, 128}) {
      const auto weights = bytes(size_t{2} * static_cast<size_t>(count)), x = bytes(size_t{2} * static_cast<size_t>(count));
      EXPECT_EQ((multiply<DspLoops, 2, 2>(weights, x, count, offset)), (multiply<PortableLoops, 2, 2>(weights, x, count, offset)));
      EXPECT_EQ((multiply<DspLoops, 1, 2>(weights, x, count, offset)), (multiply<PortableLoops, 1, 2>(weights, x, count, offset)));
      EXPECT_EQ((multiply<DspLoops, 2, 1>(weights, x, count, offset)), (multiply<PortableLoops, 2, 1>(weights, x, count, offset)));
    }
  }
}

TEST_F(LoopForms, MultiplyVector) {
  for (int32_t count = 0; count <= 13; ++count) {
    const auto weights = bytes(size_t{4} * static_cast<size_t>(count)), x = bytes(static_cast<size_t>(count));
    int32_t a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4};
    DspLoops::multiply_vector<4>(weights.data(), count, x.data(), 128, count, a);
    PortableLoops::multiply_vector<4>(weights.data(), count, x.data(), 128, count, b);
    EXPECT_TRUE(std::ranges::equal(a, b)) << count;
  }
}

TEST_F(LoopForms, MultiplyRectangle) {
  const auto weights = bytes(80), x = bytes(99);
  for (int32_t rows = 0; rows <= 3; ++rows) {
    for (int32_t taps = 1; taps <= 3; ++taps) {
      int32_t a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4};
      DspLoops::multiply_rectangle(weights.data(), x.data(), {6, 25, 7, 31}, rows, taps, -127, a);
      PortableLoops::multiply_rectangle(weights.data(), x.data(), {6, 25, 7, 31}, rows, taps, -127, b);
      EXPECT_TRUE(std::ranges::equal(a, b)) << rows << " " << taps;
    }
  }
}

TEST_F(LoopForms, MultiplyTaps) {
  const auto weights = bytes(60), x = bytes(60);
  for (size_t pairs = 0; pairs <= 3; ++pairs) {
    int32_t a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4};
    TapPair of_dsp[3], portable[3];
    for (size_t i = 0; i < pairs; ++i) {
      of_dsp[i].offsets[0] = portable[i].offsets[0] = static_cast<int32_t>(7 * i);
      of_dsp[i].offsets[1] = portable[i].offsets[1] = static_cast<int32_t>(55 - 3 * i);
      DspLoops::pack(weights.data() + 5 * i, weights.data() + 40 - i, &of_dsp[i]);
      PortableLoops::pack(weights.data() + 5 * i, weights.data() + 40 - i, &portable[i]);
    }
    DspLoops::multiply_taps(of_dsp, of_dsp + pairs, x.data(), 128, a);
    PortableLoops::multiply_taps(portable, portable + pairs, x.data(), 128, b);
    EXPECT_TRUE(std::ranges::equal(a, b)) << pairs;
  }
}

}  // namespace
}  // namespace dtr::runtime::cortex_m
