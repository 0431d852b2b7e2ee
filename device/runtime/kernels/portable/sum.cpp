// aten::sum.IntList_out(self, dim, keepdim, dtype, out): float; integers and bools, mostly into
// int64.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

Error sum_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(4);
  if (!arguments.good()) return Error::kKernelArguments;
  if (is_integer(in.dtype)) return reduce_integers(in, dims, keepdim, out, 0, add_wrapping);
  return reduce_float(
      values, 4, 0, [](float sum, float x) { return sum + x; },
      [](float sum, int64_t) { return sum; });
}

}  // namespace dtr::runtime::portable
