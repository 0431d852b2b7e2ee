// aten::where.self_out(condition, self, other, out): elements of `self` where the condition of bool
// is true, of `other` elsewhere, with broadcasting, any dtype. aten::masked_fill.Scalar_out(self,
// mask, value, out): the value where the mask is true; float.
#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <class T>
Error choose(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Strides strides = strides_of(out);
  const Strides of_a = broadcast_strides(a, out.rank), of_b = broadcast_strides(b, out.rank);
  const Strides of_condition = broadcast_strides(condition, out.rank);
  const auto* chosen = condition.values<uint8_t>();
  const T* x = a.values<T>();
  const T* y = b.values<T>();
  T* z = out.values<T>();
  for_each_offset(
      out.shape(),
      [=](int32_t c, int32_t i, int32_t j, int32_t k) { z[k] = chosen[c] != 0 ? x[i] : y[j]; },
      of_condition, of_a, of_b, strides);
  return Error::kOk;
}

}  // namespace

Error where_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& condition = arguments.tensor(0);
  const Tensor& a = arguments.tensor(1);
  const Tensor& b = arguments.tensor(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !broadcasts_to(condition, out) || !broadcasts_to(a, out) ||
      !broadcasts_to(b, out))
    return Error::kKernelArguments;
  if (condition.dtype != ScalarType::kBool || a.dtype != out.dtype || b.dtype != out.dtype)
    return Error::kKernelDtype;
  return for_element_type(out.dtype, [&]<class T>(T*) { return choose<T>(condition, a, b, out); });
}

Error masked_fill_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& mask = arguments.tensor(1);
  auto value = static_cast<float>(arguments.number(2));
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !broadcasts_to(in, out) || !broadcasts_to(mask, out))
    return Error::kKernelArguments;
  if (mask.dtype != ScalarType::kBool || in.dtype != ScalarType::kFloat ||
      out.dtype != ScalarType::kFloat)
    return Error::kKernelDtype;
  Tensor number;
  number.data = reinterpret_cast<std::byte*>(&value);
  return choose<float>(mask, number, in, out);
}

}  // namespace dtr::runtime::portable
