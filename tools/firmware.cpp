// deuteron firmware
#include "compiler/firmware.h"

#include <fmt/format.h>

#include <filesystem>

#include "support/output_file.h"
#include "tools/verbs.h"

namespace dtr::tools {

Status firmware(const CommonOptions&, const FirmwareOptions& options) {
  DTR_ASSIGN(const Board* board, resolve_board(options.board));
  std::vector<ProgramImage> images;
  std::vector<FirmwareProgram> programs;
  images.reserve(options.programs.size());
  for (const std::string& path : options.programs) {
    DTR_ASSIGN(ProgramImage image, ProgramImage::open(path));
    images.push_back(std::move(image));
    programs.push_back({&images.back(), std::filesystem::path(path).stem().string()});
  }
  DTR_ASSIGN(const std::vector<TensorFileImage> tensors, open_tensor_files(options.tensor_files));
  DTR_ASSIGN(const std::vector<FirmwareFile> files,
             make_firmware(programs, {.board = board, .checksum = !options.no_checksum, .tensor_files = tensors}));
  DTR_ASSIGN(const std::vector<std::string> kept, write_firmware(files, options.output));
  for (const std::string& path : kept) fmt::print("kept {}\n", path);
  fmt::print("firmware for {} in {}: see its README.md\n", board->name, options.output);
  return {};
}

}  // namespace dtr::tools
