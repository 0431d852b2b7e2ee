// Assigns offsets to buffers that share one arena: two buffers may overlap only if they are never
// live at the same step.
//
// Method: first fit in several orders (by size, by lifetime, from the fullest step outwards), then
// hill climbing over the best order: a buffer that ends at the top of the arena, or one of those
// under it, moves forward. Stops at the lower bound, which most networks reach at once.
// Deterministic: the same input gives the same offsets on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtr {

struct ArenaBuffer {
  int64_t size = 0;  // bytes; 0 is allowed and takes offset 0
  int64_t alignment = 16;
  int32_t first = 0;  // live from the start of step `first` to the end of step `last`
  int32_t last = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per buffer, multiple of its alignment
  int64_t total = 0;             // highest end of any buffer
  int64_t max_live = 0;          // lower bound: most bytes live at one step, without alignment
  int32_t max_live_step = 0;     // first step where that happens
};

ArenaPlan plan_arena(std::span<const ArenaBuffer> buffers);

// Places `guests` in the gaps of a plan of `buffers`, which do not move: first fit by decreasing
// size, above all buffers if there is no gap. Returns the offsets of the guests; the caller
// compares the highest end with the plan's total.
std::vector<int64_t> place_around(std::span<const ArenaBuffer> buffers, const ArenaPlan& plan,
                                  std::span<const ArenaBuffer> guests);

// First fit by decreasing size only: the baseline, which plan_arena never exceeds.
ArenaPlan plan_arena_greedy(std::span<const ArenaBuffer> buffers);

}  // namespace dtr
