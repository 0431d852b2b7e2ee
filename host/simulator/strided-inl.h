// Moves and reductions for each of Highway's targets. Compiled once a target.
#if defined(DTR_SIMULATOR_HOST_STRIDED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DTR_SIMULATOR_HOST_STRIDED_INL_H
#undef DTR_SIMULATOR_HOST_STRIDED_INL_H
#else
#define DTR_SIMULATOR_HOST_STRIDED_INL_H
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include <hwy/highway.h>
#include "device/numerics/requantize.h"
#include "device/simulator/functional.h"
#include "device/simulator/loops.h"

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {

#if !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR

// Dimensions that continue each other in input and output are joined; what remains inside is one
// copy where both sides are dense.
inline void move(const Call& call, const npu::Move& command, const int8_t* input, int8_t* output) {
  npu::Move joined = command;
  uint32_t kept = npu::kMoveRank;  // dimensions [kept, rank) of `joined` are in use
  for (uint32_t d = npu::kMoveRank; d-- > 0;) {
    const uint32_t extent = command.extent[d];
    if (extent == 1) continue;
    const bool continues =
        kept < npu::kMoveRank &&
        int64_t{joined.input_stride[kept]} * joined.extent[kept] == command.input_stride[d] &&
        int64_t{joined.output_stride[kept]} * joined.extent[kept] == command.output_stride[d];
    if (continues) {
      joined.extent[kept] *= extent;
      continue;
    }
    --kept;
    joined.extent[kept] = extent;
    joined.input_stride[kept] = command.input_stride[d];
    joined.output_stride[kept] = command.output_stride[d];
  }
  for (uint32_t d = 0; d < kept; ++d) joined.extent[d] = 1;
  constexpr uint32_t kInner = npu::kMoveRank - 1;
  const bool dense = kept < npu::kMoveRank && joined.input_stride[kInner] == 1 &&
                     joined.output_stride[kInner] == 1;
  if (!dense) return kPlainKernels.move(call, joined, input, output);
  uint32_t index[npu::kMoveRank] = {};
  Stream from{joined.input_stride}, to{joined.output_stride};
  do std::memcpy(output + to.at, input + from.at, joined.extent[kInner]);
  while (advance(joined.extent, kInner, index, from, to));
}

// Results whose elements are neighbours go by in blocks that stay in L1; else what is reduced to
// one result, if that is one run.
inline void reduce(const Call& call, const npu::Reduce& command, const int8_t* input,
                   int8_t* output) {
  constexpr uint32_t kInner = npu::kMoveRank - 1;
  constexpr uint32_t kBlock = 256;
  if (command.kind == npu::ReduceKind::kSumOfBytes || npu::returns_index(command.kind))
    return kPlainKernels.reduce(call, command, input, output);
  const numerics::Range range{command.clamp_low, command.clamp_high};
  uint32_t index[npu::kMoveRank] = {};
  Stream from{command.input_stride}, to{command.output_stride};
  if (command.input_stride[kInner] == 1 && command.extent[kInner] >= 8) {
    do {
      for (uint32_t first = 0; first < command.extent[kInner]; first += kBlock) {
        const uint32_t count = std::min(kBlock, command.extent[kInner] - first);
        std::array<int32_t, kBlock> sums{};
        std::array<int8_t, kBlock> highest, lowest;
        highest.fill(-128);
        lowest.fill(127);
        uint32_t inner[npu::kMoveRank] = {};
        Stream element{command.reduced_stride, from.at + first};
        do {
          const int8_t* values = input + element.at;
          if (command.kind == npu::ReduceKind::kSum) {
            for (uint32_t i = 0; i < count; ++i) sums[i] += values[i] - command.zero_point_in;
          } else if (command.kind == npu::ReduceKind::kMaximum) {
            for (uint32_t i = 0; i < count; ++i) highest[i] = std::max(highest[i], values[i]);
          } else {
            for (uint32_t i = 0; i < count; ++i) lowest[i] = std::min(lowest[i], values[i]);
          }
        } while (advance(command.reduced_extent, npu::kMoveRank, inner, element));
        for (uint32_t i = 0; i < count; ++i)
          output[to.at + int64_t{first + i} * command.output_stride[kInner]] =
              finish_reduction(command, range, highest[i], lowest[i], sums[i]);
      }
    } while (advance(command.extent, kInner, index, from, to));
    return;
  }
  if (command.reduced_stride[kInner] != 1)
    return kPlainKernels.reduce(call, command, input, output);
  const uint32_t run = command.reduced_extent[kInner];
  do {
    int32_t sum = 0;
    int8_t highest = -128, lowest = 127;
    uint32_t inner[npu::kMoveRank] = {};
    Stream element{command.reduced_stride, from.at};
    do {
      const int8_t* values = input + element.at;
      if (command.kind == npu::ReduceKind::kSum) {
        for (uint32_t i = 0; i < run; ++i) sum += values[i] - command.zero_point_in;
      } else if (command.kind == npu::ReduceKind::kMaximum) {
        for (uint32_t i = 0; i < run; ++i) highest = std::max(highest, values[i]);
      } else {
        for (uint32_t i = 0; i < run; ++i) lowest = std::min(lowest, values[i]);
      }
    } while (advance(command.reduced_extent, kInner, inner, element));
    output[to.at] = finish_reduction(command, range, highest, lowest, sum);
  } while (advance(command.extent, npu::kMoveRank, index, from, to));
}

#endif  // fixed-size vectors

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#endif
