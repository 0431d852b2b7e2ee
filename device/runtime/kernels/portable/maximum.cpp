// aten::maximum.out(self, other, out): the larger of both with broadcasting, float or integers; NaN
// if one of them is.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error maximum_out(std::span<Value* const> values) {
  return binary_number(values, 2, [](float a, float b) { return a > b || a != a ? a : b; },
                       {[](int64_t a, int64_t b, int64_t) { return a > b ? a : b; }});
}

}  // namespace dtr::runtime::portable
