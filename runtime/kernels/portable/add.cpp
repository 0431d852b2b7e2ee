// aten::add.out(self, other, alpha, out): self + alpha · other with broadcasting, float.
#include "runtime/kernels/portable/elements.h"
#include "runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error add_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const auto alpha = static_cast<float>(arguments.number(2));
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out)) return Error::kKernelArguments;
  if (a.dtype != ScalarType::kFloat || b.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const float* x = a.values<float>();
  const float* y = b.values<float>();
  float* z = out.values<float>();
  if (same_shape(a, out) && same_shape(b, out) && same_order(a, out) && same_order(b, out)) {
    const size_t count = out.elements();
    for (size_t i = 0; i < count; ++i) z[i] = x[i] + alpha * y[i];
  } else {
    for_each_offset(
        out.shape(), [&](int32_t i, int32_t j, int32_t k) { z[k] = x[i] + alpha * y[j]; }, broadcast_strides(a, out.rank),
        broadcast_strides(b, out.rank), strides_of(out));
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
