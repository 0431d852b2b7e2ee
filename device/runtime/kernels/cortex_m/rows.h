// Rows of inputs times a matrix, which linear layers, products of matrices and convolutions of
// bytes are made of: sums of products, rescaled in one of the ways below.
#pragma once

#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/loops.h"

namespace dtr::runtime::cortex_m {

// Output o is Σ weights[o · depth + i] · (x[i] + offset) + biases[o].
struct Matrix {
  const int8_t* weights = nullptr;
  int32_t depth = 0, outputs = 0;
  int32_t offset = 0;
  const int32_t* biases = nullptr;  // null: zeros
};

// The addresses and strides of the inputs and outputs of `count` rows.
struct Rows {
  const int8_t* x;
  int32_t x_step;
  int8_t* y;
  int32_t y_step;
  int32_t count;
};

// ---- from a sum to an output: one value, and four at once where the core has lanes. Vectors are
// local variables there, not members: g++ keeps members in memory.

struct EachOutput {
  Channels channels;

  int8_t operator()(int32_t sum, int32_t output) const { return channels(sum, output); }
#if defined(__ARM_FEATURE_MVE)
  bool has_lanes() const { return true; }
  template <class Body>
  [[gnu::always_inline]] void with_lanes(int32_t first, Body body) const {
    const Lanes zero = vdupq_n_s32(0), multipliers = vld1q_s32(channels.multipliers + first),
                all = vld1q_s32(channels.shifts + first);
    const Lanes raises = vmaxq_s32(all, zero), shifts = vminq_s32(all, zero);
    const Lanes low = vdupq_n_s32(channels.finish.low), high = vdupq_n_s32(channels.finish.high);
    const int32_t zero_point = channels.finish.zero_point;
    body([&](Lanes sums) __attribute__((always_inline)) {
      return finish_lanes(rescale_down(vshlq_s32(sums, raises), multipliers, shifts), zero_point,
                          low, high);
    });
  }
#endif
};

struct EachOutputOnce {
  Channels channels;

  int8_t operator()(int32_t sum, int32_t output) const {
    return channels.finish(
        rescale_once(sum, channels.multipliers[output], channels.shifts[output]));
  }
#if defined(__ARM_FEATURE_MVE)
  bool has_lanes() const { return !channels.raises; }
  template <class Body>
  [[gnu::always_inline]] void with_lanes(int32_t first, Body body) const {
    const Lanes multipliers = vld1q_s32(channels.multipliers + first),
                shifts = vld1q_s32(channels.shifts + first);
    const Lanes low = vdupq_n_s32(channels.finish.low), high = vdupq_n_s32(channels.finish.high);
    const int32_t zero_point = channels.finish.zero_point;
    body([&](Lanes sums) __attribute__((always_inline)) {
      return finish_lanes(rescale_once_down(sums, multipliers, shifts), zero_point, low, high);
    });
  }
#endif
};

struct AllOutputs {
  numerics::Requantization by;
  Finish finish;
  int32_t start = 0;  // what every sum begins with, beside the bias

  int8_t operator()(int32_t sum, int32_t) const {
    return finish(rescale(add_wrapping(start, sum), by));
  }
#if defined(__ARM_FEATURE_MVE)
  bool has_lanes() const { return true; }
  template <class Body>
  [[gnu::always_inline]] void with_lanes(int32_t, Body body) const {
    const Lanes low = vdupq_n_s32(finish.low), high = vdupq_n_s32(finish.high);
    body([&](Lanes sums) __attribute__((always_inline)) {
      return finish_lanes(rescale(vaddq_n_s32(sums, start), by), finish.zero_point, low, high);
    });
  }
#endif
};

// ---- products

// Outputs [first, first + kCount) of a row.
template <int kCount, class Output>
[[gnu::always_inline]] inline void multiply_outputs(const Matrix& matrix, const int8_t* x,
                                                    int32_t first, const Output& output,
                                                    int8_t* y) {
  int32_t sums[kCount];
  unrolled<kCount>(
      [&](auto i) { sums[i] = matrix.biases == nullptr ? 0 : matrix.biases[first + i]; });
  Loops::multiply_vector<kCount>(matrix.weights + first * matrix.depth, matrix.depth, x,
                                 matrix.offset, matrix.depth, sums);
  unrolled<kCount>([&](auto i) { y[first + i] = output(sums[i], first + i); });
}

#if defined(__ARM_FEATURE_MVE)
// Four outputs of all rows at a time: their parameters stay in registers. Returns how many there
// are.
template <class Output>
int32_t multiply_fours(const Matrix& matrix, const Rows& rows, const Output& output) {
  static constexpr int32_t kNoBiases[4] = {};
  const int32_t depth = matrix.depth, outputs = matrix.outputs & ~3,
                x_step = rows.x_step - ((depth + 15) & ~15), y_step = rows.y_step;
  for (int32_t first = 0; first < outputs; first += 4) {
    const int8_t* const weights = matrix.weights + first * depth;
    const int32_t* const biases = matrix.biases == nullptr ? kNoBiases : matrix.biases + first;
    output.with_lanes(
        first, [&](auto finish) __attribute__((always_inline)) {
          const int8_t* x = rows.x;
          int8_t* y = rows.y + first;
          for (int32_t left = rows.count; left > 0; --left, x += x_step, y += y_step) {
            vstrbq_s32(y, finish(MveLoops::multiply_four(weights, depth, x, depth, biases)));
          }
        });
  }
  return outputs;
}
#endif

template <class Output>
[[gnu::noinline]] void multiply_rows(const Matrix& matrix, Rows rows, const Output& output) {
  int32_t done = 0;
#if defined(__ARM_FEATURE_MVE)
  if constexpr (requires { output.has_lanes(); }) {
    if (matrix.offset == 0 && output.has_lanes()) done = multiply_fours(matrix, rows, output);
  }
#endif
  if (done == matrix.outputs) return;
  for (int32_t row = 0; row < rows.count; ++row, rows.x += rows.x_step, rows.y += rows.y_step) {
    int32_t first = done;
    if constexpr (!Loops::kFoldsOffset) {
      for (; first + 4 <= matrix.outputs; first += 4)
        multiply_outputs<4>(matrix, rows.x, first, output, rows.y);
    }
    for (; first < matrix.outputs; ++first)
      multiply_outputs<1>(matrix, rows.x, first, output, rows.y);
  }
}

// Moves the offset into the biases; `folded` takes one for every output.
inline void fold_offset(Matrix& matrix, int32_t* folded) {
  for (int32_t o = 0; o < matrix.outputs; ++o) {
    const int32_t bias = matrix.biases == nullptr ? 0 : matrix.biases[o];
    folded[o] = add_wrapping(
        bias, multiply_wrapping(matrix.offset,
                                Loops::sum(matrix.weights + o * matrix.depth, matrix.depth)));
  }
  matrix.biases = folded;
  matrix.offset = 0;
}

}  // namespace dtr::runtime::cortex_m
