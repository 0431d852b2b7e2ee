// Which bytes of a storage a kernel call reads and writes.
#pragma once

#include <algorithm>
#include <optional>

#include "compiler/backends/neutron/call.h"

namespace dtr::neutron {

// A half-open range.
template <class Index>
struct Range {
  Index begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  Index count() const { return empty() ? 0 : end - begin; }
  void include(Range other) {
    if (other.empty()) return;
    if (empty()) *this = other;
    begin = std::min(begin, other.begin);
    end = std::max(end, other.end);
  }
  bool operator==(const Range&) const = default;
};
using ByteRange = Range<uint64_t>;  // of a storage

template <class Command>
constexpr bool kHasWindow = requires(const Command& command) {
  command.window;
};

// Bytes from the first to behind the last that loops reach, all or without `left_out`;
// std::nullopt if one of them steps back.
template <size_t kRank, class Stride>
std::optional<uint64_t> span_of(const uint32_t (&extent)[kRank], const Stride (&stride)[kRank],
                                size_t left_out = kRank) {
  uint64_t bytes = 1;
  for (size_t d = 0; d < kRank; ++d) {
    if (d == left_out || extent[d] == 1) continue;
    if (stride[d] < 0) return std::nullopt;
    bytes += uint64_t{extent[d] - 1} * static_cast<uint32_t>(stride[d]);
  }
  return bytes;
}

// From the first to behind the last byte that the kernel touches through `address`, which is one of
// its operands; all `storage_bytes` where the kernel's kind does not say which.
ByteRange footprint(const Kernel& kernel, const npu::Address& address, uint64_t storage_bytes);

}  // namespace dtr::neutron
