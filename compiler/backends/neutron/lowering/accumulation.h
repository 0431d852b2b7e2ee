// Shared by convolutions and linear layers: how an accumulation is mapped to the array of
// multipliers, and the calls that compute it.
#pragma once

#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/backends/neutron/lowering/weights.h"

namespace dtr::neutron {

// How the array of multipliers computes an accumulation: the kernel, and what its operand vector
// holds.
struct Mapping {
  bool depthwise = false;
  npu::Packing packing = npu::Packing::kChannels;
};

// The mapping with the fewest cycles of the NPU, of equals the one with the fewest bytes of
// constants. `depthwise_only`: each output channel reads one input channel.
Mapping choose_mapping(const Machine& machine, const npu::Window& window, bool depthwise_only);
// The kernel call with shapes, without addresses.
Kernel kernel_of(const npu::Window& window, Mapping mapping);
// The taps of a kernel and the input channels whose products one call adds up.
struct Share {
  uint32_t row = 0, rows = 1;        // of the kernel
  uint32_t column = 0, columns = 1;  // of the kernel
  uint32_t channel = 0, channels = 1;
};
// Splits an accumulation into calls, in their order, each as large as an accumulator allows; a
// single share if one call is enough.
std::vector<Share> shares_of(const npu::Target& target, const npu::Window& window, Mapping mapping);
// Cycles of all calls, with what the host needs to start them.
uint64_t accumulation_cycles(const npu::Target& target, const npu::Window& window, Mapping mapping);
// The least bytes of SRAM that the calls need at a time beside operands and results: constants (a
// Conv2d can be split by output channels) and the partial sums between calls.
uint64_t least_staged_bytes(const npu::Target& target, const npu::Window& window, Mapping mapping);

// One accumulation of an op; an op may need several.
struct Accumulation {
  npu::Window window;
  Mapping mapping;
  npu::Address input, output;
  npu::Address addend = {};  // if the group has an addition
  npu::Strides addend_strides = {};
  int64_t first_channel = 0;  // of the op's output channels, the one that the first filter computes
  int64_t macs = 0;
  uint32_t part = 0, parts = 1;
};
// Emits the calls of one accumulation. `filters` are those of its output channels. If one call
// cannot add up so many products, all calls but the last write partial sums, which the next one
// reads.
void emit_accumulation(Builder& builder, const Group& group, const Accumulation& accumulation,
                       const Filters& filters);

// The second operand of the group's addition, beside the group's own value; invalid if the group
// has no addition.
ValueId addend_of(const Graph& graph, const Group& group);

}  // namespace dtr::neutron
