// Arm MPS3 with the image AN547 (Cortex-M55 with MVE) as QEMU has it: `-M mps3-an547`.
#pragma once

#include <cstdint>

namespace dtr::board {

inline constexpr uint32_t kInstructionsPer4Ticks = 125;  // 32 MHz, a nanosecond an instruction
// Three of its UARTs, secure side; and where serial.cpp finds inputs: the end of what board.ld
// calls PROGRAM.
inline constexpr uint32_t kSerialPorts[] = {0x59303000, 0x59304000, 0x59305000};
inline constexpr uint32_t kInputsEnd = 0x61000000;

}  // namespace dtr::board
