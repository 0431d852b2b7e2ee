// Reduce commands over windows of an NHWC tensor: pools beyond the limits of the Pool command.
#pragma once

#include "compiler/backends/neutron/lowering/rules.h"

namespace dtr::neutron {

// Evenly spaced windows of one axis, in elements: `count` windows that start at `first` and are
// `step` apart; their results start at `to_first` and are `to_step` apart. Each has `kernel`
// elements `dilation` apart.
struct WindowLoops {
  int64_t in = 1, out = 1;  // extents of the whole axis
  int64_t first = 0, count = 1, step = 1;
  int64_t to_first = 0, to_step = 1;
  int64_t kernel = 1, dilation = 1;
};
// Reduces each window; `input` and `output` are addresses of dense NHWC tensors.
npu::Reduce reduce_windows(npu::ReduceKind kind, int64_t batch, int64_t channels,
                           const WindowLoops& h, const WindowLoops& w, npu::Address input,
                           npu::Address output);

// Set the zero points and rescaling of a sum, and the range that results are clamped to.
void set_sum(npu::Reduce& reduce, const Quantization& in, const Quantization& out,
             numerics::Requantization by);
void set_clamp(npu::Reduce& reduce, numerics::Range range);

}  // namespace dtr::neutron
