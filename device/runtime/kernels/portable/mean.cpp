// aten::mean.out(self, dim, keepdim, dtype, out): float.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

Error mean_out(std::span<Value* const> values) {
  return reduce_float(
      values, 4, 0, [](float sum, float x) { return sum + x; },
      [](float sum, int64_t count) { return sum / static_cast<float>(count); });
}

}  // namespace dtr::runtime::portable
