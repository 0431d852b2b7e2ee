// aten::abs.out(self, out): |x|.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error abs_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return __builtin_fabsf(x); });
}

}  // namespace dtr::runtime::portable
