// The parts of the Cortex-M kernels: fast forms against their definitions.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/cortex_m/loops.h"
#include "device/runtime/kernels/cortex_m/rescale.h"

namespace dtr::runtime::cortex_m {
namespace {

TEST(CortexMKernels, AreSorted) {
  EXPECT_TRUE(std::ranges::is_sorted(kernels(), {}, &Kernel::name));
}

TEST(CortexMKernels, RescaleIsTheSpecification) {
  std::mt19937 random(1);
  const std::array<int32_t, 9> limits{INT32_MIN, INT32_MIN + 1, -1 << 30,      -1,       0,
                                      1,         1 << 30,       INT32_MAX - 1, INT32_MAX};
  const std::array<int32_t, 5> multipliers{0, 1, 1 << 30, INT32_MAX - 1, INT32_MAX};
  for (int32_t shift = -31; shift <= 30; ++shift) {
    for (int i = 0; i < 3000; ++i) {
      const auto x = i < 45 ? limits[static_cast<size_t>(i % 9)]
                            : static_cast<int32_t>(random()) >> random() % 32;
      const auto multiplier =
          i < 45 ? multipliers[static_cast<size_t>(i / 9)] : static_cast<int32_t>(random() >> 1);
      ASSERT_EQ(rescale(x, multiplier, shift), numerics::requantize(x, {multiplier, shift}))
          << x << " " << multiplier << " " << shift;
    }
  }
}

// Loops of the DSP extension and plain ones on the same random operands, at every count up to three
// words.
class LoopForms : public testing::Test {
 protected:
  std::vector<int8_t> bytes(size_t count) {
    std::vector<int8_t> made(count);
    for (int8_t& value : made) value = static_cast<int8_t>(random_());
    return made;
  }

  // Two rows and two columns; padding in front.
  template <int kRows, int kColumns>
  void check_multiply(int32_t count, int32_t offset) {
    const auto size = static_cast<size_t>(count);
    const auto weights = bytes(kRows * size);
    auto x = bytes(kColumns * size);
    std::vector<int16_t> columns(x.size());
    int32_t wide[kRows][kColumns], plain[kColumns][kRows];
    const int32_t cleared = count / 8 * 4;
    for (int32_t c = 0; c < kColumns; ++c) {
      int8_t* from = x.data() + c * count;
      std::fill_n(from, cleared, static_cast<int8_t>(-offset));
      const Column column{columns.data(), c, kColumns, count};
      DspLoops::clear(cleared, column, 0);
      DspLoops::expand(from + cleared, count - cleared, offset, column, cleared);
      for (int32_t row = 0; row < kRows; ++row) wide[row][c] = plain[c][row] = row * 10 + c;
      PortableLoops::multiply_vector<kRows>(weights.data(), count, from, offset, count, plain[c]);
    }
    DspLoops::multiply<kRows, kColumns>(weights.data(), columns.data(), count, wide);
    for (int32_t c = 0; c < kColumns; ++c)
      for (int32_t row = 0; row < kRows; ++row)
        EXPECT_EQ(wide[row][c], plain[c][row]) << count << " inputs, offset " << offset;
  }

  std::mt19937 random_{7};
};

TEST_F(LoopForms, Multiply) {
  for (int32_t count = 0; count <= 13; ++count) {
    for (const int32_t offset : {-127, 0, 5, 128}) {
      check_multiply<2, 2>(count, offset);
      check_multiply<1, 2>(count, offset);
      check_multiply<2, 1>(count, offset);
    }
  }
}

TEST_F(LoopForms, MultiplyVector) {
  for (int32_t count = 0; count <= 13; ++count) {
    const auto weights = bytes(size_t{4} * static_cast<size_t>(count)),
               x = bytes(static_cast<size_t>(count));
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
      PortableLoops::multiply_rectangle(weights.data(), x.data(), {6, 25, 7, 31}, rows, taps, -127,
                                        b);
      EXPECT_TRUE(std::ranges::equal(a, b)) << rows << " " << taps;
    }
  }
}

TEST_F(LoopForms, MultiplyTaps) {
  const auto weights = bytes(60), x = bytes(60);
  for (size_t pairs = 0; pairs <= 3; ++pairs) {
    int32_t a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4};
    TapPair made[3];
    for (size_t i = 0; i < pairs; ++i) {
      made[i].offsets[0] = static_cast<int32_t>(7 * i);
      made[i].offsets[1] = static_cast<int32_t>(55 - 3 * i);
      const size_t taps[] = {5 * i, 40 - i};
      DspLoops::pack(weights.data() + taps[0], weights.data() + taps[1], &made[i]);
      for (size_t tap = 0; tap < 2; ++tap)
        for (size_t c = 0; c < 4; ++c)
          b[c] += weights[taps[tap] + c] * (x[static_cast<size_t>(made[i].offsets[tap]) + c] + 128);
    }
    DspLoops::multiply_taps(made, made + pairs, x.data(), 128, a);
    EXPECT_TRUE(std::ranges::equal(a, b)) << pairs;
  }
}

}  // namespace
}  // namespace dtr::runtime::cortex_m
