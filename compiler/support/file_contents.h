// Owns a copy of a file's contents: bytes that have been checked cannot change if another process
// writes or truncates the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/support/result.h"

namespace dtr {

class FileContents {
 public:
  // Reads the file, or its first `most` bytes if it is longer. An empty file is an empty span.
  // Error: kFileNotFound (missing, unreadable, not a regular file, truncated while it is read).
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
