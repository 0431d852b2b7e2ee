// More float functions of one tensor, aten::NAME.out(self, out), which few models have; of two with
// broadcasting: aten::atan2.out(self, other, out), aten::pow.Tensor_Tensor_out(self, exponent,
// out), which takes integers of one dtype too. aten::pow.Scalar_out(self, exponent, out): powers of
// a number; aten::logit.out(self, eps, out). aten::isinf.out and aten::isnan.out(self, out): bools.
#include <cmath>

#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <class F>
Error is(std::span<Value* const> values, F f) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(1);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kBool) return Error::kKernelDtype;
  map_elements<float, uint8_t>(in, out, [&](float x) { return static_cast<uint8_t>(f(x)); });
  return Error::kOk;
}

// By squares, which wrap; a negative exponent gives 1 / base^−exponent cut to an integer.
int64_t whole_power(int64_t base, int64_t exponent, int64_t) {
  if (exponent < 0) return base == 1 || (base == -1 && exponent % 2 != 0) ? base : base == -1;
  int64_t result = 1;
  for (; exponent != 0; exponent /= 2) {
    if (exponent % 2 != 0) result = multiply_wrapping(result, base);
    base = multiply_wrapping(base, base);
  }
  return result;
}

}  // namespace

Error acos_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::acos(x); });
}
Error acosh_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::acosh(x); });
}
Error asin_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::asin(x); });
}
Error asinh_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::asinh(x); });
}
Error atanh_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::atanh(x); });
}
Error cosh_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::cosh(x); });
}
Error expm1_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::expm1(x); });
}
Error log10_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::log10(x); });
}
Error log1p_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::log1p(x); });
}
Error log2_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::log2(x); });
}
Error sinh_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::sinh(x); });
}
Error tan_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::tan(x); });
}
Error trunc_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::trunc(x); });
}

Error atan2_out(std::span<Value* const> values) {
  return binary_float(values, 2, [](float a, float b) { return std::atan2(a, b); });
}
Error pow_tensor_tensor_out(std::span<Value* const> values) {
  return binary_number(values, 2, [](float a, float b) { return std::pow(a, b); }, {whole_power});
}

Error pow_scalar_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto base = static_cast<float>(arguments.number(0));
  const Tensor& in = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  map_elements<float, float>(in, out, [base](float x) { return std::pow(base, x); });
  return Error::kOk;
}

// log(x / (1 − x)), of x that is limited to [eps, 1 − eps].
Error logit_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double eps = arguments.number_or(1, -1);
  if (!arguments.good()) return Error::kKernelArguments;
  const auto low = static_cast<float>(eps), high = static_cast<float>(1 - eps);
  return unary_float(values, 2, [=](float x) {
    if (eps >= 0) x = x < low ? low : x > high ? high : x;
    return std::log(x / (1.0f - x));
  });
}

Error isinf_out(std::span<Value* const> values) {
  return is(values, [](float x) { return std::isinf(x) ? 1 : 0; });
}
Error isnan_out(std::span<Value* const> values) {
  return is(values, [](float x) { return x != x ? 1 : 0; });
}

}  // namespace dtr::runtime::portable
