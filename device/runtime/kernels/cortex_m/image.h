// Channels-last images, windows over them, and parameters per output channel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "device/runtime/kernel.h"
#include "device/runtime/kernels/checks.h"
#include "device/runtime/kernels/cortex_m/loops.h"
#include "device/runtime/kernels/cortex_m/rescale.h"

namespace dtr::runtime::cortex_m {

// Pixel (y, x) of sample n starts at ((n · height + y) · width + x) · channels.
struct Image {
  int32_t batch = 1, height = 1, width = 1, channels = 1;

  int32_t pixels() const { return height * width; }
  int32_t bytes() const { return batch * pixels() * channels; }
};

// [N, C, H, W] or [N, C, W] in the physical order N, H, W, C. False for other orders, unless
// extents of 1 make them the same.
bool read_image(const Tensor& tensor, Image* image);
// The same, or for a pool: [C, H, W], contiguous, is an image of one channel for each C.
bool read_pool_image(const Tensor& tensor, Image* image);

bool is_contiguous(const Tensor& tensor);

// One axis of a window: output o covers the inputs o · stride − padding + k · dilation, k < kernel.
struct Axis {
  int32_t in = 1, out = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;

  bool good() const;
  // The largest distance from 0 of a position that a tap reads, also in padding or beyond the
  // input.
  int64_t reach() const {
    return int64_t{out} * stride + int64_t{kernel} * dilation + std::max(in, padding);
  }
  int32_t first(int32_t o) const { return o * stride - padding; }
  // Outputs [inside_begin, inside_end) read no padding.
  int32_t inside_begin() const { return std::min(out, (padding + stride - 1) / stride); }
  int32_t inside_end() const {
    const int32_t room = in - 1 - (kernel - 1) * dilation + padding;
    return room < 0 ? 0 : std::min(out, room / stride + 1);
  }
  // Every output reads one input.
  bool is_point() const { return kernel == 1 && padding == 0 && (out - 1) * stride < in; }
  // Taps [begin, end) of output o whose input exists.
  int32_t begin(int32_t o) const {
    const int32_t start = first(o);
    return start >= 0 ? 0 : std::min(kernel, (-start + dilation - 1) / dilation);
  }
  int32_t end(int32_t o) const {
    const int32_t room = in - first(o);
    return room <= 0 ? 0
                     : std::min(kernel, dilation == 1 ? room : (room + dilation - 1) / dilation);
  }
};

// True if both axes are valid and the byte offset of every tap of a window over `in` fits 32 bits.
bool good_axes(const Image& in, const Axis& h, const Axis& w);

// Entry `index` of a list of two entries, or of one for both axes; −1 if it does not fit 16 bits.
int32_t entry(std::span<const int64_t> list, size_t index);

// Multipliers, shifts and biases of output channels: int32 tensors of one entry a channel.
struct Channels {
  const int32_t* multipliers = nullptr;
  const int32_t* shifts = nullptr;
  const int32_t* biases = nullptr;  // null: zero
  Finish finish;
  bool raises = false;  // a shift is above 0

  int32_t bias(int32_t channel) const { return biases == nullptr ? 0 : biases[channel]; }
  int8_t operator()(int32_t sum, int32_t channel) const {
    return finish(sum, multipliers[channel], shifts[channel]);
  }
};
bool read_channels(const Tensor& multipliers, const Tensor& shifts, const Tensor* bias,
                   int32_t count, Channels* channels);

// Reads zero point and range of a result; false if they are not int8.
bool read_finish(int64_t zero_point, int64_t low, int64_t high, Finish* finish);
inline bool is_code(int64_t zero_point) { return zero_point >= -128 && zero_point <= 127; }
// An offset −zero_point of an int8 operand.
inline bool good_offset(int64_t offset) { return offset >= -127 && offset <= 128; }

// True for a scratch operand with the size bytes_for(core) of a core whose programs run here.
template <class Bytes>
bool is_scratch_of_core(const Tensor& tensor, Bytes bytes_for) {
  return std::ranges::any_of(
      kCores, [&](dtr::cortex_m::Core core) { return is_scratch(tensor, bytes_for(core)); });
}

}  // namespace dtr::runtime::cortex_m
