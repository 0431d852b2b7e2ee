// Runs chains of calls stripe by stripe: some rows of the chain's results at a time, so that the
// tensors between its calls are never in memory as a whole. A stripe recomputes the rows that it
// shares with its neighbours. Chains may branch and join: what counts is that every call computes
// its result row by row (schedule/row_access.h).
#pragma once

#include <optional>
#include <vector>

#include "compiler/backends/neutron/call.h"
#include "compiler/backends/neutron/conditions.h"
#include "compiler/backends/neutron/memory/memory.h"

namespace dtr::neutron {

// Calls `first` to `last` (inclusive), run in so many stripes.
struct Chain {
  uint32_t first = 0, last = 0;
  uint32_t stripes = 1;
  // The constants of all calls stay in SRAM from the first stripe to the last; otherwise each
  // stripe copies them again.
  bool keeps_constants = true;

  bool operator==(const Chain&) const = default;
};

// Chains with which every call fits into `limit` bytes of SRAM, operands, stripes and constants
// together, at the least cost in cycles of calls and copies; constants are counted as split by
// channels as far as needed. Calls outside of the chains run whole. The chain with the fewest
// stripes that fits is taken for each pair of first and last call; chains have `fewest_calls` to 24
// calls. Stripes of one call save what its result may share with its operand.
struct ChainChoice {
  std::vector<Chain> chains;
  // The first call that fits neither alone nor in a chain; std::nullopt: all fit.
  std::optional<uint32_t> too_large;
};
ChainChoice choose_chains(const Machine& machine, const LoweredGraph& graph,
                          const MemoryPlan& memory, uint64_t limit, uint32_t fewest_calls);

// Into how many stripes the calls `first` to `last` can run at most; 1: they do not run in stripes.
uint32_t most_stripes(const LoweredGraph& graph, uint32_t first, uint32_t last);

// Replaces the calls of the chains by their stripes.
LoweredGraph in_stripes(const LoweredGraph& graph, const std::vector<Chain>& chains);

}  // namespace dtr::neutron
