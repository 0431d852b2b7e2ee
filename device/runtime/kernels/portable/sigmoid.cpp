// aten::sigmoid.out(self, out): 1 / (1 + exp(−x)).
#include <cmath>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error sigmoid_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return 1.0f / (1.0f + std::exp(-x)); });
}

}  // namespace dtr::runtime::portable
