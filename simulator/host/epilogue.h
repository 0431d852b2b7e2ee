// What the fast convolutions share around their inner loops.
#pragma once

#include <vector>

#include "simulator/host/kit.h"

namespace dtr::simulator {

// Bias, multiplier and shifts of a convolution as four arrays of `count` entries, in channel order.
void pack_parameters(const npu::Target& target, const npu::Window& window, const std::byte* parameters, size_t count,
                     PackedConvolution& packed);

// The output may lie over the addend, and the fast convolutions write all of it before they add: then they add from a copy.
class AddendCopy {
 public:
  AddendCopy(const npu::Window& window, const ConvolutionMemory& memory);
  const ConvolutionMemory& memory() const { return memory_; }

 private:
  ConvolutionMemory memory_;
  std::vector<int8_t> copy_;
};

// The epilogue's table and addend, over the output that the convolution has rescaled and clamped.
void finish_epilogue(const Kernels& kernels, const Call& call, const npu::Window& window, const npu::Epilogue& epilogue,
                     const ConvolutionMemory& memory);

}  // namespace dtr::simulator
