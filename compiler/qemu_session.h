// A program as firmware: written, built and run under QEMU, each run from reset. Results are those of the device's own code; the times are
// counts of executed instructions.
#pragma once

#include "compiler/firmware.h"
#include "compiler/session.h"

namespace dtr {

// The board that `--on NAME` means: the name of one, or `qemu` for the one with the core that the program was compiled for. nullptr: none.
const Board* board_for(std::string_view name, const ProgramImage& image);

// Needs CMake, Ninja, the Arm compiler and QEMU (scripts/setup).
// Errors: those of Session::open and make_firmware, kFirmwareRun.
Result<std::unique_ptr<Session>> open_on_qemu(const std::string& path, const Board& board);

}  // namespace dtr
