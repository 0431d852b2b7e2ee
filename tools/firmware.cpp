// deuteron firmware
#include "host/firmware/firmware.h"

#include <fmt/format.h>

#include <filesystem>

#include "compiler/support/output_file.h"
#include "tools/print.h"
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
  if (images.size() == 1) note_unused_tensors(options.tensor_files, {images.data()});
  DTR_ASSIGN(const std::vector<TensorFileImage> tensors, open_tensor_files(options.tensor_files));
  DTR_ASSIGN(const std::vector<FirmwareFile> files,
             make_firmware(programs, {.board = board, .checksum = !options.no_checksum, .tensor_files = tensors}));
  DTR_ASSIGN(const FirmwareChanges changes, write_firmware(files, options.output));
  for (const std::string& path : changes.kept) print("kept {}, which was changed\n", path);
  for (const std::string& path : changes.beside) print("kept {}, which was changed: what fits these programs is {}.new\n", path, path);
  for (const std::string& path : changes.unused) print("kept {}, which was changed and is not used any more\n", path);
  if (!changes.removed.empty())
    print("removed {} file{} of other programs\n", changes.removed.size(), changes.removed.size() == 1 ? "" : "s");
  print("firmware for {} in {}: see its README.md\n", board->name, options.output);
  return {};
}

}  // namespace dtr::tools
