// Arm MPS2+ with the image AN505 (Cortex-M33 with FPU and DSP extension) as QEMU has it: `-M
// mps2-an505`.
#pragma once

#include <cstdint>

namespace dtr::board {

inline constexpr uint32_t kInstructionsPer4Ticks = 4 * 50;  // 20 MHz, a nanosecond an instruction
// Three of its UARTs, secure side; and where serial.cpp finds inputs: the end of what board.ld
// calls PROGRAM.
inline constexpr uint32_t kSerialPorts[] = {0x50200000, 0x50201000, 0x50202000};
inline constexpr uint32_t kInputsEnd = 0x81000000;

}  // namespace dtr::board
