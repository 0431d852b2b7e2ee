// The inner loops of convolution and linear layers in plain C++, for any core. Sums wrap as the
// machine's do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "device/runtime/kernels/cortex_m/rescale.h"

namespace dtr::runtime::cortex_m {

// Calls f(0), …, f(kCount − 1) with constants, so that arrays indexed by them are registers.
template <int kCount, class F>
[[gnu::always_inline]] inline void unrolled(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (f(std::integral_constant<int, kIndex>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// Strides of a rectangle of taps in weights and inputs: bytes to the next tap and to the next row.
struct TapSteps {
  int32_t weight, weight_row, x, x_row;
};

struct PortableLoops {
  // Whether sums want the offset in the biases (fold_offset).
  static constexpr bool kFoldsOffset = false;

  static void copy(const int8_t* from, int32_t count, int8_t* to) { std::copy_n(from, count, to); }
  static void fill(int8_t value, int32_t count, int8_t* to) { std::fill_n(to, count, value); }

  // Σ x[i].
  static int32_t sum(const int8_t* x, int32_t count) {
    int32_t sum = 0;
    for (; count > 0; --count) sum = add_wrapping(sum, *x++);
    return sum;
  }
  // sums[row] += Σ weights[row · stride + i] · (x[i] + offset).
  template <int kRows>
  static void multiply_vector(const int8_t* weights, int32_t stride, const int8_t* x,
                              int32_t offset, int32_t count, int32_t (&sums)[kRows]) {
    for (int32_t i = 0; i < count; ++i) {
      const int32_t value = x[i] + offset;
      unrolled<kRows>([&](auto row) {
        sums[row] = add_wrapping(sums[row], weights[row * stride + i] * value);
      });
    }
  }

  // sums[i] += Σ weight · (x + offset) over rows · taps of a rectangle, for four channels.
  static void multiply_rectangle(const int8_t* weights, const int8_t* x, const TapSteps& steps,
                                 int32_t rows, int32_t taps, int32_t offset, int32_t (&sums)[4]) {
    for (; rows > 0; --rows, weights += steps.weight_row, x += steps.x_row) {
      for (int32_t tap = 0; tap < taps; ++tap) {
        const int8_t *w = weights + tap * steps.weight, *from = x + tap * steps.x;
        unrolled<4>([&](auto i) { sums[i] = add_wrapping(sums[i], w[i] * (from[i] + offset)); });
      }
    }
  }
};

}  // namespace dtr::runtime::cortex_m
