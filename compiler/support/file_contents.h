// What a file held when it was read, in memory of its own: what was checked stays as it is, whoever
// writes or cuts the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/support/result.h"

namespace dtr {

class FileContents {
 public:
  // The file, or its first `most` bytes if it has more. Errors: kFileNotFound (missing, unreadable,
  // no regular file, cut while it is read). An empty file is an empty span.
  static Result<FileContents> read(const std::string& path, size_t most = SIZE_MAX);

  FileContents(FileContents&& other) noexcept;
  FileContents& operator=(FileContents&& other) noexcept;
  FileContents(const FileContents&) = delete;
  FileContents& operator=(const FileContents&) = delete;
  ~FileContents();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit FileContents(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace dtr
