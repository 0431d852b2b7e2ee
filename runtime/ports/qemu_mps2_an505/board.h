// Arm MPS2+ with the image AN505 (Cortex-M33 with FPU and DSP extension) as QEMU has it: `-M mps2-an505`.
#pragma once

#include <cstdint>

namespace dtr::board {

inline constexpr uint32_t kInstructionsPer4Ticks = 4 * 50;  // 20 MHz, a nanosecond an instruction

}  // namespace dtr::board
