// Stores weights that several calls have once, where the rest of their constants differs: the steps
// of a recurrence and layers with common weights have parameters of their own for each scale of
// their operands.
#pragma once

#include <span>

#include "compiler/backends/neutron/call.h"
#include "compiler/backends/neutron/conditions.h"

namespace dtr::neutron {

// Gives calls of a graph with equal weights the same set (SharedWeights), the same in all graphs.
// Weights of a few bytes, which a further copy would not be worth, get none.
void find_shared_weights(const npu::Target& target, std::span<LoweredGraph> graphs);

bool has_shared_weights(std::span<const Call> calls);

// Removes from blocks of constants the weights that the block of an earlier call has, after calls
// are split. `stay`: the weights stay in SRAM from one reader to the next where there is room
// beside `live_bytes` and the constants of each call; else they are copied again. Calls whose whole
// blocks are equal keep them if their weights are copied again: one copy brings both, from one
// place in flash.
void share_weights(const Machine& machine, std::span<Call> calls,
                   std::span<const uint64_t> live_bytes, bool stay);

}  // namespace dtr::neutron
