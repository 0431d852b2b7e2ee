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

BandOutput::BandOutput(const Kernels& kernels, const Call& call, const npu::Epilogue& epilogue, const ConvolutionMemory& memory,
                       size_t band_bytes)
    : kernels_(kernels),
      call_(call),
      epilogue_(epilogue),
      memory_(memory),
      staged_(memory.table != nullptr || memory.addend != nullptr),
      buffer_(staged_ ? static_cast<KitContext*>(call.context)->staging_of(band_bytes) : nullptr) {}

void BandOutput::finish(size_t first, size_t count) const {
  if (!staged_) return;
  int8_t* output = memory_.output + first;
  const int8_t* values = buffer_;
  if (memory_.table != nullptr) {
    npu::Lookup lookup{};
    lookup.elements = static_cast<uint32_t>(count);
    int8_t* looked_up = memory_.addend != nullptr ? buffer_ : output;
    kernels_.lookup(call_, lookup, values, memory_.table, looked_up);
  }
  if (memory_.addend != nullptr) {
    npu::Add add{};
    add.elements = static_cast<uint32_t>(count);
    add.arguments = epilogue_.add;
    kernels_.add(call_, add, values, memory_.addend + first, output);
  }
}

}  // namespace dtr::simulator
