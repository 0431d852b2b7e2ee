// Reads an NPU payload and believes nothing: header, checksum, operand table, and each command's length, arguments and addresses are
// checked once, when a program is prepared, so that running it needs no check of them. Freestanding, no heap.
//
// The format is `device/npu/microcode.h`; this is the simulator's own reading of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "device/npu/driver.h"
#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::simulator {

// What is wrong and at which command (index in the microcode; 0 for the header).
struct Fault {
  npu::Status status = npu::Status::kOk;
  uint32_t command = 0;
};

// A payload that passed `decode`. Points into the caller's bytes.
struct Payload {
  npu::Header header{};
  std::span<const std::byte> bytes;    // as long as the header says
  uint32_t most_copies_in_flight = 0;  // started and not waited for, at any time
  uint32_t peak_scratch_bytes = 0;     // end of the highest range of scratch that a command touches

  npu::Operand operand(uint32_t index) const;
  bool constants_in_sram() const { return (header.flags & npu::kConstantsInSram) != 0; }
  std::span<const std::byte> constants() const { return bytes.subspan(header.constants_offset, header.constants_bytes); }
  const std::byte* commands() const { return bytes.data() + sizeof(npu::Header) + size_t{header.operand_count} * sizeof(npu::Operand); }
  // Bytes of a region; 0 if there is no such region.
  uint32_t region_bytes(uint32_t region) const;
};

// `payload` must be aligned to npu::kAlignment; `result` is valid if the status is kOk. Nothing is sized or divided by what the payload
// says before it was compared with `target`, which may be any machine: kWrongTarget if npu::is_machine refuses it.
Fault decode(const npu::Target& target, std::span<const std::byte> payload, Payload& result);

// The last command, as a type for visitors.
struct End {
  static constexpr npu::Opcode kOpcode = npu::Opcode::kEnd;
};

// `count` times what is inside, `stride` bytes apart.
struct Repeat {
  uint64_t count = 1, stride = 0;
};

// Memory that a command touches. An input may be the output's own where `in_place` says so.
struct Access {
  npu::Address address{};
  uint64_t bytes = 0;  // from the first to behind the last byte
  bool write = false;
  bool in_place = false;
  uint64_t run = 0;                 // bytes side by side; all of them if nothing is repeated
  std::array<Repeat, 3> repeats{};  // of runs, innermost first
};
// No byte belongs to both; `distance` is from the first byte of `a` to the first of `b`. Boxes whose spans meet are apart if all of their
// strides are multiples of one period and their runs lie apart inside of it: channels of one tensor, for one.
bool apart(const Access& a, const Access& b, int64_t distance);
inline bool same_box(const Access& a, const Access& b) {
  const auto same = [](const Repeat& x, const Repeat& y) { return x.count == y.count && (x.count == 1 || x.stride == y.stride); };
  return a.bytes == b.bytes && a.run == b.run && same(a.repeats[0], b.repeats[0]) && same(a.repeats[1], b.repeats[1]) &&
         same(a.repeats[2], b.repeats[2]);
}
struct Accesses {
  std::array<Access, 7> list{};  // the output is the last
  uint32_t count = 0;
  std::span<const Access> all() const& { return {list.data(), count}; }
  std::span<const Access> all() && = delete;
};
// Boxes are exact, but those of a Move or Reduce and of walks that are no images, which are their whole spans. `Wait` and `End` touch none.
Accesses accesses(const npu::Target& target, const npu::Copy& command);
Accesses accesses(const npu::Target& target, const npu::Conv2d& command);
Accesses accesses(const npu::Target& target, const npu::Depthwise& command);
Accesses accesses(const npu::Target& target, const npu::Pool& command);
Accesses accesses(const npu::Target& target, const npu::Binary& command);
Accesses accesses(const npu::Target& target, const npu::Lookup& command);
Accesses accesses(const npu::Target& target, const npu::Softmax& command);
Accesses accesses(const npu::Target& target, const npu::Move& command);
Accesses accesses(const npu::Target& target, const npu::Fill& command);
Accesses accesses(const npu::Target& target, const npu::Reduce& command);
Accesses accesses(const npu::Target& target, const npu::Resize& command);
Accesses accesses(const npu::Target& target, const npu::Matmul& command);
Accesses accesses(const npu::Target& target, const npu::Normalize& command);
Accesses accesses(const npu::Target& target, const npu::Gather& command);
inline Accesses accesses(const npu::Target&, const npu::Wait&) { return {}; }
inline Accesses accesses(const npu::Target&, const End&) { return {}; }

namespace internal {
inline uint32_t word_at(const std::byte* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}
template <class Command, class Visitor>
npu::Status apply(uint32_t index, const std::byte* arguments, Visitor& visitor) {
  Command command{};
  std::memcpy(&command, arguments, sizeof command);
  return visitor(index, command);
}
}  // namespace internal

// Calls `visitor(index, command)` with the struct of each command in order; it returns a Status, anything but kOk ends the visit.
// `commands` holds `count` commands whose lengths have been checked.
template <class Visitor>
Fault visit(const std::byte* commands, uint32_t count, Visitor&& visitor) {
  using npu::Opcode;
  for (uint32_t index = 0; index < count; ++index) {
    const uint32_t head = internal::word_at(commands);
    const std::byte* arguments = commands + sizeof head;
    npu::Status status = npu::Status::kOk;
    switch (static_cast<Opcode>(head & 0xFFFFu)) {
      case Opcode::kEnd:
        status = visitor(index, End{});
        break;
      case Opcode::kCopy:
        status = internal::apply<npu::Copy>(index, arguments, visitor);
        break;
      case Opcode::kWait:
        status = internal::apply<npu::Wait>(index, arguments, visitor);
        break;
      case Opcode::kConv2d:
        status = internal::apply<npu::Conv2d>(index, arguments, visitor);
        break;
      case Opcode::kDepthwise:
        status = internal::apply<npu::Depthwise>(index, arguments, visitor);
        break;
      case Opcode::kPool:
        status = internal::apply<npu::Pool>(index, arguments, visitor);
        break;
      case Opcode::kBinary:
        status = internal::apply<npu::Binary>(index, arguments, visitor);
        break;
      case Opcode::kLookup:
        status = internal::apply<npu::Lookup>(index, arguments, visitor);
        break;
      case Opcode::kSoftmax:
        status = internal::apply<npu::Softmax>(index, arguments, visitor);
        break;
      case Opcode::kMove:
        status = internal::apply<npu::Move>(index, arguments, visitor);
        break;
      case Opcode::kFill:
        status = internal::apply<npu::Fill>(index, arguments, visitor);
        break;
      case Opcode::kReduce:
        status = internal::apply<npu::Reduce>(index, arguments, visitor);
        break;
      case Opcode::kResize:
        status = internal::apply<npu::Resize>(index, arguments, visitor);
        break;
      case Opcode::kMatmul:
        status = internal::apply<npu::Matmul>(index, arguments, visitor);
        break;
      case Opcode::kNormalize:
        status = internal::apply<npu::Normalize>(index, arguments, visitor);
        break;
      case Opcode::kGather:
        status = internal::apply<npu::Gather>(index, arguments, visitor);
        break;
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
