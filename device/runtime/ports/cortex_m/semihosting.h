// Text, files and the end of the program through a debugger or an emulator: Arm's semihosting
// (document "Semihosting for AArch32 and AArch64"), without which the first call stops the core;
// or, built with DEUTERON_SERIAL, the board's serial ports (serial.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dtr::port {

void print(std::string_view text);
void print(uint64_t number);

// A file of the host; paths are relative to where the emulator was started.
class HostFile {
 public:
  enum class Mode : uint32_t { kRead = 1, kWrite = 5 };  // "rb", "wb"
  HostFile(const char* path, Mode mode);
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;
  ~HostFile();

  bool is_open() const;
  // Bytes that were read: fewer than asked for at the end of the file.
  size_t read(std::span<std::byte> bytes);
  bool write(std::span<const std::byte> bytes);

 private:
  uint32_t handle_;
};

[[noreturn]] void exit(uint32_t code);

}  // namespace dtr::port
