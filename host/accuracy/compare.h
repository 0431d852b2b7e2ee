// How far two tensors are apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "compiler/ir/tensor.h"

namespace dtr {

// Signal to quantization noise over all elements added: 10·log10(Σ expected² / Σ (expected −
// actual)²) dB. No error counts as 99 dB, elements that are not finite where a finite one is
// expected, NaN for infinity or the other infinity as −99 dB. Elements of which infinity or NaN is
// expected do not count else: codes have neither.
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
      0;              // 2^-20 of the largest finite magnitude expected: sums in another order
  int64_t index = 0;  // where the maximum is, in logical order
  double expected = 0, actual = 0;
};
Difference compare(const TensorView& expected, const TensorView& actual);  // float32, same shape

// Everything that is said about one output over all its samples. Tensors are float32 or integers
// that int32 holds.
class Comparison {
 public:
  // Upper ends of the bins of the histogram of differences; what is beyond the last one, or not
  // finite, counts in one bin more.
  using BinEnds = std::array<double, 8>;
  static constexpr BinEnds kStepEnds = {0, 1, 2, 3, 4, 8, 16, 32};  // rounded to steps
  static constexpr BinEnds kAbsoluteEnds = {0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1};
  using Histogram = std::array<uint64_t, std::tuple_size_v<BinEnds> + 1>;

  // |expected − actual| ≤ absolute + relative·|expected|.
  struct Tolerance {
    double relative = 0, absolute = 0;
  };

  // `step` is the quantization step of the output in its own unit (1 for integers); 0: it has none,
  // differences are absolute.
  explicit Comparison(double step = 0) : step_(step) {}
  Comparison(double step, Tolerance tolerance) : step_(step), tolerance_(tolerance) {}
  // The next sample; same shape and dtype.
  void add(const TensorView& expected, const TensorView& actual);

  uint64_t samples() const { return samples_; }
  uint64_t elements() const { return elements_; }
  uint64_t different() const { return different_; }
  uint64_t beyond_tolerance() const { return beyond_; }
  double step() const { return step_; }
  // Largest |expected − actual|, infinite where one is NaN or infinite and the other something
  // else; where it is, and both values.
  double max_absolute() const { return max_absolute_; }
  double mean_absolute() const {
    return elements_ == 0 ? 0 : sum_absolute_ / static_cast<double>(elements_);
  }
  uint64_t sample() const { return sample_; }
  int64_t index() const { return index_; }
  double expected() const { return expected_; }
  double actual() const { return actual_; }
  // The same in steps. A multiple of the step that float arithmetic missed by 2^-20 of the values'
  // magnitude counts as the multiple.
  double max_steps() const { return max_steps_; }
  double mean_steps() const {
    return elements_ == 0 ? 0 : sum_steps_ / static_cast<double>(elements_);
  }
  // Counts in steps; of absolute differences if the step is not known.
  const Histogram& histogram() const { return histogram_; }
  const BinEnds& bin_ends() const { return step_ == 0 ? kAbsoluteEnds : kStepEnds; }
  // Over the finite elements; −99 dB where an element is not finite on one side only, or infinite
  // in another sense.
  double decibels() const;
  double largest_expected() const { return largest_; }  // magnitude, of the finite ones
  // Samples whose largest element stands at the same index.
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

// Real values of a tensor of that type: dequantized integers (one scale for the tensor), or its
// elements as float32.
Tensor real_values(const TensorView& tensor, const Type& type);
// Floats to the integers of a quantized type, as the program's own quantize does it.
Tensor quantized(const TensorView& real, const Type& type);

}  // namespace dtr
