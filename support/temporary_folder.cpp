#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace dtr {

Result<TemporaryFolder> TemporaryFolder::create() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "deuteron-XXXXXX").string();
  const auto held = hold_off_signals();
  if (error || ::mkdtemp(path.data()) == nullptr)
    return fail(DiagnosticId::kFileNotWritable, fmt::format("cannot make a temporary folder: {}", std::strerror(errno)),
                "set TMPDIR to a folder where you may write", {.file = path});
  return TemporaryFolder(path);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace dtr
