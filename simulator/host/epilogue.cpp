#include "simulator/host/epilogue.h"

namespace dtr::simulator {

void pack_parameters(const npu::Target& target, const npu::Window& window, const std::byte* parameters, size_t count,
                     PackedConvolution& packed) {
  const ChannelParameters from(target, window, parameters);
  for (AlignedVector<int32_t>* list : {&packed.bias, &packed.multiplier, &packed.left_shift, &packed.right_shift}) list->assign(count, 0);
  for (uint32_t channel = 0; channel < window.out_channels; ++channel) {
    const int32_t shift = from.shift(channel);
    packed.bias[channel] = from.bias(channel);
    packed.multiplier[channel] = from.multiplier(channel);
    packed.left_shift[channel] = shift > 0 ? shift : 0;
    packed.right_shift[channel] = shift > 0 ? 0 : -shift;
  }
}

AddendCopy::AddendCopy(const npu::Window& window, const ConvolutionMemory& memory) : memory_(memory) {
  if (memory.addend == nullptr || memory.addend != memory.output) return;
  const size_t elements = size_t{window.batch} * window.out_height * window.out_width * window.out_channels;
  copy_.assign(memory.addend, memory.addend + elements);
  memory_.addend = copy_.data();
}

void finish_epilogue(const Kernels& kernels, const Call& call, const npu::Window& window, const npu::Epilogue& epilogue,
                     const ConvolutionMemory& memory) {
  const uint32_t elements = window.batch * window.out_height * window.out_width * window.out_channels;
  if (memory.table != nullptr) {
    npu::Lookup lookup{};
    lookup.elements = elements;
    kernels.lookup(call, lookup, memory.output, memory.table, memory.output);
  }
  if (memory.addend != nullptr) {
    npu::Add add{};
    add.elements = elements;
    add.arguments = epilogue.add;
    kernels.add(call, add, memory.output, memory.addend, memory.output);
  }
}

}  // namespace dtr::simulator
