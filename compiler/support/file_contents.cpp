#include "compiler/support/file_contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace dtr {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<FileContents> FileContents::read(const std::string& path, size_t most) {
  const auto refuse = [&](const char* why, const char* fix = "check the path and its permissions") {
    return fail(DiagnosticId::kFileNotFound, std::string("cannot read the file: ") + why, fix,
                {.file = path});
  };
  // What is no file is not opened: a pipe waits for its writer, a device may act.
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file");
  const Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (descriptor.fd < 0) return refuse(std::strerror(errno));
  if (::fstat(descriptor.fd, &status) != 0) return refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file");
  const size_t size = std::min(static_cast<size_t>(status.st_size), most);
  if (size == 0) return FileContents({});
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return refuse(std::strerror(errno));
  ::madvise(address, size, MADV_HUGEPAGE);  // half of the time is faults of small pages
  FileContents file({static_cast<const std::byte*>(address), size});
  for (size_t done = 0; done < size;) {
    const ssize_t count =
        ::read(descriptor.fd, static_cast<std::byte*>(address) + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return refuse(std::strerror(errno));
    if (count == 0)
      return refuse("it became shorter while it was read",
                    "wait until the program that writes it has ended");
    done += static_cast<size_t>(count);
  }
  ::mprotect(address, size, PROT_READ);
  return file;
}

FileContents::FileContents(FileContents&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

FileContents& FileContents::operator=(FileContents&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

FileContents::~FileContents() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace dtr
