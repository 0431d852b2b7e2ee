// A small encoder of NPU payloads for the simulator's tests: written from device/npu/microcode.h
// alone, shared with nobody.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <span>
#include <vector>

#include "device/npu/driver.h"
#include "device/npu/microcode.h"
#include "device/npu/target.h"
#include "device/numerics/crc32.h"
#include "device/simulator/decoder.h"
#include "test/unit/machine.h"

namespace dtr::test {

inline const npu::Target kTarget = machine();

inline constexpr npu::Rescale kOne{1 << 30, 1};
// (a + b) exactly.
inline constexpr npu::BinaryArguments kPlainAdd{
    0, 0, 0, {1 << 30, 0}, {1 << 30, 0}, {1 << 30, -18}, -128, 127};

// Bytes at a 64-byte boundary.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(size_t bytes, uint8_t fill = 0)
      : storage_(bytes + kSlack, std::byte{fill}), bytes_(bytes) {}
  explicit AlignedBytes(std::span<const std::byte> from) : AlignedBytes(from.size()) {
    if (!from.empty()) std::memcpy(data(), from.data(), from.size());
  }
  AlignedBytes(const AlignedBytes& other) : AlignedBytes(other.bytes()) {}
  AlignedBytes& operator=(const AlignedBytes& other) { return *this = AlignedBytes(other.bytes()); }
  AlignedBytes(AlignedBytes&&) = default;
  AlignedBytes& operator=(AlignedBytes&&) = default;
  ~AlignedBytes() = default;

  std::byte* data() {
    auto address = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (kSlack - address % kSlack) % kSlack;
  }
  const std::byte* data() const { return const_cast<AlignedBytes*>(this)->data(); }
  size_t size() const { return bytes_; }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }
  int8_t* int8() { return reinterpret_cast<int8_t*>(data()); }
  npu::Buffer buffer() { return {data(), static_cast<uint32_t>(bytes_)}; }
  bool operator==(const AlignedBytes& other) const {
    return bytes_ == other.bytes_ &&
           (bytes_ == 0 || std::memcmp(data(), other.data(), bytes_) == 0);
  }

 private:
  static constexpr size_t kSlack = 64;
  std::vector<std::byte> storage_;
  size_t bytes_ = 0;
};

// TFLite's softmax of dense rows whose operand's scale makes that shift; the result has scale 1/256
// and zero point −128.
inline npu::Softmax probability(npu::Address input, npu::Address output, uint32_t rows,
                                uint32_t columns, int32_t shift) {
  return {.input = input,
          .output = output,
          .outer = rows,
          .columns = columns,
          .inner = 1,
          .kind = npu::SoftmaxKind::kProbability,
          .input_rescale = {1 << 30, shift},
          .diff_min = -248,
          .difference = {},
          .output_rescale = {1 << 30, 9},
          .zero_point_out = -128};
}

// A dense Binary with its addresses.
inline npu::Binary binary(npu::BinaryKind kind, npu::Address a, npu::Address b, npu::Address y,
                          uint32_t elements, const npu::BinaryArguments& arguments) {
  npu::Binary made = npu::dense_binary(kind, elements);
  made.input_0 = a, made.input_1 = b, made.output = y;
  made.arguments = arguments;
  return made;
}

inline npu::Lookup lookup(npu::Address x, npu::Address y, npu::Address table, uint32_t elements) {
  npu::Lookup made = npu::dense_lookup(elements);
  made.input = x, made.output = y, made.table = table;
  return made;
}

class PayloadBuilder {
 public:
  explicit PayloadBuilder(npu::Target target = test::machine()) : target_(target) {}

  npu::Address input(uint32_t bytes) { return operand(npu::OperandKind::kInput, bytes); }
  npu::Address output(uint32_t bytes) { return operand(npu::OperandKind::kOutput, bytes); }
  npu::Address scratch(uint32_t bytes) {
    const npu::Address address{npu::kScratch, scratch_};
    scratch_ += (bytes + 15) / 16 * 16;
    return address;
  }
  npu::Address constant(std::span<const std::byte> bytes) {
    const npu::Address address{npu::kConstants, static_cast<uint32_t>(constants_.size())};
    constants_.insert(constants_.end(), bytes.begin(), bytes.end());
    constants_.resize((constants_.size() + 15) / 16 * 16);
    return address;
  }
  // A constant, its copy to scratch, and perhaps the wait for it.
  npu::Address stage(std::span<const std::byte> bytes, bool wait = true) {
    const npu::Address from = constant(bytes);
    const npu::Address to = scratch(static_cast<uint32_t>(bytes.size()));
    copy(to, from, static_cast<uint32_t>(bytes.size()));
    if (wait) this->wait();
    return to;
  }
  template <class T>
  npu::Address stage(const std::vector<T>& values, bool wait = true) {
    return stage(std::as_bytes(std::span(values)), wait);
  }
  void copy(npu::Address to, npu::Address from, uint32_t bytes) {
    add(npu::Copy{to, from, bytes, ++tickets_});
  }
  void wait() { add(npu::Wait{tickets_}); }
  template <class Command>
  void add(const Command& command) {
    std::vector<uint32_t> words(sizeof command / 4);
    std::memcpy(words.data(), &command, sizeof command);
    raw(static_cast<uint16_t>(Command::kOpcode), words);
  }
  // Any opcode with any arguments.
  void raw(uint16_t opcode, const std::vector<uint32_t>& arguments) {
    words_.push_back(opcode | static_cast<uint32_t>(arguments.size() + 1) << 16);
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    ++commands_;
  }
  uint32_t commands() const { return commands_; }
  std::span<const npu::Operand> operands() const { return operands_; }
  uint32_t scratch_bytes() const { return scratch_; }
  uint32_t constant_bytes() const { return static_cast<uint32_t>(constants_.size()); }

  // Ends the program. `edit` changes the header before the checksum is taken.
  AlignedBytes build(const std::function<void(npu::Header&)>& edit = {}) {
    raw(0, {});
    npu::Header header{};
    header.magic = npu::kMagic;
    header.version = uint32_t{npu::kVersionMajor} << 16;
    header.target_hash = npu::format_hash(target_);
    header.microcode_words =
        static_cast<uint32_t>(sizeof header / 4 + operands_.size() * 2 + words_.size());
    header.command_count = commands_;
    header.operand_count = static_cast<uint32_t>(operands_.size());
    header.constants_offset = (header.microcode_words * 4 + 15) / 16 * 16;
    header.constants_bytes = static_cast<uint32_t>(constants_.size());
    header.scratch_bytes = scratch_;
    if (edit) edit(header);
    AlignedBytes payload(size_t{header.constants_offset} + constants_.size());
    std::byte* at = payload.data() + sizeof header;
    std::memcpy(payload.data(), &header, sizeof header);
    if (!operands_.empty())
      std::memcpy(at, operands_.data(), operands_.size() * sizeof(npu::Operand));
    std::memcpy(at + operands_.size() * sizeof(npu::Operand), words_.data(), words_.size() * 4);
    if (!constants_.empty())
      std::memcpy(payload.data() + header.constants_offset, constants_.data(), constants_.size());
    sign(payload);
    return payload;
  }
  static void sign(AlignedBytes& payload) {
    const size_t hole = offsetof(npu::Header, crc32);
    std::memset(payload.data() + hole, 0, 4);
    const uint32_t crc = dtr::crc32(payload.bytes());
    std::memcpy(payload.data() + hole, &crc, 4);
  }

 private:
  npu::Address operand(npu::OperandKind kind, uint32_t bytes) {
    operands_.push_back({kind, bytes});
    return {static_cast<uint32_t>(npu::kFirstOperand + operands_.size() - 1), 0};
  }

  npu::Target target_;
  std::vector<npu::Operand> operands_;
  std::vector<std::byte> constants_;
  std::vector<uint32_t> words_;
  uint32_t scratch_ = 0, commands_ = 0, tickets_ = 0;
};

// Numbers for random commands.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  // In [low, high].
  int32_t between(int32_t low, int32_t high) {
    return static_cast<int32_t>(low + int64_t{next()} % (int64_t{high} - low + 1));
  }
  uint32_t upto(uint32_t high) { return next() % (high + 1); }
  bool chance(uint32_t percent) { return next() % 100 < percent; }
  // Mostly anything, sometimes only the ends of the range: what overflows first.
  std::vector<int8_t> int8(size_t count) {
    std::vector<int8_t> values(count);
    const uint32_t mode = next() % 4;
    for (int8_t& value : values) {
      const uint32_t bits = next() >> 7;
      value = mode == 0   ? (bits % 2 != 0 ? int8_t{127} : int8_t{-128})
              : mode == 1 ? int8_t{-128}
                          : static_cast<int8_t>(bits);
    }
    return values;
  }
  int32_t any() { return static_cast<int32_t>(next()); }

 private:
  uint32_t next() { return static_cast<uint32_t>(engine_()); }
  std::mt19937 engine_;
};

// Weights [out][kernel row][kernel column][in] in the order of the machine.
inline std::vector<int8_t> pack_conv2d(const npu::Target& target, const npu::Window& w,
                                       npu::Packing packing, const std::vector<int8_t>& plain) {
  const bool rows = packing == npu::Packing::kRows;
  const uint32_t run = rows ? w.kernel_width * w.in_channels : w.in_channels;
  const uint32_t runs = rows ? w.kernel_height : w.kernel_height * w.kernel_width;
  std::vector<int8_t> packed;
  for (uint32_t group = 0; group < w.out_channels; group += target.pipelines)
    for (uint32_t r = 0; r < runs; ++r)
      for (uint32_t block = 0; block < run; block += target.macs)
        for (uint32_t unit = 0; unit < target.pipelines; ++unit)
          for (uint32_t lane = 0; lane < target.macs; ++lane) {
            const bool exists = group + unit < w.out_channels && block + lane < run;
            packed.push_back(exists ? plain[(size_t{group + unit} * runs + r) * run + block + lane]
                                    : int8_t{0});
          }
  return packed;
}

// Weights [kernel row][kernel column][out] in the order of the machine.
inline std::vector<int8_t> pack_depthwise(const npu::Target& target, const npu::Window& w,
                                          const std::vector<int8_t>& plain) {
  std::vector<int8_t> packed;
  for (uint32_t group = 0; group < w.out_channels; group += target.pipelines)
    for (uint32_t tap = 0; tap < w.kernel_height * w.kernel_width; ++tap)
      for (uint32_t unit = 0; unit < target.pipelines; ++unit)
        packed.push_back(group + unit < w.out_channels
                             ? plain[size_t{tap} * w.out_channels + group + unit]
                             : int8_t{0});
  return packed;
}

struct Channel {
  int32_t bias, multiplier, shift;
};
inline std::vector<int32_t> pack_parameters(const npu::Target& target,
                                            const std::vector<Channel>& channels) {
  const size_t stride =
      (channels.size() + target.pipelines - 1) / target.pipelines * target.pipelines;
  std::vector<int32_t> packed(3 * stride);
  for (size_t i = 0; i < channels.size(); ++i) {
    packed[i] = channels[i].bias;
    packed[stride + i] = channels[i].multiplier;
    packed[2 * stride + i] = channels[i].shift;
  }
  return packed;
}

inline simulator::Fault decoded(const AlignedBytes& payload) {
  simulator::Payload result;
  return simulator::decode(kTarget, payload.bytes(), result);
}

}  // namespace dtr::test
