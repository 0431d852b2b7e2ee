// aten::bitwise_{and, or, xor}.Tensor_out(self, other, out) with broadcasting and
// .Scalar_out(self, other, out), aten::bitwise_not.out(self, out): of integers and bools of one
// dtype.
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

}  // namespace

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
