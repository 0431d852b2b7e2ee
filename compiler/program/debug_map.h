// The debug map of a program: built from a plan, serialized as device/pte/debug_map.fbs. See
// design: call → origin; tensor → place, dtype, scale.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/program/memory_planner.h"

namespace dtr {

// `value_of_tensor[i]` is the index of plan.tensors[i] among the values of the execution plan,
// negative if it has none. `memory` may be null: then it says nothing of buffers.
std::vector<std::byte> serialize_debug_map(const ProgramPlan& plan,
                                           std::span<const int32_t> value_of_tensor,
                                           const MemoryMap* memory);

}  // namespace dtr
