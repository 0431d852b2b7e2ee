// aten::mul.out(self, other, out): self · other with broadcasting, float.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error mul_out(std::span<Value* const> values) {
  return binary_float(values, 2, [](float a, float b) { return a * b; });
}

}  // namespace dtr::runtime::portable
