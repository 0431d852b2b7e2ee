// dim_order_ops::_to_dim_order_copy.out(self, non_blocking, dim_order, out): the same values in the physical order of `out`. Conversion
// of dtypes is not part of it here.
#include "runtime/kernels/portable/elements.h"
#include "runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error to_dim_order_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  return move_elements(in.data, strides_of(in), out.data, strides_of(out), out.shape(), byte_size(in.dtype));
}

}  // namespace dtr::runtime::portable
