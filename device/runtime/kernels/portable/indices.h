// Elements at places that another tensor names: its indices, and sums of elements.
#pragma once

#include "device/runtime/kernels/portable/integers.h"

namespace dtr::runtime::portable {

inline bool is_index(ScalarType dtype) {
  return dtype == ScalarType::kLong || dtype == ScalarType::kInt;
}

// The index at `at` of a dimension of that extent, which may count from the end; -1 if it is
// outside.
inline int64_t index_at(const Tensor& indices, int32_t at, int64_t extent) {
  return wrap_index(load_integer(indices, at), extent);
}

// out[to] += in[from], of floats or, wrapped, of integers; both have one dtype.
inline void add_element(const Tensor& in, int32_t from, const Tensor& out, int32_t to) {
  if (out.dtype == ScalarType::kFloat) {
    out.values<float>()[to] += in.values<float>()[from];
  } else {
    store_integer(out, to, add_wrapping(load_integer(out, to), load_integer(in, from)));
  }
}

// Whether `add_element` knows the dtype.
inline bool is_number(ScalarType dtype) { return dtype == ScalarType::kFloat || is_integer(dtype); }

}  // namespace dtr::runtime::portable
