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
