// aten::relu.out(self, out): max(x, 0); NaN stays.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error relu_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return x < 0.0f ? 0.0f : x; });
}

}  // namespace dtr::runtime::portable
