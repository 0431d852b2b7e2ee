#include "simulator/host/convolution.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace dtr::simulator {

void pack_parameters(const npu::Target& target, const npu::Window& window, const npu::Epilogue& epilogue, const std::byte* parameters,
                     std::span<const uint32_t> magnitudes, size_t count, PackedConvolution& packed) {
  constexpr int32_t kMostRight = 22;
  const ChannelParameters from(target, window, parameters);
  for (AlignedVector<int32_t>* list :
       {&packed.bias, &packed.multiplier, &packed.left_shift, &packed.right_shift, &packed.rounding, &packed.sign_mask})
    list->assign(count, 0);
  packed.tame = true;
  for (uint32_t channel = 0; channel < window.out_channels; ++channel) {
    const int32_t shift = from.shift(channel);
    const int32_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    const int32_t bias = from.bias(channel);
    packed.bias[channel] = bias;
    packed.multiplier[channel] = from.multiplier(channel);
    packed.left_shift[channel] = left;
    packed.right_shift[channel] = right;
    const uint64_t bound = static_cast<uint64_t>(std::abs(int64_t{bias})) + 128 * uint64_t{magnitudes[channel]};
    if (right > kMostRight || bound << (left + 1) > INT32_MAX) {
      packed.tame = false;
      continue;
    }
    packed.rounding[channel] = (right > 0 ? 1 << (right - 1) : 0) + epilogue.zero_point_out * (1 << right);
    packed.sign_mask[channel] = right > 0 ? -1 : 0;
  }
}

void read_kernel_row(const npu::Target& target, const npu::Conv2d& command, const int8_t* weights, uint32_t channel, uint32_t kernel_y,
                     int8_t* row) {
  const npu::Window& w = command.window;
  const ConvolutionWeights at(target, command);
  const bool joined = command.packing == npu::Packing::kRows;
  const uint32_t run = joined ? w.kernel_width * w.in_channels : w.in_channels;
  const size_t step_bytes = size_t{target.pipelines} * target.macs;
  for (uint32_t x = 0; x < (joined ? 1 : w.kernel_width); ++x) {
    const int8_t* from = weights + at.index(channel, kernel_y, x, 0);
    for (uint32_t i = 0; i < run; i += target.macs, from += step_bytes) std::memcpy(row + i, from, std::min(target.macs, run - i));
    row += run;
  }
}

void read_kernel_row(const npu::Target& target, const npu::Depthwise& command, const int8_t* weights, uint32_t channel, uint32_t kernel_y,
                     int8_t* row) {
  const uint32_t columns = command.window.kernel_width;
  for (uint32_t x = 0; x < columns; ++x) row[x] = weights[depthwise_weight_index(target, command.window, channel, kernel_y * columns + x)];
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
