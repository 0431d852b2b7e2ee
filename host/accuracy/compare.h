// Measures the difference of two tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "compiler/ir/tensor.h"

namespace dtr {

// Signal to quantization noise over all elements added: 10·log10(Σ expected² / Σ (expected −
// actual)²) dB. Without any error it is 99 dB; with a non-finite element where a finite one is
// expected, NaN for infinity or the other infinity it is −99 dB. Elements with an expected infinity
// or NaN are not counted otherwise, since codes cannot represent them.
class Sqnr {
 public:
  void add(const TensorView& expected, const TensorView& actual);  // float32, same shape
  void add(const Sqnr& other) {
    signal_ += other.signal_;
    noise_ += other.noise_;
  }
  double decibels() const;

 private:
  double signal_ = 0, noise_ = 0;
};

struct Difference {
  double max_absolute = 0;
  double rounding_bound =
      0;  // 2^-20 of the largest expected finite magnitude: the effect of another order of sums
  int64_t index = 0;  // of the largest difference, in logical order
  double expected = 0, actual = 0;
};
Difference compare(const TensorView& expected, const TensorView& actual);  // float32, same shape

// Statistics of one output over all its samples. Tensors are float32, or integers that fit int32.
class Comparison {
 public:
  // Upper ends of the bins of the histogram of differences; one more bin counts larger and
  // non-finite differences.
  using BinEnds = std::array<double, 8>;
  static constexpr BinEnds kStepEnds = {0, 1, 2, 3, 4, 8, 16, 32};  // rounded to steps
  static constexpr BinEnds kAbsoluteEnds = {0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1};
  using Histogram = std::array<uint64_t, std::tuple_size_v<BinEnds> + 1>;

  // |expected − actual| ≤ absolute + relative·|expected|.
  struct Tolerance {
    double relative = 0, absolute = 0;
  };

  // `step` is the quantization step of the output in its own unit (1 for integers); 0: not
  // quantized, differences are absolute.
  explicit Comparison(double step = 0) : step_(step) {}
  Comparison(double step, Tolerance tolerance) : step_(step), tolerance_(tolerance) {}
  // Adds a sample; all have one shape and dtype.
  void add(const TensorView& expected, const TensorView& actual);

  uint64_t samples() const { return samples_; }
  uint64_t elements() const { return elements_; }
  uint64_t different() const { return different_; }
  uint64_t beyond_tolerance() const { return beyond_; }
  double step() const { return step_; }
  // The largest |expected − actual| (infinite if one is NaN or infinite and the other differs), its
  // sample and index, and both values.
  double max_absolute() const { return max_absolute_; }
  double mean_absolute() const {
    return elements_ == 0 ? 0 : sum_absolute_ / static_cast<double>(elements_);
  }
  uint64_t sample() const { return sample_; }
  int64_t index() const { return index_; }
  double expected() const { return expected_; }
  double actual() const { return actual_; }
  // The same in steps. Differences within 2^-20 of the values' magnitude from a multiple of the
  // step are rounded to it.
  double max_steps() const { return max_steps_; }
  double mean_steps() const {
    return elements_ == 0 ? 0 : sum_steps_ / static_cast<double>(elements_);
  }
  // Counts of differences in steps; of absolute differences if the step is unknown.
  const Histogram& histogram() const { return histogram_; }
  const BinEnds& bin_ends() const { return step_ == 0 ? kAbsoluteEnds : kStepEnds; }
  // SQNR over the finite elements; −99 dB if an element is non-finite on one side only, or infinite
  // with another sign.
  double decibels() const;
  double largest_expected() const { return largest_; }  // magnitude of the finite elements
  // The number of samples whose largest element has the same index.
  uint64_t same_argmax() const { return same_argmax_; }

 private:
  void add_element(double expected, double actual, int64_t index);
  void count(double difference);

  double step_;
  Tolerance tolerance_;
  uint64_t samples_ = 0, elements_ = 0, different_ = 0, beyond_ = 0, same_argmax_ = 0;
  double max_absolute_ = 0, sum_absolute_ = 0, max_steps_ = 0, sum_steps_ = 0, largest_ = 0;
  double signal_ = 0, noise_ = 0;
  bool broken_ = false;
  uint64_t sample_ = 0;
  int64_t index_ = 0;
  double expected_ = 0, actual_ = 0;
  Histogram histogram_ = {};
};

// The real values of a tensor: dequantized integers if it is quantized per tensor, else its
// elements as float32.
Tensor real_values(const TensorView& tensor, const Type& type);

}  // namespace dtr
