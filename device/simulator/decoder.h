// Decodes an untrusted NPU payload: checks header, checksum, operand table, and each command's
// length, arguments and addresses once, when a program is prepared, so that running it needs no
// checks. Freestanding, no heap.
//
// The format is in `device/npu/microcode.h`. This reader is independent of the compiler's encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "device/npu/arguments.h"
#include "device/npu/driver.h"
#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::simulator {

// An error and its command (index in the microcode; 0 for the header).
struct Fault {
  npu::Status status = npu::Status::kOk;
  uint32_t command = 0;
};

// A payload that passed `decode`. Points into the caller's bytes.
struct Payload {
  npu::Header header{};
  std::span<const std::byte> bytes;    // of the length in the header
  uint32_t most_copies_in_flight = 0;  // started and not awaited, at any time
  uint32_t peak_scratch_bytes = 0;     // end of the highest range of scratch that a command touches

  npu::Operand operand(uint32_t index) const;
  bool constants_in_sram() const { return (header.flags & npu::kConstantsInSram) != 0; }
  std::span<const std::byte> constants() const {
    return bytes.subspan(header.constants_offset, header.constants_bytes);
  }
  const std::byte* commands() const {
    return bytes.data() + sizeof(npu::Header) + size_t{header.operand_count} * sizeof(npu::Operand);
  }
  // The size of a region in bytes; 0 if there is no such region.
  uint32_t region_bytes(uint32_t region) const;
};

// `payload` must be aligned to npu::kAlignment; `result` is valid if the status is kOk. Sizes and
// divisors in the payload are compared with `target` before they are used. kWrongTarget if `target`
// is not a valid machine (npu::is_machine).
Fault decode(const npu::Target& target, std::span<const std::byte> payload, Payload& result);

namespace internal {
inline uint32_t word_at(const std::byte* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}
template <class Command, class Visitor>
npu::Status apply(uint32_t index, const std::byte* arguments, Visitor& visitor) {
  Command command{};
  if constexpr (npu::command_words<Command>() > 1) std::memcpy(&command, arguments, sizeof command);
  return visitor(index, command);
}
}  // namespace internal

// Calls `visitor(index, command)` with the struct of each command in order; a Status other than kOk
// ends the visit. `commands` has `count` commands with verified lengths.
template <class Visitor>
Fault visit(const std::byte* commands, uint32_t count, Visitor&& visitor) {
  using npu::Opcode;
  for (uint32_t index = 0; index < count; ++index) {
    const uint32_t head = internal::word_at(commands);
    const std::byte* arguments = commands + sizeof head;
    npu::Status status = npu::Status::kOk;
    switch (static_cast<Opcode>(head & 0xFFFFu)) {
#define DTR_NPU_COMMAND(type, function, opcode)                     \
  case Opcode::k##type:                                             \
    status = internal::apply<npu::type>(index, arguments, visitor); \
    break;
#include "device/npu/commands.inc"
      default:
        status = npu::Status::kUnknownOpcode;
    }
    if (status != npu::Status::kOk) return {status, index};
    commands += size_t{head >> 16} * 4;
  }
  return {};
}

template <class Visitor>
Fault visit(const Payload& payload, Visitor&& visitor) {
  return visit(payload.commands(), payload.header.command_count, visitor);
}

}  // namespace dtr::simulator
