// What an image that a program took over would try on the host: the main of a firmware project
// (test/e2e/hostile_names.py puts it there and writes the folder for FOLDER). It calls semihosting
// to run a command, to read, write, rename and remove files, and skips each call that is a fault;
// what it could read is printed. With semihosting all of it works, which shows that the attempts
// are real.
#include <cstdint>
#include <cstring>

#include "device/runtime/ports/cortex_m/semihosting.h"

#define FOLDER "@FOLDER@"

extern "C" void skip_call();

namespace {

using dtr::port::print;

enum class Operation : uint32_t {
  kOpen = 0x01,
  kClose = 0x02,
  kWrite = 0x05,
  kRead = 0x06,
  kRemove = 0x0E,
  kRename = 0x0F,
  kSystem = 0x12
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
uint32_t length(const char* text) { return static_cast<uint32_t>(std::strlen(text)); }

uint32_t open_file(const char* path, uint32_t mode) {
  const uint32_t arguments[] = {word(path), mode, length(path)};
  return call(Operation::kOpen, arguments);
}

alignas(512) uint32_t vectors[64];

// Faults go on behind the call instead of ending the program.
void skip_faults() {
  volatile uint32_t& table = *reinterpret_cast<volatile uint32_t*>(0xE000ED08);
  std::memcpy(vectors, reinterpret_cast<const void*>(table), 16 * sizeof(uint32_t));
  for (const int fault : {3, 4, 5, 6, 7, 12})
    vectors[fault] = word(reinterpret_cast<const void*>(skip_call));
  table = word(vectors);
  asm volatile("dsb\n isb" : : : "memory");
}

}  // namespace

__attribute__((naked)) void skip_call() {
  asm volatile(
      "ldr r2, [sp, #24]\n"  // the address that the core goes back to
      "adds r2, #2\n"
      "str r2, [sp, #24]\n"
      "bx lr\n");
}

int main() {
  skip_faults();
  constexpr const char* kCommand = "touch " FOLDER "/ran";
  const uint32_t command[] = {word(kCommand), length(kCommand)};
  call(Operation::kSystem, command);

  static char secret[16] = {};
  const uint32_t reading = open_file(FOLDER "/secret", 0);
  const uint32_t to_read[] = {reading, word(secret), sizeof secret - 1};
  call(Operation::kRead, to_read);

  const uint32_t writing = open_file(FOLDER "/written", 4);
  const uint32_t to_write[] = {writing, word(kCommand), 4};
  call(Operation::kWrite, to_write);
  call(Operation::kClose, &writing);

  constexpr const char *kFrom = FOLDER "/to_rename", *kTo = FOLDER "/renamed",
                       *kRemoved = FOLDER "/to_remove";
  const uint32_t names[] = {word(kFrom), length(kFrom), word(kTo), length(kTo)};
  call(Operation::kRename, names);
  const uint32_t removed[] = {word(kRemoved), length(kRemoved)};
  call(Operation::kRemove, removed);

  print("read ");
  print(std::string_view(secret));
  print("\ntried everything\n");
  return 0;
}
