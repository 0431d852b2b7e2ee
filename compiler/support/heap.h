// What the heap keeps for later.
#pragma once

#include <cstddef>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace dtr {

// Gives memory that was freed back to the system, if it is much: a step that took it, such as the
// executor of the float model, which holds the weights in an order of its own, is over, and the
// next ones take blocks of other sizes.
inline void return_free_memory() {
#if defined(__GLIBC__)
  constexpr size_t kWorthIt = size_t{16} << 20;
  if (mallinfo2().fordblks > kWorthIt) malloc_trim(0);
#endif
}

}  // namespace dtr
