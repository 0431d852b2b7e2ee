// aten::prod.out(self, dtype, out) of all elements and aten::prod.int_out(self, dim, keepdim,
// dtype, out): float; integers and bools, mostly into int64. aten::any.all_out(self, out),
// any.out(self, dim, keepdim, out) and any.dims_out(self, dims, keepdim, out): whether one is not
// zero, of any dtype, as bool or uint8.
#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {
namespace {

Error product(const Tensor& in, std::span<const int64_t> dims, bool keepdim, const Tensor& out) {
  if (is_integer(in.dtype))
    return reduce_integers(in, dims, keepdim, out, 1,
                           [](int64_t a, int64_t b) { return multiply_wrapping(a, b); });
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  return reduce<float>(
      in, dims, keepdim, out, 1, [](float a, float x) { return a * x; },
      [](float a, int64_t) { return a; });
}

Error any(const Tensor& in, std::span<const int64_t> dims, bool keepdim, const Tensor& out) {
  Reduction reduction;
  if (!make_reduction(in, dims, keepdim, out, &reduction)) return Error::kKernelArguments;
  if (out.dtype != ScalarType::kBool && out.dtype != ScalarType::kByte) return Error::kKernelDtype;
  return for_element_type(in.dtype, [&]<class T>(T*) {
    for_each_offset(
        {reduction.outer, in.rank},
        [&](int32_t from, int32_t to) {
          bool found = false;
          for_each_offset(
              {reduction.inner, in.rank},
              [&](int32_t at) { found = found || in.values<T>()[from + at] != T{}; },
              reduction.in_strides);
          out.values<uint8_t>()[to] = found ? 1 : 0;
        },
        reduction.in_strides, reduction.out_strides);
    return Error::kOk;
  });
}

}  // namespace

Error prod_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(2);
  return arguments.good() ? product(in, {}, false, out) : Error::kKernelArguments;
}

Error prod_int_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(4);
  return arguments.good() ? product(in, one_dim(in, dim), keepdim, out) : Error::kKernelArguments;
}

Error any_all_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(1);
  return arguments.good() ? any(in, {}, false, out) : Error::kKernelArguments;
}

Error any_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? any(in, one_dim(in, dim), keepdim, out) : Error::kKernelArguments;
}

Error any_dims_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? any(in, dims, keepdim, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
