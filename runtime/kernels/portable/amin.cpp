// aten::amin.out(self, dim, keepdim, out): the least element, NaN wins; float.
#include <limits>

#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

Error amin_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good()) return Error::kKernelArguments;
  return reduce_float(
      in, dims, keepdim, out, std::numeric_limits<float>::infinity(), [](float best, float x) { return x < best || x != x ? x : best; },
      [](float best, int64_t) { return best; });
}

}  // namespace dtr::runtime::portable
