// aten::bitwise_{and, or, xor}.Tensor_out(self, other, out) with broadcasting and
// .Scalar_out(self, other, out), aten::bitwise_not.out(self, out), aten::bitwise_left_shift and
// _right_shift.Tensor_out(self, other, out) and .Tensor_Scalar_out: of integers and bools of one
// dtype. A shift by less than 0 or by all bits leaves 0, to the right the sign.
#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

using Function = int64_t (*)(int64_t, int64_t, int64_t);

Error combine(std::span<Value* const> values, Function f) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out))
    return Error::kKernelArguments;
  return map_integers(a, b, out, {f});
}

Error with_number(std::span<Value* const> values, Function f) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double number = arguments.number(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  return map_integers(in, in, out, {f, saturated(number)});
}

int64_t bits_of(ScalarType dtype) { return static_cast<int64_t>(8 * byte_size(dtype)); }

Error shift(std::span<Value* const> values, Function f) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out))
    return Error::kKernelArguments;
  return out.dtype == ScalarType::kBool ? Error::kKernelDtype
                                        : map_integers(a, b, out, {f, bits_of(out.dtype)});
}

Error shift_by_number(std::span<Value* const> values, Function f) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double number = arguments.number(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (out.dtype == ScalarType::kBool) return Error::kKernelDtype;
  const int64_t bits = bits_of(out.dtype);
  const int64_t by = std::min(std::max(saturated(number), int64_t{-1}), bits);
  return map_integers(in, in, out, {f, by});
}

int64_t shift_left(int64_t x, int64_t by, int64_t bits) {
  return by < 0 || by >= bits ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x) << by);
}
int64_t shift_right(int64_t x, int64_t by, int64_t bits) {
  return by < 0 || by >= bits ? (x < 0 ? -1 : 0) : x >> by;
}

}  // namespace

Error bitwise_left_shift_tensor_out(std::span<Value* const> values) {
  return shift(values, shift_left);
}
Error bitwise_right_shift_tensor_out(std::span<Value* const> values) {
  return shift(values, shift_right);
}
Error bitwise_left_shift_scalar_out(std::span<Value* const> values) {
  return shift_by_number(values,
                         [](int64_t x, int64_t, int64_t by) { return shift_left(x, by, 64); });
}
Error bitwise_right_shift_scalar_out(std::span<Value* const> values) {
  return shift_by_number(values,
                         [](int64_t x, int64_t, int64_t by) { return shift_right(x, by, 64); });
}

Error bitwise_and_tensor_out(std::span<Value* const> values) {
  return combine(values, [](int64_t a, int64_t b, int64_t) { return a & b; });
}
Error bitwise_and_scalar_out(std::span<Value* const> values) {
  return with_number(values, [](int64_t x, int64_t, int64_t number) { return x & number; });
}
Error bitwise_or_tensor_out(std::span<Value* const> values) {
  return combine(values, [](int64_t a, int64_t b, int64_t) { return a | b; });
}
Error bitwise_or_scalar_out(std::span<Value* const> values) {
  return with_number(values, [](int64_t x, int64_t, int64_t number) { return x | number; });
}
Error bitwise_xor_tensor_out(std::span<Value* const> values) {
  return combine(values, [](int64_t a, int64_t b, int64_t) { return a ^ b; });
}
Error bitwise_xor_scalar_out(std::span<Value* const> values) {
  return with_number(values, [](int64_t x, int64_t, int64_t number) { return x ^ number; });
}

// Of bool, not.
Error bitwise_not_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(1);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  return map_integers(in, in, out,
                      {[](int64_t x, int64_t, int64_t mask) { return x ^ mask; },
                       out.dtype == ScalarType::kBool ? int64_t{1} : int64_t{-1}});
}

}  // namespace dtr::runtime::portable
