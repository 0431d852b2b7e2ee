// Tensors of one value, or of an arithmetic progression, in the dtype and shape of `out`:
// aten::full.out(size, value, out), aten::full_like.out(self, value, memory_format, out),
// aten::zeros.out and ones.out(size, out), aten::empty.out(size, memory_format, out) and
// dim_order_ops::_empty_dim_order.out(size, dim_order, out), which are zero so that runs repeat,
// aten::fill.Scalar_out(self, value, out) and .Tensor_out, aten::scalar_tensor.out(value, out),
// aten::arange.out(end, out) and .start_out(start, end, step, out).
#include <limits>
#include <type_traits>

#include "device/runtime/kernels/portable/convert.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// start, start + step, … in logical order.
Error fill(const Tensor& out, double start, double step) {
  return for_element_type(out.dtype, [&]<class T>(T*) {
    const size_t count = out.elements();
    const bool is_bool = out.dtype == ScalarType::kBool;
    for (size_t i = 0; i < count; ++i) {
      const double value = start + step * static_cast<double>(i);
      if constexpr (std::is_integral_v<T>) {
        const auto low = static_cast<double>(std::numeric_limits<T>::min()),
                   high = static_cast<double>(std::numeric_limits<T>::max());
        if (!is_bool && !(value >= low && value < high + 1)) return Error::kKernelArguments;
      }
      out.values<T>()[i] = is_bool ? static_cast<T>(value != 0) : static_cast<T>(value);
    }
    return Error::kOk;
  });
}

// 0, 1, … or start, start + step, … below or above `end`, which the shape has to fit.
Error arange(double start, double end, double step, const Tensor& out) {
  if (out.rank != 1 || step == 0) return Error::kKernelArguments;
  const double last = start + step * (static_cast<double>(out.elements()) - 1);
  if (out.elements() > 0 &&
      (step > 0 ? last >= end || last + step < end : last <= end || last + step > end))
    return Error::kKernelArguments;
  return fill(out, start, step);
}

// The arguments are `first` ones, of which only the tensor behind them counts.
Error fill_with(std::span<Value* const> values, size_t first, double value) {
  Arguments arguments(values);
  arguments.ints(0);
  const Tensor& out = arguments.output(first);
  return arguments.good() ? fill(out, value, 0) : Error::kKernelArguments;
}

}  // namespace

Error arange_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double end = arguments.number(0);
  const Tensor& out = arguments.output(1);
  return arguments.good() ? arange(0, end, 1, out) : Error::kKernelArguments;
}

Error arange_start_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double start = arguments.number(0), end = arguments.number(1), step = arguments.number(2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? arange(start, end, step, out) : Error::kKernelArguments;
}

Error full_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double value = arguments.number(1);
  const Tensor& out = arguments.output(2);
  return arguments.good() ? fill(out, value, 0) : Error::kKernelArguments;
}

Error full_like_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double value = arguments.number(1);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? fill(out, value, 0) : Error::kKernelArguments;
}

Error fill_scalar_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const double value = arguments.number(1);
  const Tensor& out = arguments.output(2);
  return arguments.good() && same_shape(in, out) ? fill(out, value, 0) : Error::kKernelArguments;
}

Error fill_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& value = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !same_shape(in, out) || value.elements() != 1)
    return Error::kKernelArguments;
  return copy_converted(value, {}, out, strides_of(out), out.shape());
}

Error zeros_out(std::span<Value* const> values) { return fill_with(values, 1, 0); }
Error ones_out(std::span<Value* const> values) { return fill_with(values, 1, 1); }
Error empty_out(std::span<Value* const> values) { return fill_with(values, 2, 0); }
Error empty_dim_order_out(std::span<Value* const> values) { return fill_with(values, 2, 0); }

Error scalar_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double value = arguments.number(0);
  const Tensor& out = arguments.output(1);
  return arguments.good() ? fill(out, value, 0) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
