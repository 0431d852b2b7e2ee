#include "compiler/support/temporary_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace dtr {

namespace {

namespace fs = std::filesystem;

tl::unexpected<Diagnostic> refuse(const fs::path& path, const std::string& why) {
  return fail(DiagnosticId::kFileNotWritable, "cannot make a temporary folder: " + why,
              "set TMPDIR to a folder where you may write", {.file = path.string()});
}

Result<fs::path> parent_folder() {
  std::error_code error;
  fs::path folder = fs::temp_directory_path(error);
  if (!error) return folder;
  const char* given = ::getenv("TMPDIR");
  return refuse(given == nullptr ? "/tmp" : given, error.message());
}

bool builds_in(const fs::path& folder) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._+-";
  return folder.string().find_first_not_of(kSafe) == std::string::npos;
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::create_in(const fs::path& parent) {
  std::string path = (parent / "deuteron-XXXXXX").string();
  const auto held = block_signals();
  if (::mkdtemp(path.data()) == nullptr) return refuse(parent, std::strerror(errno));
  return TemporaryFolder(path);
}

Result<TemporaryFolder> TemporaryFolder::create() {
  DTR_ASSIGN(const fs::path parent, parent_folder());
  return create_in(parent);
}

Result<TemporaryFolder> TemporaryFolder::create_for_build() {
  DTR_ASSIGN(fs::path parent, parent_folder());
  std::error_code none;
  const fs::path absolute = fs::canonical(parent, none);  // CMake follows links
  if (!builds_in(absolute))
    parent = fs::is_directory("/tmp", none) && ::access("/tmp", W_OK) == 0 ? "/tmp" : "/var/tmp";
  return create_in(parent);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace dtr
