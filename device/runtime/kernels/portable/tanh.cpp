// aten::tanh.out(self, out)
#include <cmath>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error tanh_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::tanh(x); });
}

}  // namespace dtr::runtime::portable
