// A new folder for the time of a piece of work.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "compiler/support/interruption.h"
#include "compiler/support/result.h"

namespace dtr {

class TemporaryFolder {
 public:
  // Where TMPDIR says, else in /tmp. Errors: kFileNotWritable.
  static Result<TemporaryFolder> create();
  // The same for a build: in /tmp or /var/tmp where the path has characters that mean something to
  // CMake, Ninja, make or the linker (blanks and quotes, `$`, `;`, `#`, …).
  static Result<TemporaryFolder> create_for_build();
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), ephemeral_(std::move(other.ephemeral_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();  // removes it with all that is in it; so does a signal that ends us
  const std::string& path() const { return path_; }

 private:
  static Result<TemporaryFolder> create_in(const std::filesystem::path& parent);
  explicit TemporaryFolder(const std::string& path)
      : path_(path), ephemeral_(Ephemeral::path(path)) {}
  std::string path_;
  Ephemeral ephemeral_;
};

}  // namespace dtr
