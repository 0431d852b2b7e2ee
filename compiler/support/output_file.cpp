#include "compiler/support/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace dtr {
namespace {

constexpr std::chrono::milliseconds kReaderLimit(5000), kReaderPause(10);

tl::unexpected<Diagnostic> not_writable(const std::string& path, int error) {
  if (error == ENXIO)
    return fail(DiagnosticId::kFileNotWritable, "nobody reads the pipe", "start the reader first",
                {.file = path});
  const char* fix = error == ENOENT   ? "create the folder first"
                    : error == ENOSPC ? "free some space or write elsewhere"
                    : error == EACCES || error == EPERM || error == EROFS
                        ? "choose a folder where you may write"
                        : "check the path";
  return fail(DiagnosticId::kFileNotWritable,
              std::string("cannot write the file: ") + std::strerror(error), fix, {.file = path});
}

// A device or a pipe. Opening a pipe blocks until it has a reader; gives up after some seconds. A
// result below 0 sets errno.
int open_to_write(const std::string& path) {
  for (auto left = kReaderLimit;; left -= kReaderPause) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
      ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      return fd;
    }
    if (errno != ENXIO || left <= kReaderPause) return fd;
    std::this_thread::sleep_for(kReaderPause);
  }
}

// Where an output goes: a link is followed, also to a file that is not there yet, as `>` of a shell
// does.
Result<std::filesystem::path> written_path(const std::string& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::filesystem::path target = path;
  for (int links = 0;; ++links) {
    std::error_code error;
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(target, error))) return target;
    if (links == kMostLinks) return not_writable(path, ELOOP);
    const std::filesystem::path next = std::filesystem::read_symlink(target, error);
    if (error) return not_writable(path, error.value());
    target = target.parent_path() / next;  // an absolute one replaces it
  }
}

}  // namespace

tl::unexpected<Diagnostic> OutputFile::refuse(int error) const {
  return not_writable(path_, error);
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return not_writable(path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    const int fd = open_to_write(path);
    if (fd < 0) return not_writable(path, errno);
    return OutputFile(path, fd);
  }
  const Result<std::filesystem::path> target_path = written_path(path);
  if (!target_path) return tl::unexpected(target_path.error());
  const std::filesystem::path& target = *target_path;
  for (int attempt = 0;; ++attempt) {
    std::string temporary =
        target.string() + ".part" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    const auto held = block_signals();
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
      OutputFile file(target.string(), fd);
      file.ephemeral_ = Ephemeral::path(temporary);
      file.temporary_ = std::move(temporary);
      return file;
    }
    if (errno != EEXIST || attempt == 100) return not_writable(path, errno);
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      ephemeral_(std::exchange(other.ephemeral_, {})),
      fd_(std::exchange(other.fd_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(ephemeral_, other.ephemeral_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return refuse(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<void> OutputFile::close() {
  if (fd_ < 0) return {};
  if (::close(std::exchange(fd_, -1)) != 0) return refuse(errno);
  return {};
}

Result<void> OutputFile::take_name() {
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return refuse(errno);
  temporary_.clear();
  ephemeral_.reset();
  return {};
}

Result<void> OutputFile::commit() { return commit({this, 1}); }

Result<void> OutputFile::commit(std::span<OutputFile> files) {
  for (OutputFile& file : files) DTR_TRY(file.close());
  for (size_t i = 0; i < files.size(); ++i) {
    Result<void> named = files[i].take_name();
    if (named) continue;
    std::error_code none;
    for (const OutputFile& before : files.first(i))
      if (std::filesystem::is_regular_file(before.path_, none))
        std::filesystem::remove(before.path_, none);
    return named;
  }
  return {};
}

Result<void> check_outputs(std::initializer_list<std::string> inputs,
                           std::initializer_list<std::string> outputs) {
  const auto same = [](const std::string& given_a, const std::string& given_b) {
    const auto resolved = [](const std::string& path) {
      // Absolute: weakly_canonical leaves a relative path as it is where its first part is missing.
      std::error_code error;
      return std::filesystem::absolute(written_path(path).value_or(path), error).string();
    };
    const std::string a = resolved(given_a), b = resolved(given_b);
    std::error_code error;  // one is not there yet
    return std::filesystem::weakly_canonical(a, error) ==
               std::filesystem::weakly_canonical(b, error) ||
           (std::filesystem::is_regular_file(a, error) && std::filesystem::equivalent(a, b, error));
  };
  for (const std::string* output = outputs.begin(); output != outputs.end(); ++output) {
    std::error_code error;
    if (output->empty() || (std::filesystem::exists(*output, error) &&
                            !std::filesystem::is_regular_file(*output, error)))
      continue;
    for (const std::string& input : inputs)
      if (!input.empty() && same(input, *output))
        return fail(DiagnosticId::kFileNotWritable, "the output is also an input: it would be lost",
                    "give the output another name", {.file = *output});
    for (const std::string* other = outputs.begin(); other != output; ++other)
      if (!other->empty() && same(*other, *output))
        return fail(DiagnosticId::kFileNotWritable, "two outputs go to this file",
                    "give each its own name", {.file = *output});
  }
  return {};
}

Result<void> write_file(const std::string& path, std::span<const std::byte> bytes) {
  DTR_ASSIGN(OutputFile file, OutputFile::create(path));
  DTR_TRY(file.write(bytes));
  return file.commit();
}

Result<void> write_file(const std::string& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace dtr
