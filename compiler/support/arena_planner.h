// Assigns offsets to buffers that share one arena: two buffers may overlap only if they are never
// live at the same step, or if one is written over the other while that is read (ArenaTrail).
//
// Method: first fit in several orders (by size, by lifetime, from the fullest step outwards), then
// hill climbing over the best order: a buffer that ends at the top of the arena, or one of those
// under it, moves forward. Stops at the lower bound, which most networks reach at once. ArenaSearch
// says how long else.
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

// Buffer `result` is written while buffer `operand` is still read, from lower to higher addresses:
// they may overlap if offset(result) + lag ≤ offset(operand), so that nothing is written over that
// is read later. `result` begins to live while `operand` does.
struct ArenaTrail {
  uint32_t operand = 0, result = 0;
  int64_t lag = 0;
};

// Bytes that two buffers share at most, both placed as near to each other as the lag allows.
constexpr int64_t trail_overlap(int64_t operand_bytes, int64_t result_bytes, int64_t lag) {
  const int64_t operand_end = (lag > 0 ? lag : 0) + operand_bytes;
  const int64_t both = operand_end > result_bytes ? operand_end : result_bytes;
  return both < operand_bytes + result_bytes ? operand_bytes + result_bytes - both : 0;
}

// What trails save at steps `first` to `last`: `bytes` at most, by `trails` of them.
struct TrailSaving {
  int64_t first = 0, last = 0;
  int64_t bytes = 0;
  int32_t trails = 0;
};
// Bounds of the bytes that trails save: their sum over a step, taken from the sizes of the buffers
// that are live there, leaves what no placement goes below. Less than the sum of all overlaps where
// a result trails two operands, which do not overlap each other, or two results one operand.
std::vector<TrailSaving> trail_savings(std::span<const ArenaBuffer> buffers,
                                       std::span<const ArenaTrail> trails);

struct ArenaPlan {
  std::vector<int64_t> offsets;  // one per buffer, multiple of its alignment
  int64_t total = 0;             // highest end of any buffer
  // Lower bound: most bytes live at one step, without alignment, less what trails let overlap.
  int64_t max_live = 0;
  int32_t max_live_step = 0;  // first step where that happens
};

// kLong, for a plan that is kept: buffers that end above an aim take the places of others, which
// take new ones in turn. Never larger than with kUsual; takes some tenths of a second.
enum class ArenaSearch : uint8_t { kUsual, kLong };

// `threads`: of the long search, which finds the same with any number.
ArenaPlan plan_arena(std::span<const ArenaBuffer> buffers, std::span<const ArenaTrail> trails = {},
                     ArenaSearch search = ArenaSearch::kUsual, unsigned threads = 1);

// Places `guests` in the gaps of a plan of `buffers`, which do not move: first fit by decreasing
// size, above all buffers if there is no gap. Returns the offsets of the guests; the caller
// compares the highest end with the plan's total.
std::vector<int64_t> place_around(std::span<const ArenaBuffer> buffers, const ArenaPlan& plan,
                                  std::span<const ArenaBuffer> guests);

// First fit by decreasing size only: the baseline, which plan_arena never exceeds.
ArenaPlan plan_arena_greedy(std::span<const ArenaBuffer> buffers);

}  // namespace dtr
