// Places every buffer of a program in one arena: inputs, outputs, values between calls, and the
// insides of delegates. Time is counted in steps: a kernel call is one, a delegate call as many as
// it reports, so that an operand of a delegate may give its memory to the delegate's own buffers
// before the delegate ends, or take it from them.
#pragma once

#include "compiler/program/plan.h"

namespace dtr {

struct MemoryMapEntry {
  enum class Kind : uint8_t { kTensor, kInterior };
  Kind kind = Kind::kTensor;
  bool staged = false;  // constants on their way from flash, not a value
  uint32_t call = 0;    // kInterior: index into ProgramPlan::calls
  uint32_t index = 0;   // into ProgramPlan::tensors, or the partition's buffers
  int64_t offset = 0;
  int64_t bytes = 0;
  int32_t first_step = 0, last_step = 0;
};

struct MemoryMap {
  std::vector<MemoryMapEntry> entries;
  std::vector<uint32_t> first_step;  // of each call
  int32_t steps = 0;
  int64_t arena_bytes = 0;
  int64_t value_bytes =
      0;  // of it: the part that holds values; staged constants lie in its gaps and above it
  int64_t max_live_values = 0;  // most bytes of values live at one step: no plan can do with less
  int64_t max_live_bytes = 0;   // the same, staged constants included
  int32_t max_live_step = 0;
  uint32_t max_live_call = 0;
};

// Sets the offsets of tensors, scratch operands and interior buffers, and the totals, in `plan`.
// Inputs live from the start, outputs to the end. Error: kMemoryExceeded if the arena is larger
// than `limit_bytes`, naming the call where most is live.
Result<MemoryMap> plan_memory(ProgramPlan& plan, int64_t limit_bytes = INT32_MAX);

// Asks each partition for its payload now that the places are known.
Result<void> encode_payloads(ProgramPlan& plan);

}  // namespace dtr
