// Places the buffers of a program. Inputs, outputs, values between calls and buffers inside of
// delegates share one arena; states have a memory of their own, because they keep their contents
// between runs. Time is counted in steps: a kernel call is one step, a delegate call as many as it
// reports, so that operands of a delegate can share memory with its own buffers while the delegate
// runs.
#pragma once

#include "compiler/program/plan.h"
#include "compiler/support/arena_planner.h"

namespace dtr {

// One buffer of the arena and the steps in which it is live (inclusive).
struct MemoryMapEntry {
  enum class Kind : uint8_t { kTensor, kInterior };
  Kind kind = Kind::kTensor;
  bool staged = false;  // holds constants copied from flash, not a value
  uint32_t call = 0;    // kInterior: index into MethodPlan::calls
  uint32_t index = 0;   // into MethodPlan::tensors, or the partition's buffers
  int64_t offset = 0;
  int64_t bytes = 0;
  int32_t first_step = 0, last_step = 0;
};

struct MemoryMap {
  std::vector<MemoryMapEntry> entries;
  std::vector<ArenaTrail> trails;    // between entries
  std::vector<uint32_t> first_step;  // of each call
  int32_t steps = 0;
  int64_t arena_bytes = 0;
  int64_t value_bytes =
      0;  // of the arena, what values need alone; staged constants use its gaps and the rest
  // most bytes of values live at one step: a lower bound for every plan
  int64_t max_live_values = 0;
  int64_t max_live_bytes = 0;  // the same, staged constants included
  int32_t max_live_step = 0;
  uint32_t max_live_call = 0;
};

// How staged constants are placed. kAround: in the gaps between values, which are placed first.
// kTogether: values and constants are also placed in one go, and the smaller arena is taken.
// kTogetherLong: the latter with ArenaSearch::kLong.
enum class StagedPlacement : uint8_t { kAround, kTogether, kTogetherLong };

// Sets the offsets of tensors, scratch operands and interior buffers, and the totals of `plan`.
// Inputs are live from the start, outputs to the end. Error: kMemoryExceeded if arena and states
// are larger than `limit_bytes`, naming the call with the most live bytes. `threads`: of
// plan_arena.
Result<MemoryMap> plan_memory(MethodPlan& plan, int64_t limit_bytes = INT32_MAX,
                              StagedPlacement staged = StagedPlacement::kAround,
                              unsigned threads = 1);

// Encodes the payload of each partition, after plan_memory. Errors: those of
// LoweredPartition::encode.
Result<void> encode_payloads(MethodPlan& plan);

}  // namespace dtr
