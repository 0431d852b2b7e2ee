// aten::amin.out(self, dim, keepdim, out): the least element, NaN wins; float, integers and bools.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {

Error amin_out(std::span<Value* const> values) {
  return reduce_to_element(values, false, [](auto x, auto best) { return x < best || x != x; });
}

}  // namespace dtr::runtime::portable
