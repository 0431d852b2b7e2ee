// Schedules the copies of constants from flash to SRAM: beside which call each one runs, and the
// resulting timeline of the program.
#pragma once

#include <span>
#include <vector>

#include "compiler/backends/neutron/call.h"
#include "compiler/backends/neutron/lowering/builder.h"

namespace dtr::neutron {

// In Schedule::start: the call has no constants.
constexpr uint32_t kNoCopy = UINT32_MAX;

struct Schedule {
  // By call: the copy of its constants starts right before this call (at most its own index);
  // kNoCopy if it has none. Never falling.
  std::vector<uint32_t> start;
};

// The timeline of docs/npu.md 3: the host starts copies and calls in turn and waits for each call
// to end; copies run concurrently with calls, one after the other.
struct Timeline {
  uint64_t total = 0, busy = 0, host = 0, stall = 0;  // cycles
  std::vector<uint64_t> stalls;  // by call: cycles that it waits for its constants
};
Timeline simulate(const npu::Target& target, std::span<const Call> calls, const Schedule& schedule);

// Starts each copy as late as possible without delaying any call beyond the minimum, which is
// reached if all copies run back to back from the start; later still if SRAM has no room yet. A
// block stays in SRAM until the last call that reads it (Call::block_of).
// `live_bytes`: SRAM in use at each call, without staging. Error: kMemoryExceeded if the constants
// of one call do not fit beside its operands. Linear in the calls times the distance between a copy
// and its call.
// With `early` each copy starts as soon as there is room instead, in the order of the calls.
Result<Schedule> plan_copies(const Machine& machine, std::span<const Call> calls,
                             std::span<const uint64_t> live_bytes, bool early = false);

// By call: the last call that reads the call's block of constants, at least the call itself.
std::vector<uint32_t> last_readers(std::span<const Call> calls);

// Whether calls whose weights others share are split to save time, too, or only for their bytes:
// what stays in SRAM for the next call needs no split.
enum class SplitShared : uint8_t { kWhereItSavesTime, kForBytesOnly };

// Splits convolutions and linear layers by output channels: where their constants would take more
// than their share of the SRAM beside `live_bytes`, and where computing the first part while the
// second is being copied shortens the program. `shares`, by call: 1 lets a block take all of that
// room, 2 half of it, which leaves the other half to the next block on its way; empty: all 1. Calls
// that share constants stay whole, and calls with equal weights are split alike. Returns the call
// of `graph` as it was that each call is a part of.
std::vector<uint32_t> split_calls(const Machine& machine, LoweredGraph& graph,
                                  std::span<const uint64_t> live_bytes,
                                  std::span<const uint32_t> shares = {},
                                  SplitShared split_shared = SplitShared::kWhereItSavesTime);

// Splits each call of `graph` into so many parts, at most most_slices, 1 if its block is shared.
// Returns what split_calls returns.
std::vector<uint32_t> split_into(const npu::Target& target, LoweredGraph& graph,
                                 std::span<const uint32_t> parts);

// Into how many parts a call can be split, and the bytes of constants of the largest
// part of so many.
uint32_t most_slices(const npu::Target& target, const Call& call);
uint64_t slice_bytes(const npu::Target& target, const Call& call, uint32_t parts);

}  // namespace dtr::neutron
