// Dimensions in another order, any dtype. aten::permute_copy.out(self, dims, out): dimension i of
// the result is dimension dims[i] of the input; aten::transpose_copy.int_out(self, dim0, dim1, out)
// exchanges two of them, aten::t_copy.out(self, out) those of a matrix.
#include <utility>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

namespace {

Error permute(const Tensor& in, std::span<const int64_t> dims, const Tensor& out) {
  if (dims.size() != in.rank || out.rank != in.rank) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const Strides own = strides_of(in);
  Strides in_strides;
  uint32_t seen = 0;
  for (int i = 0; i < out.rank; ++i) {
    const int dim = wrap_dim(dims[static_cast<size_t>(i)], in.rank);
    if (dim < 0 || (seen >> dim & 1u) != 0 || in.sizes[dim] != out.sizes[i])
      return Error::kKernelArguments;
    seen |= 1u << dim;
    in_strides.of[i] = own.of[dim];
  }
  return move_elements(in.data, in_strides, out.data, strides_of(out), out.shape(),
                       byte_size(in.dtype));
}

Error transpose(const Tensor& in, int64_t first, int64_t second, const Tensor& out) {
  int64_t dims[kMaxRank];
  for (int i = 0; i < in.rank; ++i) dims[i] = i;
  if (in.rank > 0) {
    const int a = wrap_dim(first, in.rank), b = wrap_dim(second, in.rank);
    if (a < 0 || b < 0) return Error::kKernelArguments;
    std::swap(dims[a], dims[b]);
  }
  return permute(in, {dims, in.rank}, out);
}

}  // namespace

Error permute_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  return arguments.good() ? permute(in, dims, out) : Error::kKernelArguments;
}

Error t_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(1);
  return arguments.good() && in.rank <= 2 ? transpose(in, 0, -1, out) : Error::kKernelArguments;
}

Error transpose_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t first = arguments.integer(1), second = arguments.integer(2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? transpose(in, first, second, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
