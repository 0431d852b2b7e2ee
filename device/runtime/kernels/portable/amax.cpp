// aten::amax.out(self, dim, keepdim, out): the greatest element, NaN wins; float, integers and
// bools.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

Error amax_out(std::span<Value* const> values) {
  return reduce_to_element(values, true, [](auto x, auto best) { return x > best || x != x; });
}

}  // namespace dtr::runtime::portable
