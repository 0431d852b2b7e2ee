// Runs a program as firmware under QEMU: writes and builds the project, and starts each run from
// reset. Results come from the device code; times are counts of executed instructions.
#pragma once

#include "host/firmware/firmware.h"
#include "host/session/session.h"

namespace dtr {

// For `profile_events`: the image records nothing.
inline constexpr uint32_t kNoProfile = 0;

// `board`: a board's name, or `qemu` for the board with the core that the program was compiled for.
// Needs CMake, Ninja, the Arm compiler and QEMU (scripts/setup). `tensor_files`: constants outside
// of the program (.ptd), which become part of the image. `profile_events`: the most events to
// record of a run. Errors: those of Session::open and make_firmware, kFirmwareBoard (no such
// board), kFirmwareRun.
Result<std::unique_ptr<Session>> open_on_qemu(const std::string& path, std::string_view board,
                                              const std::vector<std::string>& tensor_files = {},
                                              uint32_t profile_events = kNoProfile);
// The same for a session on the host, of a program that need not be a file.
Result<std::unique_ptr<Session>> open_on_qemu(std::unique_ptr<Session> host, std::string_view board,
                                              uint32_t profile_events = kNoProfile);

}  // namespace dtr
