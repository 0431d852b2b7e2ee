// Loops over the elements of tensors in any dimension order, shared by the portable kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "device/runtime/kernel.h"
#include "device/runtime/kernels/checks.h"

namespace dtr::runtime::portable {

struct Strides {
  int32_t of[kMaxRank] = {};  // by logical dimension, in elements
};

inline Strides strides_of(const Tensor& tensor) {
  Strides strides;
  fill_strides(tensor, strides.of);
  return strides;
}

// Strides with which `tensor` is read at the indices of a result of `rank` dimensions: 0 where it
// is broadcast.
inline Strides broadcast_strides(const Tensor& tensor, int rank) {
  const Strides own = strides_of(tensor);
  Strides strides;
  for (int dim = 0; dim < tensor.rank; ++dim) {
    if (tensor.sizes[dim] != 1) strides.of[rank - tensor.rank + dim] = own.of[dim];
  }
  return strides;
}

inline bool broadcasts_to(const Tensor& from, std::span<const int32_t> to) {
  if (from.rank > to.size()) return false;
  for (size_t dim = 0; dim < from.rank; ++dim) {
    if (from.sizes[dim] != 1 && from.sizes[dim] != to[to.size() - from.rank + dim]) return false;
  }
  return true;
}
inline bool broadcasts_to(const Tensor& from, const Tensor& to) {
  return broadcasts_to(from, to.shape());
}

// Calls visit(offset_a, offset_b, …) for every index of `sizes`, last dimension fastest; one offset
// in elements per set of strides.
template <class Visit, class... S>
void for_each_offset(std::span<const int32_t> sizes, Visit visit, const S&... strides) {
  constexpr size_t kStreams = sizeof...(S);
  const Strides* const all[] = {&strides...};
  uint32_t offsets[kStreams] = {};  // behind the last index they may leave int32
  int32_t index[kMaxRank] = {};
  for (const int32_t size : sizes) {
    if (size == 0) return;
  }
  // The innermost loop has a dimension of more than one element, if there is one.
  int last = static_cast<int>(sizes.size()) - 1;
  while (last > 0 && sizes[static_cast<size_t>(last)] == 1) --last;
  const int32_t run = last < 0 ? 1 : sizes[static_cast<size_t>(last)];
  uint32_t steps[kStreams] = {};
  for (size_t s = 0; last >= 0 && s < kStreams; ++s)
    steps[s] = static_cast<uint32_t>(all[s]->of[last]);
  while (true) {
    // Without loops over the streams, so that offsets and steps stay in registers.
    [&]<size_t... I>(std::index_sequence<I...>) {
      uint32_t at[] = {offsets[I]...};
      for (int32_t k = run; k > 0; --k) {
        visit(static_cast<int32_t>(at[I])...);
        ((at[I] += steps[I]), ...);
      }
    }
    (std::make_index_sequence<kStreams>());
    int dim = last - 1;
    for (; dim >= 0; --dim) {
      for (size_t s = 0; s < kStreams; ++s) offsets[s] += static_cast<uint32_t>(all[s]->of[dim]);
      if (++index[dim] < sizes[static_cast<size_t>(dim)]) break;
      const auto extent = static_cast<uint32_t>(sizes[static_cast<size_t>(dim)]);
      for (size_t s = 0; s < kStreams; ++s)
        offsets[s] -= static_cast<uint32_t>(all[s]->of[dim]) * extent;
      index[dim] = 0;
    }
    if (dim < 0) return;
  }
}

// Loops over two tensors at once: dimensions of the result in its memory order, with dimensions
// that are contiguous in both tensors merged. The innermost loop is a run: contiguous in both, or
// the longest.
struct CopyLoops {
  int32_t sizes[kMaxRank];
  Strides in, out;
  uint32_t rank = 0;

  // `sizes` has no extent 0.
  CopyLoops(std::span<const int32_t> extents, const Strides& in_strides,
            const Strides& out_strides) {
    for (size_t dim = 0; dim < extents.size(); ++dim) {
      if (extents[dim] == 1) continue;
      uint32_t at = rank++;
      for (; at > 0 && out.of[at - 1] < out_strides.of[dim]; --at)
        set(at, sizes[at - 1], in.of[at - 1], out.of[at - 1]);
      set(at, extents[dim], in_strides.of[dim], out_strides.of[dim]);
    }
    uint32_t last = 0;
    for (uint32_t at = 1; at < rank; ++at) {
      const int64_t extent = sizes[at];
      if (in.of[last] == extent * in.of[at] && out.of[last] == extent * out.of[at]) {
        set(last, sizes[last] * sizes[at], in.of[at], out.of[at]);
      } else {
        set(++last, sizes[at], in.of[at], out.of[at]);
      }
    }
    if (rank == 0) set(0, 1, 1, 1);
    rank = last + 1;
    if (in.of[last] == 1 && out.of[last] == 1) return;
    const auto longest = static_cast<uint32_t>(std::max_element(sizes, sizes + rank) - sizes);
    std::swap(sizes[longest], sizes[last]);
    std::swap(in.of[longest], in.of[last]);
    std::swap(out.of[longest], out.of[last]);
  }

  // Calls run(offset in, offset out, elements, step in, step out) for every run.
  template <class Run>
  void for_each_run(Run run) const {
    const uint32_t last = rank - 1;
    for_each_offset(
        {sizes, last},
        [&](int32_t from, int32_t to) { run(from, to, sizes[last], in.of[last], out.of[last]); },
        in, out);
  }

 private:
  void set(uint32_t at, int32_t size, int32_t in_stride, int32_t out_stride) {
    sizes[at] = size;
    in.of[at] = in_stride;
    out.of[at] = out_stride;
  }
};

#if defined(__SSE2__)
// out = f(in) in vectors; of a function of its own, with its own copy of `f`, compilers see that
// stores change nothing that `f` reads.
template <size_t kCount, class In, class Out, class F>
__attribute__((noinline)) void map_chunk(const In* in, Out* out, F f) {
  for (size_t i = 0; i < kCount; ++i) out[i] = f(in[i]);
}
#endif

// out = f(in), element by element, for tensors of one shape.
template <class In, class Out, class F>
void map_elements(const Tensor& in, const Tensor& out, F f) {
  const In* x = in.values<In>();
  Out* y = out.values<Out>();
  if (same_order(in, out)) {
    const size_t count = in.elements();
    for (size_t i = 0; i < count; ++i) y[i] = f(x[i]);
  } else if (in.elements() > 0) {
    CopyLoops(in.shape(), strides_of(in), strides_of(out))
        .for_each_run(
            [&](int32_t from, int32_t to, int32_t count, int32_t in_step, int32_t out_step) {
#if defined(__SSE2__)
              constexpr int32_t kChunk = 256;
              for (; in_step == 1 && count >= kChunk; count -= kChunk, from += kChunk) {
                Out values[kChunk];
                map_chunk<kChunk>(x + from, values, f);
                for (int32_t i = 0; i < kChunk; ++i, to += out_step) y[to] = values[i];
              }
#endif
              for (int32_t i = count; i > 0; --i, from += in_step, to += out_step)
                y[to] = f(x[from]);
            });
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

// out = f(a, b), element by element; both are broadcast to the result.
template <class In, class Out, class F>
void map_broadcast(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  const In* x = a.values<In>();
  const In* y = b.values<In>();
  Out* z = out.values<Out>();
  if (same_shape(a, out) && same_shape(b, out) && same_order(a, out) && same_order(b, out)) {
    const size_t count = out.elements();
    for (size_t i = 0; i < count; ++i) z[i] = f(x[i], y[i]);
  } else {
    for_each_offset(
        out.shape(), [=](int32_t i, int32_t j, int32_t k) { z[k] = f(x[i], y[j]); },
        broadcast_strides(a, out.rank), broadcast_strides(b, out.rank), strides_of(out));
  }
}

// A kernel of two float operands that are broadcast: arguments 0 and 1 are the inputs, `out_index`
// the output.
template <class F>
Error binary_float(std::span<Value* const> values, size_t out_index, F f) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out))
    return Error::kKernelArguments;
  if (a.dtype != ScalarType::kFloat || b.dtype != ScalarType::kFloat ||
      out.dtype != ScalarType::kFloat)
    return Error::kKernelDtype;
  map_broadcast<float, float>(a, b, out, f);
  return Error::kOk;
}

// Calls f with a null pointer of the C++ type of an integer dtype that quantized tensors have;
// kKernelDtype for others.
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
    case ScalarType::kBool:
      return f(static_cast<uint8_t*>(nullptr));
    case ScalarType::kLong:
      return f(static_cast<int64_t*>(nullptr));
    case ScalarType::kFloat:
      return f(static_cast<float*>(nullptr));
    case ScalarType::kDouble:
      return f(static_cast<double*>(nullptr));
    default:
      return for_quantized_type(dtype, f);
  }
}

// Copies elements of `bytes` bytes of any type: out[to] = in[from] for all indices of `sizes`.
inline Error move_elements(const std::byte* in, const Strides& in_strides, std::byte* out,
                           const Strides& out_strides, std::span<const int32_t> sizes,
                           size_t bytes) {
  for (const int32_t size : sizes) {
    if (size == 0) return Error::kOk;
  }
  const CopyLoops loops(sizes, in_strides, out_strides);
  const auto move = [&]<class T>(T*) {
    loops.for_each_run(
        [&](int32_t from, int32_t to, int32_t count, int32_t in_step, int32_t out_step) {
          const T* x = reinterpret_cast<const T*>(in) + from;
          T* y = reinterpret_cast<T*>(out) + to;
          if (in_step == 1 && out_step == 1) {
            std::copy_n(x, count, y);
          } else {
            for (int32_t i = count; i > 0; --i, x += in_step, y += out_step) *y = *x;
          }
        });
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

// out = in, for tensors of one shape and dtype.
inline Error copy_elements(const Tensor& in, const Tensor& out) {
  return move_elements(in.data, strides_of(in), out.data, strides_of(out), out.shape(),
                       byte_size(in.dtype));
}

// The elements start, start + step, … in front of end. Bounds count from the end if they are
// negative, and are limited to the extent; step is at least 1.
struct Slice {
  int64_t first, count;
};
inline Slice slice_of(int64_t extent, int64_t start, int64_t end, int64_t step) {
  const auto clip = [&](int64_t bound) {
    return std::min(std::max<int64_t>(bound < 0 ? bound + extent : bound, 0), extent);
  };
  const int64_t first = clip(start), last = clip(end);
  return {first, last <= first ? 0 : (last - first - 1) / step + 1};
}

// An index that may count from the end; -1 if it is outside of the extent.
inline int64_t wrap_index(int64_t index, int64_t extent) {
  const int64_t wrapped = index < 0 ? index + extent : index;
  return wrapped >= 0 && wrapped < extent ? wrapped : -1;
}
inline int wrap_dim(int64_t dim, int rank) { return static_cast<int>(wrap_index(dim, rank)); }

}  // namespace dtr::runtime::portable
