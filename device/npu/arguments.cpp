#include "device/npu/arguments.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "device/numerics/normalize.h"
#include "device/numerics/resize.h"
#include "device/numerics/softmax.h"

namespace dtr::npu {
namespace {

constexpr bool is_int8(int32_t value) { return value >= -128 && value <= 127; }
constexpr bool is_clamp(int32_t low, int32_t high) {
  return is_int8(low) && is_int8(high) && low <= high;
}
constexpr bool within(uint32_t value, uint32_t most) { return value >= 1 && value <= most; }
constexpr bool rescale_valid(const Rescale& rescale) {
  return npu::rescale_valid(rescale.multiplier, rescale.shift);
}

constexpr bool pad_valid(int32_t pad) { return pad >= -kMaxPad && pad <= kMaxPad; }

// No two elements of the box have one address: each level's neighbours are as far apart as what is
// inside of it is long.
bool elements_disjoint(const Strides& strides, uint32_t batch, uint32_t height, uint32_t width,
                       uint32_t channels) {
  uint64_t length = channels;
  for (const auto& [count, stride] :
       {std::pair{width, strides.pixel}, std::pair{height, strides.row},
        std::pair{batch, strides.batch}}) {
    if (count == 1) continue;
    if (stride < length || count > UINT32_MAX / uint64_t{stride}) return false;
    length += (count - uint64_t{1}) * stride;
  }
  return true;
}

// Positions stay far from the ends of 32 bits: with strides and kernels of at most max_kernel no
// coordinate can overflow 64 bits.
bool window_valid(const Target& target, const Window& w) {
  const bool extents = w.batch != 0 && w.in_height != 0 && w.in_width != 0 && w.in_channels != 0 &&
                       w.out_height != 0 && w.out_width != 0 && w.out_channels != 0;
  const bool kernel =
      within(w.kernel_height, target.max_kernel) && within(w.kernel_width, target.max_kernel) &&
      within(w.stride_height, target.max_kernel) && within(w.stride_width, target.max_kernel) &&
      within(w.dilation_height, target.max_kernel) && within(w.dilation_width, target.max_kernel);
  return extents && kernel && pad_valid(w.pad_top) && pad_valid(w.pad_left) &&
         elements_disjoint(w.out, w.batch, w.out_height, w.out_width, w.out_channels);
}

bool binary_valid(BinaryKind kind, const BinaryArguments& a) {
  if (kind > BinaryKind::kPrelu) return false;
  // Inputs of sums are only ever scaled down: the sum of two of 2^28 at most stays inside 32 bits.
  const bool sum = kind == BinaryKind::kAdd || kind == BinaryKind::kSubtract;
  if (sum && (a.input_0.shift > 0 || a.input_1.shift > 0)) return false;
  return is_int8(a.zero_point_0) && is_int8(a.zero_point_1) && is_int8(a.zero_point_out) &&
         rescale_valid(a.input_0) && rescale_valid(a.input_1) && rescale_valid(a.output) &&
         is_clamp(a.clamp_low, a.clamp_high);
}

bool epilogue_valid(const Epilogue& e) {
  const uint32_t known = (e.flags & kToSums) != 0
                             ? kToSums | kFromSums
                             : kWithTable | kWithAdd | kOneRounding | kFromSums;
  return is_int8(e.zero_point_out) && is_clamp(e.clamp_low, e.clamp_high) &&
         (e.flags & ~known) == 0 &&
         ((e.flags & kWithAdd) == 0 || binary_valid(BinaryKind::kAdd, e.add));
}

// Each window of one axis has a tap inside of the input.
bool every_window_hits(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride,
                       uint32_t dilation, int64_t pad) {
  for (int64_t position = 0; position < out; ++position) {
    const int64_t start = position * stride - pad;
    const int64_t first =
        start >= 0 ? 0
                   : (dilation - 1 - start) / dilation;  // first tap that is not before the input
    if (first >= kernel || start + first * dilation >= in) return false;
    if (start >= 0 && start + (out - 1 - position) * stride < in)
      return true;  // so do all that follow
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
constexpr bool index_valid(uint32_t bytes) {
  return bytes == sizeof(int32_t) || bytes == sizeof(int64_t);
}
bool writes_once(const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank],
                 int64_t element = 1) {
  for (uint32_t d = 0; d < kMoveRank; ++d)
    if (extent[d] > 1 && stride[d] < element && stride[d] > -element) return false;
  return true;
}
// Steps forward, and each loop over what the shorter steps cover goes beyond it: no two elements
// have one address.
bool walk_is_disjoint(const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank]) {
  int64_t length = 1;
  bool walked[kMoveRank] = {};
  for (uint32_t round = 0; round < kMoveRank; ++round) {
    uint32_t next = kMoveRank;
    for (uint32_t d = 0; d < kMoveRank; ++d)
      if (!walked[d] && extent[d] > 1 && (next == kMoveRank || stride[d] < stride[next])) next = d;
    if (next == kMoveRank) return true;
    if (stride[next] < length || extent[next] > INT64_MAX / 2 / stride[next] ||
        length > INT64_MAX / 4)
      return false;
    length += (int64_t{extent[next]} - 1) * stride[next];
    walked[next] = true;
  }
  return true;
}

// Loops with these strides reach each byte of as many as they have elements, and each once.
template <size_t kLoops>
bool is_dense(const Target& target, std::array<uint32_t, kLoops> extent,
              const std::array<uint32_t, kLoops>& stride) {
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

// ---- memory

constexpr uint64_t groups(const Target& target, uint64_t channels) {
  return (channels + target.pipelines - 1) / target.pipelines;
}

uint64_t parameter_bytes(const Target& target, const Window& w) {
  return product({groups(target, w.out_channels), target.pipelines, 12});
}

void push(Accesses& list, Address address, uint64_t bytes, bool in_place = false) {
  list.list[list.count++] = {
      .address = address, .bytes = bytes, .in_place = in_place, .run = bytes};
}
void push_output(Accesses& list, Address address, uint64_t bytes) {
  list.list[list.count++] = {.address = address, .bytes = bytes, .write = true, .run = bytes};
}

// An image at its strides; pixels and rows without gaps between them are one run.
Access image(Address address, uint64_t batch, uint64_t height, uint64_t width, uint64_t channels,
             const Strides& strides) {
  Access access{.address = address, .bytes = channels, .run = channels};
  size_t level = 0;
  for (const Repeat& repeat :
       {Repeat{width, strides.pixel}, Repeat{height, strides.row}, Repeat{batch, strides.batch}}) {
    if (repeat.count == 0) return {.address = address};
    if (repeat.count == 1) continue;
    access.bytes += product({repeat.count - 1, repeat.stride});
    if (level == 0 && repeat.stride == access.run) {
      access.run = product({access.run, repeat.count});
    } else {
      access.repeats[level++] = repeat;
    }
  }
  return access;
}
Access input_image(Address address, const Window& w) {
  return image(address, w.batch, w.in_height, w.in_width, w.in_channels, w.in);
}
Access output_image(Address address, const Window& w) {
  Access access = image(address, w.batch, w.out_height, w.out_width, w.out_channels, w.out);
  access.write = true;
  return access;
}

template <class Command>
Accesses convolution_accesses(const Target& target, const Command& command, uint64_t weight_bytes) {
  Accesses list;
  const Window& w = command.window;
  list.list[list.count++] = input_image(command.input, w);
  push(list, command.weights, weight_bytes);
  push(list, command.parameters, parameter_bytes(target, w));
  if ((command.epilogue.flags & kWithTable) != 0) push(list, command.epilogue.table, 256);
  if ((command.epilogue.flags & kWithAdd) != 0) {
    Access& addend = list.list[list.count++];
    addend = image(command.epilogue.addend, w.batch, w.out_height, w.out_width, w.out_channels,
                   command.epilogue.addend_strides);
    addend.in_place = true;
  }
  const bool to_sums = (command.epilogue.flags & kToSums) != 0;
  const uint64_t sums = product(
      {groups(target, w.out_channels), target.pipelines, 4, w.batch, w.out_height, w.out_width});
  if ((command.epilogue.flags & kFromSums) != 0) push(list, command.epilogue.sums, sums, to_sums);
  if (to_sums) {
    push_output(list, command.output, sums);
  } else {
    list.list[list.count++] = output_image(command.output, w);
  }
  return list;
}

// From the first to behind the last byte of a box with these strides.
template <uint32_t kRank>
uint64_t span_of(const uint32_t (&extent)[kRank], const uint32_t (&stride)[kRank]) {
  uint64_t last = 0;
  for (uint32_t d = 0; d < kRank; ++d) last += product({extent[d] - uint64_t{1}, stride[d]});
  return last + 1;
}

// How far a strided box reaches before and behind its first element. Arguments have been checked,
// so that nothing overflows.
struct Reach {
  int64_t low = 0, high = 0;

  void extend(const uint32_t (&extent)[kMoveRank], const int32_t (&stride)[kMoveRank]) {
    for (uint32_t d = 0; d < kMoveRank; ++d)
      (stride[d] < 0 ? low : high) += (int64_t{extent[d]} - 1) * stride[d];
  }
  // As an access of everything from the first to behind the last byte; too large if it begins
  // before its region.
  Access from(Address address, bool write, uint32_t element = 1) const {
    const int64_t first = int64_t{address.offset} + low;
    if (first < 0) return {address, kTooLarge, write, false};
    return {{address.region, static_cast<uint32_t>(first)},
            static_cast<uint64_t>(high - low) + element,
            write,
            false};
  }
};

}  // namespace

bool arguments_valid(const Target& target, const Conv2d& command) {
  const Window& w = command.window;
  if (!window_valid(target, w) || !epilogue_valid(command.epilogue) || !is_int8(command.pad_value))
    return false;
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
  return window_valid(target, w) && epilogue_valid(command.epilogue) &&
         is_int8(command.pad_value) && w.out_channels % w.in_channels == 0 &&
         uint64_t{w.kernel_height} * w.kernel_width <= target.max_reduction;
}

bool arguments_valid(const Target& target, const Pool& command) {
  const Window& w = command.window;
  if (!window_valid(target, w) || w.in_channels != w.out_channels ||
      !is_clamp(command.clamp_low, command.clamp_high))
    return false;
  constexpr uint64_t kMaxTaps =
      uint64_t{1} << 23;  // a sum of that many differences of int8 values fits into 32 bits
  if (uint64_t{w.kernel_height} * w.kernel_width > kMaxTaps) return false;
  switch (command.kind) {
    case PoolKind::kMean:
      return is_int8(command.pad_value) && is_int8(command.zero_point_in) &&
             is_int8(command.zero_point_out) && rescale_valid(command.rescale);
    case PoolKind::kMax:
    case PoolKind::kAverage:
      // The outputs fit into SRAM, which bounds the walk over their positions.
      return w.out_height <= target.sram_bytes && w.out_width <= target.sram_bytes &&
             every_window_hits(w.in_height, w.out_height, w.kernel_height, w.stride_height,
                               w.dilation_height, w.pad_top) &&
             every_window_hits(w.in_width, w.out_width, w.kernel_width, w.stride_width,
                               w.dilation_width, w.pad_left);
  }
  return false;
}

// Outputs do not overlap, so there cannot be more elements than bytes in SRAM.
bool arguments_valid(const Target& target, const Binary& command) {
  return box_valid(command.extent, target.sram_bytes) &&
         walk_is_disjoint(command.extent, command.output_stride) &&
         binary_valid(command.kind, command.arguments);
}

bool arguments_valid(const Target& target, const Lookup& command) {
  return box_valid(command.extent, target.sram_bytes) &&
         walk_is_disjoint(command.extent, command.output_stride);
}

// The largest differences, scaled, must stay inside 32 bits; so must the logarithm of the sum, at
// most 2^30.
bool arguments_valid(const Target&, const Softmax& command) {
  if (command.outer == 0 || command.inner == 0 || command.columns == 0 ||
      command.columns > numerics::kMaxSoftmaxColumns)
    return false;
  if (!rescale_valid(command.input_rescale) || !rescale_valid(command.output_rescale) ||
      command.diff_min > 0 || !is_int8(command.zero_point_out))
    return false;
  if (command.mask_rows != 0 && (command.kind != SoftmaxKind::kProbability || command.inner != 1 ||
                                 command.outer % command.mask_rows != 0))
    return false;
  const auto scaled_fits = [](int64_t difference, int32_t shift) {
    return difference << (shift > 0 ? shift : 0) <= INT32_MAX;
  };
  if (!scaled_fits(command.diff_min < -255 ? 255 : -int64_t{command.diff_min},
                   command.input_rescale.shift))
    return false;
  switch (command.kind) {
    case SoftmaxKind::kProbability:
      return true;
    case SoftmaxKind::kLogarithm:
      return rescale_valid(command.difference) && scaled_fits(255, command.difference.shift) &&
             command.output_rescale.shift <= 1;
  }
  return false;
}

bool arguments_valid(const Target& target, const Matmul& command) {
  const bool numbers = command.inner != 0 && command.inner <= kMaxMatmulInner &&
                       is_int8(command.zero_point_left) && is_int8(command.zero_point_right) &&
                       is_int8(command.zero_point_out) && rescale_valid(command.rescale) &&
                       is_clamp(command.clamp_low, command.clamp_high) &&
                       (command.flags & ~uint32_t{kWithTable}) == 0;
  const uint32_t* const batch = command.batch;
  const uint32_t* const stride = command.output_batch_stride;
  static_assert(kMatmulBatchRank == 4);
  return numbers &&
         is_dense<6>(target,
                     {batch[0], batch[1], batch[2], batch[3], command.rows, command.columns},
                     {stride[0], stride[1], stride[2], stride[3], command.output_row_stride,
                      command.output_column_stride});
}

bool arguments_valid(const Target& target, const Normalize& command) {
  const uint32_t* const extent = command.extent;
  const uint32_t* const stride = command.stride;
  static_assert(kNormalizeRank == 4);
  return is_dense<4>(target, {extent[0], extent[1], extent[2], extent[3]},
                     {stride[0], stride[1], stride[2], stride[3]}) &&
         uint64_t{extent[2]} * extent[3] <= numerics::kMaxNormalizeElements &&
         command.center <= 1 && command.gain_shift <= 40 &&
         command.epsilon_high <= uint32_t{1} << 29 && is_int8(command.zero_point_in) &&
         is_int8(command.zero_point_out) && is_clamp(command.clamp_low, command.clamp_high);
}

bool arguments_valid(const Target& target, const Move& command) {
  return box_valid(command.extent, target.sram_bytes) &&
         writes_once(command.extent, command.output_stride);
}

bool arguments_valid(const Target&, const Fill& command) {
  return command.bytes != 0 && is_int8(command.value);
}

bool arguments_valid(const Target& target, const Reduce& command) {
  if (!box_valid(command.extent, target.sram_bytes) ||
      !writes_once(command.extent, command.output_stride, result_bytes(command)))
    return false;
  // Bytes are differences of up to 255 + 128, values of int8 of 255: their sums fit into 32 bits.
  // Every kind is summed up.
  constexpr uint64_t kMaxReducedBytes = INT32_MAX / (255 + 128);
  const bool bytes = command.kind == ReduceKind::kSumOfBytes;
  if (!box_valid(command.reduced_extent, bytes ? kMaxReducedBytes : kMaxReduced) ||
      !is_int8(command.zero_point_in))
    return false;
  if (!returns_index(command.kind) && command.index_bytes != 0) return false;
  switch (command.kind) {
    case ReduceKind::kMaximum:
    case ReduceKind::kMinimum:
      return is_clamp(command.clamp_low, command.clamp_high);
    case ReduceKind::kSum:
      return is_int8(command.zero_point_out) && rescale_valid(command.rescale) &&
             is_clamp(command.clamp_low, command.clamp_high);
    case ReduceKind::kSumOfBytes:
      return is_int8(command.zero_point_out) && rescale_valid(command.rescale) &&
             command.clamp_low >= 0 && command.clamp_low <= command.clamp_high &&
             command.clamp_high <= 255;
    case ReduceKind::kIndexOfMaximum:
    case ReduceKind::kIndexOfMinimum:
      return index_valid(command.index_bytes);
  }
  return false;
}

bool arguments_valid(const Target&, const Gather& command) {
  return command.outer != 0 && command.rows != 0 && command.count != 0 && command.inner != 0 &&
         index_valid(command.index_bytes);
}

bool arguments_valid(const Target& target, const Resize& command) {
  const bool bilinear = command.kind == ResizeKind::kBilinear;
  if (!bilinear && command.kind != ResizeKind::kNearest) return false;
  const auto valid = [&](const ResizeAxis& axis) {
    return within(axis.in, target.sram_bytes) && within(axis.out, target.sram_bytes) &&
           axis.step <= INT32_MAX && axis.fraction_bits <= 30 &&
           (!bilinear || axis.fraction_bits >= numerics::kResizeWeightBits);
  };
  return command.batch != 0 && command.channels != 0 && valid(command.height) &&
         valid(command.width);
}

// ---- memory

bool disjoint(const Access& a, const Access& b, int64_t distance) {
  const auto length = [](const Access& access) { return static_cast<int64_t>(access.bytes); };
  if (distance >= length(a) || -distance >= length(b)) return true;
  uint64_t period = 0;
  for (const Access* access : {&a, &b})
    for (const Repeat& repeat : access->repeats)
      if (repeat.count > 1) period = std::gcd(period, repeat.stride);
  if (period == 0 || period > kTooLarge) return false;
  const auto of = static_cast<int64_t>(period);
  const auto from = static_cast<uint64_t>(
      (distance % of + of) % of);  // of b's runs inside of the period that starts with a's
  return a.run <= from && from + b.run <= period;
}

Accesses accesses(const Target&, const Copy& command) {
  Accesses list;
  push(list, command.source, command.bytes);
  push_output(list, command.destination, command.bytes);
  return list;
}

Accesses accesses(const Target& target, const Conv2d& command) {
  const Window& w = command.window;
  const uint64_t steps =
      command.packing == Packing::kRows
          ? product({w.kernel_height,
                     (product({w.kernel_width, w.in_channels}) + target.macs - 1) / target.macs})
          : product({w.kernel_height, w.kernel_width,
                     (uint64_t{w.in_channels} + target.macs - 1) / target.macs});
  return convolution_accesses(
      target, command,
      product({groups(target, w.out_channels), steps, target.pipelines, target.macs}));
}

Accesses accesses(const Target& target, const Depthwise& command) {
  const Window& w = command.window;
  return convolution_accesses(
      target, command,
      product({groups(target, w.out_channels), w.kernel_height, w.kernel_width, target.pipelines}));
}

Accesses accesses(const Target&, const Pool& command) {
  Accesses list;
  list.list[list.count++] = input_image(command.input, command.window);
  list.list[list.count++] = output_image(command.output, command.window);
  return list;
}

namespace {

// A walk through a box in any order of its loops: an image where it steps forward in up to three
// levels, else its whole span.
Access walk(Address address, const uint32_t (&extent)[kMoveRank],
            const int32_t (&stride)[kMoveRank], bool write) {
  Reach reach;
  reach.extend(extent, stride);
  Access access = reach.from(address, write);
  access.run = access.bytes;
  std::array<Repeat, kMoveRank> levels{};
  size_t count = 0;
  for (uint32_t d = 0; d < kMoveRank; ++d) {
    if (extent[d] == 1) continue;
    if (stride[d] <= 0) return access;
    size_t at = count++;
    for (; at > 0 && levels[at - 1].stride > static_cast<uint32_t>(stride[d]); --at)
      levels[at] = levels[at - 1];
    levels[at] = {extent[d], static_cast<uint32_t>(stride[d])};
  }
  uint64_t run = 1;
  size_t inner = 0;
  for (; inner < count && levels[inner].stride == run; ++inner) run *= levels[inner].count;
  if (count - inner > access.repeats.size()) return access;
  access.run = run;
  for (size_t i = inner; i < count; ++i) access.repeats[i - inner] = levels[i];
  return access;
}

}  // namespace

Accesses accesses(const Target&, const Binary& command) {
  Accesses list;
  const auto push_input = [&](Address address, const int32_t(&stride)[kMoveRank]) {
    Access& access = list.list[list.count++] = walk(address, command.extent, stride, false);
    access.in_place = same_walk(command.extent, stride, command.output_stride);
  };
  push_input(command.input_0, command.stride_0);
  push_input(command.input_1, command.stride_1);
  list.list[list.count++] = walk(command.output, command.extent, command.output_stride, true);
  return list;
}

Accesses accesses(const Target&, const Lookup& command) {
  Accesses list;
  Access& input = list.list[list.count++] =
      walk(command.input, command.extent, command.input_stride, false);
  input.in_place = same_walk(command.extent, command.input_stride, command.output_stride);
  push(list, command.table, 256);
  list.list[list.count++] = walk(command.output, command.extent, command.output_stride, true);
  return list;
}

Accesses accesses(const Target&, const Softmax& command) {
  Accesses list;
  const uint64_t bytes = product({command.outer, command.columns, command.inner});
  push(list, command.input, bytes, true);
  if (command.mask_rows != 0)
    push(list, command.mask, product({command.mask_rows, command.columns}));
  push_output(list, command.output, bytes);
  return list;
}

Accesses accesses(const Target&, const Move& command) {
  Reach input, output;
  input.extend(command.extent, command.input_stride);
  output.extend(command.extent, command.output_stride);
  Accesses list;
  list.list[list.count++] = input.from(command.input, false);
  list.list[list.count++] = output.from(command.output, true);
  return list;
}

Accesses accesses(const Target&, const Matmul& command) {
  Accesses list;
  const auto span = [&](const uint32_t(&stride)[kMatmulBatchRank], std::array<uint32_t, 2> extents,
                        std::array<uint32_t, 2> strides) {
    const uint32_t matrix_extent[] = {extents[0], extents[1]};
    const uint32_t matrix_stride[] = {strides[0], strides[1]};
    return span_of(command.batch, stride) + span_of(matrix_extent, matrix_stride) - 1;
  };
  push(list, command.left,
       span(command.left_batch_stride, {command.rows, command.inner},
            {command.left_row_stride, command.left_inner_stride}));
  push(list, command.right,
       span(command.right_batch_stride, {command.inner, command.columns},
            {command.right_inner_stride, command.right_column_stride}));
  if ((command.flags & kWithTable) != 0) push(list, command.table, 256);
  push_output(list, command.output,
              span(command.output_batch_stride, {command.rows, command.columns},
                   {command.output_row_stride, command.output_column_stride}));
  return list;
}

Accesses accesses(const Target&, const Normalize& command) {
  Accesses list;
  const uint64_t bytes = span_of(command.extent, command.stride);
  push(list, command.input, bytes, true);
  push(list, command.parameters, product({span_of(command.extent, command.parameter_stride), 8}));
  push_output(list, command.output, bytes);
  return list;
}

Accesses accesses(const Target&, const Fill& command) {
  Accesses list;
  push_output(list, command.output, command.bytes);
  return list;
}

Accesses accesses(const Target&, const Reduce& command) {
  Reach input, output;
  input.extend(command.extent, command.input_stride);
  input.extend(command.reduced_extent, command.reduced_stride);
  output.extend(command.extent, command.output_stride);
  Accesses list;
  list.list[list.count++] = input.from(command.input, false);
  list.list[list.count++] = output.from(command.output, true, result_bytes(command));
  return list;
}

Accesses accesses(const Target&, const Gather& command) {
  Accesses list;
  push(list, command.input, product({command.outer, command.rows, command.inner}));
  push(list, command.indices, product({command.count, command.index_bytes}));
  push_output(list, command.output, product({command.outer, command.count, command.inner}));
  return list;
}

Accesses accesses(const Target&, const Resize& command) {
  Accesses list;
  push(list, command.input,
       product({command.batch, command.height.in, command.width.in, command.channels}));
  push_output(list, command.output,
              product({command.batch, command.height.out, command.width.out, command.channels}));
  return list;
}

}  // namespace dtr::npu
