// What convolutions and linear layers share: how the array does one accumulation, and the call that
// does it.
#pragma once

#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/backends/neutron/lowering/weights.h"

namespace dtr::neutron {

struct Mapping {
  bool depthwise = false;
  npu::Packing packing = npu::Packing::kChannels;
};

// The mapping with the fewest cycles of the NPU, of equals the one with the fewest bytes of
// constants. `depthwise_only`: each output channel reads one input channel.
Mapping choose_mapping(const Machine& machine, const npu::Window& window, bool depthwise_only);
// The kernel without addresses.
Kernel kernel_of(const npu::Window& window, Mapping mapping);
// Some taps of a kernel and some input channels: what one call adds up.
struct Share {
  uint32_t row = 0, rows = 1;        // of the kernel
  uint32_t column = 0, columns = 1;  // of the kernel
  uint32_t channel = 0, channels = 1;
};
// The shares of an accumulation in the order of its calls, each as large as an accumulator takes;
// one if it takes all.
std::vector<Share> shares_of(const npu::Target& target, const npu::Window& window, Mapping mapping);
// Cycles of all calls, the host's included.
uint64_t accumulation_cycles(const npu::Target& target, const npu::Window& window, Mapping mapping);
// The least bytes of SRAM, beside operands and results, that the calls need at a time: constants (a
// Conv2d can be split by output channels), and sums between calls.
uint64_t least_staged_bytes(const npu::Target& target, const npu::Window& window, Mapping mapping);

// One accumulation of an op, which may need several.
struct Accumulation {
  npu::Window window;
  Mapping mapping;
  npu::Address input, output;
  npu::Address addend = {};  // if the group has an addition
  npu::Strides addend_strides = {};
  int64_t first_channel = 0;  // of the op's, that the first filter computes
  int64_t macs = 0;
  uint32_t part = 0, parts = 1;
};
// `filters`: of the channels of the accumulation. Several calls if one cannot add up so many
// products: all but the last hand on sums.
void emit_accumulation(Builder& builder, const Group& group, const Accumulation& accumulation,
                       const Filters& filters);

// The operand that the addition of a group reads beside the group's own value; invalid without an
// addition.
ValueId addend_of(const Graph& graph, const Group& group);

}  // namespace dtr::neutron
