// Sliding windows of convolutions and pools: output extents, and the inputs that a window covers.
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
  // The taps k of output o that have an input: [begin, end), perhaps empty.
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
  // The outputs whose tap k has an input: [begin, end).
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

// The number of outputs of an axis whose other fields are set, computed as PyTorch does; < 1 if the
// window does not fit.
int64_t window_outputs(const WindowAxis& axis, bool ceil_mode);

// Checks operand 0 of a pool: float or quantized int8, (N, C, H, W) or (C, H, W), not empty. Error:
// kIrInvalid.
Result<void> check_pool_operand(const OpView& view);
// The window of a pool (attributes kernel_size, stride, padding, optional padding_end and dilation,
// ceil_mode) over operand 0, (N, C, H, W) or (C, H, W).
Window pool_window(const OpView& view);
// Checks everything that pool_window and infer_pool rely on. Error: kIrInvalid.
Result<void> verify_pool(const OpView& view);
std::vector<Type> infer_pool(const OpView& view);

// True for an average pool that averages codes: operand and result have the same quantization, and
// each window divides by the number of elements that it counts.
bool averages_codes(const OpView& view);
// The divisor of an average pool; std::nullopt if windows at the border have a smaller one.
std::optional<int64_t> average_divisor(const OpView& view);

}  // namespace dtr::ops
