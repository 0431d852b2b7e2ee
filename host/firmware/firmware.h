// Programs as a firmware project: what a CMake build needs to make an image for a board, with
// exactly the memory and the kernels of the programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/reader.h"
#include "device/numerics/cortex_m_scratch.h"
#include "host/firmware/firmware_folder.h"

namespace dtr {

struct Board {
  std::string_view name;     // as the command line takes it: "qemu-an505"
  std::string_view summary;  // one line
  std::string_view folder;   // of its port: "device/runtime/ports/qemu_mps2_an505"
  std::string_view cpu;      // options of the compiler
  std::string_view machine;  // QEMU's name of it
  cortex_m::Core core;       // whose int8 kernels it runs
  uint32_t inputs_end;       // kInputsEnd of its board.h
};
std::span<const Board> all_boards();
// Errors: kFirmwareBoard, with the names of those that are.
Result<const Board*> resolve_board(std::string_view name);

struct FirmwareInput {
  const PteFile* pte_file;
  std::string name;  // for people, and for folder and namespace of a program that is not alone
};

struct FirmwareOptions {
  const Board* board;
  bool checksum = true;  // whether the loader holds the programs against theirs
  std::span<const PtdFile> tensor_files =
      {};  // constants outside of the programs (.ptd), searched in this order
};

// Where the templates are among the device's sources.
inline constexpr std::string_view kFirmwareTemplates = "device/runtime/ports/project/";

// Files of the project, sorted by path. A program that is alone is in folder and namespace `model`,
// several are in `model_NAME` each; they take turns in one set of planned memories. Errors:
// kPteMissingMethod; kFirmwareBoard, where two programs have one name, a payload is not for the
// target, int8 kernels are for another core than the board's, or arenas, states, programs and
// constants are larger than its memory; those of loading a program.
Result<std::vector<FirmwareFile>> make_firmware(std::span<const FirmwareInput> programs,
                                                const FirmwareOptions& options);

}  // namespace dtr
