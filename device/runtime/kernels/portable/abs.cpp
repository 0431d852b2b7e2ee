// aten::abs.out(self, out): |x|; float or integers.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error abs_out(std::span<Value* const> values) {
  return unary_number(
      values, 1, [](float x) { return __builtin_fabsf(x); },
      {[](int64_t x, int64_t, int64_t) { return x < 0 ? multiply_wrapping(x, int64_t{-1}) : x; }});
}

}  // namespace dtr::runtime::portable
