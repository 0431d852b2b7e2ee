// A program as a firmware project: what a CMake build needs to make an image for a board, with exactly the memory and the kernels of the
// program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/reader.h"

namespace dtr {

struct Board {
  std::string_view name;     // as the command line takes it: "qemu-an505"
  std::string_view summary;  // one line
  std::string_view folder;   // of its port: "runtime/ports/qemu_mps2_an505"
  std::string_view cpu;      // options of the compiler
  std::string_view machine;  // QEMU's name of it
};
std::span<const Board> all_boards();
// Errors: kFirmwareBoard, with the names of those that are.
Result<const Board*> resolve_board(std::string_view name);

struct FirmwareFile {
  std::string path;  // in the project's folder
  std::string text;
  bool users = false;  // for the user to change: kept where it exists
};

// Files of the project, sorted by path.
// Errors: kPteMissingMethod; kFirmwareUnsupported, where the program needs a kernel or delegate that does not run on a device, and those
// of loading it.
Result<std::vector<FirmwareFile>> make_firmware(const ProgramImage& image, const Board& board, std::string_view name);

// Writes them into `folder`, which is made if it is not there; files of the user that exist stay, their paths are returned.
// Errors: kFileNotWritable.
Result<std::vector<std::string>> write_firmware(std::span<const FirmwareFile> files, const std::string& folder);

}  // namespace dtr
