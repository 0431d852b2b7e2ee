// aten::logical_{and, or, xor}.out(self, other, out) with broadcasting and
// aten::logical_not.out(self, out): bool.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <class F>
Error combine(std::span<Value* const> values, F f) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out))
    return Error::kKernelArguments;
  if (a.dtype != ScalarType::kBool || b.dtype != ScalarType::kBool ||
      out.dtype != ScalarType::kBool)
    return Error::kKernelDtype;
  map_broadcast<uint8_t, uint8_t>(
      a, b, out, [&](uint8_t x, uint8_t y) { return static_cast<uint8_t>(f(x != 0, y != 0)); });
  return Error::kOk;
}

}  // namespace

Error logical_and_out(std::span<Value* const> values) {
  return combine(values, [](bool a, bool b) { return a && b; });
}
Error logical_or_out(std::span<Value* const> values) {
  return combine(values, [](bool a, bool b) { return a || b; });
}
Error logical_xor_out(std::span<Value* const> values) {
  return combine(values, [](bool a, bool b) { return a != b; });
}

Error logical_not_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(1);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kBool || out.dtype != ScalarType::kBool) return Error::kKernelDtype;
  map_elements<uint8_t, uint8_t>(in, out, [](uint8_t x) { return static_cast<uint8_t>(x == 0); });
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
