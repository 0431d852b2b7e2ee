// aten::flip.out(self, dims, out): in reverse order along `dims`, any dtype.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error flip_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  Strides in_strides = strides_of(in);
  const std::byte* from = in.data;
  uint32_t seen = 0;
  for (const int64_t dim : dims) {
    const int axis = wrap_dim(dim, in.rank);
    if (axis < 0 || (seen >> axis & 1u) != 0) return Error::kKernelArguments;
    seen |= 1u << axis;
    if (in.sizes[axis] == 0) return Error::kOk;
    from += static_cast<size_t>(in.sizes[axis] - 1) * static_cast<size_t>(in_strides.of[axis]) *
            byte_size(in.dtype);
    in_strides.of[axis] = -in_strides.of[axis];
  }
  return move_elements(from, in_strides, out.data, strides_of(out), out.shape(),
                       byte_size(in.dtype));
}

}  // namespace dtr::runtime::portable
