// The arguments common to all convolutions.
#pragma once

#include "device/runtime/kernels/cortex_m/image.h"

namespace dtr::runtime::cortex_m {

struct ConvolutionArguments {
  Image in, out;  // no samples where the result has no elements
  const int8_t* x = nullptr;
  int8_t* y = nullptr;
  const int8_t* weights = nullptr;
  int32_t weight_sizes[4] = {};
  Axis h, w;           // from the input to the output; of a transposed convolution, the other way
  int32_t offset = 0;  // −zero point of the input
  Channels channels;
  Tensor scratch;

  const int8_t* input_of(int32_t sample) const { return x + sample * in.pixels() * in.channels; }
  int8_t* output_of(int32_t sample) const { return y + sample * out.pixels() * out.channels; }
};

// Indices of the arguments that are not at one place in all kernels: (input, weight, bias?,
// stride, padding, …, dilation, …, input_offset, output_offset, multipliers, shifts,
// activation_min, activation_max, scratch, …, out).
struct ConvolutionPlaces {
  size_t dilation, input_offset, out;
  bool transposed = false;
};

Error read_convolution(Arguments& arguments, const ConvolutionPlaces& places,
                       ConvolutionArguments* convolution);

}  // namespace dtr::runtime::cortex_m
