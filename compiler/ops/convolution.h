// The sizes of a convolution, from operands and attributes of aten.convolution.
#pragma once

#include "compiler/ops/window.h"

namespace dtr::ops {

// x (N, groups · in, H, W), weight (groups · out, in, kH, kW) or, transposed, (groups · in, out,
// kH, kW); without H for one spatial dimension. `in` and `out` are channels of one group. The
// window of a transposed convolution is that of the convolution whose gradient it is: its `out` are
// the extents of x, its `in` those of the result.
struct ConvolutionShape {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in = 1;
  int64_t out = 1;
  bool transposed = false;
  Window window;

  int64_t x_plane() const {
    return transposed ? window.h.out * window.w.out : window.h.in * window.w.in;
  }
  int64_t y_plane() const {
    return transposed ? window.h.in * window.w.in : window.h.out * window.w.out;
  }
  int64_t taps() const { return window.h.kernel * window.w.kernel; }
};

// The op must have been verified.
ConvolutionShape convolution_shape(const OpView& view);

}  // namespace dtr::ops
