// Writes an output as a whole or not at all: the bytes go to a new file beside the target, which takes its name when it is complete.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "support/result.h"

namespace dtr {

class OutputFile {
 public:
  // Errors of all functions: kFileNotWritable (folder missing, no permission, no space). A target that is no regular file
  // (/dev/stdout, a pipe) is written directly.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without commit nothing is left behind

  Status write(std::span<const std::byte> bytes);
  // The file appears under its name, replacing one that is there.
  Status commit();

 private:
  OutputFile(std::string path, std::string temporary, int fd) : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  tl::unexpected<Diagnostic> refuse(int error) const;

  std::string path_;
  std::string temporary_;  // empty: the target is written directly
  int fd_ = -1;
};

Status write_file(const std::string& path, std::span<const std::byte> bytes);
Status write_file(const std::string& path, std::string_view text);

}  // namespace dtr
