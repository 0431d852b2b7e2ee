// Arithmetic of a tensor and a number, float: aten::{add, sub, rsub}.Scalar_out(self, other, alpha,
// out), aten::{mul, div}.Scalar_out(self, other, out).
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// f(x, other), or f(x, alpha · other).
template <class F>
Error with_number(std::span<Value* const> values, bool has_alpha, F f) {
  Arguments arguments(values);
  const double other = arguments.number(1);
  const double alpha = has_alpha ? arguments.number(2) : 1.0;
  if (!arguments.good()) return Error::kKernelArguments;
  const auto number = static_cast<float>(other * alpha);
  return unary_float(values, has_alpha ? 3 : 2, [&](float x) { return f(x, number); });
}

}  // namespace

Error add_scalar_out(std::span<Value* const> values) {
  return with_number(values, true, [](float x, float number) { return x + number; });
}
Error div_scalar_out(std::span<Value* const> values) {
  return with_number(values, false, [](float x, float number) { return x / number; });
}
Error mul_scalar_out(std::span<Value* const> values) {
  return with_number(values, false, [](float x, float number) { return x * number; });
}
Error sub_scalar_out(std::span<Value* const> values) {
  return with_number(values, true, [](float x, float number) { return x - number; });
}

// other − alpha · self.
Error rsub_scalar_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto other = static_cast<float>(arguments.number(1));
  const auto alpha = static_cast<float>(arguments.number(2));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 3, [=](float x) { return other - alpha * x; });
}

}  // namespace dtr::runtime::portable
