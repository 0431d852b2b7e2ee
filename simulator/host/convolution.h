// What the fast convolutions share around their inner loops.
#pragma once

#include <span>

#include "simulator/host/kit.h"

namespace dtr::simulator {

// The arrays of `packed` in channel order, `count` entries long. `magnitudes`: Σ |weight| of each output channel.
//
// Tame arithmetic. Let A = |bias| + 128 · Σ |weight| bound an accumulator x. If A · 2^(left + 1) < 2^31, doubling 2^left · x does not
// overflow, and its high multiply is the upper half of 2 · 2^left · x · multiplier + 2^31, below 2^30 + 1 in magnitude. If also
// right ≤ 22, adding 2^right / 2, zero_point · 2^right and −1 for negative values stays inside 32 bits; one arithmetic shift then gives
// numerics::rounding_divide_by_power_of_two plus the zero point.
void pack_parameters(const npu::Target& target, const npu::Window& window, const npu::Epilogue& epilogue, const std::byte* parameters,
                     std::span<const uint32_t> magnitudes, size_t count, PackedConvolution& packed);

// Values of one kernel row of one output channel, KW · Cin of them side by side, from the machine's order. `row` has room for all.
void read_kernel_row(const npu::Target& target, const npu::Conv2d& command, const int8_t* weights, uint32_t channel, uint32_t kernel_y,
                     int8_t* row);

// A depthwise convolution of one input channel is a convolution as well, and much faster as one: its row is KW values.
void read_kernel_row(const npu::Target& target, const npu::Depthwise& command, const int8_t* weights, uint32_t channel, uint32_t kernel_y,
                     int8_t* row);
inline bool is_dense(const npu::Conv2d&) { return true; }
inline bool is_dense(const npu::Depthwise& command) { return command.window.in_channels == 1; }
inline void run_plain(const Call& call, const npu::Conv2d& command, const ConvolutionMemory& memory) {
  kPlainKernels.conv2d(call, command, memory);
}
inline void run_plain(const Call& call, const npu::Depthwise& command, const ConvolutionMemory& memory) {
  kPlainKernels.depthwise(call, command, memory);
}

// Where a band of outputs goes: straight to the output, or, if a table or an addend follows, to a buffer first. So the fast kernels can
// write a band at once even where the output lies over its addend.
class BandOutput {
 public:
  BandOutput(const Kernels& kernels, const Call& call, const npu::Epilogue& epilogue, const ConvolutionMemory& memory, size_t band_bytes);
  // For the outputs from element `first` on.
  int8_t* begin(size_t first) const { return staged_ ? buffer_ : memory_.output + first; }
  // The band's `count` elements are computed: applies table and addend.
  void finish(size_t first, size_t count) const;

 private:
  const Kernels& kernels_;
  const Call& call_;
  const npu::Epilogue& epilogue_;
  const ConvolutionMemory& memory_;
  bool staged_;
  int8_t* buffer_;
};

}  // namespace dtr::simulator
