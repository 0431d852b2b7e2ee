// Loops in the order of the definition, over the packed operands as the machine reads them. Sums
// wrap as 32-bit accumulators do.
#include "device/simulator/functional.h"

#include <cstring>

#include "device/npu/arguments.h"
#include "device/npu/cycles.h"
#include "device/numerics/binary.h"
#include "device/numerics/normalize.h"
#include "device/numerics/requantize.h"
#include "device/numerics/resize.h"
#include "device/numerics/softmax.h"
#include "device/simulator/loops.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using numerics::Range;

constexpr numerics::Requantization to_requantization(const Rescale& rescale) {
  return {rescale.multiplier, rescale.shift};
}

numerics::BinaryParameters to_binary(BinaryKind kind, const BinaryArguments& a) {
  return {static_cast<numerics::BinaryKind>(kind),
          a.zero_point_0,
          a.zero_point_1,
          to_requantization(a.input_0),
          to_requantization(a.input_1),
          {to_requantization(a.output), a.zero_point_out, {a.clamp_low, a.clamp_high}}};
}

struct Position {
  uint32_t batch, y, x;
  size_t of(const Strides& strides) const { return place(strides, batch, y, x); }
};

// Calls body(position) for each output position.
template <class Body>
void for_positions(const Window& w, Body body) {
  for (uint32_t b = 0; b < w.batch; ++b)
    for (uint32_t y = 0; y < w.out_height; ++y)
      for (uint32_t x = 0; x < w.out_width; ++x) body(Position{b, y, x});
}

// Input coordinate of a tap; negative or ≥ the extent where it lies in the padding.
constexpr int64_t coordinate(uint32_t position, uint32_t stride, uint32_t tap, uint32_t dilation,
                             int32_t pad) {
  return static_cast<int64_t>(uint64_t{position} * stride + uint64_t{tap} * dilation) - pad;
}

// Calls body(kernel_y, kernel_x, the tap's channels or null in the padding) for each tap of a
// window.
template <class Body>
void for_taps(const Window& w, const int8_t* input, Position at, Body body) {
  for (uint32_t ky = 0; ky < w.kernel_height; ++ky) {
    const int64_t y = coordinate(at.y, w.stride_height, ky, w.dilation_height, w.pad_top);
    for (uint32_t kx = 0; kx < w.kernel_width; ++kx) {
      const int64_t x = coordinate(at.x, w.stride_width, kx, w.dilation_width, w.pad_left);
      const bool inside = y >= 0 && y < w.in_height && x >= 0 && x < w.in_width;
      body(ky, kx,
           inside
               ? input + place(w.in, at.batch, static_cast<uint32_t>(y), static_cast<uint32_t>(x))
               : nullptr);
    }
  }
}

// Beginning and epilogue of one accumulator.
class Finish {
 public:
  Finish(const Target& target, const Window& window, const Epilogue& epilogue,
         const ConvolutionMemory& memory)
      : window_(window),
        epilogue_(epilogue),
        memory_(memory),
        pipelines_(target.pipelines),
        parameters_(target, window, memory.parameters),
        add_(to_binary(BinaryKind::kAdd, epilogue.add)) {}
  uint32_t start(Position at, uint32_t channel) const {
    const auto bias = static_cast<uint32_t>(parameters_.bias(channel));
    if (memory_.sums == nullptr) return bias;
    uint32_t sum = 0;
    std::memcpy(&sum, memory_.sums + place_of_sum(at, channel), sizeof sum);
    return bias + sum;
  }
  void operator()(Position at, uint32_t channel, uint32_t accumulator) const {
    if ((epilogue_.flags & kToSums) != 0) return keep(at, channel, accumulator);
    const numerics::OutputStage stage{{parameters_.multiplier(channel), parameters_.shift(channel)},
                                      epilogue_.zero_point_out,
                                      {epilogue_.clamp_low, epilogue_.clamp_high}};
    const auto sum = static_cast<int32_t>(accumulator);
    int8_t value =
        (epilogue_.flags & kOneRounding) != 0 ? stage.with_one_rounding(sum) : stage(sum);
    if ((epilogue_.flags & kWithTable) != 0) value = memory_.table[value + 128];
    if ((epilogue_.flags & kWithAdd) != 0)
      value = add_(value, memory_.addend[at.of(epilogue_.addend_strides) + channel]);
    memory_.output[at.of(window_.out) + channel] = value;
  }

 private:
  size_t place_of_sum(Position at, uint32_t channel) const {
    const size_t image = size_t{at.batch} * window_.out_height + at.y;
    const size_t positions = size_t{window_.batch} * window_.out_height * window_.out_width;
    const size_t position = channel / pipelines_ * positions + image * window_.out_width + at.x;
    return (position * pipelines_ + channel % pipelines_) * sizeof(int32_t);
  }
  // Pipelines without a channel give 0.
  void keep(Position at, uint32_t channel, uint32_t accumulator) const {
    std::memcpy(memory_.output + place_of_sum(at, channel), &accumulator, sizeof accumulator);
    if (channel + 1 == window_.out_channels)
      for (uint32_t none = channel + 1; none % pipelines_ != 0; ++none)
        std::memset(memory_.output + place_of_sum(at, none), 0, sizeof accumulator);
  }

  const Window& window_;
  const Epilogue& epilogue_;
  const ConvolutionMemory& memory_;
  uint32_t pipelines_;
  ChannelParameters parameters_;
  numerics::BinaryParameters add_;
};

}  // namespace

void plain::conv2d(const Call& call, const Conv2d& command, const ConvolutionMemory& memory) {
  const Window& w = command.window;
  const ConvolutionWeights weights(call.target, command);
  const Finish finish(call.target, w, command.epilogue, memory);
  for_positions(w, [&](Position at) {
    for (uint32_t channel = 0; channel < w.out_channels; ++channel) {
      uint32_t accumulator = finish.start(at, channel);
      for_taps(w, memory.input, at, [&](uint32_t ky, uint32_t kx, const int8_t* pixel) {
        for (uint32_t i = 0; i < w.in_channels; ++i) {
          const int32_t value = pixel != nullptr ? pixel[i] : command.pad_value;
          accumulator +=
              static_cast<uint32_t>(value * memory.weights[weights.index(channel, ky, kx, i)]);
        }
      });
      finish(at, channel, accumulator);
    }
  });
}

void plain::depthwise(const Call& call, const Depthwise& command, const ConvolutionMemory& memory) {
  const Window& w = command.window;
  const uint32_t outputs_per_input = w.out_channels / w.in_channels;
  const Finish finish(call.target, w, command.epilogue, memory);
  for_positions(w, [&](Position at) {
    for (uint32_t channel = 0; channel < w.out_channels; ++channel) {
      uint32_t accumulator = finish.start(at, channel);
      for_taps(w, memory.input, at, [&](uint32_t ky, uint32_t kx, const int8_t* pixel) {
        const int32_t value =
            pixel != nullptr ? pixel[channel / outputs_per_input] : command.pad_value;
        accumulator +=
            static_cast<uint32_t>(value * memory.weights[depthwise_weight_index(
                                              call.target, w, channel, ky * w.kernel_width + kx)]);
      });
      finish(at, channel, accumulator);
    }
  });
}

namespace {

int8_t pool_element(const Pool& command, const int8_t* input, Position at, uint32_t channel) {
  const Window& w = command.window;
  int32_t highest = -128, sum = 0, inside = 0;
  for_taps(w, input, at, [&](uint32_t, uint32_t, const int8_t* pixel) {
    if (pixel == nullptr) {
      if (command.kind == PoolKind::kMean) sum += command.pad_value;
      return;
    }
    const int32_t value = pixel[channel];
    highest = value > highest ? value : highest;
    sum += value;
    ++inside;
  });
  const Range range{command.clamp_low, command.clamp_high};
  switch (command.kind) {
    case PoolKind::kMax:
      return static_cast<int8_t>(range.clamp(highest));
    case PoolKind::kAverage:
      return static_cast<int8_t>(range.clamp(static_cast<int32_t>(
          numerics::rounded_mean(sum, inside > 0 ? inside : 1))));  // a window of padding alone: 0
    case PoolKind::kMean:
      break;
  }
  const auto taps = static_cast<int32_t>(w.kernel_height * w.kernel_width);
  return numerics::OutputStage{to_requantization(command.rescale), command.zero_point_out,
                               range}(sum - taps * command.zero_point_in);
}

}  // namespace

void plain::pool(const Call&, const Pool& command, const int8_t* input, int8_t* output) {
  const Window& w = command.window;
  for_positions(w, [&](Position at) {
    for (uint32_t channel = 0; channel < w.out_channels; ++channel)
      output[at.of(w.out) + channel] = pool_element(command, input, at, channel);
  });
}

void plain::binary(const Call&, const Binary& command, const int8_t* input_0, const int8_t* input_1,
                   int8_t* output) {
  const numerics::BinaryParameters function = to_binary(command.kind, command.arguments);
  uint32_t index[kMoveRank] = {};
  Stream from_0{command.stride_0}, from_1{command.stride_1}, to{command.output_stride};
  do output[to.at] = function(input_0[from_0.at], input_1[from_1.at]);
  while (advance(command.extent, kMoveRank, index, from_0, from_1, to));
}

void plain::lookup(const Call&, const Lookup& command, const int8_t* input, const int8_t* table,
                   int8_t* output) {
  uint32_t index[kMoveRank] = {};
  Stream from{command.input_stride}, to{command.output_stride};
  do output[to.at] = table[input[from.at] + 128];
  while (advance(command.extent, kMoveRank, index, from, to));
}

void plain::softmax(const Call&, const Softmax& command, const int8_t* input, const int8_t* mask,
                    int8_t* output) {
  const numerics::SoftmaxParameters parameters{
      to_requantization(command.input_rescale), command.diff_min,
      to_requantization(command.output_rescale), to_requantization(command.difference),
      command.zero_point_out};
  for (uint32_t outer = 0; outer < command.outer; ++outer)
    for (uint32_t inner = 0; inner < command.inner; ++inner) {
      const size_t start = size_t{outer} * command.columns * command.inner + inner;
      if (command.kind == SoftmaxKind::kLogarithm) {
        numerics::log_softmax(input + start, output + start, command.columns, command.inner,
                              parameters);
      } else {
        const int8_t* const row =
            mask == nullptr ? nullptr : mask + size_t{outer % command.mask_rows} * command.columns;
        numerics::softmax(input + start, output + start, command.columns, command.inner, parameters,
                          row);
      }
    }
}

void plain::move(const Call&, const Move& command, const int8_t* input, int8_t* output) {
  uint32_t index[kMoveRank] = {};
  Stream from{command.input_stride}, to{command.output_stride};
  do output[to.at] = input[from.at];
  while (advance(command.extent, kMoveRank, index, from, to));
}

void plain::fill(const Call&, const Fill& command, int8_t* output) {
  std::memset(output, command.value, command.bytes);
}

namespace {

// Of the elements of one result, whose first is at `element`.
int64_t index_of_extreme(const Reduce& command, const int8_t* input, Stream element) {
  const bool greatest = command.kind == ReduceKind::kIndexOfMaximum;
  uint32_t index[kMoveRank] = {};
  int8_t best = input[element.at];
  int64_t found = 0, position = 0;
  do {
    const int8_t value = input[element.at];
    if (greatest ? value > best : value < best) best = value, found = position;
    ++position;
  } while (advance(command.reduced_extent, kMoveRank, index, element));
  return found;
}

}  // namespace

void plain::reduce(const Call&, const Reduce& command, const int8_t* input, int8_t* output) {
  const bool bytes = command.kind == ReduceKind::kSumOfBytes;
  const Range range{command.clamp_low, command.clamp_high};
  uint32_t index[kMoveRank] = {};
  Stream from{command.input_stride}, to{command.output_stride};
  do {
    int32_t highest = -128, lowest = 127, sum = 0;
    uint32_t inner[kMoveRank] = {};
    Stream element{command.reduced_stride, from.at};
    if (returns_index(command.kind)) {
      const int64_t found = index_of_extreme(command, input, element);
      std::memcpy(output + to.at, &found,
                  command.index_bytes);  // little-endian: the low half of it is the shorter index
      continue;
    }
    do {
      const int32_t value = bytes ? static_cast<uint8_t>(input[element.at]) : input[element.at];
      highest = value > highest ? value : highest;
      lowest = value < lowest ? value : lowest;
      sum += value - command.zero_point_in;
    } while (advance(command.reduced_extent, kMoveRank, inner, element));
    output[to.at] = finish_reduction(command, range, highest, lowest, sum);
  } while (advance(command.extent, kMoveRank, index, from, to));
}

void plain::resize(const Call&, const Resize& command, const int8_t* input, int8_t* output) {
  const auto axis = [](const ResizeAxis& a) {
    return numerics::ResizeAxis{a.in, a.out, a.step, a.start,
                                static_cast<int32_t>(a.fraction_bits)};
  };
  const numerics::ResizeAxis height = axis(command.height), width = axis(command.width);
  const size_t channels = command.channels;
  for (uint32_t b = 0; b < command.batch; ++b) {
    const int8_t* image = input + size_t{b} * command.height.in * command.width.in * channels;
    const auto pixel = [&](int64_t y, int64_t x) {
      return image +
             (static_cast<size_t>(y) * command.width.in + static_cast<size_t>(x)) * channels;
    };
    for (uint32_t y = 0; y < command.height.out; ++y)
      for (uint32_t x = 0; x < command.width.out; ++x, output += channels) {
        if (command.kind == ResizeKind::kNearest) {
          std::memcpy(output, pixel(height.nearest(y), width.nearest(x)), channels);
          continue;
        }
        const numerics::ResizeAxis::Taps rows = height.taps(y), columns = width.taps(x);
        const int8_t *ll = pixel(rows.lower, columns.lower), *lu = pixel(rows.lower, columns.upper);
        const int8_t *ul = pixel(rows.upper, columns.lower), *uu = pixel(rows.upper, columns.upper);
        for (size_t c = 0; c < channels; ++c)
          output[c] = numerics::bilinear(ll[c], lu[c], ul[c], uu[c], rows.weight, columns.weight);
      }
  }
}

namespace {

// Calls body(offset in left, in right, in the output) for each matrix product of the batch.
template <class Body>
void for_batch(const Matmul& m, Body body) {
  uint32_t index[kMatmulBatchRank] = {};
  for (;;) {
    size_t left = 0, right = 0, output = 0;
    for (uint32_t d = 0; d < kMatmulBatchRank; ++d) {
      left += size_t{index[d]} * m.left_batch_stride[d];
      right += size_t{index[d]} * m.right_batch_stride[d];
      output += size_t{index[d]} * m.output_batch_stride[d];
    }
    body(left, right, output);
    uint32_t d = kMatmulBatchRank;
    while (d > 0 && ++index[d - 1] == m.batch[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

void plain::matmul(const Call&, const Matmul& command, const MatmulMemory& memory) {
  const numerics::OutputStage stage{to_requantization(command.rescale),
                                    command.zero_point_out,
                                    {command.clamp_low, command.clamp_high}};
  for_batch(command, [&](size_t left_offset, size_t right_offset, size_t output_offset) {
    for (uint32_t row = 0; row < command.rows; ++row)
      for (uint32_t column = 0; column < command.columns; ++column) {
        const int8_t* left = memory.left + left_offset + size_t{row} * command.left_row_stride;
        const int8_t* right =
            memory.right + right_offset + size_t{column} * command.right_column_stride;
        int32_t sum = 0;
        for (uint32_t k = 0; k < command.inner; ++k)
          sum += (left[size_t{k} * command.left_inner_stride] - command.zero_point_left) *
                 (right[size_t{k} * command.right_inner_stride] - command.zero_point_right);
        int8_t value = stage(sum);
        if (memory.table != nullptr) value = memory.table[value + 128];
        memory.output[output_offset + size_t{row} * command.output_row_stride +
                      size_t{column} * command.output_column_stride] = value;
      }
  });
}

void plain::normalize(const Call&, const Normalize& command, const int8_t* input,
                      const std::byte* parameters, int8_t* output) {
  const numerics::NormalizeRow by{command.center != 0, command.zero_point_in,
                                  uint64_t{command.epsilon_high} << 32 | command.epsilon_low};
  const uint32_t* const extent = command.extent;
  const auto for_row = [&](uint32_t a, uint32_t b, auto body) {
    for (uint32_t c = 0; c < extent[2]; ++c)
      for (uint32_t d = 0; d < extent[3]; ++d) {
        const auto at = [&](const uint32_t(&stride)[kNormalizeRank]) {
          return size_t{a} * stride[0] + size_t{b} * stride[1] + size_t{c} * stride[2] +
                 size_t{d} * stride[3];
        };
        body(at(command.stride), at(command.parameter_stride));
      }
  };
  for (uint32_t a = 0; a < extent[0]; ++a)
    for (uint32_t b = 0; b < extent[1]; ++b) {
      int64_t sum = 0;
      uint64_t squares = 0;
      for_row(a, b, [&](size_t element, size_t) {
        const int32_t difference = input[element] - command.zero_point_in;
        sum += difference;
        squares += static_cast<uint32_t>(difference * difference);
      });
      const numerics::NormalizedRow row(by, int64_t{extent[2]} * extent[3], sum, squares);
      for_row(a, b, [&](size_t element, size_t index) {
        numerics::NormalizeParameter parameter;
        std::memcpy(&parameter, parameters + index * sizeof parameter, sizeof parameter);
        output[element] = row(input[element] - command.zero_point_in, parameter,
                              static_cast<int>(command.gain_shift), command.zero_point_out,
                              {command.clamp_low, command.clamp_high});
      });
    }
}

int64_t index_at(const Gather& command, const std::byte* indices, uint32_t i) {
  if (command.index_bytes == sizeof(int32_t)) {
    int32_t index = 0;
    std::memcpy(&index, indices + size_t{i} * sizeof index, sizeof index);
    return index;
  }
  int64_t index = 0;
  std::memcpy(&index, indices + size_t{i} * sizeof index, sizeof index);
  return index;
}

Status plain::gather(const Call&, const Gather& command, const int8_t* input,
                     const std::byte* indices, int8_t* output) {
  const size_t inner = command.inner;
  for (uint32_t outer = 0; outer < command.outer; ++outer, input += command.rows * inner)
    for (uint32_t i = 0; i < command.count; ++i, output += inner) {
      const int64_t index = index_at(command, indices, i);
      if (index < 0 || index >= command.rows) return Status::kBadIndex;
      std::memcpy(output, input + static_cast<size_t>(index) * inner, inner);
    }
  return Status::kOk;
}

int8_t finish_reduction(const Reduce& command, Range range, int32_t highest, int32_t lowest,
                        int32_t sum) {
  switch (command.kind) {
    case ReduceKind::kMaximum:
      return static_cast<int8_t>(range.clamp(highest));
    case ReduceKind::kMinimum:
      return static_cast<int8_t>(range.clamp(lowest));
    case ReduceKind::kSum:
    case ReduceKind::kSumOfBytes:
    case ReduceKind::kIndexOfMaximum:
    case ReduceKind::kIndexOfMinimum:
      break;
  }
  return numerics::OutputStage{to_requantization(command.rescale), command.zero_point_out,
                               range}(sum);
}

const Kernels kPlainKernels = {
#define DTR_NPU_KERNEL(type, function, opcode) plain::function,
#include "device/npu/commands.inc"
};

bool ChannelParameters::valid(const Window& window, const Epilogue& epilogue) const {
  const int32_t highest = (epilogue.flags & kOneRounding) != 0 ? 30 : 31;
  for (uint32_t channel = 0; channel < window.out_channels; ++channel)
    if (!rescale_valid(multiplier(channel), shift(channel)) || shift(channel) > highest)
      return false;
  return true;
}

ConvolutionWeights::ConvolutionWeights(const Target& target, const Conv2d& command)
    : by_rows_(command.packing == Packing::kRows),
      pipelines_(target.pipelines),
      macs_(target.macs),
      in_channels_(command.window.in_channels),
      kernel_width_(command.window.kernel_width),
      steps_per_run_(div_up(by_rows_ ? kernel_width_ * in_channels_ : in_channels_, macs_)),
      steps_(steps_per_run_ * command.window.kernel_height * (by_rows_ ? 1 : kernel_width_)) {}

// ---- from addresses to kernels

namespace {

template <class Command>
Status convolve(void (*kernel)(const Call&, const Command&, const ConvolutionMemory&),
                const Call& call, const Regions& regions, const Command& command) {
  const Epilogue& epilogue = command.epilogue;
  const ConvolutionMemory memory{
      regions.at(command.input),
      regions.at(command.output),
      regions.at(command.weights),
      reinterpret_cast<const std::byte*>(regions.at(command.parameters)),
      (epilogue.flags & kWithTable) != 0 ? regions.at(epilogue.table) : nullptr,
      (epilogue.flags & kWithAdd) != 0 ? regions.at(epilogue.addend) : nullptr,
      (epilogue.flags & kFromSums) != 0
          ? reinterpret_cast<const std::byte*>(regions.at(epilogue.sums))
          : nullptr};
  if (!ChannelParameters(call.target, command.window, memory.parameters)
           .valid(command.window, epilogue))
    return Status::kBadArgument;
  kernel(call, command, memory);
  return Status::kOk;
}

}  // namespace

Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Conv2d& command) {
  return convolve(kernels.conv2d, call, regions, command);
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Depthwise& command) {
  return convolve(kernels.depthwise, call, regions, command);
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions, const Pool& command) {
  kernels.pool(call, command, regions.at(command.input), regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Binary& command) {
  kernels.binary(call, command, regions.at(command.input_0), regions.at(command.input_1),
                 regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Lookup& command) {
  kernels.lookup(call, command, regions.at(command.input), regions.at(command.table),
                 regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Softmax& command) {
  kernels.softmax(call, command, regions.at(command.input),
                  command.mask_rows != 0 ? regions.at(command.mask) : nullptr,
                  regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions, const Move& command) {
  kernels.move(call, command, regions.at(command.input), regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions, const Fill& command) {
  kernels.fill(call, command, regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Reduce& command) {
  kernels.reduce(call, command, regions.at(command.input), regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Resize& command) {
  kernels.resize(call, command, regions.at(command.input), regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Matmul& command) {
  kernels.matmul(call, command,
                 {regions.at(command.left), regions.at(command.right),
                  (command.flags & kWithTable) != 0 ? regions.at(command.table) : nullptr,
                  regions.at(command.output)});
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Normalize& command) {
  kernels.normalize(call, command, regions.at(command.input),
                    reinterpret_cast<const std::byte*>(regions.at(command.parameters)),
                    regions.at(command.output));
  return Status::kOk;
}
Status run(const Kernels& kernels, const Call& call, const Regions& regions,
           const Gather& command) {
  return kernels.gather(call, command, regions.at(command.input),
                        reinterpret_cast<const std::byte*>(regions.at(command.indices)),
                        regions.at(command.output));
}

}  // namespace dtr::simulator
