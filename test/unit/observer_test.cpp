// Observers against PyTorch's and against their definition.
#include "compiler/quantizer/observer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "compiler/quantizer/pattern.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::find_array;

std::vector<NamedTensor> observer_vectors() {
  return test::read_arrays(test::source_path("test/data/observer_vectors.npz"));
}

double squared_error(std::span<const float> values, double scale, double zero_point) {
  double sum = 0;
  for (const float x : values) {
    const double q =
        std::clamp(std::nearbyint(static_cast<double>(x) / scale) + zero_point, -128.0, 127.0);
    sum += std::pow((q - zero_point) * scale - static_cast<double>(x), 2);
  }
  return sum;
}

// How many elements are in each bin [i·2^e, (i+1)·2^e) of the histogram.
std::vector<int64_t> bins_by_definition(std::span<const float> values, const Histogram& histogram) {
  std::vector<int64_t> bins(histogram.bins.size());
  for (const float x : values)
    ++bins.at(
        static_cast<size_t>(std::floor(std::ldexp(static_cast<double>(x), -histogram.exponent)) -
                            static_cast<double>(histogram.first_bin)));
  return bins;
}

constexpr std::string_view kDistributions[] = {"normal",  "relu",     "relu6",    "outliers",
                                               "shifted", "growing",  "negative", "tiny",
                                               "zeros",   "one_value"};

TEST(Observer, MinMaxGivesTheParametersOfPyTorch) {
  constexpr float kEps = 0x1p-12F;  // of ExecuTorch's Neutron quantizer
  const auto arrays = observer_vectors();
  for (const std::string_view distribution : kDistributions) {
    const std::string name(distribution);
    ValueStatistics statistics(false);
    EXPECT_TRUE(statistics.observe(find_array(arrays, name)->values<float>()));
    const Quantization affine = affine_quantization(best_range(statistics), kEps);
    const auto wanted = find_array(arrays, name + "_min_max")->values<double>();
    EXPECT_EQ(affine.scale(), static_cast<float>(wanted[0])) << name;
    EXPECT_EQ(affine.zero_point(), static_cast<int>(wanted[1])) << name;
    const Quantization symmetric =
        symmetric_quantization(best_range(statistics), std::numeric_limits<float>::epsilon());
    EXPECT_EQ(symmetric.scale(),
              static_cast<float>(find_array(arrays, name + "_symmetric")->values<double>()[0]))
        << name;
  }
}

TEST(Observer, WeightScalesArePyTorchs) {
  const auto arrays = observer_vectors();
  const Tensor& weights = *find_array(arrays, "weights");
  const Quantization q = weight_quantization(weights.values<float>(), weights.shape(), 0);
  const auto wanted = find_array(arrays, "weights_scales")->values<double>();
  ASSERT_EQ(q.scales.size(), wanted.size());
  const size_t inner_size = weights.values<float>().size() / wanted.size();
  for (size_t i = 0; i < wanted.size(); ++i) {
    // Where PyTorch's observer stops at float32's epsilon, weights of 1e-9 have codes here.
    const Range range =
        finite_range(weights.values<float>().subspan(i * inner_size, inner_size)).range;
    const float largest = std::max(-range.min, range.max);
    const bool tiny = largest > 0 && largest < 127 * std::numeric_limits<float>::epsilon();
    EXPECT_EQ(tiny, i == 3);
    EXPECT_EQ(q.scales[i], tiny ? largest / 127 : static_cast<float>(wanted[i]));
  }
  EXPECT_EQ(q.qmin, -127);
  // Another axis: the maximum over the slices.
  const Quantization inner =
      weight_quantization(std::vector<float>{1, -2, 3, 4, 5, -6}, {1, 3, 2}, 2);
  EXPECT_EQ(inner.scales, (std::vector<float>{5.0F / 127, 6.0F / 127}));
}

double weight_error(std::span<const float> weights, const Quantization& q, size_t per_channel) {
  double error = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto scale = static_cast<double>(q.scales[i / per_channel]);
    const double steps = static_cast<double>(weights[i]) / scale;
    EXPECT_LE(std::abs(std::nearbyint(steps)), 127);
    error += std::pow((steps - std::nearbyint(steps)) * scale, 2);
  }
  return error;
}

TEST(Observer, FitsScalesToFewWeights) {
  std::mt19937 generator(6);
  std::normal_distribution<float> normal;
  std::vector<float> weights(32 * 9);
  for (float& x : weights) x = normal(generator);
  const Quantization plain = weight_quantization(weights, {32, 1, 3, 3}, 0);
  Quantization fitted = plain;
  fit_weights(weights, {32, 1, 3, 3}, fitted);
  for (size_t c = 0; c < 32; ++c) {
    EXPECT_GE(fitted.scales[c], plain.scales[c]);
    EXPECT_LE(fitted.scales[c], plain.scales[c] * 16 / 15);
  }
  EXPECT_LT(weight_error(weights, fitted, 9), weight_error(weights, plain, 9) * 0.6);  // 2.2 dB
  // Halves and quarters lie on codes; along the last axis too, and of one scale for all.
  for (const int axis : {1, -1}) {
    const std::vector<float> halves = {0.5F, 15, -2, 4, 7.5F, -15};
    Quantization q = weight_quantization(halves, {3, 2}, axis);
    fit_weights(halves, {3, 2}, q);
    for (size_t i = 0; i < halves.size(); ++i) {
      const float steps = halves[i] / q.scales[axis < 0 ? 0 : i % 2];
      EXPECT_NEAR(steps, std::nearbyint(steps), 0.1F) << axis << " " << i;
    }
  }
  // 65 of a channel keep the scale.
  Quantization many = weight_quantization(std::span(weights).first(130), {2, 65}, 0);
  const Quantization before = many;
  fit_weights(std::span(weights).first(130), {2, 65}, many);
  EXPECT_EQ(many, before);
}

// The histogram's range quantizes the very data with no more error than PyTorch's does.
TEST(Observer, HistogramIsNoWorseThanPyTorchs) {
  const auto arrays = observer_vectors();
  for (const std::string_view distribution : kDistributions) {
    const std::string name(distribution);
    const auto values = find_array(arrays, name)->values<float>();
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values.first(values.size() / 2)));
    EXPECT_TRUE(statistics.observe(values.subspan(values.size() / 2)));
    const Quantization ours = affine_quantization(best_range(statistics), kActivationEps);
    const auto theirs = find_array(arrays, name + "_histogram")->values<double>();
    const double error =
        squared_error(values, static_cast<double>(ours.scale()), ours.zero_point());
    EXPECT_LE(error, squared_error(values, theirs[0], theirs[1]) * 1.02)
        << name << ": scale " << ours.scale() << ", PyTorch " << theirs[0];
  }
}

double exact_squared_error(std::span<const float> values) {
  ValueStatistics statistics;
  EXPECT_TRUE(statistics.observe(values));
  const Quantization q = best_quantization(statistics, kActivationEps);
  return squared_error(values, static_cast<double>(q.scale()), q.zero_point());
}

// 17 levels of grey do not lie on 1/255 of their range; of the scales nearby, 1/15 does them
// justice.
TEST(Observer, PutsFewValuesOnCodes) {
  std::vector<float> levels;
  for (int i = 0; i < 1700; ++i) levels.push_back(static_cast<float>(i % 17));
  EXPECT_LT(exact_squared_error(levels), 1e-9);
  for (float& x : levels) x = -x;
  EXPECT_LT(exact_squared_error(levels), 1e-9);
  // Rounding of two values in steps of 1/355 costs 1.3e-6 on average, a tenth of it no more than
  // can be had.
  EXPECT_LT(exact_squared_error(std::vector<float>{0.5479121F, 0.71719587F}), 1e-7);
  EXPECT_LT(exact_squared_error(std::vector<float>{-0.3F, 0.71719587F}), 1e-7);
  EXPECT_EQ(exact_squared_error(std::vector<float>{0, 0, 0}), 0);
  // Zero has a code in any scale: no number of zeros makes a narrower one better.
  std::vector<float> sparse(10000, 0.0F);
  sparse[7] = 0.5479121F;
  sparse[99] = 0.71719587F;
  EXPECT_LT(exact_squared_error(sparse), 1e-7);
}

// The codes of integers are integers in float32, so that comparisons and conversions see them: 1 is
// not 63 codes of 1/63, which are less.
TEST(Observer, CodesOfIntegersAreIntegers) {
  for (int least = -6; least <= 0; ++least)
    for (int most = 1; most <= 300; most += most < 20 ? 1 : 37) {
      std::vector<float> values;
      for (int i = 0; i < 2000; ++i)
        values.push_back(static_cast<float>(least + i % (most - least + 1)));
      ValueStatistics statistics;
      ASSERT_TRUE(statistics.observe(values));
      const Quantization q = best_quantization(statistics, kActivationEps);
      if (most - least > 255) continue;
      for (const float x : values) {
        const auto code = static_cast<float>(std::nearbyint(x / q.scale()));
        ASSERT_EQ(code * q.scale(), x) << least << " to " << most << ", scale " << q.scale();
        ASSERT_GE(code, static_cast<float>(q.qmin - q.zero_point()));
        ASSERT_LE(code, static_cast<float>(q.qmax - q.zero_point()));
      }
    }
}

// Nothing overflows, and what has a range keeps it.
TEST(Observer, FitsExtremeElements) {
  constexpr float kMost = std::numeric_limits<float>::max(),
                  kLeast = std::numeric_limits<float>::min();
  for (const std::vector<float>& values :
       std::vector<std::vector<float>>{{kMost, -kMost},
                                       {kMost},
                                       {-kMost, 1},
                                       {kMost, kMost / 3, -kMost / 7},
                                       {1e-45F, -1e-45F},
                                       {kLeast, 3 * kLeast},
                                       {0},
                                       {1e-40F, 1}}) {
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values));
    for (const float eps : {kActivationEps, kLeast}) {
      const Quantization q = best_quantization(statistics, eps);
      EXPECT_TRUE(std::isfinite(q.scale()) && q.scale() >= eps) << values[0] << " " << q.scale();
      EXPECT_TRUE(q.zero_point() >= -128 && q.zero_point() <= 127)
          << values[0] << " " << q.zero_point();
      const double width =
          static_cast<double>(statistics.range().max) - static_cast<double>(statistics.range().min);
      EXPECT_GE(static_cast<double>(q.scale()) * 256, width) << values[0];
    }
    Quantization weights = weight_quantization(values, {static_cast<int64_t>(values.size())}, -1);
    fit_weights(values, {static_cast<int64_t>(values.size())}, weights);
    EXPECT_TRUE(std::isfinite(weights.scale()) && weights.scale() > 0) << values[0];
  }
}

// Elements that are no better off elsewhere keep the plain range.
TEST(Observer, ManyValuesKeepTheRange) {
  std::mt19937 generator(3);
  std::vector<float> values(1000);
  for (float& x : values) x = std::uniform_real_distribution<float>(-1, 1)(generator);
  ValueStatistics statistics;
  EXPECT_TRUE(statistics.observe(values));
  ASSERT_TRUE(statistics.distinct());
  EXPECT_NEAR(best_quantization(statistics, kActivationEps).scale(), 2.0F / 255, 2.0F / 255 / 100);
}

TEST(Observer, KeepsFewDistinctElements) {
  std::vector<float> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1024) - 100;
  ValueStatistics first, second;
  EXPECT_TRUE(first.observe(std::span(values).first(700)));
  EXPECT_TRUE(second.observe(std::span(values).subspan(700)));
  EXPECT_TRUE(second.observe(std::vector<float>{-0.0F, 0.0F}));
  second.merge(first);
  ASSERT_TRUE(second.distinct());
  ASSERT_EQ(second.distinct()->size(), 1024U);
  EXPECT_EQ(second.distinct()->at(0), (ValueStatistics::Element{-100, 3}));
  EXPECT_EQ(second.distinct()->at(100), (ValueStatistics::Element{0, 5}));
  ValueStatistics restored;
  EXPECT_TRUE(restored.restore(*second.distinct()));
  EXPECT_EQ(restored, second);
  EXPECT_TRUE(first.observe(std::vector<float>{0.25F}));
  first.merge(second);
  EXPECT_FALSE(first.distinct());  // 1,025
  EXPECT_FALSE(ValueStatistics(false).distinct());
}

// Ranges that do not contain zero, or nothing else.
TEST(Observer, RestoresDistinctElements) {
  for (const std::vector<float>& values :
       {std::vector<float>{1, 2, 2}, std::vector<float>{-3, -1}, std::vector<float>{0, -0.0F}}) {
    ValueStatistics observed, restored;
    EXPECT_TRUE(observed.observe(values));
    EXPECT_TRUE(restored.restore(*observed.distinct()));
    EXPECT_EQ(restored, observed) << values[0];
  }
}

// A value that first has few distinct elements and then too many to keep, in one observer and in
// merged ones, has the bins of all its elements.
TEST(Observer, CountsDistinctElementsInBinsOnceThereAreMany) {
  std::mt19937 generator(10);
  std::normal_distribution<float> normal;
  std::vector<float> values(5000);
  for (float& x : values) x = normal(generator);
  std::ranges::transform(std::span(values).first(600), values.begin(),
                         [](float x) { return std::round(4 * x) / 64; });
  ValueStatistics together, few, many, merged;
  for (size_t at = 0; at < values.size(); at += 200)
    EXPECT_TRUE(together.observe(std::span(values).subspan(at, 200)));
  EXPECT_TRUE(few.observe(std::span(values).first(600)));
  EXPECT_TRUE(few.distinct());
  EXPECT_EQ(few.histogram().bins,
            bins_by_definition(std::span(values).first(600), few.histogram()));
  EXPECT_TRUE(many.observe(std::span(values).subspan(600)));
  EXPECT_FALSE(many.distinct());
  EXPECT_FALSE(together.distinct());
  EXPECT_EQ(together.histogram().bins, bins_by_definition(values, together.histogram()));
  merged.merge(few);
  merged.merge(many);
  many.merge(few);
  EXPECT_EQ(merged, together);
  EXPECT_EQ(many, together);
}

// Few and many elements for the number of bins, half of them zero, with and without a range that
// zero is in.
TEST(Observer, CountsEachElementInItsBin) {
  std::mt19937 generator(9);
  std::normal_distribution<float> normal;
  for (const size_t count : {size_t{2999}, size_t{100003}})
    for (const bool rectified : {true, false}) {
      std::vector<float> values(count);
      for (float& x : values) {
        x = normal(generator);
        x = rectified ? std::max(x, 0.0F) : 20 + x;
      }
      if (rectified) values[5] = -0.0F;
      ValueStatistics statistics;
      EXPECT_TRUE(statistics.observe(values));
      EXPECT_EQ(statistics.histogram().bins, bins_by_definition(values, statistics.histogram()))
          << count << ' ' << rectified;
    }
}

TEST(Observer, ClipsRareOutliers) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(100000);
  for (float& x : values) x = normal(generator);
  values[7] = 100;
  ValueStatistics statistics;
  EXPECT_TRUE(statistics.observe(values));
  // Rounding costs 1e5 · (range/255)²/12, saturation 3 · (100 − max)².
  EXPECT_LT(best_range(statistics).max, 97.0F);
  const Quantization clipped = affine_quantization(best_range(statistics), kActivationEps);
  const Quantization full = affine_quantization(statistics.range(), kActivationEps);
  EXPECT_LT(squared_error(values, static_cast<double>(clipped.scale()), clipped.zero_point()),
            squared_error(values, static_cast<double>(full.scale()), full.zero_point()));
}

// n elements spread evenly over (0, 1) and one of 4. A range of [0, h] costs n · (h / 255)² / 12
// for rounding and 3 · (4 − h)² for saturation, least where n · h = 36 · 255² · (4 − h): at h = 2
// for this n, at 1 if saturation counted once, at 1.6 if twice.
TEST(Observer, SaturationCountsThreeTimes) {
  constexpr size_t kCount = 36 * 255 * 255;
  std::vector<float> values(kCount + 1, 4.0F);
  for (size_t i = 0; i < kCount; ++i) values[i] = (static_cast<float>(i) + 0.5F) / kCount;
  ValueStatistics statistics;
  EXPECT_TRUE(statistics.observe(values));
  EXPECT_NEAR(best_range(statistics).max, 2.0F, 0.01F);
}

// 114,298 elements spread evenly over (0, 1), and 16 over [2, 4], the mean 1 above 2: beyond 4
// there are n = 16 · exp(−2) elements. A range of [0, h] costs 114,314 · (h / 255)² / 12 for
// rounding and 3 · n · 2 · exp(4 − h) for saturation, least where 114,314 · h / (6 · 255²) = 6 · n
// · exp(4 − h): at h = 6.
TEST(Observer, ExpectsTheTailOfTheLargestElements) {
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> values(114'314);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = sign * (i < 16 ? 2 + static_cast<float>(i) * (2.0F / 15)
                                 : (static_cast<float>(i) - 15.5F) / 114'298);
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values));
    const Range range = best_range(statistics, Expected::kTail);
    EXPECT_NEAR(sign > 0 ? range.max : -range.min, 6.0F, 0.07F);
    EXPECT_NEAR(sign > 0 ? range.min : -range.max, 0.0F, 0.01F);
    const Range observed = best_range(statistics);
    EXPECT_LE(sign > 0 ? observed.max : -observed.min, 4.0F);
    EXPECT_EQ(best_quantization(statistics, kActivationEps, Expected::kTail),
              affine_quantization(range, kActivationEps));
  }
}

// Zeros have a code of their own, so that finer steps are worth nothing to them: a million of them,
// as a ReLU makes, leaves the range of these elements at 6.
TEST(Observer, ZerosAreNotRounded) {
  std::vector<float> values(1'114'314);
  for (size_t i = 0; i < 114'314; ++i)
    values[i] = i < 16 ? 2 + static_cast<float>(i) * (2.0F / 15)
                       : (static_cast<float>(i) - 15.5F) / 114'298;
  ValueStatistics statistics;
  EXPECT_TRUE(statistics.observe(values));
  EXPECT_NEAR(best_range(statistics, Expected::kTail).max, 6.0F, 0.07F);
}

// A bound, as that of ReLU6, which more than 16 elements reach; and 31 elements, two less than a
// tail at either end.
TEST(Observer, ExpectsNoTailAtABoundNorOfFewElements) {
  std::vector<float> bounded(1000);
  for (size_t i = 0; i < bounded.size(); ++i)
    bounded[i] = std::clamp(static_cast<float>(i) / 100 - 1, 0.0F, 6.0F);
  for (const std::span<const float> values :
       {std::span<const float>(bounded), std::span<const float>(bounded).subspan(90, 31)}) {
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values));
    EXPECT_EQ(best_range(statistics, Expected::kTail), best_range(statistics));
  }
}

// Any split of the data over any number of observers, merged in any order, is the same statistics.
TEST(Observer, MergesExactly) {
  std::mt19937 generator(9);
  std::vector<std::vector<float>> pieces;
  for (int piece = 0; piece < 24; ++piece) {
    const float spread = std::ldexp(1.0F, static_cast<int>(generator() % 60) - 50);
    std::normal_distribution<float> normal(static_cast<float>(piece % 3), spread);
    pieces.emplace_back(piece == 5 ? 20000 : 1 + generator() % 300);
    for (float& x : pieces.back()) x = normal(generator);
  }
  pieces.push_back({0, -0.0F, 1e-45F, -1e-45F, 1e-38F, -1e-38F});
  pieces.push_back({-1e-45F});
  ValueStatistics one;
  for (const auto& piece : pieces) EXPECT_TRUE(one.observe(piece));
  for (int round = 0; round < 8; ++round) {
    std::shuffle(pieces.begin(), pieces.end(), generator);
    std::vector<ValueStatistics> several(3);
    for (const auto& piece : pieces) EXPECT_TRUE(several[generator() % 3].observe(piece));
    ValueStatistics merged;
    for (const size_t i : {2, 0, 1}) merged.merge(several[i]);
    EXPECT_TRUE(merged == one);
  }
  int64_t counted = 0;
  for (const int64_t bin : one.histogram().bins) counted += bin;
  EXPECT_EQ(counted, one.count());
}

// Bins against their definition, with the hardest floats; under sanitizers this is also the bounds
// check.
TEST(Observer, CountsExtremeElements) {
  const std::vector<std::vector<float>> cases{{3.4e38F, -3.4e38F},
                                              {1e-45F},
                                              {-1e-45F},
                                              {-1000, -1e-45F},
                                              {1e38F, 1e-45F, -1e-45F},
                                              {0},
                                              {-0.0F},
                                              {5, 5, 5},
                                              {1, std::nextafter(1.0F, 2.0F)},
                                              {-1e-45F, 0}};
  for (const auto& values : cases) {
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values));
    const std::vector<int64_t> wanted = bins_by_definition(values, statistics.histogram());
    EXPECT_EQ(statistics.histogram().bins, wanted);
    EXPECT_LE(wanted.size(), static_cast<size_t>(ValueStatistics::kMaxBins));
    const Quantization q = affine_quantization(best_range(statistics), kActivationEps);
    EXPECT_TRUE(std::isfinite(q.scale()) && q.scale() > 0);
  }
}

TEST(Observer, RefusesNonFiniteElements) {
  constexpr float kLargest = std::numeric_limits<float>::infinity();
  for (const float bad : {kLargest, -kLargest, std::numeric_limits<float>::quiet_NaN()})
    for (const size_t at : {size_t{0}, size_t{15}, size_t{16}, size_t{36}}) {
      std::vector<float> values(37, 1.0F);
      values[at] = bad;
      ValueStatistics statistics;
      EXPECT_FALSE(statistics.observe(values));
      EXPECT_TRUE(statistics.empty());
    }
}

}  // namespace
}  // namespace dtr
