// The loops of strided commands. Freestanding.
#pragma once

#include <cstdint>

#include "device/npu/microcode.h"

namespace dtr::simulator {

// A byte offset that follows the index of a box: `at` is the sum of index · stride.
struct Stream {
  const int32_t (&stride)[npu::kMoveRank];
  int64_t at = 0;
};

// Advances the index over the first `rank` dimensions, the last one fastest, and the streams with
// it. Returns false after the last index and resets index and streams to the start.
template <class... Streams>
bool advance(const uint32_t (&extent)[npu::kMoveRank], uint32_t rank,
             uint32_t (&index)[npu::kMoveRank], Streams&... streams) {
  for (uint32_t d = rank; d-- > 0;) {
    ((streams.at += streams.stride[d]), ...);
    if (++index[d] < extent[d]) return true;
    ((streams.at -= int64_t{extent[d]} * streams.stride[d]), ...);
    index[d] = 0;
  }
  return false;
}

}  // namespace dtr::simulator
