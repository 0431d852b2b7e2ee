// A program as firmware: written, built and run under QEMU, each run from reset. Results are those
// of the device's own code; the times are counts of executed instructions.
#pragma once

#include "host/firmware/firmware.h"
#include "host/session/session.h"

namespace dtr {

// What an image records: no event, or those of a run as far as there is room for them.
inline constexpr uint32_t kNoProfile = 0;

// `board`: the name of one, or `qemu` for the one with the core that the program was compiled for.
// Needs CMake, Ninja, the Arm compiler and QEMU (scripts/setup). `tensor_files`: where constants
// outside of the program are (.ptd); they become part of the image. `profile_events`: room for
// events of a run; an image gets no more than a run has. Without it a recording stays empty.
// Errors: those of Session::open and make_firmware, kFirmwareBoard (no such board), kFirmwareRun.
Result<std::unique_ptr<Session>> open_on_qemu(const std::string& path, std::string_view board,
                                              const std::vector<std::string>& tensor_files = {},
                                              uint32_t profile_events = kNoProfile);

}  // namespace dtr
