#include "compiler/backends/neutron/encode/payload.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "compiler/ir/constant_pool.h"
#include "device/numerics/crc32.h"

namespace dtr::neutron {

static_assert(std::endian::native == std::endian::little, "commands are copied from memory");

npu::Address PayloadWriter::add_constants(const ConstantBlock& constants) {
  const std::span<const std::byte> bytes = constants.bytes(buffer_);
  const uint64_t hash = content_hash(bytes);
  for (auto [at, end] = by_hash_.equal_range(hash); at != end; ++at)
    if (std::ranges::equal(at->second.constants.bytes(other_buffer_), bytes))
      return {npu::kConstants, at->second.offset};
  const uint32_t offset = npu::round_up(constants_bytes_, npu::kAlignment);
  constants_bytes_ = offset + static_cast<uint32_t>(bytes.size());
  by_hash_.emplace(hash, Block{offset, constants});
  return {npu::kConstants, offset};
}

std::vector<std::byte> PayloadWriter::finish(const npu::Target& target, uint32_t scratch_bytes,
                                             uint32_t flags) {
  words_.push_back(static_cast<uint32_t>(npu::Opcode::kEnd) | 1u << 16);
  ++commands_;
  const size_t program_bytes = sizeof(npu::Header) + operands_.size() * sizeof(npu::Operand) +
                               words_.size() * sizeof(uint32_t);
  const size_t constants_offset =
      (program_bytes + npu::kAlignment - 1) / npu::kAlignment * npu::kAlignment;
  npu::Header header{};
  header.magic = npu::kMagic;
  header.version = uint32_t{npu::kVersionMajor} << 16 | npu::kVersionMinor;
  header.target_hash = npu::format_hash(target);
  header.microcode_words = static_cast<uint32_t>(program_bytes / sizeof(uint32_t));
  header.command_count = commands_;
  header.operand_count = static_cast<uint32_t>(operands_.size());
  header.constants_offset = static_cast<uint32_t>(constants_offset);
  header.constants_bytes = constants_bytes_;
  header.scratch_bytes = scratch_bytes;
  header.flags = flags;

  std::vector<std::byte> payload(constants_offset + constants_bytes_);
  std::byte* at = payload.data() + sizeof header;
  const auto append = [&](const void* from, size_t bytes) {
    if (bytes != 0) std::memcpy(at, from, bytes);
    at += bytes;
  };
  append(operands_.data(), operands_.size() * sizeof(npu::Operand));
  append(words_.data(), words_.size() * sizeof(uint32_t));
  for (const auto& [hash, block] : by_hash_)
    block.constants.copy_to(
        std::span(payload).subspan(constants_offset + block.offset, block.constants.size()));
  std::memcpy(payload.data(), &header, sizeof header);
  header.crc32 = crc32_with_hole(payload, offsetof(npu::Header, crc32));
  std::memcpy(payload.data() + offsetof(npu::Header, crc32), &header.crc32, sizeof header.crc32);
  return payload;
}

}  // namespace dtr::neutron
