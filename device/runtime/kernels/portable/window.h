// A sliding window over the two last dimensions, shared by convolution and pooling. A tensor of
// rank 3 ([C, W]-like: one spatial dimension) or without batch is seen as [N, C, H, W] with extents
// of 1.
#pragma once

#include <algorithm>

#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::portable {

// Extents and strides of a tensor seen as [N, C, H, W].
struct Image {
  int32_t batch = 1, channels = 1, height = 1, width = 1;
  int32_t batch_stride = 0, channel_stride = 0, row_stride = 0, column_stride = 0;
};

// [N, C, W] or [N, C, H, W]; the caller has checked the rank.
inline Image image_of(const Tensor& tensor) {
  const Strides strides = strides_of(tensor);
  const std::span<const int32_t> sizes = tensor.shape();
  Image image{.batch = sizes[0],
              .channels = sizes[1],
              .batch_stride = strides.of[0],
              .channel_stride = strides.of[1]};
  const int last = tensor.rank - 1;
  image.width = sizes.back();
  image.column_stride = strides.of[last];
  if (tensor.rank == 4) {
    image.height = sizes[2];
    image.row_stride = strides.of[2];
  }
  return image;
}

// One axis of a window: output position o covers input positions o · stride − padding + k ·
// dilation, k < kernel.
struct Axis {
  int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;

  bool is_valid() const {
    return in_range(kernel) && in_range(stride) && in_range(dilation) && padding >= 0 &&
           padding < kMax;
  }
  // Extent of the result; ceil: a last window may start inside the input or its left padding and
  // end beyond.
  int64_t out_extent(int64_t in, bool ceil) const {
    const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
    if (room < 0) return 0;
    int64_t out = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (out - 1) * stride >= in + padding) --out;
    return out;
  }
  int64_t start(int64_t out) const { return out * stride - padding; }
  // Taps [first, end) of output position `out` that lie inside an input of extent `in`.
  int64_t first_tap(int64_t out) const {
    return start(out) >= 0 ? 0 : (-start(out) + dilation - 1) / dilation;
  }
  int64_t end_tap(int64_t out, int64_t in) const {
    return start(out) >= in ? 0 : std::min(kernel, (in - start(out) + dilation - 1) / dilation);
  }

 private:
  static constexpr int64_t kMax = int64_t{1} << 30;
  static bool in_range(int64_t value) { return value >= 1 && value < kMax; }
};

// The taps of one output position that lie inside of the input: the first one, how many, and the
// input position of the first. Kernels compute it once for all channels: its 64-bit divisions take
// a Cortex-M longer than a window's products.
struct Taps {
  int32_t first, count, from;
};
inline Taps taps_of(const Axis& axis, int32_t out, int32_t in) {
  const int64_t start = axis.start(out);
  const int64_t first =
      start >= 0 || axis.dilation == 1 ? std::max<int64_t>(-start, 0) : axis.first_tap(out);
  const int64_t end =
      axis.dilation == 1 ? std::min(axis.kernel, in - start) : axis.end_tap(out, in);
  if (end <= first) return {0, 0, 0};
  return {static_cast<int32_t>(first), static_cast<int32_t>(end - first),
          static_cast<int32_t>(start + first * axis.dilation)};
}

// Entry `axis` of a list that has one entry for all axes or one for each; `fallback` if it is
// empty.
inline int64_t per_axis(std::span<const int64_t> list, size_t axis, int64_t fallback) {
  if (list.empty()) return fallback;
  return list.size() == 1 ? list[0] : list[std::min(axis, list.size() - 1)];
}

}  // namespace dtr::runtime::portable
