// Values of a running program, the arguments of kernels and delegates. Trivial types, no ownership,
// no heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/pte/scalar_type.h"

namespace dtr::runtime {

// A dense tensor. `sizes` are in logical (PyTorch) order; `dim_order` names the logical dimension
// at each physical position, outermost first: contiguous is 0, 1, 2, 3; channels-last is 0, 2,
// 3, 1.
struct Tensor {
  std::byte* data = nullptr;
  const int32_t* sizes = nullptr;
  const uint8_t* dim_order = nullptr;
  ScalarType dtype = ScalarType::kFloat;
  uint8_t rank = 0;
  bool writable = false;  // false for constants and inputs in the caller's memory

  std::span<const int32_t> shape() const { return {sizes, rank}; }
  std::span<const uint8_t> order() const { return {dim_order, rank}; }
  size_t elements() const {
    size_t count = 1;
    for (const int32_t size : shape()) count *= static_cast<size_t>(size);
    return count;
  }
  size_t bytes() const { return elements() * byte_size(dtype); }
  template <class T>
  T* values() const {
    return reinterpret_cast<T*>(data);
  }
};

// Computes the stride in elements of each logical dimension; `strides` has room for tensor.rank
// entries. They fit 32 bits because verify_plan limits the extents; for other shapes they wrap.
inline void fill_strides(const Tensor& tensor, int32_t* strides) {
  uint32_t stride = 1;
  for (int at = tensor.rank - 1; at >= 0; --at) {
    strides[tensor.dim_order[at]] = static_cast<int32_t>(stride);
    stride *= static_cast<uint32_t>(tensor.sizes[tensor.dim_order[at]]);
  }
}

// True if the elements of both have the same physical order; dimensions of extent 1 do not matter.
inline bool same_order(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  int at = 0;
  for (int i = 0; i < a.rank; ++i) {
    if (a.sizes[a.dim_order[i]] == 1) continue;
    while (at < b.rank && b.sizes[b.dim_order[at]] == 1) ++at;
    if (at == b.rank || a.dim_order[i] != b.dim_order[at]) return false;
    ++at;
  }
  return true;
}

inline bool same_shape(const Tensor& a, const Tensor& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.sizes[i] != b.sizes[i]) return false;
  }
  return true;
}

enum class ValueKind : uint8_t {
  kNone,
  kInt,
  kBool,
  kDouble,
  kTensor,
  kString,
  kInts,
  kDoubles,
  kBools,
  kTensors
};

struct Value {
  template <class T>
  struct List {
    const T* items;
    uint32_t count;
  };

  ValueKind kind = ValueKind::kNone;
  bool set = false;  // of an input: since the last run
  union {
    int64_t integer = 0;
    bool flag;
    double number;
    Tensor tensor;
    List<char> string;
    List<int64_t> ints;
    List<double> doubles;
    List<uint8_t> flags;
    List<Value*> tensors;  // null for none
  };

  Value() {}
};

}  // namespace dtr::runtime
