// Shared by the fast convolutions: packing of parameters and weights, and output of bands.
#pragma once

#include <span>

#include "host/simulator/kernel_set.h"

namespace dtr::simulator {

// Sets the arrays and flags of `packed`, in channel order, `count` entries long. `magnitudes`: Σ
// |weight| of each output channel.
//
// Arithmetic without overflow. Let A = |bias| + 128 · Σ |weight| bound an accumulator x. If A ·
// 2^(left + 1) < 2^31, doubling 2^left · x does not overflow, and its high multiply is the upper
// half of 2 · 2^left · x · multiplier + 2^31, below 2^30 + 1 in magnitude. If also right ≤ 22,
// adding 2^right / 2, zero_point · 2^right and −1 for negative values stays inside 32 bits; one
// arithmetic shift then gives numerics::rounding_divide_by_power_of_two plus the zero point.
void pack_parameters(const npu::Target& target, const npu::Window& window,
                     const npu::Epilogue& epilogue, const std::byte* parameters,
                     std::span<const uint32_t> magnitudes, size_t count, PackedConvolution& packed);

// How parameters of pack_parameters, in channel order, can be folded.
//
// Let m be the multiplier, in [0, 2^31), r the right shift and x an accumulator; nothing is shifted
// left. Rounding twice gives (⌊(x·m + 2^30) / 2^31⌋ + h) / 2^r rounded down, with h = 2^(r-1), or 0
// for r = 0, and one less for x < 0 and r > 0 (there ties go away from zero; where the high
// multiply of a negative x is 0, so is the result, with and without the one). Divisions that round
// down compose:
//   kFloor: ⌊(x·m + 2^30 + 2^(30+r)) / 2^(31+r)⌋ for x ≥ 0. For x < 0 this is at most 0, as the
//     result is, so that both are clamped alike if the zero point is not above the clamp's low end.
//     Rounding once is ⌊(x·m + 2^(30+r)) / 2^(31+r)⌋ for any x. With zero_point · 2^(31+r) in the
//     sum it is below 2^63 if r ≤ 22; its upper half, shifted by r − 1 ≥ 0, is the result.
//   kAwayFromZero: the upper half of 4x · m is ⌊x·m / 2^30⌋, if |x| < 2^29; adding 1 + 2h, less 2
//   for
//     x < 0 and r > 0, and zero_point · 2^(r+1), which stays inside of 32 bits if r ≤ 21, and
//     shifting by r + 1 gives the result.
Fold fold_of(const npu::Window& window, const npu::Epilogue& epilogue,
             std::span<const uint32_t> magnitudes, const PackedConvolution& packed);

struct Folded {
  int64_t floor = 0;                // kFloor: to add to x · m
  int32_t added = 0, negative = 0;  // kAwayFromZero: to add to ⌊x·m / 2^30⌋, and where x < 0
  Folded(Fold fold, int32_t right, int32_t zero_point, bool one_rounding);
};

// Sets `folded` (which has room) from `right_shift`, in its order, in `count` lanes from `first`
// on, for vectors of `lanes`. kFloor: of even lanes, 64 bits wide, then of odd ones. kAwayFromZero:
// `added`, then `negative`.
void fold_parameters(const npu::Epilogue& epilogue, uint32_t lanes, size_t first, size_t count,
                     PackedConvolution& packed);

// Reads one kernel row of one output channel, KW · Cin contiguous values, from the machine's order.
// `row` has room for all.
void read_kernel_row(const npu::Target& target, const npu::Conv2d& command, const int8_t* weights,
                     uint32_t channel, uint32_t kernel_y, int8_t* row);

// The same for a depthwise convolution of one input channel, which runs much faster as a
// convolution: a row has KW values.
void read_kernel_row(const npu::Target& target, const npu::Depthwise& command,
                     const int8_t* weights, uint32_t channel, uint32_t kernel_y, int8_t* row);
inline bool is_dense(const npu::Conv2d&) { return true; }
inline bool is_dense(const npu::Depthwise& command) { return command.window.in_channels == 1; }
inline void run_plain(const Call& call, const npu::Conv2d& command,
                      const ConvolutionMemory& memory) {
  kPlainKernels.conv2d(call, command, memory);
}
inline void run_plain(const Call& call, const npu::Depthwise& command,
                      const ConvolutionMemory& memory) {
  kPlainKernels.depthwise(call, command, memory);
}

// The destination of a band of outputs: the output itself or, if a table or an addend follows or
// its pixels are not evenly spaced, a dense buffer. The fast kernels can thus write a whole band
// even if the output overwrites its addend.
class BandOutput {
 public:
  // `dense`: the kernel writes pixels without gaps only. A flattened plan has bands that span rows.
  BandOutput(const Kernels& kernels, const Call& call, const npu::Window& window,
             const npu::Epilogue& epilogue, const ConvolutionMemory& memory,
             const ConvolutionPlan& plan, bool dense);
  // The memory for outputs from position `first` on; pixels are pixel_stride() bytes apart.
  int8_t* begin(size_t first) const {
    return staged_ ? buffer_ : memory_.output + offset(window_.out, first);
  }
  uint32_t pixel_stride() const { return staged_ ? window_.out_channels : window_.out.pixel; }
  // Completes the `count` positions of a band: applies table and addend and copies a staged band to
  // the output.
  void finish(size_t first, size_t count) const;

 private:
  size_t offset(const npu::Strides& strides, size_t position) const {
    if (position == 0) return 0;  // without divisions: small calls have no other one
    const size_t row = position / window_.out_width;
    return place(strides, static_cast<uint32_t>(row / window_.out_height),
                 static_cast<uint32_t>(row % window_.out_height),
                 static_cast<uint32_t>(position % window_.out_width));
  }
  void finish_run(int8_t* values, size_t first, uint32_t count) const;

  const Kernels& kernels_;
  const Call& call_;
  const npu::Window& window_;
  const npu::Epilogue& epilogue_;
  const ConvolutionMemory& memory_;
  bool staged_;
  int8_t* buffer_;
};

}  // namespace dtr::simulator
