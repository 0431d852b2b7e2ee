#include "device/npu/cycles.h"

namespace dtr::npu {
namespace {

constexpr uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// Bytes of parameters a group of M channels needs before its first tile is drained.
constexpr uint64_t parameter_cycles(const Target& target) {
  return div_up(target.pipelines * 12, target.weight_port);
}
constexpr uint64_t table_cycles(const Target& target) { return div_up(256, target.weight_port); }

// One group of M output channels over all output positions, tile by tile of A positions. A step
// takes `step_load` cycles of the weight port and one cycle of the array for each position; a tile
// is drained, `drain` cycles a position, while the next computes.
struct Tiles {
  uint64_t positions, steps, step_load, drain;
};
Cycles accumulate(const Target& target, uint64_t groups, const Tiles& tiles,
                  const Epilogue& epilogue) {
  const uint64_t full = tiles.positions / target.accumulators;
  const uint64_t rest = tiles.positions % target.accumulators;
  const auto tile = [&](uint64_t positions) {
    return larger(tiles.steps * larger(positions, tiles.step_load), positions * tiles.drain);
  };
  const uint64_t last = rest != 0 ? rest : target.accumulators;
  const uint64_t group =
      full * tile(target.accumulators) + (rest != 0 ? tile(rest) : 0) + parameter_cycles(target);
  Cycles result;
  result.array = groups * tiles.positions * tiles.steps;
  result.total = target.call_npu_cycles + groups * group + last * tiles.drain;
  if ((epilogue.flags & kWithTable) != 0) result.total += table_cycles(target);
  const uint64_t drained = groups * tiles.positions * tiles.drain;
  const uint64_t loaded = groups * (full + (rest != 0 ? 1 : 0)) * tiles.steps * tiles.step_load;
  result.limit = drained > result.array && drained >= loaded ? Limit::kWritePort
                 : loaded > result.array                     ? Limit::kWeightPort
                                                             : Limit::kArray;
  if (target.call_npu_cycles > result.total / 2) result.limit = Limit::kStart;
  return result;
}

// Cycles to drain one position of a group: M bytes out, or M sums; an addend (M bytes) and earlier
// sums come in through the weight port.
uint64_t drain_cycles(const Target& target, const Epilogue& epilogue) {
  const auto has = [&](EpilogueFlag flag) { return (epilogue.flags & flag) != 0; };
  uint64_t cycles = div_up(target.pipelines * (has(kToSums) ? 4 : 1), target.write_port);
  if (has(kWithAdd)) cycles += div_up(target.pipelines, target.weight_port);
  if (has(kFromSums)) cycles += div_up(target.pipelines * 4, target.weight_port);
  return cycles;
}

uint64_t positions(const Window& window) {
  return uint64_t{window.batch} * window.out_height * window.out_width;
}

// A port delivers neighbours, or one byte to all lanes; bytes at other strides come one by one.
constexpr bool in_step(int32_t stride) { return stride == 0 || stride == 1; }
uint64_t elementwise_cycles(uint32_t width, const uint32_t (&extent)[kMoveRank], bool lanes) {
  uint64_t elements = 1;
  for (const uint32_t each : extent) elements *= each;
  const uint32_t inner = extent[kMoveRank - 1];
  return lanes && inner != 0 ? elements / inner * div_up(inner, width) : elements;
}

// A stream: `work` cycles of lanes after the start, `extra` cycles of tables.
Cycles stream(const Target& target, uint64_t work, uint64_t extra, Limit limit) {
  const uint64_t total = target.call_npu_cycles + work + extra;
  return {total, work, target.call_npu_cycles > total / 2 ? Limit::kStart : limit};
}

}  // namespace

Cycles cycles(const Target& target, const Conv2d& command) {
  const uint64_t load = div_up(target.pipelines * target.macs, target.weight_port);
  return accumulate(
      target, div_up(command.window.out_channels, target.pipelines),
      {positions(command.window), reduction_steps(target, command.window, command.packing), load,
       drain_cycles(target, command.epilogue)},
      command.epilogue);
}

Cycles cycles(const Target& target, const Depthwise& command) {
  const uint64_t taps = uint64_t{command.window.kernel_height} * command.window.kernel_width;
  return accumulate(target, div_up(command.window.out_channels, target.pipelines),
                    {positions(command.window), taps, div_up(target.pipelines, target.weight_port),
                     drain_cycles(target, command.epilogue)},
                    command.epilogue);
}

Cycles cycles(const Target& target, const Pool& command) {
  const uint64_t taps = uint64_t{command.window.kernel_height} * command.window.kernel_width;
  const uint64_t groups = div_up(command.window.out_channels, target.pipelines);
  return stream(target, positions(command.window) * taps * groups, 0, Limit::kActivationPort);
}

Cycles cycles(const Target& target, const Binary& command) {
  const bool lanes =
      in_step(command.stride_0[kMoveRank - 1]) && in_step(command.stride_1[kMoveRank - 1]);
  return stream(target,
                elementwise_cycles(target.activation_port, command.extent,
                                   lanes && command.output_stride[kMoveRank - 1] == 1),
                0, Limit::kActivationPort);
}

Cycles cycles(const Target& target, const Lookup& command) {
  const bool lanes =
      in_step(command.input_stride[kMoveRank - 1]) && command.output_stride[kMoveRank - 1] == 1;
  return stream(target, elementwise_cycles(target.pipelines, command.extent, lanes),
                table_cycles(target), Limit::kActivationPort);
}

Cycles cycles(const Target& target, const Softmax& command) {
  // Three passes of one element a cycle (maximum, sum of exponentials, scaling) and a 32-step
  // reciprocal or logarithm per row.
  const uint64_t rows = uint64_t{command.outer} * command.inner;
  return stream(target, rows * (3 * uint64_t{command.columns} + 32), 0, Limit::kArray);
}

Cycles cycles(const Target& target, const Move& command) {
  uint64_t elements = 1;
  for (const uint32_t extent : command.extent) elements *= extent;
  const uint32_t inner = command.extent[kMoveRank - 1];
  const bool dense =
      command.input_stride[kMoveRank - 1] == 1 && command.output_stride[kMoveRank - 1] == 1;
  const uint64_t runs = inner == 0 ? 0 : elements / inner;
  return stream(target, dense ? runs * div_up(inner, target.write_port) : elements, 0,
                Limit::kWritePort);
}

Cycles cycles(const Target& target, const Fill& command) {
  return stream(target, div_up(command.bytes, target.write_port), 0, Limit::kWritePort);
}

Cycles cycles(const Target& target, const Reduce& command) {
  uint64_t results = 1, reduced = 1;
  uint32_t inner = 1,
           inner_reduced =
               1;  // extents of the innermost loops, if they walk through neighbouring bytes
  for (uint32_t d = 0; d < kMoveRank; ++d) {
    results *= command.extent[d];
    reduced *= command.reduced_extent[d];
    if (command.extent[d] > 1) inner = command.input_stride[d] == 1 ? command.extent[d] : 1;
    if (command.reduced_extent[d] > 1)
      inner_reduced = command.reduced_stride[d] == 1 ? command.reduced_extent[d] : 1;
  }
  // Either each pipeline takes a result of its own, as in a pool, or the lanes of one add up (or
  // compare) neighbouring elements.
  const uint64_t by_results =
      inner == 0 ? 0 : results / inner * div_up(inner, target.pipelines) * reduced;
  const uint64_t by_lanes =
      inner_reduced == 0 ? 0
                         : results * (reduced / inner_reduced) * div_up(inner_reduced, target.macs);
  const uint64_t compared = by_results < by_lanes ? by_results : by_lanes;
  const uint64_t written =
      returns_index(command.kind) ? results * div_up(command.index_bytes, target.write_port) : 0;
  return stream(target, larger(compared, written), 0,
                written > compared ? Limit::kWritePort : Limit::kActivationPort);
}

Cycles cycles(const Target& target, const Gather& command) {
  const uint64_t indices =
      (uint64_t{command.count} * command.index_bytes + target.weight_port - 1) / target.weight_port;
  const uint64_t elements = uint64_t{command.count} * div_up(command.inner, target.write_port);
  return stream(target, command.outer * (indices + elements), 0, Limit::kWritePort);
}

Cycles cycles(const Target& target, const Resize& command) {
  const uint64_t taps = command.kind == ResizeKind::kBilinear ? 4 : 1;
  const uint64_t positions = uint64_t{command.batch} * command.height.out * command.width.out;
  return stream(target, positions * taps * div_up(command.channels, target.pipelines), 0,
                Limit::kActivationPort);
}

// The right operand takes the weights' way into the pipelines, the left one that of activations. A
// block of M × N bytes is read as runs along either of its dimensions and transposed on its way;
// where neither is dense, a byte a cycle. The same holds for a tile of results.
Cycles cycles(const Target& target, const Matmul& command) {
  const auto dense = [](uint32_t stride, uint32_t extent) { return stride == 1 || extent == 1; };
  const bool right_runs = dense(command.right_inner_stride, command.inner) ||
                          dense(command.right_column_stride, command.columns);
  const bool left_runs = dense(command.left_inner_stride, command.inner) ||
                         dense(command.left_row_stride, command.rows);
  const uint64_t block = uint64_t{target.pipelines} * target.macs;
  const uint64_t load =
      right_runs ? div_up(target.pipelines * target.macs, target.weight_port) : block;
  const uint64_t feed = left_runs ? 1 : target.macs;
  const auto drain = [&](uint64_t positions) -> uint64_t {
    if (dense(command.output_column_stride, command.columns))
      return positions * div_up(target.pipelines, target.write_port);
    if (dense(command.output_row_stride, command.rows)) return target.pipelines;
    return positions * target.pipelines;
  };
  const uint64_t steps = div_up(command.inner, target.macs);
  const auto tile = [&](uint64_t positions) {
    return larger(steps * larger(positions * feed, load), drain(positions));
  };
  const uint64_t full = command.rows / target.accumulators;
  const uint64_t rest = command.rows % target.accumulators;
  uint64_t passes = div_up(command.columns, target.pipelines);
  for (const uint32_t extent : command.batch) passes *= extent;
  Cycles result;
  result.array = passes * command.rows * steps;
  result.total = target.call_npu_cycles +
                 passes * (full * tile(target.accumulators) + (rest != 0 ? tile(rest) : 0)) +
                 drain(rest != 0 ? rest : target.accumulators);
  if ((command.flags & kWithTable) != 0) result.total += table_cycles(target);
  const uint64_t loaded = passes * (full + (rest != 0 ? 1 : 0)) * steps * load;
  const uint64_t fed = result.array * feed;
  const uint64_t drained =
      passes * (full * drain(target.accumulators) + (rest != 0 ? drain(rest) : 0));
  result.limit = drained > loaded && drained > fed ? Limit::kWritePort
                 : loaded > fed                    ? Limit::kWeightPort
                 : fed > result.array              ? Limit::kActivationPort
                                                   : Limit::kArray;
  if (target.call_npu_cycles > result.total / 2) result.limit = Limit::kStart;
  return result;
}

Cycles cycles(const Target& target, const Normalize& command) {
  // Two passes over a row: sums of values and squares; scaling, which takes the rescaling
  // multipliers of the drain stage twice. Between them a square root and a division of 32 steps
  // each.
  const uint64_t rows = uint64_t{command.extent[0]} * command.extent[1];
  const uint64_t blocks =
      command.stride[3] == 1 || command.extent[3] == 1
          ? uint64_t{command.extent[2]} * div_up(command.extent[3], target.activation_port)
      : command.stride[2] == 1
          ? uint64_t{command.extent[3]} * div_up(command.extent[2], target.activation_port)
          : uint64_t{command.extent[2]} * command.extent[3];
  uint64_t last = 0;
  for (uint32_t d = 0; d < kNormalizeRank; ++d)
    last += uint64_t{command.extent[d] - 1} * command.parameter_stride[d];
  const uint64_t parameters = div_up(static_cast<uint32_t>(last + 1) * 8, target.weight_port);
  return stream(target, rows * (3 * blocks + 64), parameters, Limit::kArray);
}

uint64_t copy_cycles(const Target& target, const Copy& command) {
  const uint64_t rate = target.flash_bytes_per_16_cycles;
  return target.copy_setup_cycles + (uint64_t{command.bytes} * 16 + rate - 1) / rate;
}

}  // namespace dtr::npu
