// The VNNI kernel set: its own convolution; all other kernels are Highway's.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "host/simulator/conv_vnni.h"
#include "host/simulator/convolution.h"
#include "host/simulator/kernel_set.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

// Runs of consecutive bytes that a window reads: whole kernel rows, or pixels where they are apart.
struct Segments {
  std::vector<uint32_t> offsets;
  uint32_t bytes = 0;
  explicit Segments(const ConvolutionPlan& plan) {
    const Window& w = plan.window;
    const bool rows = w.dilation_width == 1;
    bytes = rows ? w.kernel_width * w.in_channels : w.in_channels;
    for (uint32_t y = 0; y < w.kernel_height; ++y)
      for (uint32_t x = 0; x < (rows ? 1 : w.kernel_width); ++x)
        offsets.push_back(static_cast<uint32_t>(plan.tap_offset(y, x)));
  }
  uint32_t steps() const { return (bytes + kVnniDepth - 1) / kVnniDepth; }
};

// Vectors of output channels are dealt out evenly to as few blocks as possible.
struct Blocks {
  uint32_t vectors, count;
  explicit Blocks(uint32_t channels)
      : vectors((channels + kVnniLanes - 1) / kVnniLanes),
        count((vectors + kVnniMostVectors - 1) / kVnniMostVectors) {}
  uint32_t first(uint32_t block) const {
    return static_cast<uint32_t>(uint64_t{vectors} * block / count);
  }
};

// Conv2d, or a Depthwise that is_dense.
template <class Command>
void pack_dense(const Target& target, const Command& command, const int8_t* weights,
                const std::byte* parameters, PackedConvolution& packed) {
  packed.usable = !with_sums(command.epilogue) &&
                  make_plan(command.window, command.pad_value, 1, false, packed.plan);
  if (!packed.usable) return;
  const Window& w = command.window;
  const Segments segments(packed.plan);
  const uint32_t steps = segments.steps();
  const Blocks blocks(w.out_channels);
  const size_t vector_bytes = size_t{kVnniLanes} * kVnniDepth;
  packed.weights.assign(segments.offsets.size() * steps * blocks.vectors * vector_bytes,
                        std::byte{0});
  std::vector<uint32_t> sums(w.out_channels), magnitudes(w.out_channels);
  std::vector<int8_t> row(size_t{w.kernel_width} * w.in_channels);
  const auto segments_in_row = static_cast<uint32_t>(row.size() / segments.bytes);
  std::byte* block_start = packed.weights.data();
  for (uint32_t block = 0; block < blocks.count; ++block) {
    const uint32_t first = blocks.first(block), vectors = blocks.first(block + 1) - first;
    const uint32_t last_channel = std::min(w.out_channels, (first + vectors) * kVnniLanes);
    const size_t step_bytes = vectors * vector_bytes;
    for (uint32_t channel = first * kVnniLanes; channel < last_channel; ++channel) {
      std::byte* to = block_start + size_t{channel - first * kVnniLanes} * kVnniDepth;
      for (uint32_t y = 0; y < w.kernel_height; ++y) {
        read_kernel_row(target, command, weights, channel, y, row.data());
        for (const int8_t weight : row) {
          sums[channel] += static_cast<uint32_t>(weight);
          magnitudes[channel] += static_cast<uint32_t>(std::abs(weight));
        }
        for (uint32_t s = 0; s < segments_in_row; ++s)
          for (uint32_t i = 0; i < segments.bytes; i += kVnniDepth, to += step_bytes)
            std::memcpy(to, &row[s * segments.bytes + i], std::min(kVnniDepth, segments.bytes - i));
      }
    }
    block_start += segments.offsets.size() * steps * step_bytes;
  }
  pack_parameters(target, w, command.epilogue, parameters, magnitudes,
                  size_t{blocks.vectors} * kVnniLanes, packed);
  for (uint32_t channel = 0; channel < w.out_channels; ++channel)
    packed.bias[channel] =
        static_cast<int32_t>(static_cast<uint32_t>(packed.bias[channel]) - 128 * sums[channel]);
}

template <class Command>
void convolve(const Call& call, const Command& command, const ConvolutionMemory& memory) {
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const PackedConvolution* packed = context.packed[call.command];
  if (packed == nullptr) {
    pack_dense(call.target, command, memory.weights, memory.parameters, context.packed_now);
    packed = &context.packed_now;
  }
  if (!packed->usable) return run_plain(call, command, memory);
  const ConvolutionPlan& plan = packed->plan;
  const Window& w = plan.window;
  const Segments segments(plan);
  const Blocks blocks(w.out_channels);
  const BandOutput outputs(vnni_kernel_set()->kernels, call, command.window, command.epilogue,
                           memory, plan, false);
  std::byte* band = context.band_of(plan.band_bytes());
  for (uint32_t image = 0; image < w.batch; ++image) {
    for (uint32_t row = 0; row < w.out_height; row += plan.band_rows) {
      const uint32_t rows = std::min(plan.band_rows, w.out_height - row);
      plan.load_band(memory.input, image, row, rows, vnni_to_unsigned, band);
      const auto* weights = reinterpret_cast<const int8_t*>(packed->weights.data());
      const size_t first_position = (size_t{image} * w.out_height + row) * w.out_width;
      int8_t* output = outputs.begin(first_position);
      for (uint32_t index = 0; index < blocks.count; ++index) {
        const uint32_t first = blocks.first(index) * kVnniLanes;
        VnniBlock block{};
        block.band = reinterpret_cast<const uint8_t*>(band);
        block.offsets = plan.offsets.data();
        block.positions = rows * w.out_width;
        block.segments = segments.offsets.data();
        block.segment_count = static_cast<uint32_t>(segments.offsets.size());
        block.steps = segments.steps();
        block.vectors = blocks.first(index + 1) - blocks.first(index);
        block.weights = weights;
        block.bias = packed->bias.data() + first;
        block.multiplier = packed->multiplier.data() + first;
        block.left_shift = packed->left_shift.data() + first;
        block.right_shift = packed->right_shift.data() + first;
        block.cannot_overflow = packed->cannot_overflow;
        block.one_rounding = packed->one_rounding;
        block.rounding = packed->rounding.data() + first;
        block.zero_point = command.epilogue.zero_point_out;
        block.clamp_low = command.epilogue.clamp_low;
        block.clamp_high = command.epilogue.clamp_high;
        block.output = output + first;
        block.output_stride = outputs.pixel_stride();
        block.channels = std::min(w.out_channels - first, block.vectors * kVnniLanes);
        vnni_convolve(block);
        weights +=
            size_t{block.segment_count} * block.steps * block.vectors * kVnniLanes * kVnniDepth;
      }
      outputs.finish(first_position, size_t{rows} * w.out_width);
    }
  }
}

// Highway's kernel set does what has no convolution's form.
const KernelSet& base_kernel_set() {
  static const KernelSet kernel_set = highway_kernel_set();
  return kernel_set;
}

void depthwise(const Call& call, const Depthwise& command, const ConvolutionMemory& memory) {
  is_dense(command) ? convolve(call, command, memory)
                    : base_kernel_set().kernels.depthwise(call, command, memory);
}

void pack_depthwise(const Target& target, const Depthwise& command, const int8_t* weights,
                    const std::byte* parameters, PackedConvolution& packed) {
  is_dense(command)
      ? pack_dense(target, command, weights, parameters, packed)
      : base_kernel_set().pack_depthwise(target, command, weights, parameters, packed);
}

}  // namespace

const KernelSet* vnni_kernel_set() {
  static const bool supported = vnni_supported();
  if (!supported || base_kernel_set().pack_depthwise == nullptr) return nullptr;
  static const KernelSet kernel_set = [] {
    KernelSet made = base_kernel_set();
    made.name = "AVX3_VNNI";
    made.kernels.conv2d = convolve<Conv2d>;
    made.kernels.depthwise = depthwise;
    made.pack_conv2d = pack_dense<Conv2d>;
    made.pack_depthwise = pack_depthwise;
    return made;
  }();
  return &kernel_set;
}

const KernelSet& best_kernel_set() {
  const KernelSet* vnni = vnni_kernel_set();
  return vnni != nullptr ? *vnni : highway_kernel_set();
}

}  // namespace dtr::simulator
