// Watches memory: every byte that a program reads was written in this run, by a copy that has been
// waited for, an earlier call, or as an input, and by way of the same region; nothing touches the
// target of a copy in flight; a call's output does not lie on its inputs.
//
// A program has no branches, so what it touches depends only on where its regions lie relative to
// each other (the memory planner may let an operand's memory overlap with scratch). The check is
// made once for each such layout, not in every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/npu/driver.h"
#include "device/npu/target.h"
#include "device/simulator/decoder.h"

namespace dtr::simulator {

// Where regions lie in one sequence of bytes that keeps their overlaps: entry 0 is scratch, entry 1
// unused, entry 2 + i operand i.
struct RegionLayout {
  std::vector<uint64_t> starts;
  uint64_t bytes = 0;
  bool operator==(const RegionLayout&) const = default;
};
RegionLayout layout_of(std::span<const npu::Buffer> operands, npu::Buffer scratch);

// The first command that breaks a rule; for an output that is not wholly written, or a copy still
// in flight, the last command.
Fault watch_memory(const npu::Target& target, const Payload& payload, const RegionLayout& layout);

}  // namespace dtr::simulator
