// The loops of cores with the DSP extension (Cortex-M4, M7, M33): two products at a time on pairs
// of int16.
//
// On other machines they run on stand-ins of the instructions, so that tests can hold them against
// PortableLoops.
#pragma once

#include "device/runtime/kernels/cortex_m/loops_portable.h"

#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
#endif

namespace dtr::runtime::cortex_m {

// One of `columns` columns of `depth` inputs in memory that is aligned to words.
struct Column {
  int16_t* memory = nullptr;
  int32_t index = 0, columns = 1, depth = 0;
};

// Two taps of four channels: offsets of their inputs, and weights in the order of the loops.
struct TapPair {
  int32_t offsets[2];
  int16_t weights[8];
};

// Instructions of the DSP extension on words of two int16 or four int8.
namespace dsp {

#if defined(__ARM_FEATURE_DSP)
// Bytes 0 and 2, or 1 and 3, of a word with sign; g++ has no intrinsic that rotates in the same
// instruction.
inline uint32_t even_bytes(uint32_t word) {
  uint32_t pair;
  asm("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
  return pair;
}
inline uint32_t odd_bytes(uint32_t word) {
  uint32_t pair;
  asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}
inline uint32_t add_even_bytes(uint32_t to, uint32_t word) {
  uint32_t pair;
  asm("sxtab16 %0, %1, %2" : "=r"(pair) : "r"(to), "r"(word));
  return pair;
}
inline uint32_t add_odd_bytes(uint32_t to, uint32_t word) {
  uint32_t pair;
  asm("sxtab16 %0, %1, %2, ror #8" : "=r"(pair) : "r"(to), "r"(word));
  return pair;
}
// The low halves of both, and the high halves.
inline uint32_t low_halves(uint32_t a, uint32_t b) {
  uint32_t pair;
  asm("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
}
inline uint32_t high_halves(uint32_t a, uint32_t b) {
  uint32_t pair;
  asm("pkhtb %0, %2, %1, asr #16" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
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
inline uint32_t pair_of(int32_t low, int32_t high) {
  return (static_cast<uint32_t>(low) & 0xFFFFu) | static_cast<uint32_t>(high) << 16;
}
inline uint32_t low_halves(uint32_t a, uint32_t b) { return pair_of(low_of(a), low_of(b)); }
inline uint32_t high_halves(uint32_t a, uint32_t b) { return pair_of(high_of(a), high_of(b)); }
inline uint32_t add_even_bytes(uint32_t to, uint32_t word) {
  return pair_of(low_of(to) + static_cast<int8_t>(word),
                 high_of(to) + static_cast<int8_t>(word >> 16));
}
inline uint32_t add_odd_bytes(uint32_t to, uint32_t word) { return add_even_bytes(to, word >> 8); }
inline uint32_t even_bytes(uint32_t word) { return add_even_bytes(0, word); }
inline uint32_t odd_bytes(uint32_t word) { return add_odd_bytes(0, word); }
inline int32_t multiply_add_low(uint32_t a, uint32_t b, int32_t sum) {
  return add_wrapping(sum, low_of(a) * low_of(b));
}
inline int32_t multiply_add_high(uint32_t a, uint32_t b, int32_t sum) {
  return add_wrapping(sum, high_of(a) * high_of(b));
}
inline int32_t multiply_add_pairs(uint32_t a, uint32_t b, int32_t sum) {
  return multiply_add_high(a, b, multiply_add_low(a, b, sum));
}
#endif

// One LDR, the core reads words from any address. (__builtin_memcpy, because a freestanding memcpy
// is a call.)
inline uint32_t load_word(const int8_t* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}
inline uint32_t load_pair(const int16_t* from) {
  uint32_t pair;
  __builtin_memcpy(&pair, __builtin_assume_aligned(from, 4), sizeof pair);
  return pair;
}
inline void store_pair(int16_t* to, uint32_t pair) {
  __builtin_memcpy(__builtin_assume_aligned(to, 4), &pair, sizeof pair);
}
inline uint32_t both_halves(int32_t offset) {
  return (static_cast<uint32_t>(offset) & 0xFFFFu) * 0x10001u;
}

}  // namespace dsp

// A word of four int8 becomes the pairs (0, 2) and (1, 3) in one instruction each, so columns keep
// their inputs in that order, by fours; the fours of all columns alternate, so that one pointer
// walks them. What is left of a depth comes behind, a column after the other.
struct DspLoops {
  static constexpr bool kFoldsOffset = false;

  static void copy(const int8_t* from, int32_t count, int8_t* to) {
    PortableLoops::copy(from, count, to);
  }
  static void fill(int8_t value, int32_t count, int8_t* to) {
    PortableLoops::fill(value, count, to);
  }
  static int32_t sum(const int8_t* x, int32_t count) { return PortableLoops::sum(x, count); }

  // Inputs [first, first + count) of a column are from[i] + offset; `first` is a multiple of 4, and
  // `count` too unless it ends the column.
  static void expand(const int8_t* from, int32_t count, int32_t offset, const Column& column,
                     int32_t first) {
    const uint32_t offsets = dsp::both_halves(offset);
    int16_t* to = column.memory + first * column.columns + column.index * 4;
    int32_t left = count;
    for (; left >= 4; left -= 4, from += 4, to += 4 * column.columns) {
      const uint32_t bytes = dsp::load_word(from);
      dsp::store_pair(to, dsp::add_even_bytes(offsets, bytes));
      dsp::store_pair(to + 2, dsp::add_odd_bytes(offsets, bytes));
    }
    to = rest_of(column);
    for (int32_t i = 0; i < left; ++i) to[i] = static_cast<int16_t>(from[i] + offset);
  }
  // They are 0.
  static void clear(int32_t count, const Column& column, int32_t first) {
    int16_t* to = column.memory + first * column.columns + column.index * 4;
    for (; count >= 4; count -= 4, to += 4 * column.columns) {
      dsp::store_pair(to, 0);
      dsp::store_pair(to + 2, 0);
    }
    std::fill_n(rest_of(column), count, int16_t{0});
  }

  // sums[row][column] += Σ weights[row · depth + i] · input i of the column.
  template <int kRows, int kColumns>
  static void multiply(const int8_t* weights, const int16_t* columns, int32_t depth,
                       int32_t (&sums)[kRows][kColumns]) {
    int32_t partial[kRows][kColumns];  // registers
    unrolled<kRows>([&](auto row) {
      unrolled<kColumns>([&](auto column) { partial[row][column] = sums[row][column]; });
    });
    const int8_t* const whole = weights + (depth & ~3);
    for (; weights != whole; weights += 4, columns += 4 * kColumns) {
      uint32_t even[kColumns], odd[kColumns];
      unrolled<kColumns>([&](auto column) {
        even[column] = dsp::load_pair(columns + 4 * column);
        odd[column] = dsp::load_pair(columns + 4 * column + 2);
      });
      unrolled<kRows>([&](auto row) {
        const uint32_t bytes = dsp::load_word(weights + row * depth);
        const uint32_t even_weights = dsp::even_bytes(bytes), odd_weights = dsp::odd_bytes(bytes);
        unrolled<kColumns>([&](auto column) {
          partial[row][column] =
              dsp::multiply_add_pairs(even_weights, even[column], partial[row][column]);
          partial[row][column] =
              dsp::multiply_add_pairs(odd_weights, odd[column], partial[row][column]);
        });
      });
    }
    const int32_t rest = depth & 3;
    for (int32_t i = 0; i < rest; ++i) {
      unrolled<kRows>([&](auto row) {
        unrolled<kColumns>([&](auto column) {
          partial[row][column] = add_wrapping(
              partial[row][column], weights[row * depth + i] * columns[column * rest + i]);
        });
      });
    }
    unrolled<kRows>([&](auto row) {
      unrolled<kColumns>([&](auto column) { sums[row][column] = partial[row][column]; });
    });
  }

  template <int kRows>
  static void multiply_vector(const int8_t* weights, int32_t stride, const int8_t* x,
                              int32_t offset, int32_t count, int32_t (&sums)[kRows]) {
    const uint32_t offsets = dsp::both_halves(offset);
    int32_t partial[kRows];  // registers
    unrolled<kRows>([&](auto row) { partial[row] = sums[row]; });
    const int8_t* const whole = x + (count & ~3);
    for (; x != whole; x += 4, weights += 4) {
      const uint32_t values = dsp::load_word(x);
      const uint32_t even = dsp::add_even_bytes(offsets, values),
                     odd = dsp::add_odd_bytes(offsets, values);
      unrolled<kRows>([&](auto row) {
        const uint32_t bytes = dsp::load_word(weights + row * stride);
        partial[row] = dsp::multiply_add_pairs(dsp::even_bytes(bytes), even, partial[row]);
        partial[row] = dsp::multiply_add_pairs(dsp::odd_bytes(bytes), odd, partial[row]);
      });
    }
    for (int32_t i = 0; i < (count & 3); ++i) {
      const int32_t value = x[i] + offset;
      unrolled<kRows>([&](auto row) {
        partial[row] = add_wrapping(partial[row], weights[row * stride + i] * value);
      });
    }
    unrolled<kRows>([&](auto row) { sums[row] = partial[row]; });
  }

  [[gnu::noinline]] static void multiply_rectangle(const int8_t* weights, const int8_t* x,
                                                   const TapSteps& steps, int32_t rows,
                                                   int32_t taps, int32_t offset,
                                                   int32_t (&sums)[4]) {
    const uint32_t zeros = dsp::both_halves(offset);
    int32_t partial[4];  // registers
    unrolled<4>([&](auto i) { partial[i] = sums[i]; });
    const int32_t next_weights = steps.weight_row - taps * steps.weight,
                  next_x = steps.x_row - taps * steps.x;
    for (; rows > 0; --rows, weights += next_weights, x += next_x) {
      for (int32_t tap = taps; tap > 0; --tap, weights += steps.weight, x += steps.x) {
        const uint32_t values = dsp::load_word(x), bytes = dsp::load_word(weights);
        const uint32_t even = dsp::add_even_bytes(zeros, values),
                       even_weights = dsp::even_bytes(bytes);
        partial[0] = dsp::multiply_add_low(even, even_weights, partial[0]);
        partial[2] = dsp::multiply_add_high(even, even_weights, partial[2]);
        const uint32_t odd = dsp::add_odd_bytes(zeros, values), odd_weights = dsp::odd_bytes(bytes);
        partial[1] = dsp::multiply_add_low(odd, odd_weights, partial[1]);
        partial[3] = dsp::multiply_add_high(odd, odd_weights, partial[3]);
      }
    }
    unrolled<4>([&](auto i) { sums[i] = partial[i]; });
  }

  // The weights of four channels at two taps, both of a channel side by side.
  static void pack(const int8_t* first, const int8_t* second, TapPair* pair) {
    unrolled<4>([&](auto i) {
      pair->weights[2 * i] = first[i];
      pair->weights[2 * i + 1] = second[i];
    });
  }
  // sums[i] += Σ weight of the tap · (x[its offset + i] + offset), for four channels. A function of
  // its own, so that everything stays in registers.
  [[gnu::noinline]] static void multiply_taps(const TapPair* begin, const TapPair* end,
                                              const int8_t* x, int32_t offset, int32_t (&sums)[4]) {
    const uint32_t zeros = dsp::both_halves(offset);
    int32_t partial[4];  // registers
    unrolled<4>([&](auto i) { partial[i] = sums[i]; });
    for (; begin != end; ++begin) {
      asm("" : "+r"(begin));  // or the compiler walks with two pointers
      const uint32_t a = dsp::load_word(x + begin->offsets[0]),
                     b = dsp::load_word(x + begin->offsets[1]);
      const uint32_t even_a = dsp::add_even_bytes(zeros, a), even_b = dsp::add_even_bytes(zeros, b);
      partial[0] = dsp::multiply_add_pairs(dsp::low_halves(even_a, even_b),
                                           dsp::load_pair(begin->weights), partial[0]);
      partial[2] = dsp::multiply_add_pairs(dsp::high_halves(even_a, even_b),
                                           dsp::load_pair(begin->weights + 4), partial[2]);
      const uint32_t odd_a = dsp::add_odd_bytes(zeros, a), odd_b = dsp::add_odd_bytes(zeros, b);
      partial[1] = dsp::multiply_add_pairs(dsp::low_halves(odd_a, odd_b),
                                           dsp::load_pair(begin->weights + 2), partial[1]);
      partial[3] = dsp::multiply_add_pairs(dsp::high_halves(odd_a, odd_b),
                                           dsp::load_pair(begin->weights + 6), partial[3]);
    }
    unrolled<4>([&](auto i) { sums[i] = partial[i]; });
  }

 private:
  static int16_t* rest_of(const Column& column) {
    return column.memory + (column.depth & ~3) * column.columns + column.index * (column.depth & 3);
  }
};

}  // namespace dtr::runtime::cortex_m
