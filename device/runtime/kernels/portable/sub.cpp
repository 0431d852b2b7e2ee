// aten::sub.out(self, other, alpha, out): self − alpha · other with broadcasting, float.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error sub_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto alpha = static_cast<float>(arguments.number(2));
  if (!arguments.good()) return Error::kKernelArguments;
  return binary_float(values, 3, [alpha](float a, float b) { return a - alpha * b; });
}

}  // namespace dtr::runtime::portable
