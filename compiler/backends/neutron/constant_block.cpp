#include "compiler/backends/neutron/constant_block.h"

#include <algorithm>
#include <utility>

#include "compiler/support/diagnostic.h"

namespace dtr::neutron {

ConstantBlock ConstantBlock::with(std::vector<Piece> pieces, size_t bytes) const {
  DTR_CHECK(is_whole());
  for (Piece& piece : pieces) piece.from += pieces_[0].from;
  ConstantBlock made;
  made.size_ = bytes;
  made.pieces_ = std::move(pieces);
  made.bytes_ = bytes_;
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
