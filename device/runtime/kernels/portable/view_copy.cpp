// The elements in logical order under another shape, any dtype; the shape is that of `out`:
// aten::view_copy.out(self, size, out), aten::squeeze_copy.dim_out and .dims_out(self, dim, out),
// aten::unsqueeze_copy.out(self, dim, out).
#include <cstring>

#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/walk.h"

namespace dtr::runtime::portable {
namespace {

bool is_contiguous(const Tensor& tensor) {
  int last = -1;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[tensor.dim_order[i]] == 1) continue;
    if (tensor.dim_order[i] < last) return false;
    last = tensor.dim_order[i];
  }
  return true;
}

Error reshape(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || in.elements() != out.elements()) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  if (is_contiguous(in) && is_contiguous(out)) {
    if (in.data != out.data && in.bytes() > 0) std::memmove(out.data, in.data, in.bytes());
    return Error::kOk;
  }
  Walker from(in);
  Walker to(out);
  const size_t element = byte_size(in.dtype);
  for (size_t i = in.elements(); i > 0; --i) {
    std::memcpy(out.data + static_cast<size_t>(to.next()) * element,
                in.data + static_cast<size_t>(from.next()) * element, element);
  }
  return Error::kOk;
}

}  // namespace

Error squeeze_copy_dim_out(std::span<Value* const> values) { return reshape(values); }
Error squeeze_copy_dims_out(std::span<Value* const> values) { return reshape(values); }
Error unsqueeze_copy_out(std::span<Value* const> values) { return reshape(values); }
Error view_copy_out(std::span<Value* const> values) { return reshape(values); }

}  // namespace dtr::runtime::portable
