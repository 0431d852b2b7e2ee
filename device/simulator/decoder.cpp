// Sizes are computed in 64 bits and saturate, so a hostile argument can only become too large, never wrap to something small.
#include "device/simulator/decoder.h"

#include <bit>
#include <initializer_list>
#include <numeric>

#include "device/npu/cycles.h"
#include "device/numerics/crc32.h"
#include "device/simulator/arguments.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

static_assert(std::endian::native == std::endian::little, "microcode words are read as they lie");

constexpr uint64_t kTooLarge = uint64_t{1} << 40;

constexpr uint64_t product(std::initializer_list<uint64_t> factors) {
  uint64_t result = 1;
  for (const uint64_t factor : factors) {
    if (factor != 0 && result > kTooLarge / factor) return kTooLarge;
    result *= factor;
  }
  return result;
}

constexpr uint64_t groups(const Target& target, uint64_t channels) { return (channels + target.pipelines - 1) / target.pipelines; }

uint64_t parameter_bytes(const Target& target, const Window& w) { return product({groups(target, w.out_channels), target.pipelines, 12}); }

void push(Accesses& list, Address address, uint64_t bytes, bool in_place = false) {
  list.list[list.count++] = {.address = address, .bytes = bytes, .in_place = in_place, .run = bytes};
}
void push_output(Accesses& list, Address address, uint64_t bytes) {
  list.list[list.count++] = {.address = address, .bytes = bytes, .write = true, .run = bytes};
}

// An image at its strides; pixels and rows without gaps between them are one run.
Access image(Address address, uint64_t batch, uint64_t height, uint64_t width, uint64_t channels, const Strides& strides) {
  Access access{.address = address, .bytes = channels, .run = channels};
  size_t level = 0;
  for (const Repeat& repeat : {Repeat{width, strides.pixel}, Repeat{height, strides.row}, Repeat{batch, strides.batch}}) {
    if (repeat.count == 0) return {.address = address};
    if (repeat.count == 1) continue;
    access.bytes += product({repeat.count - 1, repeat.stride});
    if (level == 0 && repeat.stride == access.run) {
      access.run = product({access.run, repeat.count});
    } else {
      access.repeats[level++] = repeat;
    }
  }
  return access;
}
Access input_image(Address address, const Window& w) { return image(address, w.batch, w.in_height, w.in_width, w.in_channels, w.in); }
Access output_image(Address address, const Window& w) {
  Access access = image(address, w.batch, w.out_height, w.out_width, w.out_channels, w.out);
  access.write = true;
  return access;
}

template <class Command>
Accesses convolution_accesses(const Target& target, const Command& command, uint64_t weight_bytes) {
  Accesses list;
  const Window& w = command.window;
  list.list[list.count++] = input_image(command.input, w);
  push(list, command.weights, weight_bytes);
  push(list, command.parameters, parameter_bytes(target, w));
  if ((command.epilogue.flags & kWithTable) != 0) push(list, command.epilogue.table, 256);
  if ((command.epilogue.flags & kWithAdd) != 0) {
    Access& addend = list.list[list.count++];
    addend = image(command.epilogue.addend, w.batch, w.out_height, w.out_width, w.out_channels, command.epilogue.addend_strides);
    addend.in_place = true;
  }
  const bool to_sums = (command.epilogue.flags & kToSums) != 0;
  const uint64_t sums = product({groups(target, w.out_channels), target.pipelines, 4, w.batch, w.out_height, w.out_width});
  if ((command.epilogue.flags & kFromSums) != 0) push(list, command.epilogue.sums, sums, to_sums);
  if (to_sums) {
    push_output(list, command.output, sums);
  } else {
    list.list[list.count++] = output_image(command.output, w);
  }
  return list;
}

// From the first to behind the last byte of a box with these strides.
template <uint32_t kRank>
uint64_t span_of(const uint32_t (&extent)[kRank], const uint32_t (&stride)[kRank]) {
  uint64_t last = 0;
  for (uint32_t d = 0; d < kRank; ++d) last += product({extent[d] - uint64_t{1}, stride[d]});
  return last + 1;
}

// How far a strided box reaches before and behind its first element. Arguments have been checked, so that nothing overflows.
struct Reach {
  int64_t low = 0, high = 0;

  void extend(const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank]) {
    for (uint32_t d = 0; d < kMoveRank; ++d) (stride[d] < 0 ? low : high) += (int64_t{extent[d]} - 1) * stride[d];
  }
  // As an access of everything from the first to behind the last byte; too large if it begins before its region.
  Access from(Address address, bool write, uint32_t element = 1) const {
    const int64_t first = int64_t{address.offset} + low;
    if (first < 0) return {address, kTooLarge, write, false};
    return {{address.region, static_cast<uint32_t>(first)}, static_cast<uint64_t>(high - low) + element, write, false};
  }
};

// Bounds, what may be read by whom, and where input and output may meet.
Status check_accesses(const Payload& payload, const Accesses& touched, bool is_copy) {
  for (const Access& access : touched.all()) {
    if (access.bytes == 0) return Status::kBadArgument;
    if (access.address.region == kConstants && (access.write || !(is_copy || payload.constants_in_sram()))) return Status::kFlashAccess;
    if (is_copy && !access.write && access.address.region != kConstants) return Status::kBadArgument;
    if (access.address.offset + access.bytes > payload.region_bytes(access.address.region)) return Status::kOutOfBounds;
  }
  if (touched.count == 0) return Status::kOk;
  const Access& output = touched.list[touched.count - 1];
  for (const Access& input : touched.all().first(touched.count - 1)) {
    if (input.address.region != output.address.region) continue;
    if (input.in_place && input.address == output.address && same_box(input, output)) continue;
    if (!apart(input, output, int64_t{output.address.offset} - input.address.offset)) return Status::kBadArgument;
  }
  return Status::kOk;
}

// Checks each command; collects what the payload needs.
class Checker {
 public:
  Checker(const Target& target, Payload& payload) : target_(target), payload_(payload) {}

  Status operator()(uint32_t index, const End&) { return index + 1 == payload_.header.command_count ? Status::kOk : Status::kBadArgument; }
  Status operator()(uint32_t, const Copy& command) {
    if (command.ticket != copies_ + 1 || payload_.constants_in_sram()) return Status::kBadArgument;
    ++copies_;
    if (copies_ - waited_ > payload_.most_copies_in_flight) payload_.most_copies_in_flight = copies_ - waited_;
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
      if (access.address.region == kScratch && end > payload_.peak_scratch_bytes) payload_.peak_scratch_bytes = end;
      const uint64_t box = product({access.run, access.repeats[0].count, access.repeats[1].count, access.repeats[2].count});
      work += (box < access.bytes ? box : access.bytes) / kWorkBytes;
    }
    return spend(work);
  }
  // Each is far from the ends of 64 bits, since accesses are inside of their regions.
  Status spend(uint64_t cycles) {
    if (cycles > kMaxPayloadCycles - work_) return Status::kTooMuchWork;
    work_ += cycles;
    return Status::kOk;
  }

  static constexpr uint64_t kWorkBytes = 8;  // a cycle's
  const Target& target_;
  Payload& payload_;
  uint64_t work_ = 0;
  uint32_t copies_ = 0, waited_ = 0;
};

// Number of words of a command; 0 for an opcode that does not exist.
constexpr uint32_t words_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kEnd:
      return 1;
    case Opcode::kCopy:
      return command_words<Copy>();
    case Opcode::kWait:
      return command_words<Wait>();
    case Opcode::kConv2d:
      return command_words<Conv2d>();
    case Opcode::kDepthwise:
      return command_words<Depthwise>();
    case Opcode::kPool:
      return command_words<Pool>();
    case Opcode::kBinary:
      return command_words<Binary>();
    case Opcode::kLookup:
      return command_words<Lookup>();
    case Opcode::kSoftmax:
      return command_words<Softmax>();
    case Opcode::kMove:
      return command_words<Move>();
    case Opcode::kFill:
      return command_words<Fill>();
    case Opcode::kReduce:
      return command_words<Reduce>();
    case Opcode::kResize:
      return command_words<Resize>();
    case Opcode::kMatmul:
      return command_words<Matmul>();
    case Opcode::kNormalize:
      return command_words<Normalize>();
    case Opcode::kGather:
      return command_words<Gather>();
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
  if (header.version >> 16 != kVersionMajor || (header.version & 0xFFFFu) > kVersionMinor) return Status::kBadVersion;
  const uint64_t microcode_bytes = uint64_t{header.microcode_words} * 4;
  const uint64_t total = uint64_t{header.constants_offset} + header.constants_bytes;
  if (total > bytes.size() || microcode_bytes > header.constants_offset || microcode_bytes < sizeof header) return Status::kTruncated;
  result.bytes = bytes.first(static_cast<size_t>(total));
  if (crc32_with_hole(result.bytes, offsetof(Header, crc32)) != header.crc32) return Status::kBadChecksum;
  if (!is_machine(target) || header.target_hash != format_hash(target)) return Status::kWrongTarget;
  if (header.constants_offset % kAlignment != 0 || reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0) return Status::kMisaligned;
  for (const uint32_t word : header.reserved)
    if (word != 0) return Status::kBadArgument;
  if ((header.flags & ~uint32_t{kConstantsInSram}) != 0) return Status::kBadArgument;
  const uint64_t in_sram = uint64_t{header.scratch_bytes} + (result.constants_in_sram() ? header.constants_bytes : 0);
  if (in_sram > target.sram_bytes) return Status::kOutOfBounds;
  return Status::kOk;
}

Status check_operands(const Target& target, const Payload& payload) {
  for (uint32_t i = 0; i < payload.header.operand_count; ++i) {
    const Operand operand = payload.operand(i);
    if (operand.kind != OperandKind::kInput && operand.kind != OperandKind::kOutput) return Status::kBadArgument;
    if (operand.bytes == 0 || operand.bytes > target.sram_bytes) return Status::kOutOfBounds;
  }
  return Status::kOk;
}

}  // namespace

Operand Payload::operand(uint32_t index) const {
  Operand operand{};
  std::memcpy(&operand, bytes.data() + sizeof(Header) + size_t{index} * sizeof operand, sizeof operand);
  return operand;
}

uint32_t Payload::region_bytes(uint32_t region) const {
  if (region == kScratch) return header.scratch_bytes;
  if (region == kConstants) return header.constants_bytes;
  return region - kFirstOperand < header.operand_count ? operand(region - kFirstOperand).bytes : 0;
}

Fault decode(const Target& target, std::span<const std::byte> payload, Payload& result) {
  result = {};
  if (const Status status = check_header(target, payload, result); status != Status::kOk) return {status, 0};
  if (const Fault fault = check_lengths(result); fault.status != Status::kOk) return fault;
  if (const Status status = check_operands(target, result); status != Status::kOk) return {status, 0};
  Checker checker(target, result);
  if (const Status status = checker.operands(); status != Status::kOk) return {status, 0};
  return visit(result, checker);
}

bool apart(const Access& a, const Access& b, int64_t distance) {
  const auto length = [](const Access& access) { return static_cast<int64_t>(access.bytes); };
  if (distance >= length(a) || -distance >= length(b)) return true;
  uint64_t period = 0;
  for (const Access* access : {&a, &b})
    for (const Repeat& repeat : access->repeats)
      if (repeat.count > 1) period = std::gcd(period, repeat.stride);
  if (period == 0 || period > kTooLarge) return false;
  const auto of = static_cast<int64_t>(period);
  const auto from = static_cast<uint64_t>((distance % of + of) % of);  // of b's runs inside of the period that starts with a's
  return a.run <= from && from + b.run <= period;
}

Accesses accesses(const Target&, const Copy& command) {
  Accesses list;
  push(list, command.source, command.bytes);
  push_output(list, command.destination, command.bytes);
  return list;
}

Accesses accesses(const Target& target, const Conv2d& command) {
  const Window& w = command.window;
  const uint64_t steps = command.packing == Packing::kRows
                             ? product({w.kernel_height, (product({w.kernel_width, w.in_channels}) + target.macs - 1) / target.macs})
                             : product({w.kernel_height, w.kernel_width, (uint64_t{w.in_channels} + target.macs - 1) / target.macs});
  return convolution_accesses(target, command, product({groups(target, w.out_channels), steps, target.pipelines, target.macs}));
}

Accesses accesses(const Target& target, const Depthwise& command) {
  const Window& w = command.window;
  return convolution_accesses(target, command,
                              product({groups(target, w.out_channels), w.kernel_height, w.kernel_width, target.pipelines}));
}

Accesses accesses(const Target&, const Pool& command) {
  Accesses list;
  list.list[list.count++] = input_image(command.input, command.window);
  list.list[list.count++] = output_image(command.output, command.window);
  return list;
}

// A walk through a box in any order of its loops: an image where it steps forward in up to three levels, else its whole span.
Access walk(Address address, const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank], bool write) {
  Reach reach;
  reach.extend(extent, stride);
  Access access = reach.from(address, write);
  access.run = access.bytes;
  std::array<Repeat, kMoveRank> levels{};
  size_t count = 0;
  for (uint32_t d = 0; d < kMoveRank; ++d) {
    if (extent[d] == 1) continue;
    if (stride[d] <= 0) return access;
    size_t at = count++;
    for (; at > 0 && levels[at - 1].stride > static_cast<uint32_t>(stride[d]); --at) levels[at] = levels[at - 1];
    levels[at] = {extent[d], static_cast<uint32_t>(stride[d])};
  }
  uint64_t run = 1;
  size_t inner = 0;
  for (; inner < count && levels[inner].stride == run; ++inner) run *= levels[inner].count;
  if (count - inner > access.repeats.size()) return access;
  access.run = run;
  for (size_t i = inner; i < count; ++i) access.repeats[i - inner] = levels[i];
  return access;
}

Accesses accesses(const Target&, const Binary& command) {
  Accesses list;
  const auto push_input = [&](Address address, const int32_t(&stride)[kMoveRank]) {
    Access& access = list.list[list.count++] = walk(address, command.extent, stride, false);
    access.in_place = same_walk(command.extent, stride, command.output_stride);
  };
  push_input(command.input_0, command.stride_0);
  push_input(command.input_1, command.stride_1);
  list.list[list.count++] = walk(command.output, command.extent, command.output_stride, true);
  return list;
}

Accesses accesses(const Target&, const Lookup& command) {
  Accesses list;
  Access& input = list.list[list.count++] = walk(command.input, command.extent, command.input_stride, false);
  input.in_place = same_walk(command.extent, command.input_stride, command.output_stride);
  push(list, command.table, 256);
  list.list[list.count++] = walk(command.output, command.extent, command.output_stride, true);
  return list;
}

Accesses accesses(const Target&, const Softmax& command) {
  Accesses list;
  const uint64_t bytes = product({command.outer, command.columns, command.inner});
  push(list, command.input, bytes, true);
  if (command.mask_rows != 0) push(list, command.mask, product({command.mask_rows, command.columns}));
  push_output(list, command.output, bytes);
  return list;
}

Accesses accesses(const Target&, const Move& command) {
  Reach input, output;
  input.extend(command.extent, command.input_stride);
  output.extend(command.extent, command.output_stride);
  Accesses list;
  list.list[list.count++] = input.from(command.input, false);
  list.list[list.count++] = output.from(command.output, true);
  return list;
}

Accesses accesses(const Target&, const Matmul& command) {
  Accesses list;
  const auto span = [&](const uint32_t(&stride)[kMatmulBatchRank], std::array<uint32_t, 2> extents, std::array<uint32_t, 2> strides) {
    const uint32_t matrix_extent[] = {extents[0], extents[1]};
    const uint32_t matrix_stride[] = {strides[0], strides[1]};
    return span_of(command.batch, stride) + span_of(matrix_extent, matrix_stride) - 1;
  };
  push(list, command.left,
       span(command.left_batch_stride, {command.rows, command.inner}, {command.left_row_stride, command.left_inner_stride}));
  push(list, command.right,
       span(command.right_batch_stride, {command.inner, command.columns}, {command.right_inner_stride, command.right_column_stride}));
  if ((command.flags & kWithTable) != 0) push(list, command.table, 256);
  push_output(
      list, command.output,
      span(command.output_batch_stride, {command.rows, command.columns}, {command.output_row_stride, command.output_column_stride}));
  return list;
}

Accesses accesses(const Target&, const Normalize& command) {
  Accesses list;
  const uint64_t bytes = span_of(command.extent, command.stride);
  push(list, command.input, bytes, true);
  push(list, command.parameters, product({span_of(command.extent, command.parameter_stride), 8}));
  push_output(list, command.output, bytes);
  return list;
}

Accesses accesses(const Target&, const Fill& command) {
  Accesses list;
  push_output(list, command.output, command.bytes);
  return list;
}

Accesses accesses(const Target&, const Reduce& command) {
  Reach input, output;
  input.extend(command.extent, command.input_stride);
  input.extend(command.reduced_extent, command.reduced_stride);
  output.extend(command.extent, command.output_stride);
  Accesses list;
  list.list[list.count++] = input.from(command.input, false);
  list.list[list.count++] = output.from(command.output, true, result_bytes(command));
  return list;
}

Accesses accesses(const Target&, const Gather& command) {
  Accesses list;
  push(list, command.input, product({command.outer, command.rows, command.inner}));
  push(list, command.indices, product({command.count, command.index_bytes}));
  push_output(list, command.output, product({command.outer, command.count, command.inner}));
  return list;
}

Accesses accesses(const Target&, const Resize& command) {
  Accesses list;
  push(list, command.input, product({command.batch, command.height.in, command.width.in, command.channels}));
  push_output(list, command.output, product({command.batch, command.height.out, command.width.out, command.channels}));
  return list;
}

}  // namespace dtr::simulator
