// Copies of views that read by other strides, any dtype: aten::narrow_copy.out(self, dim, start,
// length, out), aten::diagonal_copy.out(self, offset, dim1, dim2, out), aten::unfold_copy.out(self,
// dimension, size, step, out), aten::as_strided_copy.out(self, size, stride, storage_offset, out).
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// The elements of `in` from `first` on at `strides`; the caller has checked that all exist.
Error copy_view(const Tensor& in, int64_t first, const Strides& strides, const Tensor& out) {
  const size_t element = byte_size(in.dtype);
  return move_elements(in.data + static_cast<size_t>(first) * element, strides, out.data,
                       strides_of(out), out.shape(), element);
}

}  // namespace

Error narrow_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const int64_t wanted = arguments.integer(2);
  const int64_t length = arguments.integer(3);
  const Tensor& out = arguments.output(4);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || out.rank != in.rank) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const int64_t extent = in.sizes[axis];
  const int64_t start = wanted < 0 ? wanted + extent : wanted;
  if (start < 0 || start > extent || length < 0 || length > extent - start)
    return Error::kKernelArguments;
  for (int d = 0; d < in.rank; ++d) {
    if (out.sizes[d] != (d == axis ? length : in.sizes[d])) return Error::kKernelArguments;
  }
  const Strides strides = strides_of(in);
  return is_empty(out) ? Error::kOk : copy_view(in, start * strides.of[axis], strides, out);
}

Error diagonal_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t offset = arguments.integer(1);
  const int64_t dim1 = arguments.integer(2);
  const int64_t dim2 = arguments.integer(3);
  const Tensor& out = arguments.output(4);
  const int rows = wrap_dim(dim1, in.rank), columns = wrap_dim(dim2, in.rank);
  if (!arguments.good() || rows < 0 || columns < 0 || rows == columns || out.rank + 1 != in.rank)
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const int64_t height = in.sizes[rows], width = in.sizes[columns];
  if (offset > width || offset < -height) {
    if (!is_empty(out)) return Error::kKernelArguments;
    return Error::kOk;
  }
  const int64_t count =
      std::min(height - std::max<int64_t>(-offset, 0), width - std::max<int64_t>(offset, 0));
  const Strides own = strides_of(in);
  Strides strides;
  int at = 0;
  for (int d = 0; d < in.rank; ++d) {
    if (d == rows || d == columns) continue;
    if (out.sizes[at] != in.sizes[d]) return Error::kKernelArguments;
    strides.of[at++] = own.of[d];
  }
  if (out.sizes[at] != count) return Error::kKernelArguments;
  strides.of[at] = own.of[rows] + own.of[columns];
  if (is_empty(out)) return Error::kOk;
  const int64_t first = offset >= 0 ? offset * own.of[columns] : -offset * own.of[rows];
  return copy_view(in, first, strides, out);
}

Error unfold_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const int64_t size = arguments.integer(2);
  const int64_t step = arguments.integer(3);
  const Tensor& out = arguments.output(4);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || out.rank != in.rank + 1 || size < 0 || step < 1 ||
      size > in.sizes[axis])
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const int64_t windows = (in.sizes[axis] - size) / step + 1;
  for (int d = 0; d < in.rank; ++d) {
    if (out.sizes[d] != (d == axis ? windows : in.sizes[d])) return Error::kKernelArguments;
  }
  if (out.sizes[in.rank] != size) return Error::kKernelArguments;
  Strides strides = strides_of(in);
  strides.of[in.rank] = strides.of[axis];
  strides.of[axis] = windows > 1 ? strides.of[axis] * static_cast<int32_t>(step) : 0;
  return copy_view(in, 0, strides, out);
}

// Strides count elements in memory, in physical order.
Error as_strided_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto sizes = arguments.ints(1), steps = arguments.ints(2);
  const int64_t first = arguments.is_none(3) ? 0 : arguments.integer(3);
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || sizes.size() != out.rank || steps.size() != out.rank || first < 0 ||
      first > static_cast<int64_t>(in.elements()))
    return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const auto elements = static_cast<int64_t>(in.elements());
  int64_t last = first;
  Strides strides;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (out.sizes[d] != sizes[d] || steps[d] < 0) return Error::kKernelArguments;
    if (sizes[d] < 2) continue;
    if (steps[d] >= elements) return Error::kKernelArguments;
    last += (sizes[d] - 1) * steps[d];
    strides.of[d] = static_cast<int32_t>(steps[d]);
  }
  if (is_empty(out)) return Error::kOk;
  return last < elements ? copy_view(in, first, strides, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
