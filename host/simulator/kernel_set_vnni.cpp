// The VNNI kernel set: its own convolutions; all other kernels are Highway's.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/simulator/loops.h"
#include "host/simulator/add_vbmi.h"
#include "host/simulator/conv_vnni.h"
#include "host/simulator/convolution.h"
#include "host/simulator/depthwise_vnni.h"
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
  explicit Blocks(const Window& w) : vectors((w.out_channels + kVnniLanes - 1) / kVnniLanes) {
    const bool one_position = w.batch == 1 && w.out_height == 1 && w.out_width == 1;
    count = one_position ? div_up(vectors, kVnniMostVectorsOfOnePosition)
                         : div_up(vectors, kVnniMostVectors);
  }
  uint32_t first(uint32_t block) const {
    return static_cast<uint32_t>(uint64_t{vectors} * block / count);
  }
};

// A pixel is all that a window reads, whole steps of it, and all lie inside of the input: then
// there is nothing to copy. Sets the offsets of a band's positions to where they are in the input.
bool read_in_place(ConvolutionPlan& plan) {
  const Window& w = plan.window;
  const auto inside = [](uint32_t out, uint32_t stride, uint32_t in) {
    return uint64_t{out - 1} * stride < in;
  };
  if (w.kernel_height != 1 || w.kernel_width != 1 || w.pad_top != 0 || w.pad_left != 0 ||
      w.in_channels % kVnniDepth != 0 || !inside(w.out_height, w.stride_height, w.in_height) ||
      !inside(w.out_width, w.stride_width, w.in_width))
    return false;
  const uint64_t step = uint64_t{w.stride_width} * w.in.pixel,
                 row = uint64_t{w.stride_height} * w.in.row;
  if ((plan.band_rows - 1) * row + (w.out_width - 1) * step > UINT32_MAX) return false;
  for (uint32_t y = 0; y < plan.band_rows; ++y)
    for (uint32_t x = 0; x < w.out_width; ++x)
      plan.offsets[size_t{y} * w.out_width + x] = static_cast<uint32_t>(y * row + x * step);
  return true;
}

// Conv2d, or a Depthwise that is_dense.
template <class Command>
void pack_dense(const Target& target, const Command& command, const int8_t* weights,
                const std::byte* parameters, PackedConvolution& packed) {
  packed.usable = !with_sums(command.epilogue) &&
                  make_plan(command.window, command.pad_value, 1, false, packed.plan);
  packed.columns = false;
  if (!packed.usable) return;
  packed.in_place = read_in_place(packed.plan);
  const Window& w = command.window;
  const Segments segments(packed.plan);
  packed.segments = segments.offsets;
  packed.steps = segments.steps();
  const uint32_t steps = segments.steps();
  const Blocks blocks(w);
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
  packed.fold = fold_of(w, command.epilogue, magnitudes, packed);
  packed.folded.assign(2 * packed.bias.size(), 0);
  fold_parameters(command.epilogue, kVnniLanes, 0, packed.bias.size(), packed);
  for (uint32_t channel = 0; channel < w.out_channels; ++channel)
    packed.bias[channel] =
        static_cast<int32_t>(static_cast<uint32_t>(packed.bias[channel]) - 128 * sums[channel]);
}

VnniLanes lanes_at(const PackedConvolution& packed, size_t lane) {
  return {packed.multiplier.data() + lane, packed.left_shift.data() + lane,
          packed.right_shift.data() + lane, packed.folded.data() + 2 * lane};
}

// Rows [begin, end) of the output, counted through all images.
template <class Command>
void convolve_rows(const Call& call, const Command& command, const ConvolutionMemory& memory,
                   const PackedConvolution* packed, uint32_t begin, uint32_t end) {
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const ConvolutionPlan& plan = packed->plan;
  const Window& w = plan.window;
  const Blocks blocks(w);
  const BandOutput outputs(vnni_kernel_set()->kernels, call, command.window, command.epilogue,
                           memory, plan, false);
  std::byte* band = packed->in_place ? nullptr : context.band_of(plan.band_bytes());
  for (uint32_t rows = 0; begin < end; begin += rows) {
    const uint32_t image = begin / w.out_height, row = begin % w.out_height;
    rows = std::min({plan.band_rows, w.out_height - row, end - begin});
    if (!packed->in_place) plan.load_band(memory.input, image, row, rows, vnni_to_unsigned, band);
    const int8_t* const in = memory.input + place(w.in, image, row * w.stride_height, 0);
    const auto* weights = reinterpret_cast<const int8_t*>(packed->weights.data());
    const size_t first_position = (size_t{image} * w.out_height + row) * w.out_width;
    int8_t* output = outputs.begin(first_position);
    for (uint32_t index = 0; index < blocks.count; ++index) {
      const uint32_t first = blocks.first(index) * kVnniLanes;
      VnniBlock block{};
      block.band = packed->in_place ? reinterpret_cast<const uint8_t*>(in)
                                    : reinterpret_cast<const uint8_t*>(band);
      block.signed_input = packed->in_place;
      block.offsets = plan.offsets.data();
      block.positions = rows * w.out_width;
      block.segments = packed->segments.data();
      block.segment_count = static_cast<uint32_t>(packed->segments.size());
      block.steps = packed->steps;
      block.vectors = blocks.first(index + 1) - blocks.first(index);
      block.weights = weights;
      block.bias = packed->bias.data() + first;
      block.lanes = lanes_at(*packed, first);
      block.fold = packed->fold;
      block.one_rounding = packed->one_rounding;
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

template <class Command>
void convolve(const Call& call, const Command& command, const ConvolutionMemory& memory) {
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const PackedConvolution* packed = context.packed[call.command];
  if (packed == nullptr) {
    pack_dense(call.target, command, memory.weights, memory.parameters, context.packed_now);
    packed = &context.packed_now;
  }
  if (!packed->usable) return run_plain(call, command, memory);
  const Window& w = packed->plan.window;
  in_parts(call, w.batch * w.out_height, products_of(w, w.in_channels),
           [&](const Call& part, uint32_t begin, uint32_t end) {
             convolve_rows(part, command, memory, packed, begin, end);
           });
}

// Highway's kernel set does what has no convolution's form.
const KernelSet& base_kernel_set() {
  static const KernelSet kernel_set = highway_kernel_set();
  return kernel_set;
}

// From the order of channels to that of lanes.
void arrange_columns(const AlignedVector<int32_t>& from, uint32_t channels,
                     AlignedVector<int32_t>& to) {
  to.clear();
  for (uint32_t index = 0; index < vnni_columns_blocks(channels); ++index) {
    const VnniColumnsBlock block = vnni_columns_block(channels, index);
    for (uint32_t lane = 0; lane < block.lanes(); ++lane) {
      const uint32_t channel = block.channel(lane);
      to.push_back(channel < channels ? from[channel] : 0);
    }
  }
}

// False if the kernel is not made for the command.
bool pack_columns(const Target& target, const Depthwise& command, const int8_t* weights,
                  const std::byte* parameters, PackedConvolution& packed) {
  constexpr uint32_t kFewestChannels = 24;  // with fewer, most lanes would be idle
  const Window& w = command.window;
  const uint32_t channels = w.out_channels;
  packed.usable = packed.columns = w.in_channels == channels && channels >= kFewestChannels &&
                                   w.kernel_height <= kVnniRows && w.kernel_width == kVnniColumns &&
                                   w.dilation_width == 1 && w.stride_width <= kVnniWidestStride &&
                                   !with_sums(command.epilogue) &&
                                   make_plan(w, command.pad_value, 1, true, packed.plan);
  if (!packed.columns) return false;
  std::vector<uint32_t> sums(channels), magnitudes(channels);
  const auto weight = [&](uint32_t channel, uint32_t y, uint32_t x) {
    return weights[depthwise_weight_index(target, w, channel, y * kVnniColumns + x)];
  };
  for (uint32_t channel = 0; channel < channels; ++channel)
    for (uint32_t tap = 0; tap < w.kernel_height * kVnniColumns; ++tap) {
      sums[channel] += static_cast<uint32_t>(weight(channel, 0, tap));
      magnitudes[channel] += static_cast<uint32_t>(std::abs(weight(channel, 0, tap)));
    }
  PackedConvolution plain;
  pack_parameters(target, w, command.epilogue, parameters, magnitudes, channels, plain);
  packed.fold = fold_of(w, command.epilogue, magnitudes, plain);
  packed.usable = packed.columns = packed.fold != Fold::kNone;
  if (!packed.columns) return false;
  for (uint32_t channel = 0; channel < channels; ++channel)
    plain.bias[channel] =
        static_cast<int32_t>(static_cast<uint32_t>(plain.bias[channel]) - 128 * sums[channel]);
  arrange_columns(plain.bias, channels, packed.bias);
  arrange_columns(plain.multiplier, channels, packed.multiplier);
  arrange_columns(plain.right_shift, channels, packed.right_shift);
  arrange_columns(plain.left_shift, channels, packed.left_shift);
  packed.weights.assign(packed.bias.size() * kVnniColumns * kVnniDepth, std::byte{0});
  packed.folded.assign(2 * packed.bias.size(), 0);
  auto* to = reinterpret_cast<int8_t*>(packed.weights.data());
  size_t first_lane = 0;
  for (uint32_t index = 0; index < vnni_columns_blocks(channels); ++index) {
    const VnniColumnsBlock block = vnni_columns_block(channels, index);
    fold_parameters(command.epilogue, block.lanes() / 4, first_lane, block.lanes(), packed);
    first_lane += block.lanes();
    for (uint32_t x = 0; x < kVnniColumns; ++x)
      for (uint32_t lane = 0; lane < block.lanes(); ++lane, to += kVnniDepth)
        if (const uint32_t channel = block.channel(lane); channel < channels)
          for (uint32_t y = 0; y < w.kernel_height; ++y) to[y] = weight(channel, y, x);
  }
  return true;
}

void convolve_columns(const Call& call, const Depthwise& command, const ConvolutionMemory& memory,
                      const PackedConvolution& packed, uint32_t begin, uint32_t end) {
  const ConvolutionPlan& plan = packed.plan;
  const Window& w = plan.window;
  const BandOutput outputs(vnni_kernel_set()->kernels, call, command.window, command.epilogue,
                           memory, plan, false);
  alignas(64) int8_t padding[64];
  std::fill(std::begin(padding), std::end(padding), static_cast<int8_t>(command.pad_value));
  VnniColumns row{};
  row.in_columns = w.in_width;
  row.first_column = -w.pad_left;
  row.stride = w.stride_width;
  row.pad = static_cast<int8_t>(command.pad_value);
  row.outputs = w.out_width;
  row.fold = packed.fold;
  row.clamp_low = command.epilogue.clamp_low;
  row.clamp_high = command.epilogue.clamp_high;
  row.output_stride = outputs.pixel_stride();
  for (uint32_t count = 0; begin < end; begin += count) {
    const uint32_t image = begin / w.out_height, first = begin % w.out_height;
    count = std::min({plan.band_rows, w.out_height - first, end - begin});
    const size_t position = (size_t{image} * w.out_height + first) * w.out_width;
    int8_t* output = outputs.begin(position);
    for (uint32_t y = first; y < first + count;
         ++y, output += size_t{w.out_width} * row.output_stride) {
      size_t lane = 0;
      for (uint32_t index = 0; index < vnni_columns_blocks(w.out_channels); ++index) {
        const VnniColumnsBlock block = vnni_columns_block(w.out_channels, index);
        for (uint32_t tap = 0; tap < kVnniRows; ++tap) {
          const int64_t at = int64_t{y} * w.stride_height - w.pad_top +
                             int64_t{std::min(tap, w.kernel_height - 1)} * w.dilation_height;
          const bool inside = at >= 0 && at < w.in_height;
          row.rows[tap] =
              inside ? memory.input + place(w.in, image, static_cast<uint32_t>(at), 0) + block.first
                     : padding;
          row.steps[tap] = inside ? w.in.pixel : 0;
        }
        row.wide = block.wide;
        row.channels = block.channels;
        row.weights = reinterpret_cast<const int8_t*>(packed.weights.data()) +
                      lane * kVnniColumns * kVnniDepth;
        row.bias = packed.bias.data() + lane;
        row.lanes = lanes_at(packed, lane);
        row.output = output + block.first;
        vnni_depthwise(row);
        lane += block.lanes();
      }
    }
    outputs.finish(position, size_t{count} * w.out_width);
  }
}

void pack_depthwise(const Target& target, const Depthwise& command, const int8_t* weights,
                    const std::byte* parameters, PackedConvolution& packed) {
  if (is_dense(command)) return pack_dense(target, command, weights, parameters, packed);
  if (!pack_columns(target, command, weights, parameters, packed))
    base_kernel_set().pack_depthwise(target, command, weights, parameters, packed);
}

void depthwise(const Call& call, const Depthwise& command, const ConvolutionMemory& memory) {
  if (is_dense(command)) return convolve(call, command, memory);
  auto& context = *static_cast<KernelSetContext*>(call.context);
  const PackedConvolution* packed = context.packed[call.command];
  if (packed == nullptr) {
    pack_depthwise(call.target, command, memory.weights, memory.parameters, context.packed_now);
    packed = &context.packed_now;
  }
  if (packed->columns)
    return in_parts(call, command.window.batch * command.window.out_height,
                    products_of(command.window, kDepthwiseCost),
                    [&](const Call& part, uint32_t begin, uint32_t end) {
                      convolve_columns(part, command, memory, *packed, begin, end);
                    });
  base_kernel_set().kernels.depthwise(call, command, memory);
}

const VbmiAdd* sum_of(const Call& call, const Binary& command) {
  static const bool supported = vbmi_supported();
  if (!supported || command.kind > BinaryKind::kSubtract) return nullptr;
  auto& sums = static_cast<KernelSetContext*>(call.context)->sums;
  if (sums.size() <= call.command) sums.resize(call.command + 1);
  KernelSetContext::Sum& sum = sums[call.command];
  if (!sum.tried) {
    sum.tried = true;
    sum.add = std::make_unique<VbmiAdd>();
    if (!sum.add->prepare(command.kind, command.arguments)) sum.add.reset();
  }
  return sum.add.get();
}

void binary(const Call& call, const Binary& command, const int8_t* input_0, const int8_t* input_1,
            int8_t* output) {
  constexpr uint32_t kInner = kMoveRank - 1;
  const bool dense = command.stride_0[kInner] == 1 && command.stride_1[kInner] == 1 &&
                     command.output_stride[kInner] == 1;
  const VbmiAdd* const add = dense ? sum_of(call, command) : nullptr;
  if (add == nullptr)
    return base_kernel_set().kernels.binary(call, command, input_0, input_1, output);
  uint32_t index[kMoveRank] = {};
  Stream stream_0{command.stride_0}, stream_1{command.stride_1}, stream{command.output_stride};
  do
    add->run(input_0 + stream_0.at, input_1 + stream_1.at, command.extent[kInner],
             output + stream.at);
  while (advance(command.extent, kInner, index, stream_0, stream_1, stream));
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
    made.kernels.binary = binary;
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
