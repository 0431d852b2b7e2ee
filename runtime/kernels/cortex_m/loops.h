// The inner loops of convolution and linear layers behind one interface: PortableLoops in plain C++ for any core, DspLoops with the
// two-products-at-a-time instructions of the DSP extension (Cortex-M4, M7, M33). Kernels are templates over it; `Loops` is the best one of
// the core that is compiled for. Sums wrap as the machine's do.
//
// On other machines DspLoops runs on stand-ins of the instructions, so that tests can hold it against PortableLoops.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
#endif

namespace dtr::runtime::cortex_m {

// Calls f(0), …, f(kCount − 1) with constants, so that arrays indexed by them are registers.
template <int kCount, class F>
[[gnu::always_inline]] inline void unrolled(F f) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) { (f(std::integral_constant<int, kIndex>()), ...); }
  (std::make_integer_sequence<int, kCount>());
}

inline int32_t add_wrapping(int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b)); }

struct PortableLoops {
  // to[i] = from[i] + offset, in the order in which `multiply` wants columns; `count` from the start of a column, or from a multiple of 4
  // in it if it is one itself.
  static void expand(const int8_t* from, int32_t count, int32_t offset, int16_t* to) {
    for (int32_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(from[i] + offset);
  }

  // sums[row][column] += Σ weights[row · stride + i] · columns[column · count + i], of expanded columns.
  template <int kRows, int kColumns>
  static void multiply(const int8_t* weights, int32_t stride, const int16_t* columns, int32_t count, int32_t (&sums)[kRows][kColumns]) {
    for (int32_t i = 0; i < count; ++i) {
      unrolled<kRows>([&](auto row) {
        unrolled<kColumns>([&](auto column) {
          sums[row][column] = add_wrapping(sums[row][column], weights[row * stride + i] * columns[column * count + i]);
        });
      });
    }
  }

  // sums[row] += Σ weights[row · stride + i] · (x[i] + offset).
  template <int kRows>
  static void multiply_vector(const int8_t* weights, int32_t stride, const int8_t* x, int32_t offset, int32_t count,
                              int32_t (&sums)[kRows]) {
    for (int32_t i = 0; i < count; ++i) {
      const int32_t value = x[i] + offset;
      unrolled<kRows>([&](auto row) { sums[row] = add_wrapping(sums[row], weights[row * stride + i] * value); });
    }
  }

  // sums[i] += Σ weights[tap · weight_step + i] · (x[tap · x_step + i] + offset), for four channels.
  static void multiply_channels(const int8_t* weights, int32_t weight_step, const int8_t* x, int32_t x_step, int32_t offset, int32_t taps,
                                int32_t (&sums)[4]) {
    for (int32_t tap = 0; tap < taps; ++tap, weights += weight_step, x += x_step) {
      unrolled<4>([&](auto i) { sums[i] = add_wrapping(sums[i], weights[i] * (x[i] + offset)); });
    }
  }
};

// Instructions of the DSP extension on words of two int16 or four int8.
namespace dsp {

#if defined(__ARM_FEATURE_DSP)
inline uint32_t sign_extend_even(uint32_t bytes) { return static_cast<uint32_t>(__sxtb16(static_cast<int8x4_t>(bytes))); }
inline uint32_t add_even(uint32_t pair, uint32_t bytes) {
  return static_cast<uint32_t>(__sxtab16(static_cast<int16x2_t>(pair), static_cast<int8x4_t>(bytes)));
}
inline int32_t multiply_add_pairs(uint32_t a, uint32_t b, int32_t sum) {
  return __smlad(static_cast<int16x2_t>(a), static_cast<int16x2_t>(b), sum);
}
inline int32_t multiply_add_low(uint32_t a, uint32_t b, int32_t sum) {
  return __smlabb(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
}
inline int32_t multiply_add_high(uint32_t a, uint32_t b, int32_t sum) {
  return __smlatt(static_cast<int32_t>(a), static_cast<int32_t>(b), sum);
}
#else
inline int32_t low_of(uint32_t pair) { return static_cast<int16_t>(pair); }
inline int32_t high_of(uint32_t pair) { return static_cast<int16_t>(pair >> 16); }
inline uint32_t pair_of(int32_t low, int32_t high) { return (static_cast<uint32_t>(low) & 0xFFFFu) | static_cast<uint32_t>(high) << 16; }
inline uint32_t sign_extend_even(uint32_t bytes) { return pair_of(static_cast<int8_t>(bytes), static_cast<int8_t>(bytes >> 16)); }
inline uint32_t add_even(uint32_t pair, uint32_t bytes) {
  return pair_of(low_of(pair) + static_cast<int8_t>(bytes), high_of(pair) + static_cast<int8_t>(bytes >> 16));
}
inline int32_t multiply_add_low(uint32_t a, uint32_t b, int32_t sum) { return add_wrapping(sum, low_of(a) * low_of(b)); }
inline int32_t multiply_add_high(uint32_t a, uint32_t b, int32_t sum) { return add_wrapping(sum, high_of(a) * high_of(b)); }
inline int32_t multiply_add_pairs(uint32_t a, uint32_t b, int32_t sum) { return multiply_add_high(a, b, multiply_add_low(a, b, sum)); }
#endif

inline uint32_t load_word(const void* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof word);  // one LDR: the core reads words from any address
  return word;
}
inline uint32_t rotate_8(uint32_t word) { return word >> 8 | word << 24; }
inline uint32_t twice(int32_t offset) { return (static_cast<uint32_t>(offset) & 0xFFFFu) * 0x10001u; }

}  // namespace dsp

// A word of four int8 becomes the pairs (0, 2) and (1, 3) in one instruction each, so columns are kept in that order.
struct DspLoops {
  static void expand(const int8_t* from, int32_t count, int32_t offset, int16_t* to) {
    const uint32_t offsets = dsp::twice(offset);
    int32_t left = count;
    for (; left >= 4; left -= 4, from += 4, to += 4) {
      const uint32_t bytes = dsp::load_word(from);
      const uint32_t pairs[2] = {dsp::add_even(offsets, bytes), dsp::add_even(offsets, dsp::rotate_8(bytes))};
      std::memcpy(to, pairs, sizeof pairs);
    }
    PortableLoops::expand(from, left, offset, to);
  }

  template <int kRows, int kColumns>
  static void multiply(const int8_t* weights, int32_t stride, const int16_t* columns, int32_t count, int32_t (&sums)[kRows][kColumns]) {
    const int8_t* w[kRows];
    const int16_t* x[kColumns];
    int32_t partial[kRows][kColumns];
    unrolled<kRows>([&](auto row) {
      w[row] = weights + row * stride;
      unrolled<kColumns>([&](auto column) { partial[row][column] = sums[row][column]; });
    });
    unrolled<kColumns>([&](auto column) { x[column] = columns + column * count; });
    const int8_t* const whole = weights + (count & ~3);
    while (w[0] != whole) {
      uint32_t even[kColumns], odd[kColumns];
      unrolled<kColumns>([&](auto column) {
        even[column] = dsp::load_word(x[column]);
        odd[column] = dsp::load_word(x[column] + 2);
        x[column] += 4;
      });
      unrolled<kRows>([&](auto row) {
        const uint32_t bytes = dsp::load_word(w[row]);
        w[row] += 4;
        const uint32_t even_weights = dsp::sign_extend_even(bytes), odd_weights = dsp::sign_extend_even(dsp::rotate_8(bytes));
        unrolled<kColumns>([&](auto column) {
          partial[row][column] =
              dsp::multiply_add_pairs(odd_weights, odd[column], dsp::multiply_add_pairs(even_weights, even[column], partial[row][column]));
        });
      });
    }
    for (int32_t i = 0; i < (count & 3); ++i) {
      unrolled<kRows>([&](auto row) {
        unrolled<kColumns>([&](auto column) { partial[row][column] = add_wrapping(partial[row][column], w[row][i] * x[column][i]); });
      });
    }
    unrolled<kRows>([&](auto row) { unrolled<kColumns>([&](auto column) { sums[row][column] = partial[row][column]; }); });
  }

  template <int kRows>
  static void multiply_vector(const int8_t* weights, int32_t stride, const int8_t* x, int32_t offset, int32_t count,
                              int32_t (&sums)[kRows]) {
    const uint32_t offsets = dsp::twice(offset);
    const int8_t* w[kRows];
    unrolled<kRows>([&](auto row) { w[row] = weights + row * stride; });
    const int8_t* const whole = x + (count & ~3);
    for (; x != whole; x += 4) {
      const uint32_t values = dsp::load_word(x);
      const uint32_t even = dsp::add_even(offsets, values), odd = dsp::add_even(offsets, dsp::rotate_8(values));
      unrolled<kRows>([&](auto row) {
        const uint32_t bytes = dsp::load_word(w[row]);
        w[row] += 4;
        sums[row] = dsp::multiply_add_pairs(dsp::sign_extend_even(dsp::rotate_8(bytes)), odd,
                                            dsp::multiply_add_pairs(dsp::sign_extend_even(bytes), even, sums[row]));
      });
    }
    for (int32_t i = 0; i < (count & 3); ++i) {
      const int32_t value = x[i] + offset;
      unrolled<kRows>([&](auto row) { sums[row] = add_wrapping(sums[row], w[row][i] * value); });
    }
  }

  static void multiply_channels(const int8_t* weights, int32_t weight_step, const int8_t* x, int32_t x_step, int32_t offset, int32_t taps,
                                int32_t (&sums)[4]) {
    const uint32_t offsets = dsp::twice(offset);
    for (; taps > 0; --taps, weights += weight_step, x += x_step) {
      const uint32_t values = dsp::load_word(x), bytes = dsp::load_word(weights);
      const uint32_t even = dsp::add_even(offsets, values), odd = dsp::add_even(offsets, dsp::rotate_8(values));
      const uint32_t even_weights = dsp::sign_extend_even(bytes), odd_weights = dsp::sign_extend_even(dsp::rotate_8(bytes));
      sums[0] = dsp::multiply_add_low(even, even_weights, sums[0]);
      sums[1] = dsp::multiply_add_low(odd, odd_weights, sums[1]);
      sums[2] = dsp::multiply_add_high(even, even_weights, sums[2]);
      sums[3] = dsp::multiply_add_high(odd, odd_weights, sums[3]);
    }
  }
};

#if defined(__ARM_FEATURE_DSP)
using Loops = DspLoops;
#else
using Loops = PortableLoops;
#endif

}  // namespace dtr::runtime::cortex_m
