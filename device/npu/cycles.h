// The busy cycles of kernel calls, independent of data. Shared by the compiler, which chooses by
// them, and the simulator, which counts them. `docs/npu.md` 3 derives the formulas. Freestanding.
#pragma once

#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::npu {

// What limits the speed of a call, for reports.
enum class Limit : uint8_t { kArray, kWeightPort, kActivationPort, kWritePort, kStart };

struct Cycles {
  uint64_t total = 0;  // of the call on the NPU, with its start
  uint64_t array = 0;  // of these: cycles in which the MAC array (or the lanes of a pool) advances
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
// Cycles of the copy engine for one copy, from its start to its last byte.
uint64_t copy_cycles(const Target& target, const Copy& command);

}  // namespace dtr::npu
