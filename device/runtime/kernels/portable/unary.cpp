// Functions of one tensor, of floats (neg and sign of integers too): aten::NAME.out(self, out), and
// those with numbers: elu.out(self, alpha, scale, input_scale, out), gelu.out(self, approximate,
// out), hardshrink.out and softshrink.out(self, lambd, out), leaky_relu.out(self, negative_slope,
// out), pow.Tensor_Scalar_out(self, exponent, out), softplus.out(self, beta, threshold, out),
// threshold.out(self, threshold, value, out). deuteron::softsign.out(self, out).
#include <cmath>

#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error atan_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::atan(x); });
}
Error ceil_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::ceil(x); });
}
Error cos_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::cos(x); });
}
Error erf_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::erf(x); });
}
Error exp_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::exp(x); });
}
Error floor_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::floor(x); });
}
Error hardsigmoid_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) {
    return (x < -3.0f ? 0.0f : x > 3.0f ? 6.0f : x + 3.0f) / 6.0f;
  });
}
Error log_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::log(x); });
}
Error log_sigmoid_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) {
    return (x < 0.0f ? x : 0.0f) - std::log1p(std::exp(-std::fabs(x)));
  });
}
Error mish_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return x * std::tanh(std::log1p(std::exp(x))); });
}
Error neg_out(std::span<Value* const> values) {
  return unary_number(values, 1, [](float x) { return -x; }, {[](int64_t x, int64_t, int64_t) {
                        return multiply_wrapping(x, int64_t{-1});
                      }});
}
Error reciprocal_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return 1.0f / x; });
}
Error round_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::nearbyint(x); });
}
Error rsqrt_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return 1.0f / std::sqrt(x); });
}
Error sign_out(std::span<Value* const> values) {
  return unary_number(
      values, 1,
      [](float x) { return static_cast<float>((x > 0.0f ? 1 : 0) - (x < 0.0f ? 1 : 0)); },
      {[](int64_t x, int64_t, int64_t) { return int64_t{x > 0} - int64_t{x < 0}; }});
}
Error silu_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return x / (1.0f + std::exp(-x)); });
}
Error sin_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::sin(x); });
}
Error softsign_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) {
    return std::isinf(x) ? std::copysign(1.0f, x) : x / (1.0f + std::fabs(x));
  });
}
Error sqrt_out(std::span<Value* const> values) {
  return unary_float(values, 1, [](float x) { return std::sqrt(x); });
}

Error elu_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto alpha = static_cast<float>(arguments.number(1));
  const auto scale = static_cast<float>(arguments.number(2));
  const auto input_scale = static_cast<float>(arguments.number(3));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 4, [=](float x) {
    return x > 0.0f ? x * scale : std::expm1(x * input_scale) * (alpha * scale);
  });
}

Error gelu_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const bool tanh = arguments.text(1) == "tanh";
  if (!arguments.good()) return Error::kKernelArguments;
  if (tanh)
    return unary_float(values, 2, [](float x) {
      return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
    });
  return unary_float(values, 2, [](float x) { return 0.5f * x * std::erfc(-x * 0.70710678f); });
}

Error hardshrink_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto bound = static_cast<float>(arguments.number(1));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 2, [bound](float x) { return x >= -bound && x <= bound ? 0.0f : x; });
}

Error leaky_relu_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto slope = static_cast<float>(arguments.number(1));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 2, [slope](float x) { return x > 0.0f ? x : x * slope; });
}

Error pow_tensor_scalar_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto exponent = static_cast<float>(arguments.number(1));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 2, [exponent](float x) { return std::pow(x, exponent); });
}

Error softshrink_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto bound = static_cast<float>(arguments.number(1));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 2, [bound](float x) {
    return x > bound ? x - bound : x < -bound ? x + bound : x * 0.0f;
  });
}

Error softplus_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto beta = static_cast<float>(arguments.number(1));
  const auto threshold = static_cast<float>(arguments.number(2));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 3, [=](float x) {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  });
}

Error threshold_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const auto threshold = static_cast<float>(arguments.number(1));
  const auto value = static_cast<float>(arguments.number(2));
  if (!arguments.good()) return Error::kKernelArguments;
  return unary_float(values, 3, [=](float x) { return x <= threshold ? value : x; });
}

}  // namespace dtr::runtime::portable
