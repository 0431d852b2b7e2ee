// Elements of one dtype as those of another.
#pragma once

#include <limits>
#include <type_traits>

#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::portable {

// As PyTorch: to bool, every number but zero is true; to integers, fractions are cut off. A number
// that an integer cannot hold becomes its bound.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(x == x)) return 0;
    if (x <= static_cast<From>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    if (x >= static_cast<From>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    // Cores convert to and from 32 bits; to 64 they call a function.
    constexpr From kBound = 1 << 30;
    if constexpr (sizeof(To) == 8) {
      if (x > -kBound && x < kBound) return static_cast<int32_t>(x);
    }
  }
  if constexpr (std::is_same_v<From, int64_t> && std::is_floating_point_v<To>) {
    const auto low = static_cast<int32_t>(x);
    if (low == x) return static_cast<To>(low);
  }
  return static_cast<To>(x);
}

// out[to] = in[from] for all indices of `sizes`, converted to the dtype of `out`.
inline Error copy_converted(const Tensor& in, const Strides& in_strides, const Tensor& out,
                            const Strides& out_strides, std::span<const int32_t> sizes) {
  if (in.dtype == out.dtype)
    return move_elements(in.data, in_strides, out.data, out_strides, sizes, byte_size(in.dtype));
  const auto map = [&]<class From, class To>(From*, To*, auto f) {
    for (const int32_t size : sizes) {
      if (size == 0) return Error::kOk;
    }
    CopyLoops(sizes, in_strides, out_strides)
        .for_each_run(
            [&](int32_t from, int32_t to, int32_t count, int32_t in_step, int32_t out_step) {
              const From* x = in.values<From>() + from;
              To* y = out.values<To>() + to;
              for (int32_t i = count; i > 0; --i, x += in_step, y += out_step) *y = f(*x);
            });
    return Error::kOk;
  };
  return for_element_type(out.dtype, [&]<class To>(To* y) {
    return for_element_type(in.dtype, [&]<class From>(From* x) {
      return out.dtype == ScalarType::kBool
                 ? map(x, y, [](From value) { return static_cast<To>(value != From{}); })
                 : map(x, y, [](From value) { return convert<To>(value); });
    });
  });
}

}  // namespace dtr::runtime::portable
