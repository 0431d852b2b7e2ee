// aten::prelu.out(self, weight, out): self where it is positive, else weight · self; the weight is
// broadcast.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error prelu_out(std::span<Value* const> values) {
  return binary_float(values, 2, [](float x, float weight) { return x > 0.0f ? x : weight * x; });
}

}  // namespace dtr::runtime::portable
