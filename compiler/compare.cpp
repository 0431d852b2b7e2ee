#include "compiler/compare.h"

#include <algorithm>
#include <cmath>

namespace dtr {

void Sqnr::add(const TensorView& expected, const TensorView& actual) {
  const auto e = expected.values<float>();
  const auto a = actual.values<float>();
  DTR_CHECK(e.size() == a.size());
  for (size_t i = 0; i < e.size(); ++i) {
    signal_ += static_cast<double>(e[i]) * e[i];
    const double error = static_cast<double>(e[i]) - a[i];
    noise_ += error * error;
  }
}

double Sqnr::decibels() const {
  if (noise_ == 0) return 99;
  return std::clamp(10 * std::log10(signal_ / noise_), -99.0, 99.0);
}

Difference compare(const TensorView& expected, const TensorView& actual) {
  const auto e = expected.values<float>();
  const auto a = actual.values<float>();
  DTR_CHECK(e.size() == a.size());
  Difference difference;
  double largest = 0;
  for (size_t i = 0; i < e.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(e[i])));
    const bool both_nan = e[i] != e[i] && a[i] != a[i];
    const double apart = both_nan || e[i] == a[i] ? 0 : std::abs(static_cast<double>(e[i]) - a[i]);
    if (!(apart <= difference.max_absolute)) {
      difference.max_absolute = std::isnan(apart) ? INFINITY : apart;
      difference.index = static_cast<int64_t>(i);
      difference.expected = e[i];
      difference.actual = a[i];
    }
  }
  difference.rounding_bound = largest * 0x1p-20;
  return difference;
}

Tensor real_values(const Tensor& tensor, const Type& type) {
  if (!type.quantized()) return Tensor::copy_of(tensor.dtype(), tensor.shape(), tensor.bytes());
  Tensor real(DType::kFloat32, tensor.shape());
  const auto from = tensor.values<int8_t>();
  const auto to = real.values<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i] - type.quantization->zero_point()) * type.quantization->scale();
  return real;
}

Tensor quantized(const TensorView& real, const Type& type) {
  const Quantization& to = *type.quantization;
  Tensor integers(type.dtype, real.shape);
  const auto from = real.values<float>();
  const auto out = integers.values<int8_t>();
  const float inverse = 1.0F / to.scale();
  for (size_t i = 0; i < out.size(); ++i) {
    const float steps = std::nearbyint(from[i] * inverse) + static_cast<float>(to.zero_point());
    out[i] = static_cast<int8_t>(std::clamp(steps, static_cast<float>(to.qmin), static_cast<float>(to.qmax)));
  }
  return integers;
}

}  // namespace dtr
