// aten::select_copy.int_out(self, dim, index, out): the elements at one index of `dim`, which the
// result does not have, any dtype. aten::slice_copy.Tensor_out(self, dim, start, end, step, out):
// every step-th element along `dim`, any dtype. Bounds count from the end if they are negative, and
// are limited to the extent.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error select_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const int64_t wanted = arguments.integer(2);
  const Tensor& out = arguments.output(3);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || out.rank + 1 != in.rank) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const int64_t index = wrap_index(wanted, in.sizes[axis]);
  if (index < 0) return Error::kKernelArguments;
  const Strides own = strides_of(in);
  Strides strides;
  for (int d = 0; d < out.rank; ++d) {
    const int from = d < axis ? d : d + 1;
    if (out.sizes[d] != in.sizes[from]) return Error::kKernelArguments;
    strides.of[d] = own.of[from];
  }
  const size_t element = byte_size(in.dtype);
  const std::byte* first =
      in.data + static_cast<size_t>(index) * static_cast<size_t>(own.of[axis]) * element;
  return move_elements(first, strides, out.data, strides_of(out), out.shape(), element);
}

Error slice_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const int64_t start = arguments.is_none(2) ? 0 : arguments.integer(2);
  const int64_t end = arguments.is_none(3) ? INT64_MAX : arguments.integer(3);
  const int64_t step = arguments.integer(4);
  const Tensor& out = arguments.output(5);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || step < 1 || out.rank != in.rank)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const auto [first, count] = slice_of(in.sizes[axis], start, end, step);
  for (int d = 0; d < in.rank; ++d) {
    if (out.sizes[d] != (d == axis ? count : in.sizes[d])) return Error::kKernelArguments;
  }
  Strides in_strides = strides_of(in);
  const size_t element = byte_size(in.dtype);
  const std::byte* from = in.data + static_cast<size_t>(first * in_strides.of[axis]) * element;
  in_strides.of[axis] = count > 1 ? in_strides.of[axis] * static_cast<int32_t>(step) : 0;
  return move_elements(from, in_strides, out.data, strides_of(out), out.shape(), element);
}

}  // namespace dtr::runtime::portable
