// aten::amin.out(self, dim, keepdim, out): the least element, NaN wins; float.
#include <limits>

#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

Error amin_out(std::span<Value* const> values) {
  return reduce_float(
      values, 3, std::numeric_limits<float>::infinity(), [](float best, float x) { return x < best || x != x ? x : best; },
      [](float best, int64_t) { return best; });
}

}  // namespace dtr::runtime::portable
