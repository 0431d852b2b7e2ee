// Encodes the payload of a delegate (`device/npu/microcode.h`).
#pragma once

#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "compiler/backends/neutron/constant_block.h"
#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::neutron {

class PayloadWriter {
 public:
  void add_operand(npu::OperandKind kind, uint32_t bytes) { operands_.push_back({kind, bytes}); }
  // Adds a block to the section of constants and returns its address; equal blocks are stored once.
  npu::Address add_constants(const ConstantBlock& constants);
  template <class Command>
  void add_command(const Command& command) {
    constexpr uint32_t kWords = npu::command_words<Command>();
    words_.resize(words_.size() + kWords);
    uint32_t* first = words_.data() + words_.size() - kWords;
    first[0] = npu::command_head<Command>();
    std::memcpy(first + 1, &command, sizeof command);
    ++commands_;
  }
  uint32_t commands() const { return commands_; }

  // Adds kEnd, header (with npu::HeaderFlag) and checksum.
  std::vector<std::byte> finish(const npu::Target& target, uint32_t scratch_bytes,
                                uint32_t flags = 0);

 private:
  std::vector<npu::Operand> operands_;
  std::vector<uint32_t> words_;
  uint32_t commands_ = 0;
  struct Block {
    uint32_t offset;
    ConstantBlock constants;
  };
  std::unordered_multimap<uint64_t, Block> by_hash_;
  uint32_t constants_bytes_ = 0;
  std::vector<std::byte> buffer_, other_buffer_;  // of blocks that are compared
};

}  // namespace dtr::neutron
