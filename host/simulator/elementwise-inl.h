// Tables and pools for each of Highway's targets. Compiled once a target.
#if defined(DTR_SIMULATOR_HOST_ELEMENTWISE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DTR_SIMULATOR_HOST_ELEMENTWISE_INL_H
#undef DTR_SIMULATOR_HOST_ELEMENTWISE_INL_H
#else
#define DTR_SIMULATOR_HOST_ELEMENTWISE_INL_H
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include <hwy/highway.h>
#include "device/numerics/requantize.h"
#include "device/simulator/functional.h"
#include "device/simulator/loops.h"
#include "host/simulator/kernel_set.h"
#include "host/simulator/rescale-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {

#if !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR

inline void lookup_run(const int8_t* middle, size_t count, const int8_t* input, int8_t* output) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::array<int8_t, 8> values{};
    for (size_t k = 0; k < 8; ++k) values[k] = middle[input[i + k]];
    std::memcpy(output + i, values.data(), 8);
  }
  for (; i < count; ++i) output[i] = middle[input[i]];
}

inline void lookup(const Call& call, const npu::Lookup& command, const int8_t* input,
                   const int8_t* table, int8_t* output) {
  constexpr uint32_t kInner = npu::kMoveRank - 1;
  if (command.input_stride[kInner] != 1 || command.output_stride[kInner] != 1)
    return kPlainKernels.lookup(call, command, input, table, output);
  uint32_t index[npu::kMoveRank] = {};
  Stream from{command.input_stride}, to{command.output_stride};
  do lookup_run(table + 128, command.extent[kInner], input + from.at, output + to.at);
  while (advance(command.extent, kInner, index, from, to));
}

// Taps of a window that lie inside of the input, on one axis.
struct Taps {
  uint32_t first, last;  // [first, last)
  HWY_INLINE Taps(uint32_t position, uint32_t in, uint32_t kernel, uint32_t stride,
                  uint32_t dilation, int32_t pad) {
    const int64_t start = int64_t{position} * stride - pad;
    const int64_t low = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    const int64_t high = start >= in ? 0 : (in - 1 - start) / dilation + 1;
    first = static_cast<uint32_t>(std::min<int64_t>(low, kernel));
    last = static_cast<uint32_t>(std::clamp<int64_t>(high, first, kernel));
  }
};

// One output position: channels go by in blocks whose sums stay in L1.
inline void pool_position(const npu::Pool& command, const Taps& rows, const Taps& columns,
                          const int8_t* image, int64_t y, int64_t x, int8_t* output) {
  const npu::Window& w = command.window;
  constexpr size_t kBlock = 256;
  const size_t inside = size_t{rows.last - rows.first} * (columns.last - columns.first);
  const auto taps = static_cast<int32_t>(w.kernel_height * w.kernel_width);
  const numerics::Range range{command.clamp_low, command.clamp_high};
  const numerics::OutputStage stage{
      {command.rescale.multiplier, command.rescale.shift}, command.zero_point_out, range};
  for (size_t first = 0; first < w.out_channels; first += kBlock) {
    const size_t count = std::min<size_t>(kBlock, w.out_channels - first);
    std::array<int32_t, kBlock> sums{};
    std::array<int8_t, kBlock> highest{};
    if (command.kind == npu::PoolKind::kMax) highest.fill(-128);
    for (uint32_t ky = rows.first; ky < rows.last; ++ky)
      for (uint32_t kx = columns.first; kx < columns.last; ++kx) {
        const int64_t pixel = (y + int64_t{ky} * w.dilation_height) * w.in.row +
                              (x + int64_t{kx} * w.dilation_width) * w.in.pixel;
        const int8_t* values = image + pixel + first;
        if (command.kind == npu::PoolKind::kMax) {
          for (size_t c = 0; c < count; ++c) highest[c] = std::max(highest[c], values[c]);
        } else {
          for (size_t c = 0; c < count; ++c) sums[c] += values[c];
        }
      }
    int8_t* to = output + first;
    switch (command.kind) {
      case npu::PoolKind::kMax:
        for (size_t c = 0; c < count; ++c) to[c] = static_cast<int8_t>(range.clamp(highest[c]));
        break;
      case npu::PoolKind::kAverage:
        for (size_t c = 0; c < count; ++c)
          to[c] = static_cast<int8_t>(range.clamp(
              static_cast<int32_t>(numerics::rounded_mean(sums[c], static_cast<int64_t>(inside)))));
        break;
      case npu::PoolKind::kMean: {
        const int32_t outside = (taps - static_cast<int32_t>(inside)) * command.pad_value -
                                taps * command.zero_point_in;
        for (size_t c = 0; c < count; ++c) to[c] = stage(sums[c] + outside);
        break;
      }
    }
  }
}

inline void pool(const Call&, const npu::Pool& command, const int8_t* input, int8_t* output) {
  const npu::Window& w = command.window;
  for (uint32_t b = 0; b < w.batch; ++b)
    for (uint32_t oy = 0; oy < w.out_height; ++oy) {
      const Taps rows(oy, w.in_height, w.kernel_height, w.stride_height, w.dilation_height,
                      w.pad_top);
      for (uint32_t ox = 0; ox < w.out_width; ++ox) {
        const Taps columns(ox, w.in_width, w.kernel_width, w.stride_width, w.dilation_width,
                           w.pad_left);
        pool_position(command, rows, columns, input + size_t{b} * w.in.batch,
                      int64_t{oy} * w.stride_height - w.pad_top,
                      int64_t{ox} * w.stride_width - w.pad_left, output + place(w.out, b, oy, ox));
      }
    }
}

#endif  // fixed-size vectors

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#endif
