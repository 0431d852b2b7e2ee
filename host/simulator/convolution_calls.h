// Lists the convolutions in the microcode of a payload, for `deuteron explain`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/npu/target.h"

namespace dtr::simulator {

struct ConvolutionCall {
  uint32_t command = 0;      // index in the microcode
  uint32_t in_channels = 0;  // of one group
  uint64_t cycles = 0;       // of the call on the NPU
  // With its steps packed by rows (npu::Packing), if that takes fewer cycles; else `cycles`.
  uint64_t packed_cycles = 0;
};

// Every convolution whose mapping the compiler chooses: those that are packed by channels, and
// those of one input channel that run as a depthwise convolution. Accepts any bytes; an invalid
// payload has none.
std::vector<ConvolutionCall> convolution_calls(const npu::Target& target,
                                               std::span<const std::byte> payload);

}  // namespace dtr::simulator
