#include <cstring>

#include "device/runtime/ports/cortex_m/host_files.h"
#include "device/runtime/ports/cortex_m/semihosting.h"

namespace dtr::port {

void print(std::string_view text) {
  char buffer[64];
  while (!text.empty()) {
    const size_t count = text.size() < sizeof buffer - 1 ? text.size() : sizeof buffer - 1;
    std::memcpy(buffer, text.data(), count);
    buffer[count] = '\0';
    port_print(buffer);
    text.remove_prefix(count);
  }
}

void print(uint64_t number) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number > 0);
  print(std::string_view(digits + at, sizeof digits - at));
}

HostFile::HostFile(const char* path, Mode mode)
    : handle_(port_open(path, static_cast<port_mode>(mode))) {}
HostFile::~HostFile() { port_close(handle_); }
bool HostFile::is_open() const { return handle_ != PORT_CLOSED; }
size_t HostFile::read(std::span<std::byte> bytes) {
  return port_read(handle_, bytes.data(), bytes.size());
}
bool HostFile::write(std::span<const std::byte> bytes) {
  return port_write(handle_, bytes.data(), bytes.size()) != 0;
}

void exit(uint32_t code) { port_exit(code); }

}  // namespace dtr::port
