// Depthwise convolution: shared by its variants for different cores.
#pragma once

#include "device/runtime/kernels/cortex_m/convolution_arguments.h"
#include "device/runtime/kernels/cortex_m/loops.h"

namespace dtr::runtime::cortex_m {

struct Depthwise {
  ConvolutionArguments from;
  int32_t multiplier = 1;  // output channels of an input channel

  int32_t taps() const { return from.h.kernel * from.w.kernel; }
  // From the start of a window.
  int32_t input_of(int32_t ky, int32_t kx, int32_t channel) const {
    return (ky * from.h.dilation * from.in.width + kx * from.w.dilation) * from.in.channels +
           channel / multiplier;
  }
  int32_t weight_of(int32_t ky, int32_t kx, int32_t channel) const {
    return (ky * from.w.kernel + kx) * from.out.channels + channel;
  }
  const int8_t* window(const int8_t* x, int32_t oy, int32_t ox) const {
    return x + (from.h.first(oy) * from.in.width + from.w.first(ox)) * from.in.channels;
  }
};

// Calls block.inside(x of the window, y) for pixels that read no padding, block.at_border(x, oy,
// ox, y) for the others.
template <class Block>
void for_each_pixel(const Depthwise& conv, const int8_t* x, int8_t* y, const Block& block) {
  const Axis &h = conv.from.h, &w = conv.from.w;
  const int32_t top = h.inside_begin(), bottom = h.inside_end(), left = w.inside_begin(),
                right = w.inside_end();
  const int32_t pixel = conv.from.out.channels, next = w.stride * conv.from.in.channels;
  for (int32_t oy = 0; oy < h.out; ++oy) {
    const int8_t* window = conv.window(x, oy, 0);
    const bool rows_inside = oy >= top && oy < bottom;
    for (int32_t ox = 0; ox < w.out; ++ox, window += next, y += pixel) {
      if (rows_inside && ox >= left && ox < right) {
        block.inside(window, y);
      } else {
        block.at_border(window, oy, ox, y);
      }
    }
  }
}

#if defined(__ARM_FEATURE_MVE)
// All outputs of a sample.
void convolve(const Depthwise& conv, const int8_t* x, int8_t* y);
#endif

}  // namespace dtr::runtime::cortex_m
