// Arm MPS3 with the image AN547 (Cortex-M55 with MVE) as QEMU has it: `-M mps3-an547`.
#pragma once

#include <cstdint>

namespace dtr::board {

inline constexpr uint32_t kInstructionsPer4Ticks = 125;  // 32 MHz, a nanosecond an instruction

}  // namespace dtr::board
