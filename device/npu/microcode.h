// Deuteron's own NPU microcode, version 2: a header, a table of operands, and commands of 32-bit
// little-endian words. `docs/npu.md` 4 is the prose; this file is the format. Freestanding;
// compiler and simulator each read it independently.
//
// Payload of a partition: [Header][Operand × operand_count][commands …] padded to 16 bytes, then
// the constants.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dtr::npu {

constexpr uint32_t kMagic = 0x55504E44;  // "DNPU"
constexpr uint16_t kVersionMajor =
    2;  // another major is refused; a newer minor too: it may use commands that are unknown here
constexpr uint16_t kVersionMinor = 0;
constexpr uint32_t kAlignment = 16;  // of scratch, operands, constants section
// Of all calls of a payload by device/npu/cycles.h, plus one for each 8 bytes of operands of
// commands and of the payload's table: a file of few bytes cannot keep an NPU, or who simulates it,
// busy for ever. 3.3 s at 324 MHz; the largest published network takes a sixtieth of it.
constexpr uint64_t kMaxPayloadCycles = uint64_t{1} << 30;
// Of one payload, inputs and outputs: the runtime hands them to the driver in an array on the
// stack, 512 bytes of it on a 32-bit core.
constexpr uint32_t kMaxOperands = 64;

struct Header {
  uint32_t magic;
  uint32_t version;          // major << 16 | minor
  uint32_t target_hash;      // format_hash of the machine
  uint32_t microcode_words;  // header, operand table and commands
  uint32_t command_count;    // with kEnd
  uint32_t operand_count;
  uint32_t constants_offset;  // bytes from the start of the payload, multiple of kAlignment
  uint32_t constants_bytes;
  uint32_t scratch_bytes;  // of the scratch operand
  uint32_t crc32;          // IEEE 802.3, of the whole payload with this field zero
  uint32_t flags;          // HeaderFlag
  uint32_t reserved[5];    // zero
};
static_assert(sizeof(Header) == 64);

enum HeaderFlag : uint32_t {
  // The payload is in SRAM before it runs: kernel calls read its constants in place, and
  // nothing is copied. Without the flag the constants are in flash, which kernel calls cannot read:
  // kCopy copies them to SRAM first.
  kConstantsInSram = 1u << 0,
};

enum class OperandKind : uint32_t { kInput = 0, kOutput = 1 };

struct Operand {
  OperandKind kind;
  uint32_t bytes;
};

// An address of data. Region 0: scratch (SRAM); 1: constants, which nothing writes (flash, or SRAM:
// HeaderFlag); 2 + i: operand i (SRAM).
struct Address {
  uint32_t region;
  uint32_t offset;  // bytes
  constexpr bool operator==(const Address&) const = default;
};
constexpr uint32_t kScratch = 0;
constexpr uint32_t kConstants = 1;
constexpr uint32_t kFirstOperand = 2;

// First word of a command: opcode in the low, number of words (this one included) in the high half.
// The rows are in commands.inc.
enum class Opcode : uint16_t {
#define DTR_NPU_COMMAND(type, function, opcode) k##type = (opcode),
#include "device/npu/commands.inc"
};
// "Conv2d", as reports have it, and "conv2d", as listings do; null for what is no opcode.
constexpr const char* name(Opcode command) {
  switch (command) {
#define DTR_NPU_COMMAND(type, function, opcode) \
  case Opcode::k##type:                         \
    return #type;
#include "device/npu/commands.inc"
  }
  return nullptr;
}
constexpr const char* mnemonic(Opcode command) {
  switch (command) {
#define DTR_NPU_COMMAND(type, function, opcode) \
  case Opcode::k##type:                         \
    return #function;
#include "device/npu/commands.inc"
  }
  return nullptr;
}

// All structs below follow the first word; every field is one word. Tensors are int8 and dense NHWC
// unless strides say otherwise. Results go to `output`. A field that is called input, input_0,
// input_1, left, right, weights, parameters, indices or table is an address that the kernel reads,
// unless flags say that it is not used.

// Bytes from a pixel to its neighbour in the row, from a row to the next, from an image to the
// next. The channels of a pixel are neighbours. So a call reads or writes some channels, rows or
// columns of a larger tensor in place.
struct Strides {
  uint32_t pixel, row, batch;
  constexpr bool operator==(const Strides&) const = default;
};
constexpr Strides dense_strides(uint32_t height, uint32_t width, uint32_t channels) {
  return {channels, channels * width, channels * width * height};
}

// The last command. It alone has no arguments.
struct End {
  static constexpr Opcode kOpcode = Opcode::kEnd;
};

struct Copy {
  static constexpr Opcode kOpcode = Opcode::kCopy;
  Address destination;  // SRAM
  Address source;       // kConstants
  uint32_t bytes;
  uint32_t ticket;  // 1, 2, 3, … in the order of the program
};

struct Wait {
  static constexpr Opcode kOpcode = Opcode::kWait;
  uint32_t ticket;  // returns when all copies up to this ticket have arrived
};

// Spatial window shared by convolutions and pools. Reads outside of the input give `pad_value`.
// With a negative pad the first window starts inside of the input. Pixels of the output do not
// overlap: out_channels ≤ out.pixel, a row ends before the next one starts, an image too. Those of
// the input may. A call may read and write one tensor where no byte is both: the ranges from first
// to last byte are apart, or all strides of both are multiples of one period, and within it what is
// read side by side ends before what is written begins, or the other way round: some channels are
// read, others written.
struct Window {
  uint32_t batch, in_height, in_width, in_channels;
  uint32_t out_height, out_width, out_channels;
  uint32_t kernel_height, kernel_width;
  uint32_t stride_height, stride_width;
  uint32_t dilation_height, dilation_width;
  int32_t pad_top, pad_left;  // magnitude at most kMaxPad
  Strides in, out;
};
constexpr int32_t kMaxPad = 1 << 25;
// The window over dense tensors.
constexpr Window dense(Window window) {
  window.in = dense_strides(window.in_height, window.in_width, window.in_channels);
  window.out = dense_strides(window.out_height, window.out_width, window.out_channels);
  return window;
}

// x → x · multiplier · 2^(shift − 31), numerics::requantize.
struct Rescale {
  int32_t multiplier;
  int32_t shift;
};

// What an elementwise function of two values needs: device/numerics/binary.h has the formulas of
// each kind.
struct BinaryArguments {
  int32_t zero_point_0, zero_point_1, zero_point_out;
  Rescale input_0, input_1, output;
  int32_t clamp_low, clamp_high;
};

// What follows the accumulation, in this order: bias and rescale per channel (if flagged with one
// rounding, numerics::requantize_with_one_rounding), zero point, clamp; then, if flagged, a table
// of 256 entries (index q + 128); then, if flagged, addition of a second tensor of the output's
// shape (input 0 is the value so far). An accumulation of several calls hands its sums on: with
// kFromSums an accumulator starts with the sum at address `sums` plus the bias; with kToSums the
// accumulators themselves go to the output, and nothing else of the epilogue happens. Sums are
// int32, for each group of M output channels: for each output position (row-major): M sums.
struct Epilogue {
  int32_t zero_point_out;
  int32_t clamp_low, clamp_high;
  uint32_t flags;  // EpilogueFlag
  Address table;   // 256 bytes
  Address addend;  // may be exactly the output: an element is read before the one in its place is
                   // written
  Strides addend_strides;
  BinaryArguments add;
  Address sums;  // may be the output, if that is sums too
};
enum EpilogueFlag : uint32_t {
  kWithTable = 1u << 0,
  kWithAdd = 1u << 1,
  kOneRounding = 1u << 2,
  kFromSums = 1u << 3,
  kToSums = 1u << 4,  // alone or with kFromSums
};
constexpr bool with_sums(const Epilogue& epilogue) {
  return (epilogue.flags & (kFromSums | kToSums)) != 0;
}

// Parameters of the output channels, three int32 arrays one behind the other, each
// round_up(channels, M) long: bias (− zero_point_in · Σ weights folded in), multiplier, shift.
// Weights: for each group of M output channels: for each step: M × N bytes [unit][lane]; lanes and
// channels that do not exist are 0. Steps, packing by channels: kernel row, kernel column, block of
// N input channels. Steps, packing by rows: kernel row, block of N of the kernel row's KW · Cin
// bytes (needs dilation_width 1).
enum class Packing : uint32_t { kChannels = 0, kRows = 1 };
struct Conv2d {
  static constexpr Opcode kOpcode = Opcode::kConv2d;
  Window window;
  Address input, output, weights, parameters;
  int32_t pad_value;  // the input's zero point
  Packing packing;
  Epilogue epilogue;
};

// Channel c of the output is made of channel c / (out_channels / in_channels) of the input.
// Weights: for each group of M output channels: for each tap (row-major): M bytes.
struct Depthwise {
  static constexpr Opcode kOpcode = Opcode::kDepthwise;
  Window window;
  Address input, output, weights, parameters;
  int32_t pad_value;
  Epilogue epilogue;
};

// kMax: maximum of the taps inside the input. kAverage: sum of the taps inside divided by their
// number, half away from zero (TFLite's AVERAGE_POOL_2D); kMean: (sum of all taps, pad_value
// outside) − taps · zero_point_in rescaled, plus zero_point_out. Then clamp.
enum class PoolKind : uint32_t { kMax = 0, kAverage = 1, kMean = 2 };
struct Pool {
  static constexpr Opcode kOpcode = Opcode::kPool;
  Window window;  // in_channels == out_channels
  Address input, output;
  PoolKind kind;
  int32_t pad_value;                      // kMean
  int32_t zero_point_in, zero_point_out;  // kMean
  Rescale rescale;                        // kMean: s_in / (s_out · taps)
  int32_t clamp_low, clamp_high;
};

// output[Σ i_d · output_stride_d] = function(input_0[Σ i_d · stride_0_d], input_1[Σ i_d ·
// stride_1_d]) for all indices, innermost last; unused dimensions have extent 1. Strides in bytes;
// 0 where an input is broadcast, positive in the output, whose elements do not overlap. The output
// may be an input that is read at its strides, or be apart from it as those of a Window are.
constexpr uint32_t kMoveRank = 6;  // loops of strided commands
enum class BinaryKind : uint32_t {
  kAdd = 0,
  kSubtract = 1,
  kMultiply = 2,
  kMaximum = 3,
  kMinimum = 4,
  kPrelu = 5
};
struct Binary {
  static constexpr Opcode kOpcode = Opcode::kBinary;
  BinaryKind kind;
  Address input_0, input_1, output;
  uint32_t extent[kMoveRank];
  int32_t stride_0[kMoveRank];
  int32_t stride_1[kMoveRank];
  int32_t output_stride[kMoveRank];
  BinaryArguments arguments;
};
// All dense, one run of elements; the caller sets addresses and arguments.
constexpr Binary dense_binary(BinaryKind kind, uint32_t elements) {
  return {.kind = kind,
          .input_0 = {},
          .input_1 = {},
          .output = {},
          .extent = {1, 1, 1, 1, 1, elements},
          .stride_0 = {0, 0, 0, 0, 0, 1},
          .stride_1 = {0, 0, 0, 0, 0, 1},
          .output_stride = {0, 0, 0, 0, 0, 1},
          .arguments = {}};
}
// Whether two walks through a box touch the same places in the same order.
constexpr bool same_walk(const uint32_t (&extent)[kMoveRank], const int32_t (&a)[kMoveRank],
                         const int32_t (&b)[kMoveRank]) {
  for (uint32_t d = 0; d < kMoveRank; ++d)
    if (extent[d] != 1 && a[d] != b[d]) return false;
  return true;
}

// output[Σ i_d · output_stride_d] = table[input[Σ i_d · input_stride_d] + 128]: any function of one
// int8 value. Strides as in Binary.
struct Lookup {
  static constexpr Opcode kOpcode = Opcode::kLookup;
  Address input, output, table;
  uint32_t extent[kMoveRank];
  int32_t input_stride[kMoveRank];
  int32_t output_stride[kMoveRank];
};
constexpr Lookup dense_lookup(uint32_t elements) {
  return {.input = {},
          .output = {},
          .table = {},
          .extent = {1, 1, 1, 1, 1, elements},
          .input_stride = {0, 0, 0, 0, 0, 1},
          .output_stride = {0, 0, 0, 0, 0, 1}};
}

// Softmax, or its logarithm, in TFLite's int8 fixed-point arithmetic (device/numerics/softmax.h)
// along the middle dimension of a dense tensor (outer, columns, inner). With a mask, dense bytes of
// (mask_rows, columns) that rows repeat, only columns whose byte is not 0 take part; the others
// give 0, as does a row without any.
enum class SoftmaxKind : uint32_t { kProbability = 0, kLogarithm = 1 };
struct Softmax {
  static constexpr Opcode kOpcode = Opcode::kSoftmax;
  Address input, output;  // may be equal
  uint32_t outer, columns, inner;
  SoftmaxKind kind;
  Rescale input_rescale;   // scale · 2^26 with 5 integer bits
  int32_t diff_min;        // differences below give 0
  Rescale difference;      // kLogarithm: 2^16 · s_in / s_out
  Rescale output_rescale;  // kProbability: 1 / s_out; kLogarithm: 2^−10 / s_out
  int32_t zero_point_out;
  Address mask;        // kProbability
  uint32_t mask_rows;  // 0: no mask; else `inner` is 1 and they divide `outer`
};

// output[b][r][c] = Σ_k (left[b][r][k] − zero_point_left) · (right[b][k][c] − zero_point_right),
// rescaled, plus zero point, clamped, then through the table if there is one. b is an index of up
// to 4 dimensions; every operand has its own strides in bytes (0 repeats it), so that transposed,
// permuted and broadcast operands are read in place. The output is dense: each of its bytes is
// written once.
constexpr uint32_t kMatmulBatchRank = 4;
struct Matmul {
  static constexpr Opcode kOpcode = Opcode::kMatmul;
  Address left, right, output;
  uint32_t batch[kMatmulBatchRank];  // outermost first; unused dimensions have extent 1
  uint32_t left_batch_stride[kMatmulBatchRank], right_batch_stride[kMatmulBatchRank],
      output_batch_stride[kMatmulBatchRank];
  uint32_t rows, inner, columns;
  uint32_t left_row_stride, left_inner_stride;
  uint32_t right_inner_stride, right_column_stride;
  uint32_t output_row_stride, output_column_stride;
  int32_t zero_point_left, zero_point_right;
  Rescale rescale;  // s_left · s_right / s_out
  int32_t zero_point_out;
  int32_t clamp_low, clamp_high;
  uint32_t flags;  // kWithTable or 0
  Address table;   // 256 bytes
};
// Sums of that many products of differences of int8 values stay inside 32 bits.
constexpr uint32_t kMaxMatmulInner = 33024;

// Each row minus its mean (if `center`), divided by its standard deviation (by its root mean
// square), times the gain plus the offset of each element's parameter: device/numerics/normalize.h.
// A row is a box of 2 dimensions, rows are counted in 2; input and output both have these
// strides in bytes; the same loops walk through the parameters.
constexpr uint32_t kNormalizeRank = 4;  // dimensions 0 and 1 count rows, 2 and 3 are a row
struct Normalize {
  static constexpr Opcode kOpcode = Opcode::kNormalize;
  Address input, output;  // may be equal
  Address parameters;     // int32 gain and offset of each
  uint32_t extent[kNormalizeRank];
  uint32_t stride[kNormalizeRank];
  uint32_t parameter_stride[kNormalizeRank];  // in parameters
  uint32_t center;                            // 1: minus the mean
  int32_t zero_point_in, zero_point_out;
  uint32_t epsilon_low, epsilon_high;  // added to n · Σd² − (Σd)²: two words of a 64-bit number
  uint32_t gain_shift;                 // gains are in units of 2^−gain_shift output steps
  int32_t clamp_low, clamp_high;
};

// output[Σ i_d · output_stride_d] = input[Σ i_d · input_stride_d] for all indices; strides in
// bytes, innermost last, unused dimensions have extent 1. Transposition, slice, concatenation,
// padding (with kFill); with input strides of 0 repetition, with negative ones reversal. Regions
// must not overlap.
struct Move {
  static constexpr Opcode kOpcode = Opcode::kMove;
  Address input, output;
  uint32_t extent[kMoveRank];
  int32_t input_stride[kMoveRank];
  int32_t output_stride[kMoveRank];
};

struct Fill {
  static constexpr Opcode kOpcode = Opcode::kFill;
  Address output;
  uint32_t bytes;
  int32_t value;
};

// For each index i of `extent`: the elements input[Σ i_d · input_stride_d + Σ r_d ·
// reduced_stride_d] of all indices r of `reduced_extent` become one, at output[Σ i_d ·
// output_stride_d]. Strides as in Move. kSum: Σ (element − zero_point_in) rescaled, plus
// zero_point_out, limited to the clamp; a mean has the divisor in its rescale. kMaximum, kMinimum:
// limited to the clamp. kSumOfBytes: as kSum, but elements and result are unsigned bytes, and so is
// the clamp: what LiteRT's SUM does with int8. kIndexOfMaximum, kIndexOfMinimum: which of the
// elements, counted from 0 in the order of the loops, is the first of the greatest or smallest; an
// integer of `index_bytes`.
enum class ReduceKind : uint32_t {
  kSum = 0,
  kMaximum = 1,
  kMinimum = 2,
  kSumOfBytes = 3,
  kIndexOfMaximum = 4,
  kIndexOfMinimum = 5
};
constexpr bool returns_index(ReduceKind kind) {
  return kind == ReduceKind::kIndexOfMaximum || kind == ReduceKind::kIndexOfMinimum;
}
constexpr uint32_t kMaxReduced =
    uint32_t{1} << 23;  // a sum of that many differences of two bytes fits into 32 bits
struct Reduce {
  static constexpr Opcode kOpcode = Opcode::kReduce;
  Address input, output;
  ReduceKind kind;
  uint32_t extent[kMoveRank];
  int32_t input_stride[kMoveRank];
  int32_t output_stride[kMoveRank];
  uint32_t reduced_extent[kMoveRank];
  int32_t reduced_stride[kMoveRank];
  int32_t zero_point_in, zero_point_out;  // sums
  Rescale rescale;                        // sums
  int32_t clamp_low, clamp_high;
  uint32_t index_bytes;  // 4 or 8 where the result is an index, else 0
};
// Bytes of a result.
constexpr uint32_t result_bytes(const Reduce& reduce) {
  return returns_index(reduce.kind) ? reduce.index_bytes : 1;
}

// output[o][i] = input[o][indices[i]], `inner` bytes each, of dense tensors (outer, rows, inner)
// and (outer, count, inner). An index outside of [0, rows) ends the run: Status::kBadIndex.
struct Gather {
  static constexpr Opcode kOpcode = Opcode::kGather;
  Address input, indices, output;
  uint32_t outer, rows, count, inner;
  uint32_t index_bytes;  // 4 or 8: signed integers
};

// Position o of an axis is at (o · step + start) / 2^fraction_bits of the input
// (`device/numerics/resize.h`).
struct ResizeAxis {
  uint32_t in, out;
  uint32_t step;
  int32_t start;
  uint32_t fraction_bits;  // kBilinear: 10 to 30; kNearest: 0 to 30
};
enum class ResizeKind : uint32_t { kNearest = 0, kBilinear = 1 };
struct Resize {
  static constexpr Opcode kOpcode = Opcode::kResize;
  Address input, output;  // NHWC
  ResizeKind kind;
  uint32_t batch, channels;
  ResizeAxis height, width;
};

template <class Command>
constexpr uint32_t command_words() {
  if constexpr (std::is_empty_v<Command>) return 1;
  static_assert(std::is_empty_v<Command> || sizeof(Command) % 4 == 0);
  return 1 + sizeof(Command) / 4;
}
template <class Command>
constexpr uint32_t command_head() {
  return static_cast<uint32_t>(Command::kOpcode) | command_words<Command>() << 16;
}

#define DTR_NPU_COMMAND(type, function, opcode) static_assert(type::kOpcode == Opcode::k##type);
#include "device/npu/commands.inc"

}  // namespace dtr::npu
