// Divisions beside aten::div.out, with broadcasting, of floats or of integers of one dtype:
// aten::div.out_mode(self, other, rounding_mode, out) and aten::div.Scalar_mode_out,
// aten::floor_divide.out(self, other, out), aten::fmod.Tensor_out and
// aten::remainder.Tensor_out(self, other, out), with .Scalar_out. A quotient of integers by 0 is 0,
// its remainder the dividend.
#include <cmath>

#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

using Real = float (*)(float, float);
using Whole = int64_t (*)(int64_t, int64_t, int64_t);
struct Division {
  Real real;
  Whole whole;
};

// The floor of the exact quotient, not of the rounded one.
float floor_divide(float a, float b) {
  if (b == 0.0f) return a / b;
  const float rest = std::fmod(a, b);
  float quotient = (a - rest) / b;
  if (rest != 0.0f && (b < 0.0f) != (rest < 0.0f)) quotient -= 1.0f;
  if (quotient == 0.0f) return std::copysign(0.0f, a / b);
  const float floor = std::floor(quotient);
  return quotient - floor > 0.5f ? floor + 1.0f : floor;
}
int64_t floor_divide(int64_t a, int64_t b, int64_t) {
  if (b == 0) return 0;
  if (b == -1) return multiply_wrapping(a, int64_t{-1});
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
float truncate_divide(float a, float b) { return std::trunc(a / b); }
int64_t truncate_divide(int64_t a, int64_t b, int64_t) {
  return b == 0 ? 0 : b == -1 ? multiply_wrapping(a, int64_t{-1}) : a / b;
}
float fmod(float a, float b) { return std::fmod(a, b); }
int64_t fmod(int64_t a, int64_t b, int64_t) { return b == 0 ? a : b == -1 ? 0 : a % b; }
float remainder(float a, float b) {
  const float rest = std::fmod(a, b);
  return rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}
int64_t remainder(int64_t a, int64_t b, int64_t) {
  const int64_t rest = fmod(a, b, 0);
  return rest != 0 && b != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

constexpr Division kFloor{floor_divide, floor_divide}, kTruncate{truncate_divide, truncate_divide},
    kFmod{fmod, fmod}, kRemainder{remainder, remainder};

Error of_tensors(std::span<Value* const> values, size_t out_index, const Division& division) {
  return binary_number(values, out_index, division.real, {division.whole});
}

// The number as a tensor of the first one's dtype.
Error of_number(std::span<Value* const> values, size_t out_index, const Division& division) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double number = arguments.number(1);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  const auto real = static_cast<float>(number);
  const int64_t whole = saturated(number);
  alignas(8) std::byte bytes[8] = {};
  Tensor divisor;
  divisor.dtype = in.dtype;
  divisor.data = bytes;
  if (is_integer(out.dtype)) {
    if (in.dtype != out.dtype) return Error::kKernelDtype;
    store_integer(divisor, 0, whole);
    return map_integers(in, divisor, out, {division.whole});
  }
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  map_elements<float, float>(in, out, [&](float x) { return division.real(x, real); });
  return Error::kOk;
}

using Divide = Error (*)(std::span<Value* const>, size_t, const Division&);
Error rounded(std::span<Value* const> values, Divide divide) {
  Arguments arguments(values);
  const std::string_view mode = arguments.text(2);
  if (!arguments.good()) return Error::kKernelArguments;
  if (mode == "floor") return divide(values, 3, kFloor);
  return mode == "trunc" ? divide(values, 3, kTruncate) : Error::kKernelArguments;
}

}  // namespace

Error div_mode_out(std::span<Value* const> values) { return rounded(values, of_tensors); }
Error div_scalar_mode_out(std::span<Value* const> values) { return rounded(values, of_number); }
Error floor_divide_out(std::span<Value* const> values) { return of_tensors(values, 2, kFloor); }
Error fmod_scalar_out(std::span<Value* const> values) { return of_number(values, 2, kFmod); }
Error fmod_tensor_out(std::span<Value* const> values) { return of_tensors(values, 2, kFmod); }
Error remainder_scalar_out(std::span<Value* const> values) {
  return of_number(values, 2, kRemainder);
}
Error remainder_tensor_out(std::span<Value* const> values) {
  return of_tensors(values, 2, kRemainder);
}

}  // namespace dtr::runtime::portable
