#include "device/simulator/decoder.h"

#include <bit>

#include "device/npu/cycles.h"
#include "device/numerics/crc32.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

static_assert(std::endian::native == std::endian::little, "microcode words are read from memory");

// Bounds, what may be read by whom, and where input and output may meet.
Status check_accesses(const Payload& payload, const Accesses& touched, bool is_copy) {
  for (const Access& access : touched.all()) {
    if (access.bytes == 0) return Status::kBadArgument;
    if (access.address.region == kConstants &&
        (access.write || !(is_copy || payload.constants_in_sram())))
      return Status::kFlashAccess;
    if (is_copy && !access.write && access.address.region != kConstants)
      return Status::kBadArgument;
    if (access.address.offset + access.bytes > payload.region_bytes(access.address.region))
      return Status::kOutOfBounds;
  }
  if (touched.count == 0) return Status::kOk;
  const Access& output = touched.list[touched.count - 1];
  for (const Access& input : touched.all().first(touched.count - 1)) {
    if (input.address.region != output.address.region) continue;
    if (input.in_place && input.address == output.address && same_box(input, output)) continue;
    if (!disjoint(input, output, int64_t{output.address.offset} - input.address.offset))
      return Status::kBadArgument;
  }
  return Status::kOk;
}

// Checks each command; collects what the payload needs.
class Checker {
 public:
  Checker(const Target& target, Payload& payload) : target_(target), payload_(payload) {}

  Status operator()(uint32_t index, const End&) {
    return index + 1 == payload_.header.command_count ? Status::kOk : Status::kBadArgument;
  }
  Status operator()(uint32_t, const Copy& command) {
    if (command.ticket != copies_ + 1 || payload_.constants_in_sram()) return Status::kBadArgument;
    ++copies_;
    if (copies_ - waited_ > payload_.most_copies_in_flight)
      payload_.most_copies_in_flight = copies_ - waited_;
    return touch(accesses(target_, command), true);
  }
  Status operator()(uint32_t, const Wait& command) {
    if (command.ticket == 0 || command.ticket > copies_) return Status::kBadArgument;
    if (command.ticket > waited_) waited_ = command.ticket;
    return Status::kOk;
  }
  template <class Call>
  Status operator()(uint32_t, const Call& command) {
    if (!arguments_valid(target_, command)) return Status::kBadArgument;
    const Status status = touch(accesses(target_, command), false);
    return status == Status::kOk ? spend(cycles(target_, command).total) : status;
  }
  // Operands are work too: each is looked through once.
  Status operands() {
    Status status = Status::kOk;
    for (uint32_t i = 0; i < payload_.header.operand_count && status == Status::kOk; ++i)
      status = spend(payload_.operand(i).bytes / kWorkBytes);
    return status;
  }

 private:
  Status touch(const Accesses& touched, bool is_copy) {
    const Status status = check_accesses(payload_, touched, is_copy);
    if (status != Status::kOk) return status;
    uint64_t work = 0;
    for (const Access& access : touched.all()) {
      const auto end = static_cast<uint32_t>(access.address.offset + access.bytes);
      if (access.address.region == kScratch && end > payload_.peak_scratch_bytes)
        payload_.peak_scratch_bytes = end;
      work += access.distinct_bytes() / kWorkBytes;
    }
    return spend(work);
  }
  // Each is far from the ends of 64 bits, since accesses are inside of their regions.
  Status spend(uint64_t cycles) {
    if (cycles > kMaxPayloadCycles - work_) return Status::kTooMuchWork;
    work_ += cycles;
    return Status::kOk;
  }

  const Target& target_;
  Payload& payload_;
  uint64_t work_ = 0;
  uint32_t copies_ = 0, waited_ = 0;
};

// Number of words of a command; 0 for an opcode that does not exist.
constexpr uint32_t words_of(Opcode command) {
  switch (command) {
#define DTR_NPU_COMMAND(type, function, opcode) \
  case Opcode::k##type:                         \
    return command_words<type>();
#include "device/npu/commands.inc"
  }
  return 0;
}

// The commands fill the microcode exactly, each has its opcode's length, and the last one is kEnd.
Fault check_lengths(const Payload& payload) {
  const uint64_t start = sizeof(Header) + uint64_t{payload.header.operand_count} * sizeof(Operand);
  const uint64_t end = uint64_t{payload.header.microcode_words} * 4;
  if (start > end) return {Status::kTruncated, 0};
  uint64_t words = (end - start) / 4;
  const std::byte* at = payload.bytes.data() + start;
  bool ended = false;
  for (uint32_t index = 0; index < payload.header.command_count; ++index) {
    if (words == 0) return {Status::kTruncated, index};
    const uint32_t head = internal::word_at(at);
    const auto opcode = static_cast<Opcode>(head & 0xFFFFu);
    const uint32_t expected = words_of(opcode);
    if (expected == 0) return {Status::kUnknownOpcode, index};
    if (head >> 16 != expected) return {Status::kBadArgument, index};
    if (expected > words) return {Status::kTruncated, index};
    words -= expected;
    at += size_t{expected} * 4;
    ended = opcode == Opcode::kEnd;
  }
  if (!ended || words != 0) return {Status::kBadArgument, payload.header.command_count};
  return {};
}

Status check_header(const Target& target, std::span<const std::byte> bytes, Payload& result) {
  Header& header = result.header;
  if (bytes.size() < sizeof header) return Status::kTruncated;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return Status::kBadMagic;
  if (header.version >> 16 != kVersionMajor || (header.version & 0xFFFFu) > kVersionMinor)
    return Status::kBadVersion;
  const uint64_t microcode_bytes = uint64_t{header.microcode_words} * 4;
  const uint64_t total = uint64_t{header.constants_offset} + header.constants_bytes;
  if (total > bytes.size() || microcode_bytes > header.constants_offset ||
      microcode_bytes < sizeof header)
    return Status::kTruncated;
  result.bytes = bytes.first(static_cast<size_t>(total));
  if (crc32_with_hole(result.bytes, offsetof(Header, crc32)) != header.crc32)
    return Status::kBadChecksum;
  if (!is_machine(target) || header.target_hash != format_hash(target)) return Status::kWrongTarget;
  if (header.constants_offset % kAlignment != 0 ||
      reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0)
    return Status::kMisaligned;
  for (const uint32_t word : header.reserved)
    if (word != 0) return Status::kBadArgument;
  if ((header.flags & ~uint32_t{kConstantsInSram}) != 0) return Status::kBadArgument;
  const uint64_t in_sram =
      uint64_t{header.scratch_bytes} + (result.constants_in_sram() ? header.constants_bytes : 0);
  if (in_sram > target.sram_bytes) return Status::kOutOfBounds;
  return Status::kOk;
}

Status check_operands(const Target& target, const Payload& payload) {
  for (uint32_t i = 0; i < payload.header.operand_count; ++i) {
    const Operand operand = payload.operand(i);
    if (operand.kind != OperandKind::kInput && operand.kind != OperandKind::kOutput)
      return Status::kBadArgument;
    if (operand.bytes == 0 || operand.bytes > target.sram_bytes) return Status::kOutOfBounds;
  }
  return Status::kOk;
}

}  // namespace

Operand Payload::operand(uint32_t index) const {
  Operand operand{};
  std::memcpy(&operand, bytes.data() + sizeof(Header) + size_t{index} * sizeof operand,
              sizeof operand);
  return operand;
}

uint32_t Payload::region_bytes(uint32_t region) const {
  if (region == kScratch) return header.scratch_bytes;
  if (region == kConstants) return header.constants_bytes;
  return region - kFirstOperand < header.operand_count ? operand(region - kFirstOperand).bytes : 0;
}

Fault decode(const Target& target, std::span<const std::byte> payload, Payload& result) {
  result = {};
  if (const Status status = check_header(target, payload, result); status != Status::kOk)
    return {status, 0};
  if (const Fault fault = check_lengths(result); fault.status != Status::kOk) return fault;
  if (const Status status = check_operands(target, result); status != Status::kOk)
    return {status, 0};
  Checker checker(target, result);
  if (const Status status = checker.operands(); status != Status::kOk) return {status, 0};
  return visit(result, checker);
}

}  // namespace dtr::simulator
