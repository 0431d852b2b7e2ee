// aten::index_select.out(self, dim, index, out) and aten::embedding.out(weight, indices,
// padding_idx, scale_grad_by_freq, sparse, out): parts of any dtype along a dimension, named by
// int64 or int32 indices of any shape; an index outside of the extent is refused.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <class Index>
Error select(const Tensor& in, int axis, const Tensor& index, const Tensor& out) {
  const Strides in_strides = strides_of(in), own = strides_of(out);
  Strides out_strides, places;  // of a part, and of the indices
  int32_t sizes[kMaxRank];
  for (int dim = 0; dim < in.rank; ++dim) {
    sizes[dim] = dim == axis ? 1 : in.sizes[dim];
    if (dim != axis) out_strides.of[dim] = own.of[dim < axis ? dim : dim - 1 + index.rank];
  }
  for (int dim = 0; dim < index.rank; ++dim) places.of[dim] = own.of[axis + dim];
  const size_t bytes = byte_size(in.dtype);
  Error error = Error::kOk;
  const auto part = [&](int32_t from, int32_t to) {
    const Index i = index.values<Index>()[from];
    if (i < 0 || i >= in.sizes[axis]) {
      error = Error::kKernelIndex;
    } else if (error == Error::kOk) {
      error = move_elements(
          in.data + static_cast<size_t>(i) * static_cast<size_t>(in_strides.of[axis]) * bytes,
          in_strides, out.data + static_cast<size_t>(to) * bytes, out_strides, {sizes, in.rank},
          bytes);
    }
  };
  for_each_offset(index.shape(), part, strides_of(index), places);
  return error;
}

Error select(const Tensor& in, int64_t dim, const Tensor& index, const Tensor& out) {
  const int axis = wrap_dim(dim, in.rank);
  if (axis < 0 || out.rank != in.rank - 1 + index.rank) return Error::kKernelArguments;
  for (int at = 0; at < out.rank; ++at) {
    const bool of_index = at >= axis && at < axis + index.rank;
    if (out.sizes[at] !=
        (of_index ? index.sizes[at - axis] : in.sizes[at < axis ? at : at + 1 - index.rank]))
      return Error::kKernelArguments;
  }
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  if (index.dtype == ScalarType::kLong) return select<int64_t>(in, axis, index, out);
  return index.dtype == ScalarType::kInt ? select<int32_t>(in, axis, index, out)
                                         : Error::kKernelDtype;
}

}  // namespace

Error index_select_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& index = arguments.tensor(2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? select(in, dim, index, out) : Error::kKernelArguments;
}

Error embedding_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& table = arguments.tensor(0);
  const Tensor& index = arguments.tensor(1);
  const Tensor& out = arguments.output(5);
  return arguments.good() && table.rank == 2 ? select(table, 0, index, out)
                                             : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
