// When constants are copied: beside which calls, and what that costs on the program's timeline.
#pragma once

#include <span>
#include <vector>

#include "compiler/backends/neutron/call.h"
#include "compiler/backends/neutron/lowering/builder.h"

namespace dtr::neutron {

constexpr uint32_t kNoCopy = UINT32_MAX;

struct Schedule {
  // By call: the copy of its constants starts right before this call (at most its own index);
  // kNoCopy if it has none. Never falling.
  std::vector<uint32_t> start;
};

// docs/npu.md 3: the host starts copies and calls in turn, a call blocks it, copies run beside one
// after the other.
struct Timeline {
  uint64_t total = 0, busy = 0, host = 0, stall = 0;  // cycles
  std::vector<uint64_t> stalls;                       // by call: waiting for its constants
};
Timeline simulate(const npu::Target& target, std::span<const Call> calls, const Schedule& schedule);

// Copies start as late as they can without making any call wait longer than if all copies ran back
// to back from the beginning, which is the least that is possible; later where SRAM has no room
// yet. `live_bytes`: SRAM in use at each call without staging. Error: kMemoryExceeded if the
// constants of one call do not fit beside its operands. Linear in calls times the calls that a copy
// is ahead.
Result<Schedule> plan_copies(const Machine& machine, std::span<const Call> calls,
                             std::span<const uint64_t> live_bytes);

// Splits convolutions and linear layers by output channels: where their constants would not fit
// SRAM beside `live_bytes`, and where computing the first part while the second is being copied
// shortens the program.
void split_calls(const Machine& machine, LoweredGraph& graph, std::span<const uint64_t> live_bytes);

}  // namespace dtr::neutron
