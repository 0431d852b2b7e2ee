// deuteron firmware
#include "compiler/firmware.h"

#include <fmt/format.h>

#include <filesystem>

#include "support/output_file.h"
#include "tools/verbs.h"

namespace dtr::tools {

Status firmware(const CommonOptions&, const FirmwareOptions& options) {
  const Board* board = find_board(options.board);
  if (board == nullptr) {
    std::string names;
    for (const Board& each : all_boards()) names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
    return fail(DiagnosticId::kFirmwareBoard, fmt::format("there is no board `{}`", options.board), "use one of " + names);
  }
  DTR_ASSIGN(const ProgramImage image, ProgramImage::open(options.program));
  const std::string name = std::filesystem::path(options.program).stem().string();
  DTR_ASSIGN(const std::vector<FirmwareFile> files, make_firmware(image, *board, name));
  DTR_ASSIGN(const std::vector<std::string> kept, write_firmware(files, options.output));
  for (const std::string& path : kept) fmt::print("kept {}\n", path);
  fmt::print("firmware for {} in {}: see its README.md\n", board->name, options.output);
  return {};
}

}  // namespace dtr::tools
