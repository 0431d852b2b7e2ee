// Observers: the statistics that calibration collects of a value, and the quantization parameters
// computed from them.
//
// The histogram's bins are aligned to powers of two: bin i holds the elements in [i·2^e,
// (i+1)·2^e). If the range grows, the bin width doubles and neighbouring bins are added, without
// further loss. Statistics of samples therefore merge to the same counts in any order: the result
// does not depend on the number of threads. Of a value with few distinct elements (a small result,
// pixels) each element and its count are kept instead, from which the bins follow: a model whose
// recurrent layer has thousands of small values would otherwise hold 32 kB for each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/tensor.h"

namespace dtr {

struct Range {
  float min = 0;
  float max = 0;
  bool operator==(const Range&) const = default;
};

// How many elements each bin holds. Without bins: nothing was observed.
struct Histogram {
  int exponent = 0;  // bins are 2^exponent wide
  int64_t first_bin =
      0;  // index of bins.front(), which holds [first_bin, first_bin + 1)·2^exponent
  std::vector<int64_t> bins;
  bool operator==(const Histogram&) const = default;
};

class ValueStatistics {
 public:
  // The most bins of a histogram. It uses more than half of them unless all elements are nearly
  // equal.
  static constexpr int64_t kMaxBins = 4096;

  // The most distinct elements that are kept individually.
  static constexpr size_t kMaxDistinct = 1024;
  struct Element {
    float value;
    int64_t count;
    bool operator==(const Element&) const = default;
  };

  explicit ValueStatistics(bool with_histogram = true) : with_histogram_(with_histogram) {
    if (with_histogram) distinct_.emplace();
  }
  // Restores saved statistics. False if they are inconsistent (bins outside of the range, counts
  // that do not add up).
  bool restore(Range range, int64_t zeros, int64_t count, Histogram histogram);
  // The same from distinct elements, which determine all statistics. False unless they are finite
  // and ascending, with positive counts.
  bool restore(std::span<const Element> distinct);

  // Adds elements, in any order. False, with nothing added, if one is NaN or infinite.
  bool observe(std::span<const float> elements);
  void merge(const ValueStatistics& other);

  bool empty() const { return count_ == 0; }
  bool with_histogram() const { return with_histogram_; }
  int64_t count() const { return count_; }
  int64_t zeros() const { return zeros_; }  // elements that are exactly 0
  Range range() const { return range_; }
  // Counted anew at each call for a value whose distinct elements are kept.
  Histogram histogram() const;
  // The distinct elements, ascending, if they are few and there is a histogram.
  const std::optional<std::vector<Element>>& distinct() const { return distinct_; }
  bool operator==(const ValueStatistics&) const = default;

 private:
  void widen(Range range);
  void grow(int exponent);
  void keep_bins();
  void add_distinct(std::span<const Element> elements);

  bool with_histogram_;
  Range range_;
  int64_t count_ = 0;
  int64_t zeros_ = 0;
  Histogram histogram_;  // without bins while distinct_ has the elements
  std::optional<std::vector<Element>> distinct_;
};

// Statistics of each channel of a value, for bias correction and equalization. `mean` is over
// samples and positions.
struct ChannelStatistics {
  int axis = 1;
  std::vector<float> min, max;
  std::vector<double> mean;
  bool operator==(const ChannelStatistics&) const = default;
};

// Adds the elements of each channel of a tensor along `axis` to `sums`, and widens `low` and `high`
// to contain them. All three have one entry for each channel.
void observe_channels(const TensorView& tensor, size_t axis, std::span<double> sums,
                      std::span<float> low, std::span<float> high);

// Which elements a range is chosen for: those that were observed, or also those that other samples
// will probably have. kTail: beyond the largest observed element M there are n elements whose
// distances from M are exponential with mean b: b = mean − u of the 16 largest elements, which
// begin at u, n = 16·exp(−(M − u)/b); and so below the smallest. It helps where channels were
// equalized, so that the extremes of few samples are near each other; far elements of single
// channels, which few results depend on, make ranges too wide.
enum class Expected : uint8_t { kObserved, kTail };

// The range, containing zero, whose 8-bit quantization has the least expected squared error:
// rounding error (step²/12 for each element, none for exact zeros) plus the error of the elements
// that saturate. It lies inside the observed one if kObserved. Without a histogram: the observed
// range.
Range best_range(const ValueStatistics& statistics, Expected expected = Expected::kObserved);

// scale = (max − min)/(qmax − qmin) of the range widened to contain zero, at least `eps`;
// zero_point = qmin − round(min/scale), ties to even. Source: PyTorch's
// UniformQuantizationObserverBase._calculate_qparams.
Quantization affine_quantization(Range range, float eps, int32_t qmin = -128, int32_t qmax = 127);

// affine_quantization of best_range. If all distinct elements are known: of the scales up to 1/15
// wider, the one with the least error of these elements, so that few values or values on a grid
// (integers, pixels) are represented exactly; of integers, where float32 rounds the multiples of
// that scale, a power of two.
Quantization best_quantization(const ValueStatistics& statistics, float eps,
                               Expected expected = Expected::kObserved);

// scale = max(−min, max)/127, at least `eps`; −127…127, zero point 0.
Quantization symmetric_quantization(Range range, float eps);

// symmetric_quantization of each slice of `values` along `axis` (of `shape`), eps = kLeastScale, of
// zeros FLT_EPSILON, which keeps biases small; axis < 0: of all of them.
Quantization weight_quantization(std::span<const float> values, const Shape& shape, int axis);

// Widens the scales of channels with few weights by at most 1/15, to those with the least squared
// error of the weights.
void fit_weights(std::span<const float> values, const Shape& shape, Quantization& quantization);

// The range of elements, {0, 0} if there are none, how many are 0, and whether all are finite.
struct FiniteRange {
  Range range;
  int64_t zeros = 0;
  bool finite = true;
};
FiniteRange finite_range(std::span<const float> elements);

}  // namespace dtr
