// A new folder for the time of a piece of work.
#pragma once

#include <string>
#include <utility>

#include "support/result.h"

namespace dtr {

class TemporaryFolder {
 public:
  // Errors: kFileNotWritable.
  static Result<TemporaryFolder> create();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();  // removes it with all that is in it
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace dtr
