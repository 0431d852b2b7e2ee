// What a file held when it was read, in memory of its own: what was checked stays as it is, whoever writes or cuts the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "compiler/support/result.h"

namespace dtr {

class MappedFile {
 public:
  // Errors: kFileNotFound (missing, unreadable, no regular file, cut while it is read). An empty file is an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace dtr
