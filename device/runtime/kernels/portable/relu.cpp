// aten::relu.out(self, out): max(x, 0); NaN stays; float or integers.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error relu_out(std::span<Value* const> values) {
  return unary_number(values, 1, [](float x) { return x < 0.0f ? 0.0f : x; },
                      {[](int64_t x, int64_t, int64_t) { return x < 0 ? int64_t{0} : x; }});
}

}  // namespace dtr::runtime::portable
