// Generates a firmware project from programs: a CMake build of an image for a board, with exactly
// the memory and the kernels that the programs need.
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
  std::string_view name;     // on the command line: "qemu-an505"
  std::string_view summary;  // one line
  std::string_view folder;   // of its port: "device/runtime/ports/qemu_mps2_an505"
  std::string_view cpu;      // options of the compiler
  std::string_view machine;  // QEMU's name of the machine
  cortex_m::Core core;       // selects the int8 kernels
  uint32_t inputs_end;       // kInputsEnd of its board.h
};
std::span<const Board> all_boards();
// Finds a board. Error: kFirmwareBoard, with the names of all boards.
Result<const Board*> resolve_board(std::string_view name);

struct FirmwareInput {
  const PteFile* pte_file;
  std::string name;  // shown to people; names folder and namespace if there are several programs
};

struct FirmwareOptions {
  const Board* board;
  bool checksum = true;  // the loader verifies the programs' checksums
  std::span<const PtdFile> tensor_files =
      {};  // constants outside of the programs (.ptd), searched in this order
};

// The folder of the templates in the device sources.
inline constexpr std::string_view kFirmwareTemplates = "device/runtime/ports/project/";

// The files of the project, sorted by path. A single program is in folder and namespace `model`,
// several are in `model_NAME` each and share one set of planned memories. Errors:
// kPteMissingMethod; kFirmwareBoard, if two programs have one name, a payload is for another
// target, int8 kernels are for another core than the board's, or arenas, states, programs and
// constants exceed its memory; those of loading a program.
Result<std::vector<FirmwareFile>> make_firmware(std::span<const FirmwareInput> programs,
                                                const FirmwareOptions& options);

}  // namespace dtr
