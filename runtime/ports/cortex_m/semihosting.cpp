#include "runtime/ports/cortex_m/semihosting.h"

#include <cstring>

#include "runtime/ports/cortex_m/host_files.h"

namespace dtr::port {
namespace {

enum class Operation : uint32_t { kOpen = 0x01, kClose = 0x02, kWrite0 = 0x04, kWrite = 0x05, kRead = 0x06, kExitExtended = 0x20 };

uint32_t call(Operation operation, const void* arguments) {
  register uint32_t r0 asm("r0") = static_cast<uint32_t>(operation);
  register const void* r1 asm("r1") = arguments;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

uint32_t word(const void* pointer) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer)); }

}  // namespace

void print(std::string_view text) {
  char buffer[64];
  while (!text.empty()) {
    const size_t count = text.size() < sizeof buffer - 1 ? text.size() : sizeof buffer - 1;
    std::memcpy(buffer, text.data(), count);
    buffer[count] = '\0';
    call(Operation::kWrite0, buffer);
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

HostFile::HostFile(const char* path, Mode mode) : handle_(port_open(path, static_cast<port_mode>(mode))) {}
HostFile::~HostFile() { port_close(handle_); }
bool HostFile::is_open() const { return handle_ != PORT_CLOSED; }
size_t HostFile::read(std::span<std::byte> bytes) { return port_read(handle_, bytes.data(), bytes.size()); }
bool HostFile::write(std::span<const std::byte> bytes) { return port_write(handle_, bytes.data(), bytes.size()) != 0; }

void exit(uint32_t code) {
  constexpr uint32_t kApplicationExit = 0x20026;
  const uint32_t arguments[] = {kApplicationExit, code};
  call(Operation::kExitExtended, arguments);
  for (;;) {
  }
}

}  // namespace dtr::port

using dtr::port::call;
using dtr::port::Operation;
using dtr::port::word;

port_file port_open(const char* path, port_mode mode) {
  const uint32_t arguments[] = {word(path), static_cast<uint32_t>(mode), static_cast<uint32_t>(std::strlen(path))};
  return call(Operation::kOpen, arguments);
}

void port_close(port_file file) {
  if (file != PORT_CLOSED) call(Operation::kClose, &file);
}

size_t port_read(port_file file, void* data, size_t bytes) {
  const uint32_t arguments[] = {file, word(data), static_cast<uint32_t>(bytes)};
  const uint32_t missing = call(Operation::kRead, arguments);
  return missing > bytes ? 0 : bytes - missing;
}

int port_write(port_file file, const void* data, size_t bytes) {
  const uint32_t arguments[] = {file, word(data), static_cast<uint32_t>(bytes)};
  return static_cast<int>(call(Operation::kWrite, arguments) == 0);
}

void port_print(const char* text) { call(Operation::kWrite0, text); }
