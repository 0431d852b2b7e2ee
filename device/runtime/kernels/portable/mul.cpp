// aten::mul.out(self, other, out): self · other with broadcasting, float or integers.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error mul_out(std::span<Value* const> values) {
  return binary_number(values, 2, [](float a, float b) { return a * b; },
                       {[](int64_t a, int64_t b, int64_t) { return multiply_wrapping(a, b); }});
}

}  // namespace dtr::runtime::portable
