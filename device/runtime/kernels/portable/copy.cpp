// A tensor with a part, or all, replaced: aten::select_scatter.out(self, src, dim, index, out) and
// aten::slice_scatter.out(self, src, dim, start, end, step, out), any dtype;
// aten::copy.out(self, src, non_blocking, out) and aten::copy_(self, src, non_blocking), where src
// is broadcast to self and converted to its dtype.
#include <cstring>

#include "device/runtime/kernels/portable/convert.h"
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// out = in, then src in its elements from `first` on at `strides`. src has those of `sizes`.
Error replace(const Tensor& in, const Tensor& src, const Tensor& out, int64_t first,
              const Strides& src_strides, const Strides& strides, std::span<const int32_t> sizes) {
  if (const Error error = copy_elements(in, out); error != Error::kOk) return error;
  const size_t element = byte_size(in.dtype);
  return move_elements(src.data, src_strides, out.data + static_cast<size_t>(first) * element,
                       strides, sizes, element);
}

Error assign(const Tensor& src, const Tensor& out) {
  if (!broadcasts_to(src, out)) return Error::kKernelArguments;
  if (src.dtype == out.dtype && same_shape(src, out) && same_order(src, out)) {
    if (out.bytes() > 0) std::memmove(out.data, src.data, out.bytes());
    return Error::kOk;
  }
  const Strides from = broadcast_strides(src, out.rank);
  return copy_converted(src, from, out, strides_of(out), out.shape());
}

}  // namespace

Error select_scatter_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& src = arguments.tensor(1);
  const int64_t dim = arguments.integer(2);
  const int64_t wanted = arguments.integer(3);
  const Tensor& out = arguments.output(4);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || !same_shape(in, out) || src.rank + 1 != in.rank)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype || src.dtype != out.dtype) return Error::kKernelDtype;
  const int64_t index = wrap_index(wanted, in.sizes[axis]);
  if (index < 0) return Error::kKernelArguments;
  const Strides own = strides_of(out);
  Strides strides;
  for (int d = 0; d < src.rank; ++d) {
    const int to = d < axis ? d : d + 1;
    if (src.sizes[d] != in.sizes[to]) return Error::kKernelArguments;
    strides.of[d] = own.of[to];
  }
  return replace(in, src, out, index * own.of[axis], strides_of(src), strides, src.shape());
}

Error slice_scatter_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& src = arguments.tensor(1);
  const int64_t dim = arguments.integer(2);
  const int64_t start = arguments.is_none(3) ? 0 : arguments.integer(3);
  const int64_t end = arguments.is_none(4) ? INT64_MAX : arguments.integer(4);
  const int64_t step = arguments.integer(5);
  const Tensor& out = arguments.output(6);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || step < 1 || !same_shape(in, out) || src.rank != in.rank)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype || src.dtype != out.dtype) return Error::kKernelDtype;
  const Slice slice = slice_of(in.sizes[axis], start, end, step);
  for (int d = 0; d < in.rank; ++d) {
    if (src.sizes[d] != (d == axis ? slice.count : in.sizes[d])) return Error::kKernelArguments;
  }
  Strides strides = strides_of(out);
  const int64_t first = slice.first * strides.of[axis];
  strides.of[axis] = slice.count > 1 ? strides.of[axis] * static_cast<int32_t>(step) : 0;
  return replace(in, src, out, first, strides_of(src), strides, src.shape());
}

Error copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& src = arguments.tensor(1);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  return in.dtype == out.dtype ? assign(src, out) : Error::kKernelDtype;
}

Error copy_in_place(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& out = arguments.output(0);
  const Tensor& src = arguments.tensor(1);
  return arguments.good() ? assign(src, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
