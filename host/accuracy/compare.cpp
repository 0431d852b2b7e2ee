#include "host/accuracy/compare.h"

#include <algorithm>
#include <cmath>

namespace dtr {

void Sqnr::add(const TensorView& expected, const TensorView& actual) {
  const auto e = expected.values<float>();
  const auto a = actual.values<float>();
  DTR_CHECK(e.size() == a.size());
  for (size_t i = 0; i < e.size(); ++i) {
    const auto wanted = static_cast<double>(e[i]), given = static_cast<double>(a[i]);
    if (std::isfinite(wanted)) {
      signal_ += wanted * wanted;
      noise_ += std::isfinite(given) ? (wanted - given) * (wanted - given) : INFINITY;
    } else if (std::isinf(wanted) && (std::isnan(given) || given == -wanted)) {
      noise_ = INFINITY;
    }
  }
}

double Sqnr::decibels() const {
  if (std::isinf(noise_)) return -99;
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
    if (std::isfinite(e[i])) largest = std::max(largest, std::abs(static_cast<double>(e[i])));
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

namespace {

double element(const TensorView& tensor, size_t i) {
  switch (tensor.dtype) {
    case DType::kFloat32:
      return tensor.values<float>()[i];
    case DType::kFloat64:
      return tensor.values<double>()[i];
    case DType::kInt64:
      return static_cast<double>(tensor.values<int64_t>()[i]);
    case DType::kInt32:
      return tensor.values<int32_t>()[i];
    case DType::kInt16:
      return tensor.values<int16_t>()[i];
    case DType::kInt8:
      return tensor.values<int8_t>()[i];
    case DType::kUint8:
    case DType::kBool:
      break;
  }
  return tensor.values<uint8_t>()[i];
}

}  // namespace

void Comparison::count(double difference) {
  const BinEnds& ends = bin_ends();
  ++histogram_[static_cast<size_t>(std::lower_bound(ends.begin(), ends.end(), difference) -
                                   ends.begin())];
}

void Comparison::add_element(double expected, double actual, int64_t index) {
  ++elements_;
  const bool same = expected == actual || (std::isnan(expected) && std::isnan(actual));
  const double difference = same ? 0 : std::abs(expected - actual);
  const double apart = std::isnan(difference) ? INFINITY : difference;
  if (!same) ++different_;
  if (!same && !(apart <= tolerance_.absolute + tolerance_.relative * std::abs(expected)))
    ++beyond_;
  if (std::isfinite(expected)) {
    largest_ = std::max(largest_, std::abs(expected));
    signal_ += expected * expected;
  }
  if (std::isfinite(difference)) {
    noise_ += difference * difference;
  } else {
    broken_ = true;
  }
  if (apart > max_absolute_ || elements_ == 1) {
    max_absolute_ = apart;
    sample_ = samples_;
    index_ = index;
    expected_ = expected;
    actual_ = actual;
  }
  sum_absolute_ += apart;
  if (step_ == 0) return count(apart);
  double steps = apart / step_;
  const double whole = std::round(steps);
  if (std::abs(steps - whole) * step_ <= 0x1p-20 * std::max(std::abs(expected), std::abs(actual)))
    steps = whole;
  max_steps_ = std::max(max_steps_, steps);
  sum_steps_ += steps;
  count(std::round(steps));
}

void Comparison::add(const TensorView& expected, const TensorView& actual) {
  DTR_CHECK(expected.shape == actual.shape);
  const auto count = static_cast<size_t>(expected.elements());
  size_t expected_largest = 0, actual_largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double e = element(expected, i), a = element(actual, i);
    add_element(e, a, static_cast<int64_t>(i));
    if (e > element(expected, expected_largest)) expected_largest = i;
    if (a > element(actual, actual_largest)) actual_largest = i;
  }
  same_argmax_ += expected_largest == actual_largest ? 1 : 0;
  ++samples_;
}

double Comparison::decibels() const {
  if (broken_) return -99;
  if (noise_ == 0) return 99;
  return std::clamp(10 * std::log10(signal_ / noise_), -99.0, 99.0);
}

Tensor real_values(const TensorView& tensor, const Type& type) {
  if (!type.quantized() && tensor.dtype == DType::kFloat32)
    return Tensor::copy_of(tensor.dtype, tensor.shape, {tensor.data, tensor.bytes()});
  Tensor real(DType::kFloat32, tensor.shape);
  const auto to = real.values<float>();
  const int32_t zero_point = type.quantized() ? type.quantization->zero_point() : 0;
  const float scale = type.quantized() ? type.quantization->scale() : 1;
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(element(tensor, i) - zero_point) * scale;
  return real;
}

}  // namespace dtr
