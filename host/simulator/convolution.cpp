#include "host/simulator/convolution.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace dtr::simulator {

void pack_parameters(const npu::Target& target, const npu::Window& window,
                     const npu::Epilogue& epilogue, const std::byte* parameters,
                     std::span<const uint32_t> magnitudes, size_t count,
                     PackedConvolution& packed) {
  constexpr int32_t kMostRight = 22;
  const ChannelParameters from(target, window, parameters);
  for (AlignedVector<int32_t>* list : {&packed.bias, &packed.multiplier, &packed.left_shift,
                                       &packed.right_shift, &packed.rounding, &packed.sign_mask})
    list->assign(count, 0);
  packed.one_rounding = (epilogue.flags & npu::kOneRounding) != 0;
  packed.cannot_overflow = !packed.one_rounding;
  for (uint32_t channel = 0; channel < window.out_channels; ++channel) {
    const int32_t shift = from.shift(channel);
    const int32_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
    const int32_t bias = from.bias(channel);
    packed.bias[channel] = bias;
    packed.multiplier[channel] = from.multiplier(channel);
    packed.left_shift[channel] = left;
    packed.right_shift[channel] = right;
    const uint64_t bound =
        static_cast<uint64_t>(std::abs(int64_t{bias})) + 128 * uint64_t{magnitudes[channel]};
    if (right > kMostRight || bound << (left + 1) > INT32_MAX) {
      packed.cannot_overflow = false;
      continue;
    }
    packed.rounding[channel] =
        (right > 0 ? 1 << (right - 1) : 0) + epilogue.zero_point_out * (1 << right);
    packed.sign_mask[channel] = right > 0 ? -1 : 0;
  }
}

Fold fold_of(const npu::Window& window, const npu::Epilogue& epilogue,
             std::span<const uint32_t> magnitudes, const PackedConvolution& packed) {
  const bool once = (epilogue.flags & npu::kOneRounding) != 0;
  bool floor = once || epilogue.zero_point_out <= epilogue.clamp_low, away = !once;
  for (uint32_t channel = 0; channel < window.out_channels; ++channel) {
    const int32_t right = packed.right_shift[channel];
    const uint64_t bound = static_cast<uint64_t>(std::abs(int64_t{packed.bias[channel]})) +
                           128 * uint64_t{magnitudes[channel]};
    if (packed.left_shift[channel] != 0) return Fold::kNone;
    floor = floor && right >= 1 && right <= 22;
    away = away && right <= 21 && bound < uint64_t{1} << 29;
  }
  return floor ? Fold::kFloor : away ? Fold::kAwayFromZero : Fold::kNone;
}

Folded::Folded(Fold fold, int32_t right, int32_t zero_point, bool one_rounding) {
  if (fold == Fold::kFloor) {
    floor = (int64_t{1} << (30 + right)) + (one_rounding ? 0 : int64_t{1} << 30) +
            zero_point * (int64_t{1} << (31 + right));
  } else {
    added = 1 + (right > 0 ? 1 << right : 0) + zero_point * (1 << (right + 1));
    negative = right > 0 ? -2 : 0;
  }
}

void fold_parameters(const npu::Epilogue& epilogue, uint32_t lanes, size_t first, size_t count,
                     PackedConvolution& packed) {
  if (packed.fold == Fold::kNone) return;
  for (size_t i = 0; i < count; ++i) {
    const Folded folded(packed.fold, packed.right_shift[first + i], epilogue.zero_point_out,
                        (epilogue.flags & npu::kOneRounding) != 0);
    const size_t lane = i % lanes;
    int32_t* const of_vector = packed.folded.data() + 2 * (first + i - lane);
    if (packed.fold == Fold::kFloor) {
      std::memcpy(of_vector + lane % 2 * lanes + lane / 2 * 2, &folded.floor, sizeof folded.floor);
    } else {
      of_vector[lane] = folded.added;
      of_vector[lanes + lane] = folded.negative;
    }
  }
}

void read_kernel_row(const npu::Target& target, const npu::Conv2d& command, const int8_t* weights,
                     uint32_t channel, uint32_t kernel_y, int8_t* row) {
  const npu::Window& w = command.window;
  const ConvolutionWeights at(target, command);
  const bool joined = command.packing == npu::Packing::kRows;
  const uint32_t run = joined ? w.kernel_width * w.in_channels : w.in_channels;
  const size_t step_bytes = size_t{target.pipelines} * target.macs;
  for (uint32_t x = 0; x < (joined ? 1 : w.kernel_width); ++x) {
    const int8_t* from = weights + at.index(channel, kernel_y, x, 0);
    for (uint32_t i = 0; i < run; i += target.macs, from += step_bytes)
      std::memcpy(row + i, from, std::min(target.macs, run - i));
    row += run;
  }
}

void read_kernel_row(const npu::Target& target, const npu::Depthwise& command,
                     const int8_t* weights, uint32_t channel, uint32_t kernel_y, int8_t* row) {
  const uint32_t columns = command.window.kernel_width;
  for (uint32_t x = 0; x < columns; ++x)
    row[x] =
        weights[depthwise_weight_index(target, command.window, channel, kernel_y * columns + x)];
}

namespace {

bool evenly_spaced(const npu::Strides& strides, const npu::Window& w, bool across_rows) {
  return strides.row == uint64_t{strides.pixel} * w.out_width &&
         (!across_rows || strides.batch == uint64_t{strides.row} * w.out_height);
}

}  // namespace

BandOutput::BandOutput(const Kernels& kernels, const Call& call, const npu::Window& window,
                       const npu::Epilogue& epilogue, const ConvolutionMemory& memory,
                       const ConvolutionPlan& plan, bool dense)
    : kernels_(kernels),
      call_(call),
      window_(window),
      epilogue_(epilogue),
      memory_(memory),
      staged_(memory.table != nullptr || memory.addend != nullptr ||
              !evenly_spaced(window.out, window,
                             plan.window.out_height != window.out_height ||
                                 plan.window.batch != window.batch) ||
              (dense && window.out.pixel != window.out_channels)),
      buffer_(staged_ ? static_cast<KernelSetContext*>(call.context)
                            ->staging_of(size_t{plan.band_rows} * plan.window.out_width *
                                         window.out_channels)
                      : nullptr) {}

// `count` elements of one position, or of several without gaps between them.
void BandOutput::finish_run(int8_t* values, size_t first, uint32_t count) const {
  int8_t* output = memory_.output + offset(window_.out, first);
  if (memory_.table != nullptr) {
    const npu::Lookup lookup = npu::dense_lookup(count);
    int8_t* looked_up = memory_.addend != nullptr ? values : output;
    kernels_.lookup(call_, lookup, values, memory_.table, looked_up);
  }
  if (memory_.addend != nullptr) {
    npu::Binary add = npu::dense_binary(npu::BinaryKind::kAdd, count);
    add.arguments = epilogue_.add;
    kernels_.binary(call_, add, values, memory_.addend + offset(epilogue_.addend_strides, first),
                    output);
  }
  if (memory_.table == nullptr && memory_.addend == nullptr) std::memcpy(output, values, count);
}

void BandOutput::finish(size_t first, size_t count) const {
  if (!staged_) return;
  const uint32_t channels = window_.out_channels;
  const auto gapless = [&](const npu::Strides& strides) {
    return strides.pixel == channels && evenly_spaced(strides, window_, true);
  };
  const bool with_addend = memory_.addend != nullptr;
  if (gapless(window_.out) && (!with_addend || gapless(epilogue_.addend_strides)))
    return finish_run(buffer_, first, static_cast<uint32_t>(count * channels));
  const bool whole_rows =
      window_.out.pixel == channels && (!with_addend || epilogue_.addend_strides.pixel == channels);
  for (size_t done = 0; done < count;) {
    const size_t rest_of_row = window_.out_width - (first + done) % window_.out_width;
    const size_t run = whole_rows ? std::min(rest_of_row, count - done) : 1;
    finish_run(buffer_ + done * channels, first + done, static_cast<uint32_t>(run * channels));
    done += run;
  }
}

}  // namespace dtr::simulator
