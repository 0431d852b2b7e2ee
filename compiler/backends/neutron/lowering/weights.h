// Weights and parameters in the order in which the NPU's pipelines consume them
// (`device/npu/microcode.h`, Conv2d and Depthwise).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/npu/microcode.h"
#include "device/npu/target.h"
#include "device/numerics/requantize.h"

namespace dtr::neutron {

// Filters of a convolution in the order output channel, row, column, input channel.
struct Filters {
  int64_t out = 0, height = 1, width = 1, in = 1;
  std::vector<int8_t> weights;

  int64_t reduction() const { return height * width * in; }
  std::span<const int8_t> filter(int64_t channel) const {
    return std::span(weights).subspan(static_cast<size_t>(channel * reduction()),
                                      static_cast<size_t>(reduction()));
  }
};

// The weights in the order in which Conv2d reads them, padded to whole groups of pipelines and
// lanes.
std::vector<std::byte> pack_conv2d(const Filters& filters, npu::Packing packing,
                                   const npu::Target& target);
// The same for Depthwise; `filters.in` is 1.
std::vector<std::byte> pack_depthwise(const Filters& filters, const npu::Target& target);

// Bias, multiplier and shift of each output channel. `bias` may be empty; the input's zero point is
// folded in: Σ w·(x − zero_point) + bias = Σ w·x + (bias − zero_point · Σ w).
std::vector<std::byte> pack_parameters(const Filters& filters, std::span<const int32_t> bias,
                                       int32_t input_zero_point,
                                       std::span<const numerics::Requantization> rescale,
                                       const npu::Target& target);

// Bytes of a call's constants: the parameters of pack_parameters, then the weights.
struct PackedSize {
  uint64_t parameters = 0, weights = 0;
};
PackedSize packed_conv2d(const npu::Window& window, npu::Packing packing,
                         const npu::Target& target);
PackedSize packed_depthwise(const npu::Window& window, const npu::Target& target);

}  // namespace dtr::neutron
