// Discrete Fourier transforms as products with matrices of cosines and sines, which the NPU
// computes as linear layers. A complex tensor has a last dimension of two: real and imaginary part.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// The elements of an operand or result along the transformed dimension.
enum class Signal : uint8_t {
  kReal,     // `points` numbers
  kComplex,  // `points` complex numbers
  kHalf      // the first points / 2 + 1 complex numbers of a spectrum whose signal is real
};

struct Fourier {
  Signal from = Signal::kComplex, to = Signal::kComplex;
  int64_t points = 0;
  bool inverse = false;  // exponents with a positive sign
  double factor = 1;     // of the result
};

// Transforms along `dim`, counted without the dimension of real and imaginary parts. The operand is
// cut off or padded with zeros to the length that `from` and `points` give. Errors: those of
// GraphBuilder::emit; a matrix of more than 16 million elements.
Result<ValueId> fourier(GraphBuilder& builder, ValueId x, int64_t dim, const Fourier& of);

// The absolute values of complex numbers, and their squares, without the last dimension. Errors:
// those of GraphBuilder::emit.
Result<ValueId> magnitude(GraphBuilder& builder, ValueId x);
Result<ValueId> squared_magnitude(GraphBuilder& builder, ValueId x);

// The spectra (…, frequencies, frames, 2) of windows of (…, samples), `hop` samples apart, each
// multiplied by `window`: one convolution. Errors: the same.
struct ShortTime {
  std::vector<double> window;
  int64_t hop = 0;
  bool one_sided = true;
  double factor = 1;
};
Result<ValueId> short_time_fourier(GraphBuilder& builder, ValueId x, const ShortTime& of);

// The samples [from, to) of the signal that has these spectra: inverse transforms, each multiplied
// by the window, added up, and divided by the sum of the squared windows; zeros behind the last
// window. Errors: the same; windows that leave a sample of [from, to) without weight.
Result<ValueId> inverse_short_time_fourier(GraphBuilder& builder, ValueId spectra,
                                           const ShortTime& of, int64_t from, int64_t to);

}  // namespace dtr::compositions
