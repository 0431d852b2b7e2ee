// Cycles of every NPU command, computed by hand from docs/npu.md 3: the arithmetic stands behind
// each number. Machines of three kinds, so that no parameter can be taken for another that is equal
// on imxrt700.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/targets/target.h"
#include "device/npu/cycles.h"

namespace dtr::npu {
namespace {

const Target kRt700 = find_target("imxrt700")->npu;
// Parameters of a group: ⌈4 · 12 / 4⌉ = 12 cycles; a table: 256 / 4 = 64; a block of weights: 4 · 4
// / 4 = 4; a position is drained in 1.
const Target kTest4x4 = find_target("test-4x4")->npu;
// Parameters of a group: ⌈64 · 12 / 64⌉ = 12 cycles; a block of weights: 64 · 16 / 64 = 16; a
// position is drained in 1.
const Target kImx95 = find_target("imx95")->npu;
// No two parameters alike. Parameters of a group: ⌈4 · 12 / 32⌉ = 2 cycles; a table: 256 / 32 = 8;
// a block of weights: 4 · 16 / 32 = 2; a position is drained in 4 / 1 = 4 cycles, with an addend in
// 4 + ⌈4 / 32⌉ = 5, to sums in 16, from sums in 4 + ⌈16 / 32⌉ = 5.
constexpr Target kOdd = {.pipelines = 4,
                         .macs = 16,
                         .max_reduction = 65535,
                         .max_kernel = 4096,
                         .accumulators = 6,
                         .activation_port = 2,
                         .weight_port = 32,
                         .write_port = 1,
                         .call_npu_cycles = 10,
                         .call_host_cycles = 11,
                         .copy_host_cycles = 12,
                         .copy_setup_cycles = 7,
                         .flash_bytes_per_16_cycles = 3,
                         .sram_bytes = 1u << 20,
                         .clock_hz = 1'000'000};

struct FormulaCase {
  Opcode opcode;
  std::string mode;
  Cycles actual;
  uint64_t total;
};

class Cases {
 public:
  template <class Command>
  void add(const std::string& mode, const Target& target, const Command& command, uint64_t total) {
    cases_.push_back({Command::kOpcode, mode, cycles(target, command), total});
  }
  void add(const std::string& mode, const Target& target, const Copy& command, uint64_t total) {
    cases_.push_back({Opcode::kCopy, mode, {copy_cycles(target, command)}, total});
  }
  const std::vector<FormulaCase>& all() const { return cases_; }

 private:
  std::vector<FormulaCase> cases_;
};

struct Shape {
  uint32_t batch, height, width, in_channels, out_channels, kernel_height, kernel_width;
};
Window window(const Shape& shape) {  // the input's extents, strides and pads do not matter
  return dense({.batch = shape.batch,
                .in_height = 99,
                .in_width = 98,
                .in_channels = shape.in_channels,
                .out_height = shape.height,
                .out_width = shape.width,
                .out_channels = shape.out_channels,
                .kernel_height = shape.kernel_height,
                .kernel_width = shape.kernel_width,
                .stride_height = 2,
                .stride_width = 3,
                .dilation_height = 2,
                .dilation_width = 1,
                .pad_top = 1,
                .pad_left = 0,
                .in = {},
                .out = {}});
}

Conv2d conv(const Shape& shape, Packing packing, uint32_t flags = 0) {
  Conv2d command = {};
  command.window = window(shape);
  command.packing = packing;
  command.epilogue.flags = flags;
  return command;
}

void add_convolutions(Cases& cases) {
  // 2 · 3 · 5 = 30 positions, 2 groups, 3 · 2 · ⌈11/8⌉ = 12 steps. Tiles of 8, 8, 8 and 6
  // positions, each max(12 · 8, P) = 96 cycles.
  const Shape odd = {2, 3, 5, 11, 13, 3, 2};
  cases.add("channels", kRt700, conv(odd, Packing::kChannels), 64 + 2 * (4 * 96 + 12) + 6);
  // 4 groups, 3 · 2 · ⌈11/16⌉ = 6 steps. 5 tiles of 6 positions: max(6 · max(6, 2), 6 · 4) = 36;
  // the last tile's drain 6 · 4.
  cases.add("channels", kOdd, conv(odd, Packing::kChannels), 10 + 4 * (5 * 36 + 2) + 24);
  // 4 groups, 3 · 2 · ⌈11/4⌉ = 18 steps. 7 tiles of 4 positions and one of 2: each 18 · max(P, 4) =
  // 72; the last tile's drain 2.
  cases.add("channels", kTest4x4, conv(odd, Packing::kChannels), 48 + 4 * (8 * 72 + 12) + 2);
  // 1 group, 3 · 2 · ⌈11/16⌉ = 6 steps. Tiles of 16 and 14 positions, each 6 · max(P, 16) = 96; the
  // last tile's drain 14.
  cases.add("channels", kImx95, conv(odd, Packing::kChannels), 64 + (2 * 96 + 12) + 14);
  // 16 positions, 1 group, 2 · ⌈5 · 3 / 8⌉ = 4 steps: 2 tiles of max(4 · 8, 8) = 32; the last
  // tile's drain 8.
  cases.add("rows", kRt700, conv({1, 4, 4, 3, 8, 2, 5}, Packing::kRows), 64 + (2 * 32 + 12) + 8);
  // 2 groups, 2 · ⌈15/16⌉ = 2 steps; tiles of 6, 6 and 4: max(2 · 6, 24) = 24, 24, max(2 · 4, 16) =
  // 16; the last one's drain 16.
  cases.add("rows", kOdd, conv({1, 4, 4, 3, 8, 2, 5}, Packing::kRows),
            10 + 2 * (24 + 24 + 16 + 2) + 16);
  // One step, 10 positions: tiles of 8 and 2. A table takes 256 / 8 = 32 cycles more.
  const Shape point = {1, 2, 5, 8, 8, 1, 1};
  cases.add("plain", kRt700, conv(point, Packing::kChannels), 64 + (8 + 8 + 12) + 2);
  cases.add("table", kRt700, conv(point, Packing::kChannels, kWithTable),
            64 + (8 + 8 + 12) + 2 + 32);
  // Drain of a position 2 cycles: tiles of max(8, 8 · 2) and max(8, 2 · 2); to sums 4, from sums 1
  // + 4, both 4 + 4.
  cases.add("add", kRt700, conv(point, Packing::kChannels, kWithAdd), 64 + (16 + 8 + 12) + 4);
  cases.add("to sums", kRt700, conv(point, Packing::kChannels, kToSums), 64 + (32 + 8 + 12) + 8);
  cases.add("from sums", kRt700, conv(point, Packing::kChannels, kFromSums),
            64 + (40 + 10 + 12) + 10);
  cases.add("sums to sums", kRt700, conv(point, Packing::kChannels, kFromSums | kToSums),
            64 + (64 + 16 + 12) + 16);
  cases.add("table and add", kRt700, conv(point, Packing::kChannels, kWithTable | kWithAdd),
            64 + (16 + 8 + 12) + 4 + 32);
  // 2 groups, tiles of 6 and 4 positions.
  cases.add("table", kOdd, conv(point, Packing::kChannels, kWithTable),
            10 + 2 * (24 + 16 + 2) + 16 + 8);
  cases.add("add", kOdd, conv(point, Packing::kChannels, kWithAdd), 10 + 2 * (30 + 20 + 2) + 20);
  cases.add("to sums", kOdd, conv(point, Packing::kChannels, kToSums), 10 + 2 * (96 + 64 + 2) + 64);
  cases.add("from sums", kOdd, conv(point, Packing::kChannels, kFromSums),
            10 + 2 * (30 + 20 + 2) + 20);
}

void add_windows(Cases& cases) {
  // 9 taps, 10 positions, 3 groups of channels: tiles of 8 and 2 positions, 9 · 8 and 9 · 2 cycles;
  // the last tile's drain 2.
  Depthwise depthwise = {};
  depthwise.window = window({1, 2, 5, 20, 20, 3, 3});
  cases.add("plain", kRt700, depthwise, 64 + 3 * (72 + 18 + 12) + 2);
  // 5 groups; tiles of 6 and 4: max(9 · 6, 24) and max(9 · 4, 16); the last one's drain 16.
  cases.add("plain", kOdd, depthwise, 10 + 5 * (54 + 36 + 2) + 16);
  // 5 groups; tiles of 4, 4 and 2 positions: 9 · 4, 9 · 4 and 9 · 2; the last one's drain 2.
  cases.add("plain", kTest4x4, depthwise, 48 + 5 * (36 + 36 + 18 + 12) + 2);
  // 1 group, 10 positions in one tile of 9 taps, max(9 · max(10, 1), 10) = 90.
  cases.add("plain", kImx95, depthwise, 64 + (90 + 12) + 10);
  depthwise.epilogue.flags = kWithTable | kWithAdd;
  cases.add("table and add", kRt700, depthwise, 64 + 3 * (72 + 18 + 12) + 4 + 32);
  // One tap: the drain of 2 cycles a position is longer than the step.
  depthwise.window.kernel_height = depthwise.window.kernel_width = 1;
  cases.add("one tap", kRt700, depthwise, 64 + 3 * (16 + 4 + 12) + 4 + 32);

  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kAverage, PoolKind::kMean}) {
    Pool pool = {};
    pool.kind = kind;
    pool.window = window({2, 4, 5, 9, 9, 2, 3});
    // 40 positions, 6 taps, ⌈9/8⌉ = 2 groups; ⌈9/4⌉ = 3.
    cases.add("pool", kRt700, pool, 64 + 40 * 6 * 2);
    cases.add("pool", kOdd, pool, 10 + 40 * 6 * 3);
  }
  Resize resize = {};
  resize.batch = 2;
  resize.channels = 9;
  resize.height.in = resize.width.in = 77;
  resize.height.out = 3;
  resize.width.out = 5;
  resize.kind = ResizeKind::kNearest;  // one tap a position and group
  cases.add("nearest", kRt700, resize, 64 + 30 * 1 * 2);
  cases.add("nearest", kOdd, resize, 10 + 30 * 1 * 3);
  resize.kind = ResizeKind::kBilinear;  // four
  cases.add("bilinear", kRt700, resize, 64 + 30 * 4 * 2);
  cases.add("bilinear", kOdd, resize, 10 + 30 * 4 * 3);
}

void add_elementwise(Cases& cases) {
  for (const BinaryKind kind : {BinaryKind::kAdd, BinaryKind::kSubtract, BinaryKind::kMultiply,
                                BinaryKind::kMaximum, BinaryKind::kMinimum, BinaryKind::kPrelu}) {
    // 2 · 3 = 6 runs of 11: ⌈11/8⌉ = 2, on the other machine ⌈11/2⌉ = 6. What lies apart: 66
    // elements, one a cycle.
    Binary binary = dense_binary(kind, 11);
    binary.extent[3] = 2;
    binary.extent[4] = 3;
    cases.add("lanes", kRt700, binary, 64 + 6 * 2);
    cases.add("lanes", kOdd, binary, 10 + 6 * 6);
    binary.stride_1[5] = 0;
    cases.add("repeated operand", kRt700, binary, 64 + 6 * 2);
    binary.stride_1[5] = 3;
    cases.add("second operand apart", kRt700, binary, 64 + 66);
    binary.stride_1[5] = 1;
    binary.stride_0[5] = 3;
    cases.add("first operand apart", kRt700, binary, 64 + 66);
    binary.stride_0[5] = 1;
    binary.output_stride[5] = 2;
    cases.add("result apart", kRt700, binary, 64 + 66);
    cases.add("result apart", kOdd, binary, 10 + 66);
  }
  // 3 runs of 17: ⌈17/8⌉ = 3; ⌈17/4⌉ = 5; the table first.
  Lookup lookup = dense_lookup(17);
  lookup.extent[4] = 3;
  cases.add("lanes", kRt700, lookup, 64 + 3 * 3 + 32);
  cases.add("lanes", kOdd, lookup, 10 + 3 * 5 + 8);
  cases.add("lanes", kTest4x4, lookup, 48 + 3 * 5 + 64);
  lookup.input_stride[5] = 4;
  cases.add("operand apart", kRt700, lookup, 64 + 51 + 32);
  lookup.input_stride[5] = 1;
  lookup.output_stride[5] = 4;
  cases.add("result apart", kRt700, lookup, 64 + 51 + 32);

  for (const SoftmaxKind kind : {SoftmaxKind::kProbability, SoftmaxKind::kLogarithm})
    for (const uint32_t mask_rows : {0u, 5u}) {
      Softmax softmax = {};
      softmax.kind = kind;
      softmax.mask_rows = mask_rows;
      softmax.outer = 5;
      softmax.columns = 10;
      softmax.inner = 2;
      // 10 rows: three passes over 10 columns, and 32 steps of the reciprocal or logarithm.
      cases.add("softmax", kRt700, softmax, 64 + 10 * (3 * 10 + 32));
      cases.add("softmax", kOdd, softmax, 10 + 10 * (3 * 10 + 32));
    }
}

void add_movement(Cases& cases) {
  Move move = {.input = {},
               .output = {},
               .extent = {1, 1, 1, 2, 3, 10},
               .input_stride = {0, 0, 0, 90, 30, 1},
               .output_stride = {0, 0, 0, 30, 10, 1}};
  // 6 runs of 10: ⌈10/8⌉ = 2; at a byte a cycle 10.
  cases.add("runs", kRt700, move, 64 + 6 * 2);
  cases.add("runs", kOdd, move, 10 + 6 * 10);
  for (const int32_t stride : {3, 0, -1}) {  // apart, repeated, reversed: an element a cycle
    move.input_stride[5] = stride;
    cases.add("input apart", kRt700, move, 64 + 60);
  }
  move.input_stride[5] = 1;
  move.output_stride[5] = 2;
  cases.add("output apart", kRt700, move, 64 + 60);

  cases.add("fill", kRt700, Fill{.output = {}, .bytes = 100, .value = 1}, 64 + 13);  // ⌈100/8⌉
  cases.add("fill", kOdd, Fill{.output = {}, .bytes = 100, .value = 1}, 10 + 100);

  Gather gather = {.input = {},
                   .indices = {},
                   .output = {},
                   .outer = 3,
                   .rows = 7,
                   .count = 5,
                   .inner = 20,
                   .index_bytes = 8};
  // Indices 5 · 8 / 8 = 5 cycles, 5 runs of ⌈20/8⌉ = 3, three times. With 4 bytes an index ⌈20/8⌉ =
  // 3 cycles.
  cases.add("8 bytes", kRt700, gather, 64 + 3 * (5 + 5 * 3));
  cases.add("8 bytes", kOdd, gather, 10 + 3 * (2 + 5 * 20));  // ⌈40/32⌉ = 2
  gather.index_bytes = 4;
  cases.add("4 bytes", kRt700, gather, 64 + 3 * (3 + 5 * 3));

  const Copy copy = {.destination = {}, .source = {}, .bytes = 1001, .ticket = 1};
  cases.add("copy", kRt700, copy, 200 + 1602);   // ⌈1001 · 16 / 10 = 1601.6⌉
  cases.add("copy", kOdd, copy, 7 + 5339);       // ⌈1001 · 16 / 3 = 5338.7⌉
  cases.add("copy", kTest4x4, copy, 100 + 501);  // ⌈1001 · 16 / 32 = 500.5⌉
}

void add_reductions(Cases& cases) {
  const auto reduce = [](ReduceKind kind, const uint32_t(&extent)[2], const int32_t(&stride)[2],
                         uint32_t reduced, int32_t reduced_stride) {
    return Reduce{.input = {},
                  .output = {},
                  .kind = kind,
                  .extent = {1, 1, 1, 1, extent[0], extent[1]},
                  .input_stride = {0, 0, 0, 0, stride[0], stride[1]},
                  .output_stride = {0, 0, 0, 0, static_cast<int32_t>(extent[1]), 1},
                  .reduced_extent = {1, 1, 1, 1, 1, reduced},
                  .reduced_stride = {0, 0, 0, 0, 0, reduced_stride},
                  .zero_point_in = 0,
                  .zero_point_out = 0,
                  .rescale = {},
                  .clamp_low = -128,
                  .clamp_high = 127,
                  .index_bytes = returns_index(kind) ? 8u : 0u};
  };
  for (const ReduceKind kind :
       {ReduceKind::kSum, ReduceKind::kMaximum, ReduceKind::kMinimum, ReduceKind::kSumOfBytes}) {
    // Neighbouring results read neighbouring bytes: 3 runs of ⌈20/8⌉ = 3 pipelines' turns of 7
    // elements. By lanes it would be 60 · 7.
    cases.add("by results", kRt700, reduce(kind, {3, 20}, {140, 1}, 7, 20), 64 + 3 * 3 * 7);
    cases.add("by results", kOdd, reduce(kind, {3, 20}, {140, 1}, 7, 20), 10 + 3 * 5 * 7);
    // Reduced elements are neighbours: 6 results of ⌈30/8⌉ = 4 steps of lanes (⌈30/16⌉ = 2). By
    // results it would be 6 · 30.
    cases.add("by lanes", kRt700, reduce(kind, {2, 3}, {90, 30}, 30, 1), 64 + 6 * 4);
    cases.add("by lanes", kOdd, reduce(kind, {2, 3}, {90, 30}, 30, 1), 10 + 6 * 2);
    // Neither: an element a cycle.
    cases.add("apart", kRt700, reduce(kind, {2, 3}, {180, 60}, 30, 2), 64 + 6 * 30);
  }
  for (const ReduceKind kind : {ReduceKind::kIndexOfMaximum, ReduceKind::kIndexOfMinimum}) {
    // Compared in 3 · ⌈20/8⌉ · 2 = 18 cycles, but 60 indices are written, one a cycle; with a port
    // of one byte in 8 cycles each.
    cases.add("index, written", kRt700, reduce(kind, {3, 20}, {40, 1}, 2, 20), 64 + 60);
    cases.add("index, written", kOdd, reduce(kind, {3, 20}, {40, 1}, 2, 20), 10 + 60 * 8);
    cases.add("index, compared", kRt700, reduce(kind, {2, 3}, {90, 30}, 30, 1),
              64 + 6 * 4);  // 24 cycles, 6 indices
  }
}

void add_matmul(Cases& cases) {
  Matmul matmul = {};
  for (uint32_t d = 0; d < kMatmulBatchRank; ++d)
    matmul.batch[d] = d + 1 == kMatmulBatchRank ? 3 : d == 0 ? 2 : 1;
  matmul.rows = 11;
  matmul.inner = 20;
  matmul.columns = 9;
  matmul.left_row_stride = 20;
  matmul.left_inner_stride = 1;
  matmul.right_inner_stride = 9;
  matmul.right_column_stride = 1;
  matmul.output_row_stride = 9;
  matmul.output_column_stride = 1;
  // 6 products of 2 groups of columns; ⌈20/8⌉ = 3 steps; tiles of 8 and 3 rows, each max(3 · max(P,
  // 8), P) = 24; the last drain 3.
  cases.add("dense", kRt700, matmul, 64 + 12 * (24 + 24) + 3);
  // ⌈9/4⌉ = 3 groups, ⌈20/16⌉ = 2 steps; tiles of 6 and 5 rows: max(2 · 6, 6 · 4) = 24, max(2 · 5,
  // 5 · 4) = 20; the last drain 20.
  cases.add("dense", kOdd, matmul, 10 + 18 * (24 + 20) + 20);
  matmul.flags = kWithTable;
  cases.add("table", kRt700, matmul, 64 + 12 * (24 + 24) + 3 + 32);
  matmul.flags = 0;
  matmul.left_row_stride = 1;  // transposed operands cost nothing
  matmul.left_inner_stride = 11;
  matmul.right_inner_stride = 1;
  matmul.right_column_stride = 20;
  cases.add("transposed operands", kRt700, matmul, 64 + 12 * (24 + 24) + 3);
  matmul.left_row_stride = 2;  // 8 cycles a step and row: max(3 · max(8 · 8, 8), 8) = 192, max(3 ·
                               // max(3 · 8, 8), 3) = 72
  cases.add("left apart", kRt700, matmul, 64 + 12 * (192 + 72) + 3);
  // On the other machine 16 cycles a step and row: 2 · 6 · 16 and 2 · 5 · 16.
  cases.add("left apart", kOdd, matmul, 10 + 18 * (192 + 160) + 20);
  matmul.right_inner_stride = 2;  // 64 cycles a block: max(3 · max(64, 64), 8) = 192 for both tiles
  cases.add("both apart", kRt700, matmul, 64 + 12 * (192 + 192) + 3);
  matmul.left_row_stride = 1;  // 3 · max(8, 64) = 192 again
  cases.add("right apart", kRt700, matmul, 64 + 12 * (192 + 192) + 3);
  cases.add("right apart", kOdd, matmul, 10 + 18 * (128 + 128) + 20);  // 2 · 64 for both tiles
  matmul.right_inner_stride = 1;
  matmul.output_row_stride = 1;  // a tile of results is drained by columns, 8 cycles
  matmul.output_column_stride = 11;
  cases.add("transposed result", kRt700, matmul, 64 + 12 * (24 + 24) + 8);
  cases.add("transposed result", kOdd, matmul,
            10 + 18 * (12 + 10) + 4);  // 2 · 6, 2 · 5; drained in 4 cycles
  matmul.output_row_stride =
      2;  // 8 cycles a row of 8 results: max(24, 64), max(24, 24); the last drain 24
  matmul.output_column_stride = 22;
  cases.add("result apart", kRt700, matmul, 64 + 12 * (64 + 24) + 24);
  matmul.rows = 16;  // two full tiles: the last one's drain is 64
  cases.add("full tiles", kRt700, matmul, 64 + 12 * (64 + 64) + 64);
}

void add_normalize(Cases& cases) {
  Normalize normalize = {.input = {},
                         .output = {},
                         .parameters = {},
                         .extent = {2, 3, 4, 10},
                         .stride = {120, 40, 10, 1},
                         .parameter_stride = {0, 0, 10, 1},
                         .center = 1,
                         .zero_point_in = 0,
                         .zero_point_out = 0,
                         .epsilon_low = 0,
                         .epsilon_high = 0,
                         .gain_shift = 0,
                         .clamp_low = -128,
                         .clamp_high = 127};
  for (const uint32_t center : {0u, 1u}) {
    normalize.center = center;
    // 6 rows of 4 · ⌈10/8⌉ = 8 blocks, three times each, and 32 steps of a root and of a division;
    // 40 parameters of 8 bytes, 40 cycles.
    cases.add("inner run", kRt700, normalize, 64 + 6 * (3 * 8 + 64) + 40);
    cases.add("inner run", kOdd, normalize,
              10 + 6 * (3 * 4 * 5 + 64) + 10);  // ⌈10/2⌉ = 5; 320 / 32 = 10
  }
  // Runs along dimension 2: 3 · ⌈20/8⌉ = 9 blocks; 3 parameters, 24 bytes.
  normalize.extent[0] = 1;
  normalize.extent[1] = 5;
  normalize.extent[2] = 20;
  normalize.extent[3] = 3;
  normalize.stride[2] = 1;
  normalize.stride[3] = 20;
  normalize.parameter_stride[2] = 0;
  cases.add("outer run", kRt700, normalize, 64 + 5 * (3 * 9 + 64) + 3);
  normalize.stride[2] = 2;  // no run: 60 elements, one a cycle
  cases.add("apart", kRt700, normalize, 64 + 5 * (3 * 60 + 64) + 3);
}

Cases all_cases() {
  Cases cases;
  add_convolutions(cases);
  add_windows(cases);
  add_elementwise(cases);
  add_movement(cases);
  add_reductions(cases);
  add_matmul(cases);
  add_normalize(cases);
  return cases;
}

// Commands that take time of their own: all but the end, and a wait, which lasts until a copy has
// arrived (the timeline's tests).
constexpr Opcode kTakeTime[] = {
    Opcode::kCopy,
#define DTR_NPU_KERNEL(type, function, opcode) Opcode::k##type,
#include "device/npu/commands.inc"
};

TEST(Cycles, AsComputedByHand) {
  const Cases cases = all_cases();
  for (const FormulaCase& each : cases.all())
    EXPECT_EQ(each.actual.total, each.total)
        << "command 0x" << std::hex << static_cast<int>(each.opcode) << ", " << each.mode;
}

TEST(Cycles, EveryCommandHasCasesOnBothMachines) {
  std::map<Opcode, size_t> found;
  const Cases cases = all_cases();
  for (const FormulaCase& each : cases.all()) ++found[each.opcode];
  for (const Opcode command : kTakeTime) EXPECT_GE(found[command], 2u) << name(command);
}

// What the MAC array worked, and what a call mostly waits for.
TEST(Cycles, ArrayAndLimitAsComputedByHand) {
  const auto expect = [](const Cycles& actual, uint64_t array, Limit limit) {
    EXPECT_EQ(actual.array, array);
    EXPECT_EQ(static_cast<int>(actual.limit), static_cast<int>(limit));
  };
  // 30 positions · 12 steps · 2 groups; weights are loaded 4 · 12 · 8 · 2 = 768 cycles, for the
  // last tile of 6 positions longer than it works.
  expect(cycles(kRt700, conv({2, 3, 5, 11, 13, 3, 2}, Packing::kChannels)), 720,
         Limit::kWeightPort);
  // 16 · 4 · 1, and as long for the weights.
  expect(cycles(kRt700, conv({1, 4, 4, 3, 8, 2, 5}, Packing::kRows)), 64, Limit::kArray);
  // 10 steps of work in a call of 94 cycles, of which 64 are the start.
  expect(cycles(kRt700, conv({1, 2, 5, 8, 8, 1, 1}, Packing::kChannels)), 10, Limit::kStart);
  // 80 positions of one step, drained in 2 cycles each.
  expect(cycles(kRt700, conv({1, 8, 10, 8, 8, 1, 1}, Packing::kChannels, kWithAdd)), 80,
         Limit::kWritePort);
  // 12 rows of 3 steps, drained in 4 cycles each: 48, a third longer than it works.
  Matmul matmul = {};
  for (uint32_t& extent : matmul.batch) extent = 1;
  matmul.rows = 12;
  matmul.inner = 48;
  matmul.columns = 4;
  matmul.left_row_stride = 48;
  matmul.left_inner_stride = 1;
  matmul.right_inner_stride = 4;
  matmul.right_column_stride = 1;
  matmul.output_row_stride = 4;
  matmul.output_column_stride = 1;
  expect(cycles(kOdd, matmul), 36, Limit::kWritePort);
  matmul.inner = 80;  // 5 steps: 60
  expect(cycles(kOdd, matmul), 60, Limit::kArray);
}

}  // namespace
}  // namespace dtr::npu
