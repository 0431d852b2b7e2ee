// Observers: what calibration remembers of a value, and the quantization parameters that follow
// from it.
//
// The histogram's bins are aligned to powers of two: bin i holds the elements in [i·2^e,
// (i+1)·2^e). A growing range doubles the width, which adds neighbouring bins and loses nothing
// else, so statistics of samples merge to the same counts in any order and grouping: the result
// does not depend on the number of threads. Of a value with few distinct elements (a small result,
// pixels) each one and its count are kept beside.
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

class ValueStatistics {
 public:
  // A range takes at most this many bins, and more than half of it unless all elements are nearly
  // equal.
  static constexpr int64_t kMaxBins = 4096;

  // Up to this many distinct elements are kept as they are.
  static constexpr size_t kMaxDistinct = 1024;
  struct Element {
    float value;
    int64_t count;
    bool operator==(const Element&) const = default;
  };

  explicit ValueStatistics(bool with_histogram = true) : with_histogram_(with_histogram) {
    if (with_histogram) distinct_.emplace();
  }
  // As loaded from a file. False unless the numbers fit together (bins inside the range, counts
  // that add up).
  bool restore(Range range, int64_t zeros, int64_t count, int exponent, int64_t first_bin,
               std::vector<int64_t> bins);
  // The same from elements: they say it all. False unless they are finite, in ascending order and
  // counted.
  bool restore(std::span<const Element> distinct);

  // Adds elements, in any order. False, with nothing added, if one is NaN or infinite.
  bool observe(std::span<const float> elements);
  void merge(const ValueStatistics& other);

  bool empty() const { return count_ == 0; }
  bool with_histogram() const { return with_histogram_; }
  int64_t count() const { return count_; }
  int64_t zeros() const { return zeros_; }  // elements that are exactly 0
  Range range() const { return range_; }
  int exponent() const { return exponent_; }        // bins are 2^exponent wide
  int64_t first_bin() const { return first_bin_; }  // index of bins().front()
  std::span<const int64_t> bins() const { return bins_; }
  // All elements by value, ascending, if they are few (and there is a histogram).
  const std::optional<std::vector<Element>>& distinct() const { return distinct_; }
  bool operator==(const ValueStatistics&) const = default;

 private:
  void grow(Range range, int exponent);
  void add_distinct(std::span<const Element> elements);

  bool with_histogram_;
  Range range_;
  int64_t count_ = 0;
  int64_t zeros_ = 0;
  int exponent_ = 0;
  int64_t first_bin_ = 0;
  std::vector<int64_t> bins_;
  std::optional<std::vector<Element>> distinct_;
};

// What bias correction and equalization know of the channels of a value. `mean` is over samples and
// positions.
struct ChannelStatistics {
  int axis = 1;
  std::vector<float> min, max;
  std::vector<double> mean;
  bool operator==(const ChannelStatistics&) const = default;
};

// Adds the elements of each channel of a tensor along `axis` to `sums`, and widens `low` and `high`
// to hold them. All three have one entry a channel.
void observe_channels(const TensorView& tensor, size_t axis, std::span<double> sums,
                      std::span<float> low, std::span<float> high);

// The range, inside the observed one and around zero, whose 8-bit quantization has the least
// expected squared error: rounding error (step²/12 an element, none for exact zeros) plus the error
// of the elements that saturate. Without a histogram: the observed range.
Range best_range(const ValueStatistics& statistics);

// scale = (max − min)/(qmax − qmin) of the range widened to contain zero, at least `eps`;
// zero_point = qmin − round(min/scale), ties to even. Source: PyTorch's
// UniformQuantizationObserverBase._calculate_qparams.
Quantization affine_quantization(Range range, float eps, int32_t qmin = -128, int32_t qmax = 127);

// affine_quantization of best_range. Where the elements are known one by one: the scale nearby, up
// to 1/15 wider, with the least error of these very elements, so that a few values, or values on a
// grid of their own (integers, pixels), lie on codes.
Quantization best_quantization(const ValueStatistics& statistics, float eps);

// scale = max(−min, max)/127, at least `eps`; −127…127, zero point 0.
Quantization symmetric_quantization(Range range, float eps);

// symmetric_quantization of each slice of `values` along `axis` (of `shape`), eps = FLT_EPSILON;
// axis < 0: of all of them.
Quantization weight_quantization(std::span<const float> values, const Shape& shape, int axis);

// Widens the scales of channels of few weights, by at most 1/15, to those with the least squared
// error of the weights.
void fit_weights(std::span<const float> values, const Shape& shape, Quantization& quantization);

// Range of elements and whether all of them are finite; {0, 0} if there are none.
struct FiniteRange {
  Range range;
  int64_t zeros = 0;
  bool finite = true;
};
FiniteRange finite_range(std::span<const float> elements);

}  // namespace dtr
