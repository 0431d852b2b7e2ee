// deuteron firmware
#include "compiler/firmware.h"

#include <fmt/format.h>

#include <filesystem>

#include "support/output_file.h"
#include "tools/verbs.h"

namespace dtr::tools {

Status firmware(const CommonOptions&, const FirmwareOptions& options) {
  DTR_ASSIGN(const Board* board, resolve_board(options.board));
  DTR_ASSIGN(const ProgramImage image, ProgramImage::open(options.program));
  const std::string name = std::filesystem::path(options.program).stem().string();
  DTR_ASSIGN(const std::vector<FirmwareFile> files, make_firmware(image, *board, name));
  DTR_ASSIGN(const std::vector<std::string> kept, write_firmware(files, options.output));
  for (const std::string& path : kept) fmt::print("kept {}\n", path);
  fmt::print("firmware for {} in {}: see its README.md\n", board->name, options.output);
  return {};
}

}  // namespace dtr::tools
