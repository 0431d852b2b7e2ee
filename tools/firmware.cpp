// deuteron firmware
#include "host/firmware/firmware.h"

#include <fmt/format.h>

#include <filesystem>

#include "compiler/support/output_file.h"
#include "host/commands/inputs.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct FirmwareOptions {
  std::vector<std::string> programs;
  std::string output;
  std::string board = "qemu-an505";
  std::string method;                     // of each program
  std::vector<std::string> tensor_files;  // .ptd
  bool no_checksum = false;
};

const CLI::App* add_firmware(CLI::App& app, FirmwareOptions& o) {
  CLI::App* verb = app.add_subcommand("firmware",
                                      "Write a CMake project that runs programs on a board, with "
                                      "just the memory and the kernels they need");
  verb->add_option("PROGRAM", o.programs,
                   "Programs (.pte); several share one arena and run one at a time")
      ->required();
  verb->add_option(
          "-o,--output", o.output,
          "Folder of the project; files that a user changed in it are kept (docs/runtime.md)")
      ->required();
  verb->add_option("--board", o.board, "qemu-an505 (Cortex-M33) or qemu-an547 (Cortex-M55)")
      ->capture_default_str();
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_flag(
      "--no-checksum", o.no_checksum,
      "Leave out the check of the programs' checksums at load (docs/performance.md has its cost)");
  example(verb, "deuteron firmware digits.pte --board qemu-an505 -o digits_firmware");
  return verb;
}

Result<void> run_firmware(const CommonOptions&, const FirmwareOptions& options) {
  DTR_ASSIGN(const Board* board, resolve_board(options.board));
  std::vector<PteFile> pte_files;
  std::vector<FirmwareInput> programs;
  pte_files.reserve(options.programs.size());
  for (const std::string& path : options.programs) {
    DTR_ASSIGN(PteFile pte_file, ProgramInput{.path = path, .method = options.method}.pte_file());
    pte_files.push_back(std::move(pte_file));
    programs.push_back({&pte_files.back(), std::filesystem::path(path).stem().string()});
  }
  if (pte_files.size() == 1) note_unused_tensors(options.tensor_files, {pte_files.data()});
  DTR_ASSIGN(const std::vector<PtdFile> tensors, open_tensor_files(options.tensor_files));
  DTR_ASSIGN(
      const std::vector<FirmwareFile> files,
      make_firmware(programs,
                    {.board = board, .checksum = !options.no_checksum, .tensor_files = tensors}));
  DTR_ASSIGN(const FirmwareChanges changes, write_firmware(files, options.output));
  for (const std::string& path : changes.kept) print("kept {}, which was changed\n", path);
  for (const std::string& path : changes.beside)
    print("kept {}, which was changed; the version for these programs is {}.new\n", path, path);
  for (const std::string& path : changes.unused)
    print("kept {}, which was changed and is not used any more\n", path);
  if (!changes.removed.empty())
    print("removed {} file{} of other programs\n", changes.removed.size(),
          changes.removed.size() == 1 ? "" : "s");
  print("firmware for {} in {}: see its README.md\n", board->name, options.output);
  return {};
}

}  // namespace

std::unique_ptr<Verb> firmware_verb() {
  return std::make_unique<VerbOf<FirmwareOptions, &add_firmware, &run_firmware>>();
}

}  // namespace dtr::tools
