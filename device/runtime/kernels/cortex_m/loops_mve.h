// The loops of cores with Helium, the M-profile vector extension (Cortex-M55, M85): sixteen
// products an instruction, on int8 as it lies in memory. Offsets are products with the sums of
// weights. Uses the core's tail-predicated loops (DLSTP/LETP), which g++ 12 does not generate.
#pragma once

#include "device/runtime/kernels/cortex_m/loops_portable.h"
#include "device/runtime/kernels/cortex_m/rescale.h"

#if defined(__ARM_FEATURE_MVE)
namespace dtr::runtime::cortex_m {

struct MveLoops {
  static constexpr bool kFoldsOffset = true;

  static void copy(const int8_t* from, int32_t count, int8_t* to) {
    asm volatile(
        "   wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.8 q0, [%[from]], #16\n"
        "   vstrb.8 q0, [%[to]], #16\n"
        "   letp lr, 1b\n"
        "2:\n"
        : [from] "+r"(from), [to] "+r"(to)
        : [count] "r"(count)
        : "q0", "lr", "memory");
  }
  static void fill(int8_t value, int32_t count, int8_t* to) {
    asm volatile(
        "   wlstp.8 lr, %[count], 2f\n"
        "   vdup.8 q0, %[value]\n"
        "1: vstrb.8 q0, [%[to]], #16\n"
        "   letp lr, 1b\n"
        "2:\n"
        : [to] "+r"(to)
        : [count] "r"(count), [value] "r"(value)
        : "q0", "lr", "memory");
  }

  // Σ x[i].
  static int32_t sum(const int8_t* x, int32_t count) {
    int32_t sum = 0;
    asm volatile(
        "   wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.8 q0, [%[x]], #16\n"
        "   vaddva.s8 %[sum], q0\n"
        "   letp lr, 1b\n"
        "2:\n"
        : [sum] "+Te"(sum), [x] "+r"(x)
        : [count] "r"(count)
        : "q0", "lr", "memory");
    return sum;
  }
  // sum + Σ weights[i] · x[i].
  static int32_t multiply(const int8_t* weights, const int8_t* x, int32_t count, int32_t sum) {
    asm volatile(
        "   wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.8 q0, [%[x]], #16\n"
        "   vldrb.8 q1, [%[weights]], #16\n"
        "   vmladava.s8 %[sum], q0, q1\n"
        "   letp lr, 1b\n"
        "2:\n"
        : [sum] "+Te"(sum), [x] "+r"(x), [weights] "+r"(weights)
        : [count] "r"(count)
        : "q0", "q1", "lr", "memory");
    return sum;
  }
  // biases[row] + Σ weights[row · stride + i] · x[i] for four rows; `x` moves on by `count`,
  // rounded up to whole vectors.
  [[gnu::always_inline]] static Lanes multiply_four(const int8_t* weights, int32_t stride,
                                                    const int8_t*& x, int32_t count,
                                                    const int32_t* biases) {
    const int8_t *weights1 = weights + stride, *weights2 = weights1 + stride,
                 *weights3 = weights2 + stride;
    int32_t sum0, sum1, sum2, sum3;
    Lanes sums, from0, from1;
    asm volatile(
        "   ldrd %[sum0], %[sum1], [%[biases]]\n"
        "   ldrd %[sum2], %[sum3], [%[biases], #8]\n"
        "   wlstp.8 lr, %[count], 2f\n"
        "1: vldrb.8 %q[sums], [%[x]], #16\n"
        "   vldrb.8 %q[from0], [%[weights0]], #16\n"
        "   vmladava.s8 %[sum0], %q[sums], %q[from0]\n"
        "   vldrb.8 %q[from1], [%[weights1]], #16\n"
        "   vmladava.s8 %[sum1], %q[sums], %q[from1]\n"
        "   vldrb.8 %q[from0], [%[weights2]], #16\n"
        "   vmladava.s8 %[sum2], %q[sums], %q[from0]\n"
        "   vldrb.8 %q[from1], [%[weights3]], #16\n"
        "   vmladava.s8 %[sum3], %q[sums], %q[from1]\n"
        "   letp lr, 1b\n"
        "2: vmov %q[sums][2], %q[sums][0], %[sum0], %[sum2]\n"
        "   vmov %q[sums][3], %q[sums][1], %[sum1], %[sum3]\n"
        : [sum0] "=&Te"(sum0), [sum1] "=&Te"(sum1), [sum2] "=&Te"(sum2), [sum3] "=&Te"(sum3),
          [sums] "=&w"(sums), [from0] "=&w"(from0), [from1] "=&w"(from1), [x] "+r"(x),
          [weights0] "+r"(weights), [weights1] "+r"(weights1), [weights2] "+r"(weights2),
          [weights3] "+r"(weights3)
        : [count] "r"(count), [biases] "r"(biases)
        : "lr", "memory");
    return sums;
  }

  template <int kRows>
  static void multiply_vector(const int8_t* weights, int32_t stride, const int8_t* x,
                              int32_t offset, int32_t count, int32_t (&sums)[kRows]) {
    unrolled<kRows>([&](auto row) {
      const int8_t* from = weights + row * stride;
      sums[row] = multiply(from, x, count, sums[row]);
      if (offset != 0)
        sums[row] = add_wrapping(sums[row], multiply_wrapping(offset, sum(from, count)));
    });
  }
};

}  // namespace dtr::runtime::cortex_m
#endif
