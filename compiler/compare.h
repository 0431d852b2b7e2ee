// How far two tensors are apart.
#pragma once

#include <cstdint>

#include "ir/tensor.h"

namespace dtr {

// Signal to quantization noise over all elements added: 10·log10(Σ expected² / Σ (expected − actual)²) dB. No error counts as 99 dB.
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
  double rounding_bound = 0;  // 2^-20 of the largest magnitude expected: sums in another order
  int64_t index = 0;          // where the maximum is, in logical order
  double expected = 0, actual = 0;
};
Difference compare(const TensorView& expected, const TensorView& actual);  // float32, same shape

// Real values of a tensor of that type: dequantized integers, or a copy of floats.
Tensor real_values(const Tensor& tensor, const Type& type);
// Floats to the integers of a quantized type, as the program's own quantize does it.
Tensor quantized(const TensorView& real, const Type& type);

}  // namespace dtr
