// Arm's semihosting: a trap that a debugger or an emulator answers. It gives an image whatever its
// user may do on the host, commands included; serial.cpp gives it three streams.
#include "device/runtime/ports/cortex_m/semihosting.h"

#include <cstring>

#include "device/runtime/ports/cortex_m/host_files.h"

namespace {

enum class Operation : uint32_t {
  kOpen = 0x01,
  kClose = 0x02,
  kWrite0 = 0x04,
  kWrite = 0x05,
  kRead = 0x06,
  kExitExtended = 0x20
};

uint32_t call(Operation operation, const void* arguments) {
  register uint32_t r0 asm("r0") = static_cast<uint32_t>(operation);
  register const void* r1 asm("r1") = arguments;
  asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

uint32_t word(const void* pointer) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer));
}

}  // namespace

port_file port_open(const char* path, port_mode mode) {
  const uint32_t arguments[] = {word(path), static_cast<uint32_t>(mode),
                                static_cast<uint32_t>(std::strlen(path))};
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

void port_exit(uint32_t code) {
  constexpr uint32_t kApplicationExit = 0x20026;
  const uint32_t arguments[] = {kApplicationExit, code};
  call(Operation::kExitExtended, arguments);
  for (;;) {
  }
}
