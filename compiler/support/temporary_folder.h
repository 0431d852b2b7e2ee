// A temporary folder, removed by the destructor.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "compiler/support/interruption.h"
#include "compiler/support/result.h"

namespace dtr {

class TemporaryFolder {
 public:
  // Creates a folder in TMPDIR, else in /tmp. Error: kFileNotWritable.
  static Result<TemporaryFolder> create();
  // The same for a build: in /tmp or /var/tmp if TMPDIR has characters that are special to CMake,
  // Ninja, make or the linker (blanks and quotes, `$`, `;`, `#`, …). Error: kFileNotWritable.
  static Result<TemporaryFolder> create_for_build();
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), ephemeral_(std::move(other.ephemeral_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  // removes the folder and its contents; a signal that ends the process does too
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  static Result<TemporaryFolder> create_in(const std::filesystem::path& parent);
  explicit TemporaryFolder(const std::string& path)
      : path_(path), ephemeral_(Ephemeral::path(path)) {}
  std::string path_;
  Ephemeral ephemeral_;
};

}  // namespace dtr
