// aten::sub.out(self, other, alpha, out): self − alpha · other with broadcasting, float or
// integers.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error sub_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double number = arguments.number(2);
  if (!arguments.good()) return Error::kKernelArguments;
  const auto alpha = static_cast<float>(number);
  return binary_number(
      values, 3, [alpha](float a, float b) { return a - alpha * b; },
      {[](int64_t a, int64_t b, int64_t by) { return add_wrapping(a, multiply_wrapping(b, by)); },
       saturated(-number)});
}

}  // namespace dtr::runtime::portable
