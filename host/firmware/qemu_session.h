// Runs a program as firmware under QEMU: writes and builds the project, and starts each run from
// reset. Results come from the device code; times are counts of executed instructions.
#pragma once

#include "host/firmware/firmware.h"
#include "host/session/session.h"

namespace dtr {

// For `profile_events`: the image records nothing.
inline constexpr uint32_t kNoProfile = 0;

// Takes over a session on the host, whose program need not be a file; its tensor files become part
// of the image. `board`: a board's name, or `qemu` for the board with the core that the program was
// compiled for. Needs CMake, Ninja, the Arm compiler and QEMU (scripts/setup). `profile_events`:
// the most events to record of a run. Errors: those of make_firmware, kFirmwareBoard (no such
// board), kFirmwareRun.
Result<std::unique_ptr<Session>> open_on_qemu(std::unique_ptr<Session> host, std::string_view board,
                                              uint32_t profile_events = kNoProfile);

}  // namespace dtr
