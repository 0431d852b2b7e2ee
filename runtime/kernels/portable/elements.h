// Loops over the elements of tensors in any dimension order, shared by the portable kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/kernel.h"

namespace dtr::runtime::portable {

struct Strides {
  int32_t of[kMaxRank] = {};  // by logical dimension, in elements
};

inline Strides strides_of(const Tensor& tensor) {
  Strides strides;
  fill_strides(tensor, strides.of);
  return strides;
}

// Strides with which `tensor` is read at the indices of a result of `rank` dimensions: 0 where it is broadcast.
inline Strides broadcast_strides(const Tensor& tensor, int rank) {
  const Strides own = strides_of(tensor);
  Strides strides;
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.sizes[dim] != 1) strides.of[rank - tensor.rank + dim] = own.of[dim];
  }
  return strides;
}

inline bool broadcasts_to(const Tensor& from, const Tensor& to) {
  if (from.rank > to.rank) return false;
  for (int dim = 0; dim < from.rank; ++dim) {
    const int32_t target = to.sizes[to.rank - from.rank + dim];
    if (from.sizes[dim] != 1 && from.sizes[dim] != target) return false;
  }
  return true;
}

// Calls visit(offset_a, offset_b, …) for every index of `sizes`, last dimension fastest; one offset in elements per set of strides.
template <class Visit, class... S>
void for_each_offset(std::span<const int32_t> sizes, Visit visit, const S&... strides) {
  constexpr size_t kStreams = sizeof...(S);
  const Strides* const all[] = {&strides...};
  int32_t offsets[kStreams] = {};
  int32_t index[kMaxRank] = {};
  for (const int32_t size : sizes) {
    if (size == 0) return;
  }
  while (true) {
    [&]<size_t... I>(std::index_sequence<I...>) { visit(offsets[I]...); }
    (std::make_index_sequence<kStreams>());
    int dim = static_cast<int>(sizes.size()) - 1;
    for (; dim >= 0; --dim) {
      for (size_t s = 0; s < kStreams; ++s) offsets[s] += all[s]->of[dim];
      if (++index[dim] < sizes[static_cast<size_t>(dim)]) break;
      for (size_t s = 0; s < kStreams; ++s) offsets[s] -= all[s]->of[dim] * sizes[static_cast<size_t>(dim)];
      index[dim] = 0;
    }
    if (dim < 0) return;
  }
}

// out = f(in), element by element, for tensors of one shape.
template <class In, class Out, class F>
void map_elements(const Tensor& in, const Tensor& out, F f) {
  const In* x = in.values<In>();
  Out* y = out.values<Out>();
  if (same_order(in, out)) {
    const size_t count = in.elements();
    for (size_t i = 0; i < count; ++i) y[i] = f(x[i]);
  } else {
    for_each_offset(
        in.shape(), [&](int32_t from, int32_t to) { y[to] = f(x[from]); }, strides_of(in), strides_of(out));
  }
}

// A kernel of one float operand: argument 0 is the input, the last of `count` the output.
template <class F>
Error unary_float(std::span<Value* const> values, size_t out_index, F f) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  map_elements<float, float>(in, out, f);
  return Error::kOk;
}

// A kernel of two float operands that are broadcast: arguments 0 and 1 are the inputs, `out_index` the output.
template <class F>
Error binary_float(std::span<Value* const> values, size_t out_index, F f) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out)) return Error::kKernelArguments;
  if (a.dtype != ScalarType::kFloat || b.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const float* x = a.values<float>();
  const float* y = b.values<float>();
  float* z = out.values<float>();
  if (same_shape(a, out) && same_shape(b, out) && same_order(a, out) && same_order(b, out)) {
    const size_t count = out.elements();
    for (size_t i = 0; i < count; ++i) z[i] = f(x[i], y[i]);
  } else {
    for_each_offset(
        out.shape(), [&](int32_t i, int32_t j, int32_t k) { z[k] = f(x[i], y[j]); }, broadcast_strides(a, out.rank),
        broadcast_strides(b, out.rank), strides_of(out));
  }
  return Error::kOk;
}

// Calls f with a null pointer of the C++ type of an integer dtype that quantized tensors have; kKernelDtype for others.
template <class F>
Error for_quantized_type(ScalarType dtype, F f) {
  switch (dtype) {
    case ScalarType::kByte:
      return f(static_cast<uint8_t*>(nullptr));
    case ScalarType::kChar:
      return f(static_cast<int8_t*>(nullptr));
    case ScalarType::kShort:
      return f(static_cast<int16_t*>(nullptr));
    case ScalarType::kInt:
      return f(static_cast<int32_t*>(nullptr));
    default:
      return Error::kKernelDtype;
  }
}

// Calls f with a null pointer of the C++ type that holds an element; kKernelDtype for half.
template <class F>
Error for_element_type(ScalarType dtype, F f) {
  switch (dtype) {
    case ScalarType::kByte:
    case ScalarType::kBool:
      return f(static_cast<uint8_t*>(nullptr));
    case ScalarType::kChar:
      return f(static_cast<int8_t*>(nullptr));
    case ScalarType::kShort:
      return f(static_cast<int16_t*>(nullptr));
    case ScalarType::kInt:
      return f(static_cast<int32_t*>(nullptr));
    case ScalarType::kLong:
      return f(static_cast<int64_t*>(nullptr));
    case ScalarType::kFloat:
      return f(static_cast<float*>(nullptr));
    case ScalarType::kDouble:
      return f(static_cast<double*>(nullptr));
    default:
      return Error::kKernelDtype;
  }
}

// Copies elements of `bytes` each, whatever they mean: out[to] = in[from] for all indices of `sizes`.
inline Error move_elements(const std::byte* in, const Strides& in_strides, std::byte* out, const Strides& out_strides,
                           std::span<const int32_t> sizes, size_t bytes) {
  const auto move = [&]<class T>(T*) {
    const T* x = reinterpret_cast<const T*>(in);
    T* y = reinterpret_cast<T*>(out);
    for_each_offset(
        sizes, [&](int32_t from, int32_t to) { y[to] = x[from]; }, in_strides, out_strides);
    return Error::kOk;
  };
  switch (bytes) {
    case 1:
      return move(static_cast<uint8_t*>(nullptr));
    case 2:
      return move(static_cast<uint16_t*>(nullptr));
    case 4:
      return move(static_cast<uint32_t*>(nullptr));
    case 8:
      return move(static_cast<uint64_t*>(nullptr));
    default:
      return Error::kKernelDtype;
  }
}

// A dimension that may count from the end; -1 if out of range.
inline int wrap_dim(int64_t dim, int rank) {
  const int64_t wrapped = dim < 0 ? dim + rank : dim;
  return wrapped >= 0 && wrapped < rank ? static_cast<int>(wrapped) : -1;
}

}  // namespace dtr::runtime::portable
