// Text and files by the board's serial ports (CMSDK UARTs) and its memory: what an emulator without
// semihosting gives an image, which then reaches nothing else of the host. `deuteron run --on qemu`
// starts it so:
//
//   port 0  text
//   port 1  what is written to outputs.bin
//   port 2  what is written to profile.bin
//   memory  inputs.bin, its bytes before board::kInputsEnd - 4, how many they are in the word there
//
// The end of the program is a reset, after a line `exit CODE`; the emulator does not start again
// (-no-reboot).
#include <board.h>  // of the board: its folder is in the include path

#include <cstring>
#include <iterator>

#include "device/runtime/ports/cortex_m/host_files.h"
#include "device/runtime/ports/cortex_m/semihosting.h"

namespace {

namespace board = dtr::board;

constexpr uint32_t kData = 0x0, kState = 0x4, kControl = 0x8,
                   kDivider = 0x10;  // registers of a port
constexpr uint32_t kFull = 1, kTransmit = 1, kLeastDivider = 16;
constexpr port_file kText = 0, kOutputs = 1, kProfile = 2, kInputs = 3;

volatile uint32_t& at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

bool is_enabled[std::size(board::kSerialPorts)];

void wait_for_room(port_file port) {
  while ((at(board::kSerialPorts[port] + kState) & kFull) != 0) {
  }
}

void put(port_file port, uint8_t byte) {
  const uint32_t base = board::kSerialPorts[port];
  if (!is_enabled[port]) {
    at(base + kDivider) = kLeastDivider;
    at(base + kControl) = kTransmit;
    is_enabled[port] = true;
  }
  wait_for_room(port);
  at(base + kData) = byte;
}

constexpr uint32_t kInputsCount = board::kInputsEnd - sizeof(uint32_t);
size_t inputs_read = 0;

}  // namespace

port_file port_open(const char* path, port_mode mode) {
  if (mode == PORT_READ && std::strcmp(path, "inputs.bin") == 0) return kInputs;
  if (mode == PORT_WRITE && std::strcmp(path, "outputs.bin") == 0) return kOutputs;
  if (mode == PORT_WRITE && std::strcmp(path, "profile.bin") == 0) return kProfile;
  return PORT_CLOSED;
}

void port_close(port_file) {}

size_t port_read(port_file file, void* data, size_t bytes) {
  if (file != kInputs) return 0;
  const size_t whole = at(kInputsCount), left = whole - inputs_read,
               count = bytes < left ? bytes : left;
  std::memcpy(data, reinterpret_cast<const std::byte*>(kInputsCount - whole + inputs_read), count);
  inputs_read += count;
  return count;
}

int port_write(port_file file, const void* data, size_t bytes) {
  if (file != kOutputs && file != kProfile) return 0;
  for (size_t i = 0; i < bytes; ++i) put(file, static_cast<const uint8_t*>(data)[i]);
  return 1;
}

void port_print(const char* text) {
  for (; *text != '\0'; ++text) put(kText, static_cast<uint8_t>(*text));
}

void port_exit(uint32_t code) {
  constexpr uint32_t kResetControl = 0xE000ED0C, kReset = 0x05FA0004;
  dtr::port::print("exit ");
  dtr::port::print(uint64_t{code});
  dtr::port::print("\n");
  for (port_file port = 0; port < std::size(board::kSerialPorts); ++port) wait_for_room(port);
  at(kResetControl) = kReset;
  for (;;) {
  }
}
