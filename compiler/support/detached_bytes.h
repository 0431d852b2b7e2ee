// A part of a file in memory that lies in memory of its own. Whoever holds the weights of a model
// hands them over where they are, with a file around them whose bytes in their place nobody wrote.
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
