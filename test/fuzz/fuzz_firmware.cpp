// Any text as the list of what was written into a firmware project (deuteron/written.txt): the
// project is written again, and nothing outside of its folder is touched, whatever paths the list
// has.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/temporary_folder.h"
#include "host/firmware/firmware_folder.h"
#include "test/fuzz/depth.h"
#include "test/fuzz/mutators.h"

namespace {

namespace fs = std::filesystem;

enum : size_t { kWritten, kFollowed };
constexpr dtr::fuzz::Stage kStages[] = {{"written", 0.45}, {"followed", 0.33}};

void write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace

std::span<const dtr::fuzz::Stage> dtr::fuzz::stages() { return kStages; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data,
                                      size_t size) {  // NOLINT(readability-identifier-naming)
  using namespace dtr;
  fuzz::Depth depth;
  const auto temporary = TemporaryFolder::create();
  DTR_CHECK(temporary.has_value());
  const fs::path outer = temporary->path();
  const fs::path folder = outer / "project";
  write(outer / "precious.txt", "a");
  write(outer / "next/precious.txt", "a");
  write(folder / kWrittenList, {reinterpret_cast<const char*>(data), size});
  write(folder / "model/model.cpp", "a");     // as the list of the seed says
  write(folder / "model/model.h", "edited");  // other than the list says
  write(folder / "old/unused.h", "a");        // not written any more
  const FirmwareFile files[] = {{"model/model.cpp", "b"},
                                {"model/model.h", "b"},
                                {"README.md", "b"},
                                {"model/model.pte", "b"}};
  const auto changes = write_firmware(files, folder.string());
  DTR_CHECK(fs::exists(outer / "precious.txt") && fs::exists(outer / "next/precious.txt"));
  DTR_CHECK(std::distance(fs::directory_iterator(outer), {}) == 3);
  if (!changes) return 0;
  depth.reach(kWritten);
  if (!changes->removed.empty()) depth.reach(kFollowed);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {  // NOLINT(readability-identifier-naming)
  return dtr::fuzz::mutate_text(data, size, max_size, seed);
}
