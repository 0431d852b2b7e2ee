// What trails save at most. At a step, take the live buffers in the order in which they begin: each
// adds its bytes less those that it shares with earlier ones, which are operands that it trails.
// These begin at its begin + lag or behind it: it shares at most its size less the least lag, and
// at most the sum of the single overlaps. In the reverse order each operand shares bytes with the
// results that trail it, which end at its begin − lag + their size or before it. The lesser of both
// sums holds.
#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/support/arena_planner.h"

namespace dtr {
namespace {

// A trail while both of its buffers live.
struct ActiveTrail {
  const ArenaTrail* trail = nullptr;
  int64_t first = 0, last = 0;
  int64_t overlap = 0;
  int64_t reach = 0;  // from the operand's begin to the result's end
};

// Bytes that each buffer shares as `member` of these trails, summed.
int64_t shared_by(std::span<const ActiveTrail> trails, uint32_t ArenaTrail::*member,
                  std::span<const ArenaBuffer> buffers) {
  struct Shared {
    int64_t sum = 0, reach = 0;
  };
  std::map<uint32_t, Shared> by_buffer;
  for (const ActiveTrail& active : trails) {
    Shared& shared = by_buffer[active.trail->*member];
    shared.sum += active.overlap;
    shared.reach = std::max(shared.reach, active.reach);
  }
  int64_t bytes = 0;
  for (const auto& [buffer, shared] : by_buffer)
    bytes += std::min({shared.sum, shared.reach, buffers[buffer].size});
  return bytes;
}

// Appends the savings of trails that are connected by common buffers, for each range of steps in
// which no trail begins or ends.
void append_savings(std::span<const ActiveTrail> connected, std::span<const ArenaBuffer> buffers,
                    std::vector<TrailSaving>& savings) {
  std::vector<int64_t> bounds;
  for (const ActiveTrail& active : connected) {
    bounds.push_back(active.first);
    bounds.push_back(active.last + 1);
  }
  std::ranges::sort(bounds);
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<ActiveTrail> active;
  size_t next = 0;  // `connected` is in the order of first steps
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    std::erase_if(active, [&](const ActiveTrail& trail) { return trail.last < bounds[i]; });
    for (; next < connected.size() && connected[next].first <= bounds[i]; ++next)
      active.push_back(connected[next]);
    if (active.empty()) continue;
    const int64_t bytes = std::min(shared_by(active, &ArenaTrail::operand, buffers),
                                   shared_by(active, &ArenaTrail::result, buffers));
    savings.push_back({.first = bounds[i],
                       .last = bounds[i + 1] - 1,
                       .bytes = bytes,
                       .trails = static_cast<int32_t>(active.size())});
  }
}

}  // namespace

std::vector<TrailSaving> trail_savings(std::span<const ArenaBuffer> buffers,
                                       std::span<const ArenaTrail> trails) {
  std::vector<uint32_t> leader(buffers.size());  // of the connected trails of each buffer
  std::iota(leader.begin(), leader.end(), 0u);
  const auto leader_of = [&](uint32_t buffer) {
    while (leader[buffer] != buffer) buffer = leader[buffer] = leader[leader[buffer]];
    return buffer;
  };
  std::vector<ActiveTrail> active;
  for (const ArenaTrail& trail : trails) {
    const ArenaBuffer &operand = buffers[trail.operand], &result = buffers[trail.result];
    const ActiveTrail made{.trail = &trail,
                           .first = std::max(operand.first, result.first),
                           .last = std::min(operand.last, result.last),
                           .overlap = trail_overlap(operand.size, result.size, trail.lag),
                           .reach = result.size - trail.lag};
    if (made.overlap == 0 || made.first > made.last) continue;
    leader[leader_of(trail.operand)] = leader_of(trail.result);
    active.push_back(made);
  }
  std::ranges::stable_sort(active, {}, &ActiveTrail::first);
  std::map<uint32_t, std::vector<ActiveTrail>> connected;
  for (const ActiveTrail& trail : active)
    connected[leader_of(trail.trail->operand)].push_back(trail);
  std::vector<TrailSaving> savings;
  for (const auto& [of, group] : connected) append_savings(group, buffers, savings);
  return savings;
}

}  // namespace dtr
