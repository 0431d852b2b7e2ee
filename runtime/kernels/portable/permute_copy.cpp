// aten::permute_copy.out(self, dims, out): dimension i of the result is dimension dims[i] of the input; any dtype.
#include "runtime/kernels/portable/elements.h"
#include "runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error permute_copy_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = arguments.ints(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || dims.size() != in.rank || out.rank != in.rank) return Error::kKernelArguments;
  if (in.dtype != out.dtype) return Error::kKernelDtype;
  const Strides own = strides_of(in);
  Strides in_strides;
  uint32_t seen = 0;
  for (int i = 0; i < out.rank; ++i) {
    const int dim = wrap_dim(dims[static_cast<size_t>(i)], in.rank);
    if (dim < 0 || (seen >> dim & 1u) != 0 || in.sizes[dim] != out.sizes[i]) return Error::kKernelArguments;
    seen |= 1u << dim;
    in_strides.of[i] = own.of[dim];
  }
  return move_elements(in.data, in_strides, out.data, strides_of(out), out.shape(), byte_size(in.dtype));
}

}  // namespace dtr::runtime::portable
