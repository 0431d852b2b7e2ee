// The same values in the physical order of `out`: dim_order_ops::_to_dim_order_copy.out and
// _clone_dim_order.out(self, non_blocking, dim_order, out), aten::_to_copy.out(self, non_blocking,
// memory_format, out), aten::clone.out(self, memory_format, out), and alias_copy, detach_copy and
// lift_fresh_copy.out(self, out). The first and the third also convert to the dtype of `out`.
#include <limits>
#include <type_traits>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// As PyTorch: to bool, whatever is not zero is true; to integers, fractions are cut off. What an
// integer cannot hold becomes its bound.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(x == x)) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
  }
  return static_cast<To>(x);
}

template <class To>
Error convert_to(const Tensor& in, const Tensor& out) {
  return for_element_type(in.dtype, [&]<class From>(From*) {
    if (out.dtype == ScalarType::kBool) {
      map_elements<From, uint8_t>(in, out,
                                  [](From x) { return static_cast<uint8_t>(x != From{}); });
    } else {
      map_elements<From, To>(in, out, [](From x) { return convert<To>(x); });
    }
    return Error::kOk;
  });
}

Error copy(std::span<Value* const> values, size_t out_index, bool converts) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype == out.dtype)
    return move_elements(in.data, strides_of(in), out.data, strides_of(out), out.shape(),
                         byte_size(in.dtype));
  if (!converts) return Error::kKernelDtype;
  return for_element_type(out.dtype, [&]<class To>(To*) { return convert_to<To>(in, out); });
}

}  // namespace

Error alias_copy_out(std::span<Value* const> values) { return copy(values, 1, false); }
Error clone_out(std::span<Value* const> values) { return copy(values, 2, false); }
Error clone_dim_order_out(std::span<Value* const> values) { return copy(values, 3, false); }
Error detach_copy_out(std::span<Value* const> values) { return copy(values, 1, false); }
Error lift_fresh_copy_out(std::span<Value* const> values) { return copy(values, 1, false); }
Error to_copy_out(std::span<Value* const> values) { return copy(values, 3, true); }
Error to_dim_order_copy_out(std::span<Value* const> values) { return copy(values, 3, true); }

}  // namespace dtr::runtime::portable
