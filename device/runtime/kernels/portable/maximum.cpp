// aten::maximum.out(self, other, out): the larger of both with broadcasting, float; NaN if one of
// them is.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error maximum_out(std::span<Value* const> values) {
  return binary_float(values, 2, [](float a, float b) { return a > b || a != a ? a : b; });
}

}  // namespace dtr::runtime::portable
