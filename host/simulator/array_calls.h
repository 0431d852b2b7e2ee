// Lists the calls in the microcode of a payload that use the MAC array, each with what other shapes
// of it cost, for `deuteron explain`. Every figure is npu::cycles of the other shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::simulator {

// An extent of a call that is no multiple of the lanes that it fills. The next multiple takes the
// same cycles.
struct UnfilledExtent {
  std::string_view what;  // "input channels", "output channels", "summed elements", "columns"
  uint32_t unit = 0;      // lanes
  uint32_t extent = 0, filled = 0;
  bool operator==(const UnfilledExtent&) const = default;
};

// The outputs that share one weight while it is in the array, where loading weights limits a call:
// `more` of them take `more_cycles`: each that is added costs at most half as much as those there.
struct SharedWeights {
  std::string_view what;  // "output positions", "rows"
  uint64_t outputs = 0, more = 0;
  uint64_t more_cycles = 0;  // of the call
};

struct ArrayCall {
  uint32_t command = 0;      // index in the microcode
  uint32_t in_channels = 0;  // of one group of a convolution; else 0
  uint64_t cycles = 0;       // of the call on the NPU
  // Of a convolution whose mapping the compiler chooses, with its steps packed by rows
  // (npu::Packing), if that takes fewer cycles; else `cycles`.
  uint64_t packed_cycles = 0;
  // Of a depthwise convolution of several channels: the cycles of one that sums over as many input
  // channels as a pipeline adds up at a time; else 0.
  uint64_t full_cycles = 0;
  std::vector<UnfilledExtent> unfilled = {};
  SharedWeights shared = {};  // `more` is 0: it would not help
};

// `command` of the result is not set.
ArrayCall array_call(const npu::Target& target, const npu::Conv2d& command);
ArrayCall array_call(const npu::Target& target, const npu::Depthwise& command);
ArrayCall array_call(const npu::Target& target, const npu::Matmul& command);

// All of a payload. Accepts any bytes; an invalid payload has none.
std::vector<ArrayCall> array_calls(const npu::Target& target, std::span<const std::byte> payload);

}  // namespace dtr::simulator
