// aten::expand_copy.out(self, size, implicit, out): the input broadcast to the shape of `out`, any
// dtype.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error expand_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !broadcasts_to(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  return move_elements(in.data, broadcast_strides(in, out.rank), out.data, strides_of(out),
                       out.shape(), byte_size(in.dtype));
}

}  // namespace dtr::runtime::portable
