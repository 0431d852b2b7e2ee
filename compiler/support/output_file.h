// Writes a file atomically: the bytes go to a temporary file beside the target, which is renamed
// when it is complete.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/interruption.h"
#include "compiler/support/result.h"

namespace dtr {

class OutputFile {
 public:
  // Error of all functions: kFileNotWritable (folder missing, no permission, no space). A target
  // that is not a regular file (/dev/stdout, a pipe) is written directly. A symbolic link is kept,
  // and its target replaced.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // removes the temporary file unless it was committed; a signal does too

  Result<void> write(std::span<const std::byte> bytes);
  // No more is written: gives the file descriptor back before commit(), which calls it too.
  Result<void> close();
  // Renames the temporary file to the target, replacing an existing file.
  Result<void> commit();
  // Commits several files: all of them, or none.
  static Result<void> commit(std::span<OutputFile> files);

 private:
  OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  tl::unexpected<Diagnostic> refuse(int error) const;
  Result<void> take_name();

  std::string path_;
  std::string temporary_;               // empty: the target is written directly
  std::optional<Ephemeral> ephemeral_;  // the temporary
  int fd_ = -1;
};

// Error: kFileNotWritable if an output is also an input, or two outputs are one file. Empty paths
// are ignored.
Result<void> check_outputs(std::initializer_list<std::string> inputs,
                           std::initializer_list<std::string> outputs);

// Write a whole file, atomically. Error: kFileNotWritable.
Result<void> write_file(const std::string& path, std::span<const std::byte> bytes);
Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace dtr
