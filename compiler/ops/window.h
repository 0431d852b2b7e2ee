// Sliding windows of convolutions and pools: output extents and which input elements a window
// covers.
#pragma once

#include <algorithm>
#include <array>

#include "compiler/ops/define.h"

namespace dtr::ops {

// One spatial dimension. Output o covers the inputs o·stride − pad + k·dilation for k in [0,
// kernel).
struct WindowAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t pad = 0;
  int64_t pad_end = 0;
  int64_t dilation = 1;

  int64_t first(int64_t o) const { return o * stride - pad; }
  // Taps k of output o whose input exists: [begin, end), empty if none.
  struct Taps {
    int64_t begin, end;
  };
  Taps taps(int64_t o) const {
    const int64_t start = first(o);
    const int64_t begin = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    const int64_t end =
        std::min(kernel, in - start <= 0 ? 0 : (in - start + dilation - 1) / dilation);
    return {std::min(begin, end), end};
  }
  // Outputs whose tap k has an input: [begin, end).
  Taps outputs(int64_t k) const {
    const int64_t offset = k * dilation - pad;
    const int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t end = std::min(out, in - offset <= 0 ? 0 : (in - offset + stride - 1) / stride);
    return {std::min(begin, end), end};
  }
};

// Height and width; an operator of one spatial dimension has height 1.
struct Window {
  WindowAxis h, w;
};

// Number of outputs of an axis whose other fields are set, as PyTorch computes it; < 1 if the
// window does not fit.
int64_t window_outputs(const WindowAxis& axis, bool ceil_mode);

// Operand 0 of a pool, adaptive or not: float or quantized int8, (N, C, H, W) or (C, H, W), not
// empty.
Result<void> check_pool_operand(const OpView& view);
// The window of a pool (attributes kernel_size, stride, padding, optional padding_end and dilation,
// ceil_mode) over operand 0, (N, C, H, W) or (C, H, W).
Window pool_window(const OpView& view);
// Everything that pool_window and infer_pool need.
Result<void> verify_pool(const OpView& view);
std::vector<Type> infer_pool(const OpView& view);

// An average pool whose result is the mean of codes: operand and result have one quantization, and
// windows divide by what they count.
bool averages_codes(const OpView& view);
// What an average pool divides by; nullopt if windows at the border divide by less than others.
std::optional<int64_t> average_divisor(const OpView& view);

}  // namespace dtr::ops
