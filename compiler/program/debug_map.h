// Serializes the debug map of a program (device/pte/debug_map.fbs): the source operators of each
// call, and buffer, dtype and scale of each value.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/program/memory_planner.h"

namespace dtr {

// `value_of_tensor[i]` is the index of plan.tensors[i] among the values of the execution plan,
// negative if it has none. Without `memory` the map has no buffers.
std::vector<std::byte> serialize_debug_map(const MethodPlan& plan,
                                           std::span<const int32_t> value_of_tensor,
                                           const MemoryMap* memory);

}  // namespace dtr
