// A part of a file in memory whose bytes are elsewhere: a caller that holds the weights of a model
// passes them without copying them into the file, whose bytes in their place are undefined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtr {

struct DetachedBytes {
  uint64_t offset = 0;  // in the file; parts are in its order and do not overlap
  std::span<const std::byte> bytes;
};

}  // namespace dtr
