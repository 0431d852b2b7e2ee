// Offsets for buffers that share one arena: two buffers may overlap in space only if they are never
// live at the same step.
//
// Method: first fit in several orders (by size, by lifetime, from the fullest step outwards), then
// hill climbing over the best order: a buffer that ends at the top of the arena, or one of those
// under it, moves forward. Stops at the lower bound, which is where most networks end at once.
// Deterministic: same input, same offsets on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dtr {

struct ArenaBuffer {
  int64_t size = 0;  // bytes; 0 is allowed and takes offset 0
  int64_t alignment = 16;
  int32_t first = 0;  // live from the begin of step `first` to the end of step `last`
  int32_t last = 0;
};

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per buffer, multiple of its alignment
  int64_t total = 0;             // highest end of any buffer
  int64_t max_live = 0;          // lower bound: most bytes live at one step, without alignment
  int32_t max_live_step = 0;     // first step where that happens
};

ArenaPlan plan_arena(std::span<const ArenaBuffer> buffers);

// Adds `guests` to a plan of `buffers` without moving those: first fit by decreasing size into what
// they leave free, above them only where nothing is. Returns the offsets of the guests; the end of
// the highest is the caller's to compare with the plan's total.
std::vector<int64_t> place_around(std::span<const ArenaBuffer> buffers, const ArenaPlan& plan,
                                  std::span<const ArenaBuffer> guests);

// First fit by decreasing size alone, the baseline that plan_arena never falls behind.
ArenaPlan plan_arena_greedy(std::span<const ArenaBuffer> buffers);

}  // namespace dtr
