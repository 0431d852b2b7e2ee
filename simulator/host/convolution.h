// What the fast convolutions share around their inner loops.
#pragma once

#include "simulator/host/kit.h"

namespace dtr::simulator {

// Bias, multiplier and shifts of a convolution as four arrays of `count` entries, in channel order.
void pack_parameters(const npu::Target& target, const npu::Window& window, const std::byte* parameters, size_t count,
                     PackedConvolution& packed);

// Values of one kernel row of one output channel, KW · Cin of them side by side, from the machine's order. `row` has room for all.
void read_kernel_row(const npu::Target& target, const npu::Conv2d& command, const int8_t* weights, uint32_t channel, uint32_t kernel_y,
                     int8_t* row);

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
