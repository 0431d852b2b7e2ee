// The loops of calibration on every instruction set of this machine, against their definitions:
// bit for bit.
#include "compiler/quantizer/loops.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "test/unit/every_target.h"

namespace dtr {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

class Loops : public test::EveryTarget {
 protected:
  // Some of them are 0 or -0.
  std::vector<float> values(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> made(count);
    for (float& value : made) {
      value = normal(random_);
      if (random_() % 8 == 0) value = random_() % 2 == 0 ? 0.0F : -0.0F;
    }
    return made;
  }
  std::mt19937 random_{11};
};

TEST_F(Loops, FiniteRangeIsThatOfTheElements) {
  for (const size_t count : {1U, 7U, 31U, 32U, 33U, 64U, 1000U}) {
    std::vector<float> elements = values(count);
    float low = elements[0], high = elements[0];
    int64_t zeros = 0;
    for (const float x : elements) {
      low = std::min(low, x);
      high = std::max(high, x);
      zeros += x == 0 ? 1 : 0;
    }
    on_each([&] {
      const FiniteRange found = finite_range(elements);
      EXPECT_TRUE(found.finite);
      EXPECT_EQ(found.range, (Range{low, high}));
      EXPECT_EQ(found.zeros, zeros);
      for (const float bad : {kInfinite, -kInfinite, std::nanf("")})
        for (const size_t at : {size_t{0}, count / 2, count - 1}) {
          const float before = std::exchange(elements[at], bad);
          EXPECT_FALSE(finite_range(elements).finite) << bad << " at " << at << " of " << count;
          elements[at] = before;
        }
    });
  }
  on_each([] { EXPECT_EQ(finite_range({}).range, Range{}); });
}

TEST_F(Loops, GreatestLeavesOutNaN) {
  for (const size_t count : {1U, 31U, 32U, 33U, 1000U})
    for (const float sign : {1.0F, -1.0F})
      for (const size_t at : {size_t{0}, count / 2, count - 1}) {
        std::vector<float> elements = values(count);
        elements[at] = sign * 9;  // above all others
        elements[at == 0 ? count - 1 : 0] = count > 1 ? std::nanf("") : sign * 9;
        on_each([&] { EXPECT_EQ(loops::greatest(elements, sign), 9) << count << ' ' << at; });
      }
  on_each([] {
    EXPECT_EQ(loops::greatest({}, 1), -kInfinite);
    EXPECT_EQ(loops::greatest(std::vector<float>(40, std::nanf("")), -1), -kInfinite);
  });
}

TEST_F(Loops, ClipMovesElementsToTheirBounds) {
  const std::vector<float> elements{-kInfinite, -3, -2, -1, 0, 1, 2, 3, kInfinite, std::nanf("")};
  std::vector<float> many;
  for (int i = 0; i < 7; ++i) many.insert(many.end(), elements.begin(), elements.end());
  on_each([&] {
    std::vector<float> clipped(many.size());
    loops::clip(many, 1, -2, 1, clipped.data());
    EXPECT_EQ((std::vector<float>(&clipped[10], &clipped[19])),
              (std::vector<float>{-2, -2, -2, -1, 0, 1, 1, 1, 1}));
    EXPECT_TRUE(std::isnan(clipped[69]));
    loops::clip(many, -1, -2, 1, clipped.data());
    EXPECT_EQ((std::vector<float>(&clipped[60], &clipped[69])),
              (std::vector<float>{-1, -1, -1, -1, 0, 1, 2, 2, 2}));
    EXPECT_TRUE(std::isnan(clipped[9]));
    loops::clip(many, 1, 2, 1, clipped.data());  // bounds in the wrong order
    EXPECT_EQ((std::vector<float>(&clipped[0], &clipped[9])),
              (std::vector<float>{2, 2, 2, 2, 2, 2, 1, 1, 1}));
  });
}

TEST_F(Loops, ObserveRowsAddsRowAfterRow) {
  for (const size_t channels : {1U, 5U, 16U, 37U}) {
    const std::vector<float> rows = values(6 * channels), start = values(channels);
    std::vector<float> sums = start, low = start, high = start;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t c = i % channels;
      sums[c] += rows[i];
      low[c] = std::min(low[c], rows[i]);
      high[c] = std::max(high[c], rows[i]);
    }
    on_each([&] {
      std::vector<float> found_sums = start, found_low = start, found_high = start;
      loops::observe_rows(rows, found_sums, found_low, found_high);
      EXPECT_EQ(found_sums, sums);
      EXPECT_EQ(found_low, low);
      EXPECT_EQ(found_high, high);
    });
  }
}

TEST_F(Loops, BinsAreFloors) {
  for (const int exponent : {-120, -9, 0, 5}) {
    std::vector<float> elements = values(100);
    for (float& x : elements) x = std::ldexp(x, exponent + 8);
    elements[1] = std::numeric_limits<float>::denorm_min();
    elements[2] = -std::numeric_limits<float>::denorm_min();
    elements[3] = std::ldexp(-3.0F, exponent);      // an edge belongs to the bin above it
    elements[4] = elements[17] = elements[99] = 0;  // has no bin
    elements[5] = -0.0F;
    std::vector<int32_t> wanted;
    for (const float x : elements)
      if (x != 0)
        wanted.push_back(static_cast<int32_t>(std::floor(std::ldexp(double{x}, -exponent))) + 7);
    on_each([&] {
      std::vector<int32_t> bins(elements.size() + loops::kBinsBeyond);
      bins.resize(loops::find_bins(
          elements, {std::ldexp(1.0F, exponent), std::ldexp(1.0F, -exponent), -7}, bins.data()));
      EXPECT_EQ(bins, wanted);
    });
  }
}

TEST_F(Loops, SquareErrorsAreSummedInTheOrderOfTheWeights) {
  const std::vector<float> weights = values(41);
  std::vector<double> scales, wanted;
  for (int i = 0; i < 13; ++i) scales.push_back(0.01 + 0.003 * i);
  for (const double scale : scales) {
    double sum = 0;
    for (const float x : weights) {
      const double error = double{x} - std::nearbyint(double{x} / scale) * scale;
      sum += error * error;
    }
    wanted.push_back(sum);
  }
  on_each([&] {
    std::vector<double> errors(scales.size(), 1);
    loops::square_errors(weights, scales, errors);
    EXPECT_EQ(errors, wanted);
  });
}

TEST_F(Loops, NearestCodesAreThoseOfTheOneElement) {
  constexpr double kScale = 0.1F;
  std::vector<float> elements = values(100);
  for (int i = -300; i < 300; ++i) elements.push_back((static_cast<float>(i) + 0.5F) * 0.1F);
  for (int i = -300; i < 300; ++i) elements.push_back((static_cast<float>(i) + 0.5F) * 0.125F);
  for (const float x : {1e38F, -1e38F, 1e-45F}) elements.push_back(x);
  for (const double scale : {kScale, 0.125, 1e-12, 1e30})
    for (const int32_t zero_point : {-128, -3, 0, 127})
      on_each([&] {
        std::vector<int8_t> codes(elements.size());
        loops::nearest_codes(elements, scale, zero_point, {-127, 127}, codes.data());
        for (size_t i = 0; i < codes.size(); ++i)
          EXPECT_EQ(codes[i],
                    numerics::nearest_code(double{elements[i]}, scale, zero_point, {-127, 127}))
              << elements[i] << " / " << scale << " + " << zero_point;
      });
}

}  // namespace
}  // namespace dtr
