// Writes an output as a whole or not at all: the bytes go to a new file beside the target, which
// takes its name when it is complete.
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
  // Errors of all functions: kFileNotWritable (folder missing, no permission, no space). A target
  // that is no regular file
  // (/dev/stdout, a pipe) is written directly; a link stays, and what it points at is replaced.
  static Result<OutputFile> create(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without commit nothing is left behind, nor if a signal ends us

  Result<void> write(std::span<const std::byte> bytes);
  // The file appears under its name, replacing one that is there.
  Result<void> commit();
  // Several files that belong together: all appear, or none.
  static Result<void> commit(std::span<OutputFile> files);

 private:
  OutputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  tl::unexpected<Diagnostic> refuse(int error) const;
  Result<void> close();
  Result<void> take_name();

  std::string path_;
  std::string temporary_;               // empty: the target is written directly
  std::optional<Ephemeral> ephemeral_;  // the temporary
  int fd_ = -1;
};

// Errors: kFileNotWritable, where an output is also an input, or the same file twice. Empty paths
// are no files.
Result<void> check_outputs(std::initializer_list<std::string> inputs,
                           std::initializer_list<std::string> outputs);

Result<void> write_file(const std::string& path, std::span<const std::byte> bytes);
Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace dtr
