// aten::hardswish.out(self, out): x · clamp(x + 3, 0, 6) / 6.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error hardswish_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) {
    const float gate = x + 3.0f < 0.0f ? 0.0f : x + 3.0f > 6.0f ? 6.0f : x + 3.0f;
    return x * gate / 6.0f;
  });
}

}  // namespace dtr::runtime::portable
