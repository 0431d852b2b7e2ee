// How long a kernel call keeps the NPU busy. The one place: the compiler chooses by it, the
// simulator counts by it. Data-independent. `docs/npu.md` 3 derives the formulas. Freestanding.
#pragma once

#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::npu {

// What a call mostly waits for, for reports.
enum class Limit : uint8_t { kArray, kWeightPort, kActivationPort, kWritePort, kStart };

struct Cycles {
  uint64_t total = 0;  // the call on the NPU, start included
  uint64_t array = 0;  // of these: the MAC array (or the lanes of a pool) advanced a step
  Limit limit = Limit::kArray;
};

// Steps of one accumulation: see Packing.
constexpr uint64_t reduction_steps(const Target& target, const Window& window, Packing packing) {
  return packing == Packing::kChannels
             ? uint64_t{window.kernel_height} * window.kernel_width *
                   div_up(window.in_channels, target.macs)
             : uint64_t{window.kernel_height} *
                   div_up(window.kernel_width * window.in_channels, target.macs);
}

#define DTR_NPU_KERNEL(type, function, opcode) \
  Cycles cycles(const Target& target, const type& command);
#include "device/npu/commands.inc"
// Time of the copy engine for one copy, from its start to its last byte.
uint64_t copy_cycles(const Target& target, const Copy& command);

}  // namespace dtr::npu
