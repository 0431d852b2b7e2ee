// Shared by reductions over dimensions `dims`; an empty or absent list means all dimensions.
#pragma once

#include <limits>

#include "device/runtime/kernels/portable/integers.h"

namespace dtr::runtime::portable {

struct Reduction {
  int32_t outer[kMaxRank];  // by dimension of the input: its extent, or 1 where it is reduced
  int32_t inner[kMaxRank];  // by dimension of the input: 1, or its extent if it is reduced
  int64_t count = 1;        // elements that are reduced to one
  Strides in_strides, out_strides;
};

// Returns false if dimensions or shapes do not match.
inline bool make_reduction(const Tensor& in, std::span<const int64_t> dims, bool keepdim,
                           const Tensor& out, Reduction* reduction) {
  bool reduced[kMaxRank] = {};
  for (const int64_t dim : dims) {
    const int axis = wrap_dim(dim, in.rank);
    if (axis < 0 || reduced[axis]) return false;
    reduced[axis] = true;
  }
  if (dims.empty()) std::fill_n(reduced, in.rank, true);
  reduction->in_strides = strides_of(in);
  const Strides own = strides_of(out);
  int out_dim = 0;
  for (int dim = 0; dim < in.rank; ++dim) {
    reduction->outer[dim] = reduced[dim] ? 1 : in.sizes[dim];
    reduction->inner[dim] = reduced[dim] ? in.sizes[dim] : 1;
    if (reduced[dim]) reduction->count *= in.sizes[dim];
    if (reduced[dim] && !keepdim) continue;
    if (out_dim >= out.rank || out.sizes[out_dim] != reduction->outer[dim]) return false;
    reduction->out_strides.of[dim] = own.of[out_dim++];
  }
  return out_dim == out.rank;
}

// out = finish(step(… step(first, x0) …, xn), n) for elements of type T.
template <class T, class Step, class Finish>
Error reduce(const Tensor& in, std::span<const int64_t> dims, bool keepdim, const Tensor& out,
             T first, Step step, Finish finish) {
  Reduction reduction;
  if (!make_reduction(in, dims, keepdim, out, &reduction)) return Error::kKernelArguments;
  const auto result = [&](int32_t from, int32_t to) {
    T value = first;
    for_each_offset(
        {reduction.inner, in.rank},
        [&](int32_t at) { value = step(value, in.values<T>()[from + at]); }, reduction.in_strides);
    out.values<T>()[to] = finish(value, reduction.count);
  };
  for_each_offset({reduction.outer, in.rank}, result, reduction.in_strides, reduction.out_strides);
  return Error::kOk;
}

// The same of integers and bools, as `step` makes one of two.
inline Error reduce_integers(const Tensor& in, std::span<const int64_t> dims, bool keepdim,
                             const Tensor& out, int64_t first, int64_t (*step)(int64_t, int64_t)) {
  Reduction reduction;
  if (!make_reduction(in, dims, keepdim, out, &reduction)) return Error::kKernelArguments;
  if (!is_integer(in.dtype) || !is_integer(out.dtype)) return Error::kKernelDtype;
  const auto result = [&](int32_t from, int32_t to) {
    int64_t value = first;
    for_each_offset(
        {reduction.inner, in.rank},
        [&](int32_t at) { value = step(value, load_integer(in, from + at)); },
        reduction.in_strides);
    store_integer(out, to, value);
  };
  for_each_offset({reduction.outer, in.rank}, result, reduction.in_strides, reduction.out_strides);
  return Error::kOk;
}

// The dimensions at argument `index`.
inline std::span<const int64_t> dims_or_all(Arguments& arguments, size_t index) {
  return arguments.is_none(index) ? std::span<const int64_t>() : arguments.ints(index);
}

// `dim` as a list, which must not outlive it; empty for a tensor without dimensions, of which 0 and
// -1 name the only element.
inline std::span<const int64_t> one_dim(const Tensor& in, const int64_t& dim) {
  return {&dim, in.rank == 0 && (dim == 0 || dim == -1) ? size_t{0} : size_t{1}};
}

// `reduce` of a float kernel whose arguments are self, dim, keepdim, …, and the out tensor at
// `output`.
template <class Step, class Finish>
Error reduce_float(std::span<Value* const> values, size_t output, float first, Step step,
                   Finish finish) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(output);
  if (!arguments.good()) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  return reduce<float>(in, dims, keepdim, out, first, step, finish);
}

// A kernel of the arguments self, dim, keepdim, out that finds one of the elements, of floats or
// integers: `wins(x, best)`.
template <class Wins>
Error reduce_to_element(std::span<Value* const> values, bool greatest, Wins wins) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good()) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const auto find = [&]<class T>(T first) {
    return reduce<T>(
        in, dims, keepdim, out, first, [&](T best, T x) { return wins(x, best) ? x : best; },
        [](T best, int64_t) { return best; });
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (in.dtype == ScalarType::kFloat) return find(greatest ? -kInfinity : kInfinity);
  if (in.dtype == ScalarType::kChar) return find(greatest ? int8_t{-128} : int8_t{127});
  return reduce_integers(
      in, dims, keepdim, out, greatest ? INT64_MIN : INT64_MAX,
      greatest ? [](int64_t best, int64_t x) { return x > best ? x : best; }
               : [](int64_t best, int64_t x) { return x < best ? x : best; });
}

}  // namespace dtr::runtime::portable
