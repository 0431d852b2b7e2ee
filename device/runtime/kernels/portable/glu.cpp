// aten::glu.out(self, dim, out): the first half along a dimension times the sigmoid of the second;
// float.
#include <cmath>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error glu_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& out = arguments.output(2);
  const int axis = wrap_dim(dim, in.rank);
  if (!arguments.good() || axis < 0 || in.rank != out.rank) return Error::kKernelArguments;
  for (int d = 0; d < in.rank; ++d) {
    if (in.sizes[d] != int64_t{out.sizes[d]} * (d == axis ? 2 : 1)) return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const Strides from = strides_of(in);
  const int32_t second = out.sizes[axis] * from.of[axis];
  for_each_offset(
      out.shape(),
      [&](int32_t i, int32_t k) {
        const float x = in.values<float>()[i], gate = in.values<float>()[i + second];
        out.values<float>()[k] = x / (1 + std::exp(-gate));
      },
      from, strides_of(out));
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
