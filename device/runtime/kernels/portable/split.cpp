// One tensor as several along a dimension, any dtype: aten::split_copy.Tensor_out(self, split_size,
// dim, out[]), aten::split_with_sizes_copy.out(self, split_sizes, dim, out[]) and
// aten::unbind_copy.int_out(self, dim, out[]), whose results lack the dimension.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// `outputs` follow each other along the axis; without `keeps_dim` each has one index of it.
Error split(const Tensor& in, int axis, std::span<Value* const> outputs, bool keeps_dim) {
  const Strides own = strides_of(in);
  Strides strides = own;
  if (!keeps_dim) {
    for (int d = axis; d + 1 < in.rank; ++d) strides.of[d] = own.of[d + 1];
  }
  int64_t extent = 0;
  for (const Value* value : outputs) {
    if (value == nullptr || !value->tensor.writable) return Error::kKernelArguments;
    const Tensor& out = value->tensor;
    if (out.rank + (keeps_dim ? 0 : 1) != in.rank) return Error::kKernelArguments;
    for (int d = 0; d < out.rank; ++d) {
      const int from = keeps_dim || d < axis ? d : d + 1;
      if (from != axis && out.sizes[d] != in.sizes[from]) return Error::kKernelArguments;
    }
    if (out.dtype != in.dtype) return Error::kKernelDtype;
    extent += keeps_dim ? out.sizes[axis] : 1;
  }
  if (extent != in.sizes[axis]) return Error::kKernelArguments;
  const size_t element = byte_size(in.dtype);
  const std::byte* from = in.data;
  for (const Value* value : outputs) {
    const Tensor& out = value->tensor;
    if (const Error error =
            move_elements(from, strides, out.data, strides_of(out), out.shape(), element);
        error != Error::kOk)
      return error;
    from += static_cast<size_t>(keeps_dim ? out.sizes[axis] : 1) *
            static_cast<size_t>(own.of[axis]) * element;
  }
  return Error::kOk;
}

}  // namespace

Error split_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t size = arguments.integer(1);
  const int64_t dim = arguments.integer(2);
  const auto outputs = arguments.tensors(3);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || size < 0) return Error::kKernelArguments;
  int64_t left = in.sizes[axis];
  for (const Value* value : outputs) {
    if (value == nullptr || value->tensor.rank != in.rank ||
        value->tensor.sizes[axis] != std::min(size, left))
      return Error::kKernelArguments;
    left -= value->tensor.sizes[axis];
  }
  return split(in, axis, outputs, true);
}

Error split_with_sizes_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto sizes = arguments.ints(1);
  const int64_t dim = arguments.integer(2);
  const auto outputs = arguments.tensors(3);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || sizes.size() != outputs.size())
    return Error::kKernelArguments;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr || outputs[i]->tensor.rank != in.rank ||
        outputs[i]->tensor.sizes[axis] != sizes[i])
      return Error::kKernelArguments;
  }
  return split(in, axis, outputs, true);
}

Error unbind_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const auto outputs = arguments.tensors(2);
  const int axis = wrap_dim(dim, in.rank);
  return arguments.good() && axis >= 0 ? split(in, axis, outputs, false) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
