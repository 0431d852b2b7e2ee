// Tensors of one value, or of an arithmetic progression, in the dtype and shape of `out`:
// aten::full.out(size, value, out), aten::full_like.out(self, value, memory_format, out),
// aten::scalar_tensor.out(value, out), aten::arange.start_out(start, end, step, out).
#include <limits>
#include <type_traits>

#include "device/runtime/kernels/portable/elements.h"
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

}  // namespace

Error arange_start_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double start = arguments.number(0), end = arguments.number(1), step = arguments.number(2);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || out.rank != 1 || step == 0) return Error::kKernelArguments;
  const double last = start + step * (static_cast<double>(out.elements()) - 1);
  if (out.elements() > 0 &&
      (step > 0 ? last >= end || last + step < end : last <= end || last + step > end))
    return Error::kKernelArguments;
  return fill(out, start, step);
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

Error scalar_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const double value = arguments.number(0);
  const Tensor& out = arguments.output(1);
  return arguments.good() ? fill(out, value, 0) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
