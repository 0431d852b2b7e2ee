// The arithmetic of each kernel call, as a table of functions, of which the host replaces some by
// faster ones. Addresses are resolved and arguments checked before a kernel runs. Freestanding, no
// heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/npu/driver.h"
#include "device/npu/microcode.h"
#include "device/npu/target.h"
#include "device/numerics/requantize.h"

namespace dtr::simulator {

// The call that runs; `context` is for the supplier of the kernels.
struct Call {
  const npu::Target& target;
  uint32_t command;
  void* context;
};

struct ConvolutionMemory {
  const int8_t* input;
  int8_t* output;
  const int8_t* weights;
  const std::byte* parameters;  // int32, perhaps not aligned
  const int8_t* table;          // null without kWithTable
  const int8_t* addend;         // null without kWithAdd
  const std::byte* sums;        // null without kFromSums; int32, perhaps not aligned
};

struct MatmulMemory {
  const int8_t* left;
  const int8_t* right;
  const int8_t* table;  // null without kWithTable
  int8_t* output;
};

// Plain loops, which define the correct results. They need no context.
namespace plain {
void conv2d(const Call&, const npu::Conv2d&, const ConvolutionMemory&);
void depthwise(const Call&, const npu::Depthwise&, const ConvolutionMemory&);
void pool(const Call&, const npu::Pool&, const int8_t* input, int8_t* output);
void binary(const Call&, const npu::Binary&, const int8_t* input_0, const int8_t* input_1,
            int8_t* output);
void lookup(const Call&, const npu::Lookup&, const int8_t* input, const int8_t* table,
            int8_t* output);
void softmax(const Call&, const npu::Softmax&, const int8_t* input, const int8_t* mask,
             int8_t* output);  // mask: null without one
void move(const Call&, const npu::Move&, const int8_t* input, int8_t* output);
void fill(const Call&, const npu::Fill&, int8_t* output);
void reduce(const Call&, const npu::Reduce&, const int8_t* input, int8_t* output);
void resize(const Call&, const npu::Resize&, const int8_t* input, int8_t* output);
void matmul(const Call&, const npu::Matmul&, const MatmulMemory&);
void normalize(const Call&, const npu::Normalize&, const int8_t* input, const std::byte* parameters,
               int8_t* output);
// kBadIndex: an index is outside of the rows.
npu::Status gather(const Call&, const npu::Gather&, const int8_t* input, const std::byte* indices,
                   int8_t* output);
}  // namespace plain

// A kernel for each command, with the type of the plain one.
struct Kernels {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name takes no parentheses
#define DTR_NPU_KERNEL(type, function, opcode) decltype(&plain::function) function;
#include "device/npu/commands.inc"
};
extern const Kernels kPlainKernels;

// The addresses of a payload's regions in a run.
struct Regions {
  std::byte* constants;  // never written: the decoder rejects commands that would
  std::span<const npu::Buffer> operands;
  npu::Buffer scratch;

  int8_t* at(npu::Address address) const {
    void* const region = address.region == npu::kScratch ? scratch.data
                         : address.region == npu::kConstants
                             ? constants
                             : operands[address.region - npu::kFirstOperand].data;
    return static_cast<int8_t*>(region) + address.offset;
  }
};

// Index `i` of the indices of a gather.
int64_t index_at(const npu::Gather& command, const std::byte* indices, uint32_t i);

// Resolves the addresses of a command and calls its kernel. kBadArgument: parameters in memory are
// outside of the domain of requantize. kBadIndex: that of the gather.
#define DTR_NPU_KERNEL(type, function, opcode)                                      \
  npu::Status run(const Kernels& kernels, const Call& call, const Regions& regions, \
                  const npu::type& command);
#include "device/npu/commands.inc"

// The result of a reduction from the extremes of its elements and the sum of their differences to
// the zero point.
int8_t finish_reduction(const npu::Reduce& command, numerics::Range range, int32_t highest,
                        int32_t lowest, int32_t sum);

// Bias, multiplier and shift of a convolution's output channels.
class ChannelParameters {
 public:
  ChannelParameters(const npu::Target& target, const npu::Window& window,
                    const std::byte* parameters)
      : stride_(npu::round_up(window.out_channels, target.pipelines)), parameters_(parameters) {}
  int32_t bias(uint32_t channel) const { return at(channel); }
  int32_t multiplier(uint32_t channel) const { return at(size_t{stride_} + channel); }
  int32_t shift(uint32_t channel) const { return at(2 * size_t{stride_} + channel); }
  // True if requantization is defined for the parameters. They are data in memory, so that only a
  // run can check them.
  bool valid(const npu::Window& window, const npu::Epilogue& epilogue) const;

 private:
  int32_t at(size_t index) const {
    int32_t value = 0;
    __builtin_memcpy(&value, parameters_ + index * sizeof value, sizeof value);
    return value;
  }
  uint32_t stride_;
  const std::byte* parameters_;
};

// The index of a weight by output channel, tap (row-major) and input channel.
class ConvolutionWeights {
 public:
  ConvolutionWeights(const npu::Target& target, const npu::Conv2d& command);
  size_t index(uint32_t channel, uint32_t kernel_y, uint32_t kernel_x, uint32_t in_channel) const {
    const uint32_t lane = by_rows_ ? kernel_x * in_channels_ + in_channel : in_channel;
    const uint32_t step =
        (by_rows_ ? kernel_y : kernel_y * kernel_width_ + kernel_x) * steps_per_run_ + lane / macs_;
    return ((size_t{channel / pipelines_} * steps_ + step) * pipelines_ + channel % pipelines_) *
               macs_ +
           lane % macs_;
  }

 private:
  bool by_rows_;
  uint32_t pipelines_, macs_, in_channels_, kernel_width_, steps_per_run_, steps_;
};
// The byte offset of the channels at a position of an image.
inline size_t place(const npu::Strides& strides, uint32_t batch, uint32_t y, uint32_t x) {
  return size_t{batch} * strides.batch + size_t{y} * strides.row + size_t{x} * strides.pixel;
}
inline size_t depthwise_weight_index(const npu::Target& target, const npu::Window& window,
                                     uint32_t channel, uint32_t tap) {
  const size_t taps = size_t{window.kernel_height} * window.kernel_width;
  return (channel / target.pipelines * taps + tap) * target.pipelines + channel % target.pipelines;
}

}  // namespace dtr::simulator
