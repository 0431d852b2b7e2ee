// The most extreme elements, NaN before all others: aten::max.unary_out and min.unary_out(self,
// out) of all; aten::max.dim_max and min.dim_min(self, dim, keepdim, values, indices) along a
// dimension, with the int64 index of the first of them. Float, integers and bools.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {
namespace {

// `indices` may be null.
template <class T>
void find(const Tensor& in, const Reduction& reduction, bool greatest, const Tensor& out,
          const Tensor* indices, const Strides& index_strides) {
  for_each_offset(
      {reduction.outer, in.rank},
      [&](int32_t from, int32_t to, int32_t to_index) {
        T best = load_number<T>(in, from);
        int64_t position = 0, index = 0;
        for_each_offset(
            {reduction.inner, in.rank},
            [&](int32_t at) {
              const T x = load_number<T>(in, from + at);
              if (best == best && (x != x || (greatest ? x > best : x < best))) {
                best = x;
                index = position;
              }
              ++position;
            },
            reduction.in_strides);
        store_number<T>(out, to, best);
        if (indices != nullptr) indices->values<int64_t>()[to_index] = index;
      },
      reduction.in_strides, reduction.out_strides, index_strides);
}

Error extreme(const Tensor& in, std::span<const int64_t> dims, bool keepdim, bool greatest,
              const Tensor& out, const Tensor* indices) {
  Reduction reduction, of_indices;
  if (!make_reduction(in, dims, keepdim, out, &reduction) || reduction.count == 0 ||
      (indices != nullptr && !make_reduction(in, dims, keepdim, *indices, &of_indices)))
    return Error::kKernelArguments;
  if (in.dtype != out.dtype || (indices != nullptr && indices->dtype != ScalarType::kLong))
    return Error::kKernelDtype;
  if (in.dtype == ScalarType::kFloat) {
    find<float>(in, reduction, greatest, out, indices, of_indices.out_strides);
  } else if (is_integer(in.dtype)) {
    find<int64_t>(in, reduction, greatest, out, indices, of_indices.out_strides);
  } else {
    return Error::kKernelDtype;
  }
  return Error::kOk;
}

Error of_all(std::span<Value* const> values, bool greatest) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(1);
  return arguments.good() ? extreme(in, {}, false, greatest, out, nullptr)
                          : Error::kKernelArguments;
}

Error of_dim(std::span<Value* const> values, bool greatest) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(3);
  const Tensor& indices = arguments.output(4);
  return arguments.good() ? extreme(in, one_dim(in, dim), keepdim, greatest, out, &indices)
                          : Error::kKernelArguments;
}

}  // namespace

Error max_unary_out(std::span<Value* const> values) { return of_all(values, true); }
Error min_unary_out(std::span<Value* const> values) { return of_all(values, false); }
Error max_dim_max(std::span<Value* const> values) { return of_dim(values, true); }
Error min_dim_min(std::span<Value* const> values) { return of_dim(values, false); }

}  // namespace dtr::runtime::portable
