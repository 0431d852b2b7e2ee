// The same values in the physical order of `out`: dim_order_ops::_to_dim_order_copy.out and
// _clone_dim_order.out(self, non_blocking, dim_order, out), aten::_to_copy.out(self, non_blocking,
// memory_format, out), aten::clone.out(self, memory_format, out), and alias_copy, detach_copy and
// lift_fresh_copy.out(self, out). The first and the third also convert to the dtype of `out`.
#include "device/runtime/kernels/portable/convert.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

Error copy(std::span<Value* const> values, size_t out_index, bool converts) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype && !converts) return Error::kKernelDtype;
  return copy_converted(in, strides_of(in), out, strides_of(out), out.shape());
}

}  // namespace

Error alias_copy_out(std::span<Value* const> values) { return copy(values, 1, false); }
Error clone_out(std::span<Value* const> values) { return copy(values, 2, false); }
Error clone_dim_order_out(std::span<Value* const> values) { return copy(values, 3, false); }
Error detach_copy_out(std::span<Value* const> values) { return copy(values, 1, false); }
Error lift_fresh_copy_out(std::span<Value* const> values) { return copy(values, 1, false); }
Error to_copy_out(std::span<Value* const> values) { return copy(values, 3, true); }
Error to_dim_order_copy_out(std::span<Value* const> values) { return copy(values, 3, true); }

}  // namespace dtr::runtime::portable
