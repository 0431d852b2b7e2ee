// Constants of a call: parameters, weights, tables.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace dtr::neutron {

// A block of constants, whose bytes all copies share, and so do blocks that have parts of it: plans
// and variants of a partition are many, its weights are most of what it takes.
class ConstantBlock {
 public:
  // `bytes` from byte `from` of another block on, which begin at byte `at` of this one.
  struct Piece {
    size_t from = 0, bytes = 0, at = 0;
    bool operator==(const Piece&) const = default;
  };

  ConstantBlock() = default;
  explicit ConstantBlock(std::vector<std::byte> bytes)
      : size_(bytes.size()),
        pieces_{{.bytes = size_}},
        bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // The block of `bytes` bytes with these pieces of this one, in their order in the result, and
  // zeros elsewhere.
  ConstantBlock with(const std::vector<Piece>& pieces, size_t bytes) const;
  // True if both are the same bytes of one block; equal bytes of two blocks are not compared.
  bool same_as(const ConstantBlock& other) const {
    return bytes_ == other.bytes_ && size_ == other.size_ && pieces_ == other.pieces_;
  }
  // The bytes: those that are shared where they lie in one piece, else a copy in `buffer`.
  std::span<const std::byte> bytes(std::vector<std::byte>& buffer) const;
  // Writes them to `to`, which is as large.
  void copy_to(std::span<std::byte> to) const;
  // Lets go of the bytes, which are freed with the last block that has them; the size stays.
  void release() { bytes_.reset(); }

 private:
  bool is_whole() const { return pieces_.size() == 1 && pieces_[0].bytes == size_; }

  size_t size_ = 0;
  std::vector<Piece> pieces_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

}  // namespace dtr::neutron
