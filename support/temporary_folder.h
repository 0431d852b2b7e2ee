// A new folder for the time of a piece of work.
#pragma once

#include <string>
#include <utility>

#include "support/interruption.h"
#include "support/result.h"

namespace dtr {

class TemporaryFolder {
 public:
  // Errors: kFileNotWritable.
  static Result<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})), ephemeral_(std::move(other.ephemeral_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();  // removes it with all that is in it; so does a signal that ends us
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(const std::string& path) : path_(path), ephemeral_(Ephemeral::path(path)) {}
  std::string path_;
  Ephemeral ephemeral_;
};

}  // namespace dtr
