// Convolutions and linear layers as calls of the array.
#pragma once

#include <optional>

#include "abi/npu/microcode.h"
#include "backends/neutron/lowering/builder.h"
#include "backends/neutron/lowering/weights.h"
#include "ops/convolution.h"

namespace dtr::neutron {

// How the array does one accumulation.
struct Mapping {
  bool depthwise = false;
  npu::Packing packing = npu::Packing::kChannels;
};

npu::Window window_of(const ops::ConvolutionShape& shape);
// A linear layer is a convolution of a 1×1 input with a 1×1 kernel; rows are the batch.
npu::Window window_of_linear(int64_t rows, int64_t in, int64_t out);

// The mapping with the fewest cycles of the NPU, of equals the one with the fewest bytes of constants. `depthwise_only`: each output
// channel reads one input channel.
Mapping choose_mapping(const Machine& machine, const npu::Window& window, bool depthwise_only);
// The kernel without addresses.
Kernel kernel_of(const npu::Window& window, Mapping mapping);
// Bytes of the call's block of constants, table not counted.
uint64_t staged_bytes(const npu::Target& target, const npu::Window& window, Mapping mapping);

}  // namespace dtr::neutron
