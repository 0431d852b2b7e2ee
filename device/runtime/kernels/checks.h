// What kernels check of their arguments, beside what holds for every tensor of a program that is
// loaded (device/pte/verify_plan.h): no extent is negative; the product of the extents, zeros
// counted as ones, times the size of an element is at most 2^31 − 1, so that every extent times its
// stride fits 32 bits, of an empty tensor too; the elements are aligned and lie inside of their
// memory. All else a kernel checks once a call, before it writes: how extents relate, in 64-bit
// arithmetic; that numbers are in range; that memory which it trusts while it writes (scratch,
// multipliers, shifts) is not what it writes to. A result without elements takes no time.
#pragma once

#include "device/runtime/value.h"

namespace dtr::runtime {

inline bool is_empty(const Tensor& tensor) {
  for (const int32_t extent : tensor.shape()) {
    if (extent == 0) return true;
  }
  return false;
}

// Whether two pieces of memory share no byte.
inline bool is_disjoint(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(a), from = reinterpret_cast<uintptr_t>(b);
  if (a_bytes == 0 || b_bytes == 0) return true;
  return from >= begin ? from - begin >= static_cast<uintptr_t>(a_bytes)
                       : begin - from >= static_cast<uintptr_t>(b_bytes);
}
// Of a tensor that may not be written: it lies in the program, in a tensor file or with the caller,
// in no memory of the plan.
inline bool is_disjoint(const Tensor& read, const void* written, int64_t bytes) {
  return !read.writable ||
         is_disjoint(read.data, static_cast<int64_t>(read.bytes()), written, bytes);
}

// Whether it has exactly that many bytes and, if there are any, int32 may be stored in it.
inline bool is_scratch(const Tensor& tensor, int64_t bytes) {
  return static_cast<int64_t>(tensor.bytes()) == bytes &&
         (bytes == 0 || reinterpret_cast<uintptr_t>(tensor.data) % alignof(int32_t) == 0);
}

// a · b · … as the machine wraps it: sums of products that are defined modulo 2^32.
inline int32_t multiply_wrapping(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

}  // namespace dtr::runtime
