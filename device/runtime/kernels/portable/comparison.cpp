// aten::{eq, ne, lt, le, gt, ge}.Tensor_out(self, other, out) with broadcasting and
// .Scalar_out(self, other, out): bool. Any dtype, the same on both sides; a number is compared with
// integers as it is, with floats after it was rounded to float.
#include <functional>
#include <type_traits>

#include "device/runtime/kernels/portable/convert.h"
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <class Compare>
Error compare_tensors(std::span<Value* const> values, Compare compare) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out))
    return Error::kKernelArguments;
  if (a.dtype != b.dtype || out.dtype != ScalarType::kBool) return Error::kKernelDtype;
  return for_element_type(a.dtype, [&]<class T>(T*) {
    map_broadcast<T, uint8_t>(a, b, out,
                              [&](T x, T y) { return static_cast<uint8_t>(compare(x, y)); });
    return Error::kOk;
  });
}

template <class Compare>
Error compare_number(std::span<Value* const> values, Compare compare) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double number = arguments.number(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (out.dtype != ScalarType::kBool) return Error::kKernelDtype;
  const auto whole = convert<int32_t>(number);
  return for_element_type(in.dtype, [&]<class T>(T*) {
    if (std::is_integral_v<T> && whole == number) {  // without functions for numbers of 64 bits
      map_elements<T, uint8_t>(in, out, [=](T x) {
        return static_cast<uint8_t>(compare(static_cast<int64_t>(x), int64_t{whole}));
      });
      return Error::kOk;
    }
    using Common = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const auto other = static_cast<Common>(number);
    map_elements<T, uint8_t>(
        in, out, [=](T x) { return static_cast<uint8_t>(compare(static_cast<Common>(x), other)); });
    return Error::kOk;
  });
}

}  // namespace

Error eq_scalar_out(std::span<Value* const> values) {
  return compare_number(values, std::equal_to<>());
}
Error eq_tensor_out(std::span<Value* const> values) {
  return compare_tensors(values, std::equal_to<>());
}
Error ge_scalar_out(std::span<Value* const> values) {
  return compare_number(values, std::greater_equal<>());
}
Error ge_tensor_out(std::span<Value* const> values) {
  return compare_tensors(values, std::greater_equal<>());
}
Error gt_scalar_out(std::span<Value* const> values) {
  return compare_number(values, std::greater<>());
}
Error gt_tensor_out(std::span<Value* const> values) {
  return compare_tensors(values, std::greater<>());
}
Error le_scalar_out(std::span<Value* const> values) {
  return compare_number(values, std::less_equal<>());
}
Error le_tensor_out(std::span<Value* const> values) {
  return compare_tensors(values, std::less_equal<>());
}
Error lt_scalar_out(std::span<Value* const> values) {
  return compare_number(values, std::less<>());
}
Error lt_tensor_out(std::span<Value* const> values) {
  return compare_tensors(values, std::less<>());
}
Error ne_scalar_out(std::span<Value* const> values) {
  return compare_number(values, std::not_equal_to<>());
}
Error ne_tensor_out(std::span<Value* const> values) {
  return compare_tensors(values, std::not_equal_to<>());
}

}  // namespace dtr::runtime::portable
