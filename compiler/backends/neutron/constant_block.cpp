#include "compiler/backends/neutron/constant_block.h"

#include <algorithm>
#include <utility>

#include "compiler/support/diagnostic.h"

namespace dtr::neutron {

ConstantBlock ConstantBlock::with(const std::vector<Piece>& pieces, size_t bytes) const {
  ConstantBlock made;
  made.size_ = bytes;
  made.bytes_ = bytes_;
  for (const Piece& piece : pieces)
    for (const Piece& own : pieces_) {
      const size_t first = std::max(piece.from, own.at);
      const size_t end = std::min(piece.from + piece.bytes, own.at + own.bytes);
      if (first >= end) continue;
      made.pieces_.push_back({.from = own.from + (first - own.at),
                              .bytes = end - first,
                              .at = piece.at + (first - piece.from)});
    }
  return made;
}

std::span<const std::byte> ConstantBlock::bytes(std::vector<std::byte>& buffer) const {
  if (bytes_ == nullptr) return {};
  if (is_whole()) return std::span(*bytes_).subspan(pieces_[0].from, size_);
  buffer.resize(size_);
  copy_to(buffer);
  return buffer;
}

void ConstantBlock::copy_to(std::span<std::byte> to) const {
  DTR_CHECK(to.size() == size_);
  size_t end = 0;
  for (const Piece& piece : pieces_) {
    std::fill(to.begin() + static_cast<ptrdiff_t>(end),
              to.begin() + static_cast<ptrdiff_t>(piece.at), std::byte{0});
    std::ranges::copy(std::span(*bytes_).subspan(piece.from, piece.bytes),
                      to.begin() + static_cast<ptrdiff_t>(piece.at));
    end = piece.at + piece.bytes;
  }
  std::ranges::fill(to.subspan(end), std::byte{0});
}

}  // namespace dtr::neutron
