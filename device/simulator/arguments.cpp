#include "device/simulator/arguments.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/numerics/normalize.h"
#include "device/numerics/resize.h"
#include "device/numerics/softmax.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

constexpr bool is_int8(int32_t value) { return value >= -128 && value <= 127; }
constexpr bool is_clamp(int32_t low, int32_t high) { return is_int8(low) && is_int8(high) && low <= high; }
constexpr bool within(uint32_t value, uint32_t most) { return value >= 1 && value <= most; }
constexpr bool rescale_valid(const Rescale& rescale) { return simulator::rescale_valid(rescale.multiplier, rescale.shift); }

constexpr bool pad_valid(int32_t pad) { return pad >= -kMaxPad && pad <= kMaxPad; }

// No two elements of the box lie at one place: each level's neighbours are as far apart as what is inside of it is long.
bool apart(const Strides& strides, uint32_t batch, uint32_t height, uint32_t width, uint32_t channels) {
  uint64_t length = channels;
  for (const auto& [count, stride] : {std::pair{width, strides.pixel}, std::pair{height, strides.row}, std::pair{batch, strides.batch}}) {
    if (count == 1) continue;
    if (stride < length || count > UINT32_MAX / uint64_t{stride}) return false;
    length += (count - uint64_t{1}) * stride;
  }
  return true;
}

// Positions stay far from the ends of 32 bits: with strides and kernels of at most max_kernel no coordinate can overflow 64 bits.
bool window_valid(const Target& target, const Window& w) {
  const bool extents = w.batch != 0 && w.in_height != 0 && w.in_width != 0 && w.in_channels != 0 && w.out_height != 0 && w.out_width != 0 &&
                       w.out_channels != 0;
  const bool kernel = within(w.kernel_height, target.max_kernel) && within(w.kernel_width, target.max_kernel) &&
                      within(w.stride_height, target.max_kernel) && within(w.stride_width, target.max_kernel) &&
                      within(w.dilation_height, target.max_kernel) && within(w.dilation_width, target.max_kernel);
  return extents && kernel && pad_valid(w.pad_top) && pad_valid(w.pad_left) &&
         apart(w.out, w.batch, w.out_height, w.out_width, w.out_channels);
}

bool binary_valid(BinaryKind kind, const BinaryArguments& a) {
  if (kind > BinaryKind::kPrelu) return false;
  // Inputs of sums are only ever scaled down: the sum of two of 2^28 at most stays inside 32 bits.
  const bool sum = kind == BinaryKind::kAdd || kind == BinaryKind::kSubtract;
  if (sum && (a.input_0.shift > 0 || a.input_1.shift > 0)) return false;
  return is_int8(a.zero_point_0) && is_int8(a.zero_point_1) && is_int8(a.zero_point_out) && rescale_valid(a.input_0) &&
         rescale_valid(a.input_1) && rescale_valid(a.output) && is_clamp(a.clamp_low, a.clamp_high);
}

bool epilogue_valid(const Epilogue& e) {
  const uint32_t known = (e.flags & kToSums) != 0 ? kToSums | kFromSums : kWithTable | kWithAdd | kOneRounding | kFromSums;
  return is_int8(e.zero_point_out) && is_clamp(e.clamp_low, e.clamp_high) && (e.flags & ~known) == 0 &&
         ((e.flags & kWithAdd) == 0 || binary_valid(BinaryKind::kAdd, e.add));
}

// Each window of one axis has a tap inside of the input.
bool every_window_hits(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t dilation, int64_t pad) {
  for (int64_t position = 0; position < out; ++position) {
    const int64_t start = position * stride - pad;
    const int64_t first = start >= 0 ? 0 : (dilation - 1 - start) / dilation;  // first tap that is not before the input
    if (first >= kernel || start + first * dilation >= in) return false;
    if (start >= 0 && start + (out - 1 - position) * stride < in) return true;  // so do all that follow
  }
  return true;
}

// At most `most` indices, and at least one.
bool box_valid(const uint32_t (&extent)[kMoveRank], uint64_t most) {
  uint64_t elements = 1;
  for (const uint32_t each : extent) {
    elements *= each;
    if (elements == 0 || elements > most) return false;
  }
  return true;
}
constexpr bool index_valid(uint32_t bytes) { return bytes == sizeof(int32_t) || bytes == sizeof(int64_t); }
bool writes_once(const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank], int64_t element = 1) {
  for (uint32_t d = 0; d < kMoveRank; ++d)
    if (extent[d] > 1 && stride[d] < element && stride[d] > -element) return false;
  return true;
}
// Steps forward, and each loop over what the shorter steps cover goes beyond it: no two elements lie at one place.
bool walks_apart(const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank]) {
  int64_t length = 1;
  bool walked[kMoveRank] = {};
  for (uint32_t round = 0; round < kMoveRank; ++round) {
    uint32_t next = kMoveRank;
    for (uint32_t d = 0; d < kMoveRank; ++d)
      if (!walked[d] && extent[d] > 1 && (next == kMoveRank || stride[d] < stride[next])) next = d;
    if (next == kMoveRank) return true;
    if (stride[next] < length || extent[next] > INT64_MAX / 2 / stride[next] || length > INT64_MAX / 4) return false;
    length += (int64_t{extent[next]} - 1) * stride[next];
    walked[next] = true;
  }
  return true;
}

// Loops with these strides reach each byte of as many as they have elements, and each once.
template <size_t kLoops>
bool is_dense(const Target& target, std::array<uint32_t, kLoops> extent, const std::array<uint32_t, kLoops>& stride) {
  uint64_t covered = 1;
  for (size_t round = 0; round < kLoops; ++round)
    for (size_t loop = 0; loop < kLoops; ++loop) {
      if (extent[loop] <= 1 || stride[loop] != covered) continue;
      covered *= extent[loop];
      if (covered > target.sram_bytes) return false;
      extent[loop] = 1;
    }
  for (const uint32_t left : extent)
    if (left != 1) return false;
  return true;
}

}  // namespace

bool arguments_valid(const Target& target, const Conv2d& command) {
  const Window& w = command.window;
  if (!window_valid(target, w) || !epilogue_valid(command.epilogue) || !is_int8(command.pad_value)) return false;
  if (command.packing != Packing::kChannels && command.packing != Packing::kRows) return false;
  const bool by_rows = command.packing == Packing::kRows;
  if (by_rows && w.dilation_width != 1) return false;
  if (w.in_channels > target.max_reduction) return false;
  const uint64_t row = by_rows ? uint64_t{w.kernel_width} * w.in_channels : w.in_channels;
  const uint64_t padded = (row + target.macs - 1) / target.macs * target.macs;
  return padded * w.kernel_height * (by_rows ? 1 : w.kernel_width) <= target.max_reduction;
}

bool arguments_valid(const Target& target, const Depthwise& command) {
  const Window& w = command.window;
  return window_valid(target, w) && epilogue_valid(command.epilogue) && is_int8(command.pad_value) && w.out_channels % w.in_channels == 0 &&
         uint64_t{w.kernel_height} * w.kernel_width <= target.max_reduction;
}

bool arguments_valid(const Target& target, const Pool& command) {
  const Window& w = command.window;
  if (!window_valid(target, w) || w.in_channels != w.out_channels || !is_clamp(command.clamp_low, command.clamp_high)) return false;
  constexpr uint64_t kMaxTaps = uint64_t{1} << 23;  // a sum of that many differences of int8 values fits into 32 bits
  if (uint64_t{w.kernel_height} * w.kernel_width > kMaxTaps) return false;
  switch (command.kind) {
    case PoolKind::kMean:
      return is_int8(command.pad_value) && is_int8(command.zero_point_in) && is_int8(command.zero_point_out) &&
             rescale_valid(command.rescale);
    case PoolKind::kMax:
    case PoolKind::kAverage:
      // The outputs fit into SRAM, which bounds the walk over their positions.
      return w.out_height <= target.sram_bytes && w.out_width <= target.sram_bytes &&
             every_window_hits(w.in_height, w.out_height, w.kernel_height, w.stride_height, w.dilation_height, w.pad_top) &&
             every_window_hits(w.in_width, w.out_width, w.kernel_width, w.stride_width, w.dilation_width, w.pad_left);
  }
  return false;
}

// Outputs do not overlap, so there cannot be more elements than bytes in SRAM.
bool arguments_valid(const Target& target, const Binary& command) {
  return box_valid(command.extent, target.sram_bytes) && walks_apart(command.extent, command.output_stride) &&
         binary_valid(command.kind, command.arguments);
}

bool arguments_valid(const Target& target, const Lookup& command) {
  return box_valid(command.extent, target.sram_bytes) && walks_apart(command.extent, command.output_stride);
}

// The largest differences, scaled, must stay inside 32 bits; so must the logarithm of the sum, at most 2^30.
bool arguments_valid(const Target&, const Softmax& command) {
  if (command.outer == 0 || command.inner == 0 || command.columns == 0 || command.columns > numerics::kMaxSoftmaxColumns) return false;
  if (!rescale_valid(command.input_rescale) || !rescale_valid(command.output_rescale) || command.diff_min > 0 ||
      !is_int8(command.zero_point_out))
    return false;
  if (command.mask_rows != 0 && (command.kind != SoftmaxKind::kProbability || command.inner != 1 || command.outer % command.mask_rows != 0))
    return false;
  const auto scaled_fits = [](int64_t difference, int32_t shift) { return difference << (shift > 0 ? shift : 0) <= INT32_MAX; };
  if (!scaled_fits(command.diff_min < -255 ? 255 : -int64_t{command.diff_min}, command.input_rescale.shift)) return false;
  switch (command.kind) {
    case SoftmaxKind::kProbability:
      return true;
    case SoftmaxKind::kLogarithm:
      return rescale_valid(command.difference) && scaled_fits(255, command.difference.shift) && command.output_rescale.shift <= 1;
  }
  return false;
}

bool arguments_valid(const Target& target, const Matmul& command) {
  const bool numbers = command.inner != 0 && command.inner <= kMaxMatmulInner && is_int8(command.zero_point_left) &&
                       is_int8(command.zero_point_right) && is_int8(command.zero_point_out) && rescale_valid(command.rescale) &&
                       is_clamp(command.clamp_low, command.clamp_high) && (command.flags & ~uint32_t{kWithTable}) == 0;
  const uint32_t* const batch = command.batch;
  const uint32_t* const stride = command.output_batch_stride;
  static_assert(kMatmulBatchRank == 4);
  return numbers && is_dense<6>(target, {batch[0], batch[1], batch[2], batch[3], command.rows, command.columns},
                                {stride[0], stride[1], stride[2], stride[3], command.output_row_stride, command.output_column_stride});
}

bool arguments_valid(const Target& target, const Normalize& command) {
  const uint32_t* const extent = command.extent;
  const uint32_t* const stride = command.stride;
  static_assert(kNormalizeRank == 4);
  return is_dense<4>(target, {extent[0], extent[1], extent[2], extent[3]}, {stride[0], stride[1], stride[2], stride[3]}) &&
         uint64_t{extent[2]} * extent[3] <= numerics::kMaxNormalizeElements && command.center <= 1 && command.gain_shift <= 40 &&
         command.epsilon_high <= uint32_t{1} << 29 && is_int8(command.zero_point_in) && is_int8(command.zero_point_out) &&
         is_clamp(command.clamp_low, command.clamp_high);
}

bool arguments_valid(const Target& target, const Move& command) {
  return box_valid(command.extent, target.sram_bytes) && writes_once(command.extent, command.output_stride);
}

bool arguments_valid(const Target&, const Fill& command) { return command.bytes != 0 && is_int8(command.value); }

bool arguments_valid(const Target& target, const Reduce& command) {
  if (!box_valid(command.extent, target.sram_bytes) || !writes_once(command.extent, command.output_stride, result_bytes(command)))
    return false;
  // Bytes are differences of up to 255 + 128, values of int8 of 255: their sums fit into 32 bits. Every kind is summed up.
  constexpr uint64_t kMaxReducedBytes = INT32_MAX / (255 + 128);
  const bool bytes = command.kind == ReduceKind::kSumOfBytes;
  if (!box_valid(command.reduced_extent, bytes ? kMaxReducedBytes : kMaxReduced) || !is_int8(command.zero_point_in)) return false;
  if (!gives_index(command.kind) && command.index_bytes != 0) return false;
  switch (command.kind) {
    case ReduceKind::kMaximum:
    case ReduceKind::kMinimum:
      return is_clamp(command.clamp_low, command.clamp_high);
    case ReduceKind::kSum:
      return is_int8(command.zero_point_out) && rescale_valid(command.rescale) && is_clamp(command.clamp_low, command.clamp_high);
    case ReduceKind::kSumOfBytes:
      return is_int8(command.zero_point_out) && rescale_valid(command.rescale) && command.clamp_low >= 0 &&
             command.clamp_low <= command.clamp_high && command.clamp_high <= 255;
    case ReduceKind::kIndexOfMaximum:
    case ReduceKind::kIndexOfMinimum:
      return index_valid(command.index_bytes);
  }
  return false;
}

bool arguments_valid(const Target&, const Gather& command) {
  return command.outer != 0 && command.rows != 0 && command.count != 0 && command.inner != 0 && index_valid(command.index_bytes);
}

bool arguments_valid(const Target& target, const Resize& command) {
  const bool bilinear = command.kind == ResizeKind::kBilinear;
  if (!bilinear && command.kind != ResizeKind::kNearest) return false;
  const auto valid = [&](const ResizeAxis& axis) {
    return within(axis.in, target.sram_bytes) && within(axis.out, target.sram_bytes) && axis.step <= INT32_MAX &&
           axis.fraction_bits <= 30 && (!bilinear || axis.fraction_bits >= numerics::kResizeWeightBits);
  };
  return command.batch != 0 && command.channels != 0 && valid(command.height) && valid(command.width);
}

}  // namespace dtr::simulator
