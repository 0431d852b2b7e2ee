#include "compiler/backends/neutron/lowering/weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "compiler/support/align.h"
#include "device/npu/cycles.h"

namespace dtr::neutron {

std::vector<std::byte> pack_conv2d(const Filters& filters, npu::Packing packing,
                                   const npu::Target& target) {
  const int64_t units = target.pipelines;
  const int64_t lanes = target.macs;
  // A run of weights is contiguous in the filter and is cut into blocks of `lanes`: the channels of
  // a tap, or the bytes of a row.
  const int64_t run = packing == npu::Packing::kChannels ? filters.in : filters.width * filters.in;
  const int64_t runs = filters.reduction() / run;
  const int64_t blocks = (run + lanes - 1) / lanes;
  const int64_t groups = (filters.out + units - 1) / units;
  std::vector<std::byte> packed(static_cast<size_t>(groups * runs * blocks * units * lanes));
  for (int64_t o = 0; o < filters.out; ++o) {
    const int8_t* filter = filters.filter(o).data();
    std::byte* first = packed.data() + (o / units * runs * blocks * units + o % units) * lanes;
    for (int64_t r = 0; r < runs; ++r)
      for (int64_t b = 0; b < blocks; ++b)
        std::memcpy(first + (r * blocks + b) * units * lanes, filter + r * run + b * lanes,
                    static_cast<size_t>(std::min(lanes, run - b * lanes)));
  }
  return packed;
}

std::vector<std::byte> pack_depthwise(const Filters& filters, const npu::Target& target) {
  const int64_t units = target.pipelines;
  const int64_t taps = filters.reduction();
  std::vector<std::byte> packed(static_cast<size_t>(align_up(filters.out, units) * taps));
  for (int64_t o = 0; o < filters.out; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      packed[static_cast<size_t>((o / units * taps + tap) * units + o % units)] =
          static_cast<std::byte>(filters.weights[static_cast<size_t>(o * taps + tap)]);
  return packed;
}

std::vector<std::byte> pack_parameters(const Filters& filters, std::span<const int32_t> bias,
                                       int32_t input_zero_point,
                                       std::span<const numerics::Requantization> rescale,
                                       const npu::Target& target) {
  const auto channels =
      static_cast<size_t>(npu::round_up(static_cast<uint32_t>(filters.out), target.pipelines));
  std::vector<int32_t> words(3 * channels, 0);
  for (size_t o = 0; o < static_cast<size_t>(filters.out); ++o) {
    const std::span<const int8_t> filter = filters.filter(static_cast<int64_t>(o));
    const int64_t sum = std::accumulate(filter.begin(), filter.end(), int64_t{0});
    // Modulo 2^32, as the accumulator itself.
    words[o] = static_cast<int32_t>((bias.empty() ? 0 : bias[o]) - input_zero_point * sum);
    words[channels + o] = rescale[o].multiplier;
    words[2 * channels + o] = rescale[o].shift;
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

PackedSize packed_conv2d(const npu::Window& window, npu::Packing packing,
                         const npu::Target& target) {
  const uint64_t groups = npu::div_up(window.out_channels, target.pipelines);
  return {groups * target.pipelines * 12,
          groups * npu::reduction_steps(target, window, packing) * target.pipelines * target.macs};
}

PackedSize packed_depthwise(const npu::Window& window, const npu::Target& target) {
  const uint64_t groups = npu::div_up(window.out_channels, target.pipelines);
  return {groups * target.pipelines * 12,
          groups * window.kernel_height * window.kernel_width * target.pipelines};
}

}  // namespace dtr::neutron
