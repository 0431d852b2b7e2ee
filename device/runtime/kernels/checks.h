// Checks that kernels make, in addition to what is verified for every tensor of a loaded program
// (device/pte/verify_plan.h): no extent is negative; the product of the extents, zeros counted as
// ones, times the size of an element is at most 2^31 − 1, so that every extent times its stride
// fits 32 bits, also for an empty tensor; elements are aligned and inside of their memory.
// Everything else a kernel checks once per call, before it writes: relations of extents, in 64-bit
// arithmetic; ranges of numbers; that memory which it relies on while it writes (scratch,
// multipliers, shifts) does not overlap its output. A result without elements takes no time.
#pragma once

#include "device/runtime/value.h"

namespace dtr::runtime {

inline bool is_empty(const Tensor& tensor) {
  for (const int32_t extent : tensor.shape()) {
    if (extent == 0) return true;
  }
  return false;
}

// True if two memory ranges share no byte.
inline bool is_disjoint(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(a), from = reinterpret_cast<uintptr_t>(b);
  if (a_bytes == 0 || b_bytes == 0) return true;
  return from >= begin ? from - begin >= static_cast<uintptr_t>(a_bytes)
                       : begin - from >= static_cast<uintptr_t>(b_bytes);
}
// The same for a tensor. One that is not writable is outside of the planned memory (in the program,
// in a tensor file or in the caller's memory) and cannot overlap.
inline bool is_disjoint(const Tensor& read, const void* written, int64_t bytes) {
  return !read.writable ||
         is_disjoint(read.data, static_cast<int64_t>(read.bytes()), written, bytes);
}

// True if the scratch tensor has exactly `bytes` bytes and, if there are any, is aligned for int32.
inline bool is_scratch(const Tensor& tensor, int64_t bytes) {
  return static_cast<int64_t>(tensor.bytes()) == bytes &&
         (bytes == 0 || reinterpret_cast<uintptr_t>(tensor.data) % alignof(int32_t) == 0);
}

// The product modulo 2^32, without undefined overflow.
inline int32_t multiply_wrapping(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

}  // namespace dtr::runtime
