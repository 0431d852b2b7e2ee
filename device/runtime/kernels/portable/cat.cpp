// aten::cat.out(tensors, dim, out): one behind the other along `dim`; aten::stack.out: along a new
// dimension `dim`. Any dtype.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error cat_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto tensors = arguments.tensors(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good()) return Error::kKernelArguments;
  const int axis = wrap_dim(dim, out.rank);
  if (axis < 0) return Error::kKernelArguments;
  int64_t extent = 0;
  for (const Value* value : tensors) {
    if (value == nullptr || value->tensor.rank != out.rank) return Error::kKernelArguments;
    for (int d = 0; d < out.rank; ++d) {
      if (d != axis && value->tensor.sizes[d] != out.sizes[d]) return Error::kKernelArguments;
    }
    if (value->tensor.dtype != out.dtype) return Error::kKernelDtype;
    extent += value->tensor.sizes[axis];
  }
  if (extent != out.sizes[axis]) return Error::kKernelArguments;
  const Strides out_strides = strides_of(out);
  const size_t element = byte_size(out.dtype);
  std::byte* to = out.data;
  for (const Value* value : tensors) {
    const Tensor& in = value->tensor;
    if (const Error error =
            move_elements(in.data, strides_of(in), to, out_strides, in.shape(), element);
        error != Error::kOk)
      return error;
    to += static_cast<size_t>(in.sizes[axis]) * static_cast<size_t>(out_strides.of[axis]) * element;
  }
  return Error::kOk;
}

Error stack_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto tensors = arguments.tensors(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good()) return Error::kKernelArguments;
  const int axis = wrap_dim(dim, out.rank);
  if (axis < 0 || static_cast<size_t>(out.sizes[axis]) != tensors.size())
    return Error::kKernelArguments;
  const Strides own = strides_of(out);
  Strides slot;  // of one of the tensors in the result
  for (int d = 0; d + 1 < out.rank; ++d) slot.of[d] = own.of[d < axis ? d : d + 1];
  const size_t element = byte_size(out.dtype);
  std::byte* to = out.data;
  for (const Value* value : tensors) {
    if (value == nullptr || value->tensor.rank + 1 != out.rank) return Error::kKernelArguments;
    const Tensor& in = value->tensor;
    if (in.dtype != out.dtype) return Error::kKernelDtype;
    for (int d = 0; d < in.rank; ++d) {
      if (in.sizes[d] != out.sizes[d < axis ? d : d + 1]) return Error::kKernelArguments;
    }
    if (const Error error = move_elements(in.data, strides_of(in), to, slot, in.shape(), element);
        error != Error::kOk)
      return error;
    to += static_cast<size_t>(own.of[axis]) * element;
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
