// aten::mean.out(self, dim, keepdim, dtype, out) and .dtype_out(self, dtype, out), of all elements:
// float.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

namespace {

// Objects, not functions: a call through a pointer hides the use of the stack.
constexpr auto kAdd = [](float sum, float x) { return sum + x; };
constexpr auto kDivide = [](float sum, int64_t count) { return sum / static_cast<float>(count); };

}  // namespace

Error mean_out(std::span<Value* const> values) { return reduce_float(values, 4, 0, kAdd, kDivide); }

Error mean_dtype_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(2);
  if (!arguments.good()) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  return reduce<float>(in, {}, false, out, 0, kAdd, kDivide);
}

}  // namespace dtr::runtime::portable
