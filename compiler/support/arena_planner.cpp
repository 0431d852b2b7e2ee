#include "compiler/support/arena_planner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "compiler/support/align.h"
#include "compiler/support/diagnostic.h"

namespace dtr {
namespace {

using Order = std::vector<uint32_t>;

// Neighbours of placed buffers, counted as if each order were placed whole: about 0.15 s at worst.
constexpr int64_t kMaxWork = 20'000'000;
constexpr int kMaxIdleRounds = 400;  // rounds without a gain before climbing ends
// The same with trails, whose bound is seldom reached: more rounds for few buffers, less work for
// many, because a search within a budget of SRAM makes dozens of plans.
constexpr int64_t kMaxTrailWork = 2'000'000;
constexpr int kMaxIdleTrailRounds = 2000;
constexpr int64_t kMaxAgainWork = 2'000'000;
constexpr int kMostAgain = 10;
constexpr uint32_t kMovedPart = 8;  // of the buffers every eighth is moved
constexpr int64_t kMaxSqueezeWork = 1'000'000;
constexpr int kMaxIdleSqueezeRounds = 2000;

constexpr size_t kFewNeighbours = 48;  // faster passed over several times than sorted

// Small generator of our own, so that offsets do not depend on a library's.
class XorShift {
 public:
  uint32_t below(uint32_t limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>((state_ >> 32) % limit);
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15u;
};

class ArenaPlanner {
 public:
  ArenaPlanner(std::span<const ArenaBuffer> buffers, std::span<const ArenaTrail> trails)
      : buffers_(buffers), trails_(trails) {
    for (uint32_t index = 0; index < buffers_.size(); ++index) {
      const ArenaBuffer& buffer = buffers_[index];
      DTR_CHECK(buffer.size >= 0 && buffer.alignment > 0 && buffer.first <= buffer.last);
      if (buffer.size > 0) used_.push_back(index);
    }
    find_conflicts();
    measure_live();
    offsets_.assign(buffers_.size(), 0);
    best_.offsets = offsets_;
    best_.total = INT64_MAX;
  }

  void try_greedy_by_size() {
    try_order(sorted([&](uint32_t i) { return std::pair(-buffers_[i].size, int64_t{0}); }));
  }

  void try_other_orders() {
    try_order(sorted([&](uint32_t i) {
      return std::pair(-buffers_[i].size * (buffers_[i].last - buffers_[i].first + 1), int64_t{0});
    }));
    try_order(sorted([&](uint32_t i) {
      return std::pair(int64_t{buffers_[i].first} - buffers_[i].last, -buffers_[i].size);
    }));
    try_order(sorted(
        [&](uint32_t i) { return std::pair(int64_t{buffers_[i].first}, -buffers_[i].size); }));
    try_order(sorted(
        [&](uint32_t i) { return std::pair(-int64_t{buffers_[i].last}, -buffers_[i].size); }));
    try_order(sorted([&](uint32_t i) { return std::pair(-fullest_[i], -buffers_[i].size); }));
    if (trails_.empty()) return;
    // A result goes below its operand, so it comes first.
    try_order(sorted(
        [&](uint32_t i) { return std::pair(-int64_t{buffers_[i].first}, -buffers_[i].size); }));
    try_order(sorted([&](uint32_t i) {
      return std::pair(-(is_trailing(i) ? fullest_[i] + 1 : buffers_[i].size),
                       -int64_t{buffers_[i].first});
    }));
  }

  // Moves a buffer at the top of the arena, or one that holds it up there, to an earlier place in
  // the order.
  void climb() {
    XorShift random;
    climb_from(best_order_, best_.offsets, best_.total, random,
               trails_.empty() ? kMaxIdleRounds : kMaxIdleTrailRounds);
  }

  // Climbs from the best order with some buffers moved to any place of it, over and over.
  void climb_again() {
    XorShift random;
    const int64_t most_work = work_ + kMaxAgainWork;
    for (int i = 0; i < kMostAgain && best_.total > stop_at_ && work_ < most_work; ++i) {
      Order order = best_order_;
      const auto count = static_cast<uint32_t>(order.size());
      for (uint32_t moved = 0; moved <= count / kMovedPart; ++moved) {
        const uint32_t a = random.below(count), b = random.below(count);
        const auto begin = order.begin() + std::min(a, b), end = order.begin() + std::max(a, b) + 1;
        std::rotate(begin, a < b ? begin + 1 : end - 1, end);
      }
      const int64_t total = place(order, 0, INT64_MAX);
      keep_if_better(order, total);
      const std::vector<int64_t> offsets = offsets_;
      climb_from(order, offsets, total, random, kMaxIdleRounds);
    }
  }

  void climb_from(Order order, std::vector<int64_t> order_offsets, int64_t order_total,
                  XorShift& random, int most_idle) {
    std::vector<uint32_t> candidates;
    Order place_in_order(buffers_.size());
    int idle = 0;
    const int64_t most_work = trails_.empty() ? kMaxWork : work_ + kMaxTrailWork;
    while (best_.total > stop_at_ && idle < most_idle && work_ < most_work) {
      candidates.clear();
      for (const uint32_t index : used_) {
        if (order_offsets[index] + buffers_[index].size != order_total) continue;
        candidates.push_back(index);
        for (const uint32_t other : conflicts(index)) candidates.push_back(other);
      }
      for (uint32_t at = 0; at < order.size(); ++at) place_in_order[order[at]] = at;
      const uint32_t from =
          place_in_order[candidates[random.below(static_cast<uint32_t>(candidates.size()))]];
      const uint32_t to = random.below(from + 1);
      Order next = order;
      std::rotate(next.begin() + to, next.begin() + from, next.begin() + from + 1);
      offsets_ = order_offsets;  // what comes before that place stays
      const int64_t total = place(next, to, order_total);
      idle = total < best_.total ? 0 : idle + 1;
      keep_if_better(next, total);
      if (total <= order_total) {
        order = std::move(next);
        order_total = total;
        order_offsets = offsets_;
      }
    }
  }

  // Without trails. Aims at a total just below the best one, over and over: each buffer is placed
  // from the bottom or from the aim downwards. Reorders buffers, or turns one to the other end, as
  // long as no more bytes are above the aim than before.
  void squeeze() {
    Order order = best_order_;
    from_top_.assign(buffers_.size(), false);
    XorShift random;
    std::vector<uint32_t> candidates;
    Order place_in_order(buffers_.size());
    const int64_t most_work = work_ + kMaxSqueezeWork;
    int64_t aim = best_.total - 1;
    int64_t above = place_within(order, 0, aim, INT64_MAX);
    std::vector<int64_t> order_offsets = offsets_;
    for (int idle = 0; best_.total > stop_at_ && idle < kMaxIdleSqueezeRounds && work_ < most_work;
         ++idle) {
      if (above == 0) {
        best_.offsets = order_offsets;
        best_.total = 0;
        for (const uint32_t index : used_)
          best_.total = std::max(best_.total, order_offsets[index] + buffers_[index].size);
        aim = best_.total - 1;
        above = place_within(order, 0, aim, INT64_MAX);
        order_offsets = offsets_;
        continue;
      }
      candidates.clear();
      for (const uint32_t index : used_) {
        if (order_offsets[index] + buffers_[index].size <= aim) continue;
        candidates.push_back(index);
        for (const uint32_t other : conflicts(index)) candidates.push_back(other);
      }
      for (uint32_t at = 0; at < order.size(); ++at) place_in_order[order[at]] = at;
      const uint32_t moved = candidates[random.below(static_cast<uint32_t>(candidates.size()))];
      const uint32_t from = place_in_order[moved];
      uint32_t to = from;
      Order next = order;
      const bool turns = random.below(4) == 0;
      if (turns) {
        from_top_[moved] = !from_top_[moved];
      } else {
        to = random.below(from + 1);
        std::rotate(next.begin() + to, next.begin() + from, next.begin() + from + 1);
      }
      offsets_ = order_offsets;  // what comes before that place stays
      const int64_t next_above = place_within(next, to, aim, above);
      if (next_above <= above) {
        if (next_above < above) idle = 0;
        order = std::move(next);
        above = next_above;
        order_offsets = offsets_;
      } else if (turns) {
        from_top_[moved] = !from_top_[moved];
      }
    }
  }

  bool at_lower_bound() const { return best_.total <= stop_at_; }

  ArenaPlan result() && {
    if (used_.empty()) best_.total = 0;
    best_.max_live = max_live_;
    best_.max_live_step = max_live_step_;
    return std::move(best_);
  }

 private:
  void find_conflicts() {
    Order by_first =
        sorted([&](uint32_t i) { return std::pair(int64_t{buffers_[i].first}, int64_t{0}); });
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    std::vector<uint32_t> active;
    for (const uint32_t index : by_first) {
      std::erase_if(active,
                    [&](uint32_t other) { return buffers_[other].last < buffers_[index].first; });
      for (const uint32_t other : active) pairs.emplace_back(index, other);
      active.push_back(index);
    }
    begin_.assign(buffers_.size() + 1, 0);
    for (const auto& [a, b] : pairs) ++begin_[a + 1], ++begin_[b + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    conflicts_.resize(pairs.size() * 2);
    size_t most = 0;
    for (size_t i = 0; i < buffers_.size(); ++i) most = std::max(most, begin_[i + 1] - begin_[i]);
    taken_room_.resize(most);
    order_work_ = static_cast<int64_t>(conflicts_.size() + used_.size());
    std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [a, b] : pairs) conflicts_[next[a]++] = b, conflicts_[next[b]++] = a;
    if (trails_.empty()) return;
    trail_of_.assign(conflicts_.size(), nullptr);
    for (const ArenaTrail& trail : trails_)
      for (const auto& [a, b] :
           {std::pair(trail.operand, trail.result), std::pair(trail.result, trail.operand)})
        for (size_t at = begin_[a]; at < begin_[a + 1]; ++at)
          if (conflicts_[at] == b) trail_of_[at] = &trail;
  }

  // Bytes live at each step where something begins (the maximum is at one of those), and the bounds
  // that follow from them.
  void measure_live() {
    struct Live {
      int64_t bytes = 0;
      int64_t aligned = 0;
    };
    std::map<int64_t, Live> change;
    for (const uint32_t index : used_) {
      const ArenaBuffer& buffer = buffers_[index];
      const int64_t aligned = align_up(buffer.size, buffer.alignment);
      change[buffer.first].bytes += buffer.size;
      change[buffer.first].aligned += aligned;
      change[int64_t{buffer.last} + 1].bytes -= buffer.size;
      change[int64_t{buffer.last} + 1].aligned -= aligned;
    }
    // Alignment may keep two buffers further apart than the lag.
    for (const ArenaTrail& trail : trails_) {
      const ArenaBuffer& operand = buffers_[trail.operand];
      const ArenaBuffer& result = buffers_[trail.result];
      const int64_t bytes = trail_overlap(operand.size, result.size, trail.lag);
      const int64_t aligned =
          align_up(bytes, result.alignment) + operand.alignment + result.alignment;
      const int64_t first = std::max(operand.first, result.first);
      const int64_t last = std::min(operand.last, result.last);
      if (bytes == 0 || first > last) continue;
      change[first].bytes -= bytes;
      change[first].aligned -= aligned;
      change[last + 1].bytes += bytes;
      change[last + 1].aligned += aligned;
    }
    Live now;
    std::vector<std::pair<int64_t, Live>> live;  // by step
    for (const auto& [step, delta] : change) {
      now.bytes += delta.bytes;
      now.aligned += delta.aligned;
      live.emplace_back(step, now);
      if (now.bytes > max_live_) max_live_ = now.bytes, max_live_step_ = static_cast<int32_t>(step);
    }
    // With one alignment for all, every buffer below the topmost takes its aligned size.
    int64_t slack = 0;
    bool same_alignment = true;
    for (const uint32_t index : used_) {
      slack = std::max(
          slack, align_up(buffers_[index].size, buffers_[index].alignment) - buffers_[index].size);
      same_alignment &= buffers_[index].alignment == buffers_[used_.front()].alignment;
    }
    stop_at_ = max_live_;
    fullest_.assign(buffers_.size(), 0);
    for (const auto& [step, at] : live) {
      if (same_alignment) stop_at_ = std::max(stop_at_, at.aligned - slack);
    }
    for (const uint32_t index : used_) {
      auto at = std::ranges::lower_bound(live, int64_t{buffers_[index].first}, {},
                                         &std::pair<int64_t, Live>::first);
      for (; at != live.end() && at->first <= buffers_[index].last; ++at)
        fullest_[index] = std::max(fullest_[index], at->second.bytes);
    }
  }

  bool is_trailing(uint32_t index) const {
    return std::ranges::any_of(trails_,
                               [&](const ArenaTrail& trail) { return trail.result == index; });
  }

  template <class Key>
  Order sorted(Key key) const {
    Order order = used_;
    std::ranges::stable_sort(order, {}, key);
    return order;
  }

  std::span<const uint32_t> conflicts(uint32_t index) const {
    return std::span(conflicts_).subspan(begin_[index], begin_[index + 1] - begin_[index]);
  }

  void try_order(const Order& order) {
    if (!at_lower_bound()) keep_if_better(order, place(order, 0, INT64_MAX));
  }

  void keep_if_better(const Order& order, int64_t total) {
    if (total >= best_.total) return;
    best_.total = total;
    best_.offsets = offsets_;
    best_order_ = order;
  }

  // A buffer ends before the begin, or begins at the end or behind.
  struct Taken {
    int64_t begin, end;
  };

  // Where the buffer may not be, because of neighbours that are placed, into taken_ in any order.
  // Nearly all of a plan's time: without growing vectors.
  void find_taken(uint32_t index) {
    const ArenaBuffer* const buffers = buffers_.data();
    const int64_t* const offsets = offsets_.data();
    const uint32_t* const conflicts = conflicts_.data();
    const ArenaTrail* const* const trail_of = trail_of_.empty() ? nullptr : trail_of_.data();
    Taken* next = taken_room_.data();
    const size_t end_of_conflicts = begin_[index + 1];
    for (size_t at = begin_[index]; at < end_of_conflicts; ++at) {
      const uint32_t other = conflicts[at];
      int64_t begin = offsets[other];
      if (begin == kUnplaced) continue;
      int64_t end = begin + buffers[other].size;
      if (trail_of != nullptr && trail_of[at] != nullptr) {
        const ArenaTrail& trail = *trail_of[at];
        if (trail.result == index)
          begin = std::max(begin, begin - trail.lag + buffers[index].size);
        else
          end = std::min(end, begin + trail.lag);
      }
      next->begin = begin;
      next->end = end;
      ++next;
    }
    taken_ = {taken_room_.data(), next};
  }

  // In any order, the passes over taken_ end at the lowest gap; sorted, they are two.
  int64_t lowest_place(const ArenaBuffer& buffer) {
    if (taken_.size() > kFewNeighbours) std::ranges::sort(taken_, {}, &Taken::begin);
    const int64_t size = buffer.size;
    int64_t offset = 0;
    for (int64_t before = -1; before != offset;) {
      before = offset;
      for (const Taken& taken : taken_)
        offset = taken.begin < offset + size ? std::max(offset, taken.end) : offset;
      offset = align_up(offset, buffer.alignment);
    }
    return offset;
  }

  // The highest place that ends at `top` or below; negative if there is none.
  int64_t highest_place(const ArenaBuffer& buffer, int64_t top) {
    if (taken_.size() > kFewNeighbours) std::ranges::sort(taken_, std::greater{}, &Taken::end);
    const auto below = [&](int64_t end) {
      return end < buffer.size ? -1 : (end - buffer.size) / buffer.alignment * buffer.alignment;
    };
    int64_t offset = below(top);
    for (int64_t before = -1; before != offset && offset >= 0;) {
      before = offset;
      for (const Taken& taken : taken_)
        if (offset >= 0 && taken.end > offset && offset + buffer.size > taken.begin)
          offset = below(taken.begin);
    }
    return offset;
  }

  // First fit in that order, of which the first `placed` have their offsets: each other buffer goes
  // to the lowest gap between its placed neighbours. Fills offsets_ and returns the total, or stops
  // at a total above `limit` and returns that.
  int64_t place(const Order& order, uint32_t placed, int64_t limit) {
    for (const uint32_t index : std::span(order).subspan(placed)) offsets_[index] = kUnplaced;
    work_ += order_work_;
    int64_t total = 0;
    for (const uint32_t index : std::span(order).first(placed))
      total = std::max(total, offsets_[index] + buffers_[index].size);
    for (const uint32_t index : std::span(order).subspan(placed)) {
      if (total > limit) return total;
      find_taken(index);
      offsets_[index] = lowest_place(buffers_[index]);
      total = std::max(total, offsets_[index] + buffers_[index].size);
    }
    return total;
  }

  // The same, but buffers of from_top_ go to the highest gap below `aim`, if there is one. Returns
  // how many bytes buffers are above it, summed up, or stops at more than `limit`.
  int64_t place_within(const Order& order, uint32_t placed, int64_t aim, int64_t limit) {
    const auto above_aim = [&](uint32_t index) {
      return std::max<int64_t>(0, offsets_[index] + buffers_[index].size - aim);
    };
    for (const uint32_t index : std::span(order).subspan(placed)) offsets_[index] = kUnplaced;
    work_ += order_work_;
    int64_t above = 0;
    for (const uint32_t index : std::span(order).first(placed)) above += above_aim(index);
    for (const uint32_t index : std::span(order).subspan(placed)) {
      if (above > limit) return above;
      find_taken(index);
      const int64_t highest = from_top_[index] ? highest_place(buffers_[index], aim) : kUnplaced;
      offsets_[index] = highest < 0 ? lowest_place(buffers_[index]) : highest;
      above += above_aim(index);
    }
    return above;
  }

  static constexpr int64_t kUnplaced = -1;
  std::span<const ArenaBuffer> buffers_;
  std::span<const ArenaTrail> trails_;
  std::vector<const ArenaTrail*> trail_of_;  // by conflict, if there are trails; null: none
  std::vector<uint32_t> used_;               // buffers that are not empty
  std::vector<size_t> begin_;                // conflicts_ of buffer i: [begin_[i], begin_[i + 1])
  std::vector<uint32_t> conflicts_;          // buffers that live at the same time
  std::vector<int64_t> fullest_;             // most bytes live at any step of the buffer's range
  int64_t max_live_ = 0;
  int32_t max_live_step_ = 0;
  int64_t stop_at_ = 0;
  int64_t order_work_ = 0;  // of placing all used buffers
  int64_t work_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<Taken> taken_room_;  // for all conflicts of any buffer
  std::span<Taken> taken_;         // of the buffer that is placed
  ArenaPlan best_;
  Order best_order_;
  std::vector<bool> from_top_;  // by buffer, of place_within
};

}  // namespace

std::vector<int64_t> place_around(std::span<const ArenaBuffer> buffers, const ArenaPlan& plan,
                                  std::span<const ArenaBuffer> guests) {
  std::vector<std::pair<ArenaBuffer, int64_t>> placed;
  for (size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].size > 0) placed.emplace_back(buffers[i], plan.offsets[i]);
  Order order(guests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return guests[a].size > guests[b].size; });
  std::vector<int64_t> offsets(guests.size(), 0);
  std::vector<std::pair<int64_t, int64_t>>
      taken;  // begin and end of what is live together with the guest
  for (const uint32_t index : order) {
    const ArenaBuffer& guest = guests[index];
    if (guest.size == 0) continue;
    taken.clear();
    for (const auto& [other, offset] : placed)
      if (other.first <= guest.last && guest.first <= other.last)
        taken.emplace_back(offset, offset + other.size);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + guest.size <= begin) break;
      at = std::max(at, align_up(end, guest.alignment));
    }
    offsets[index] = at;
    placed.emplace_back(guest, at);
  }
  return offsets;
}

namespace {

ArenaPlan searched(std::span<const ArenaBuffer> buffers, std::span<const ArenaTrail> trails,
                   ArenaSearch search) {
  ArenaPlanner planner(buffers, trails);
  planner.try_greedy_by_size();
  planner.try_other_orders();
  planner.climb();
  if (search == ArenaSearch::kLong) {
    if (trails.empty()) planner.squeeze();
    planner.climb_again();
  }
  return std::move(planner).result();
}

// The plan of the arena turned upside down: first fit from its top. There an operand trails its
// result: what is least at the bottom is not at the top, since a result goes below its operand.
ArenaPlan searched_from_top(std::span<const ArenaBuffer> buffers,
                            std::span<const ArenaTrail> trails, ArenaSearch search) {
  std::vector<ArenaBuffer> turned(buffers.begin(), buffers.end());
  for (ArenaBuffer& buffer : turned) buffer.size = align_up(buffer.size, buffer.alignment);
  std::vector<ArenaTrail> turned_trails;
  for (const ArenaTrail& trail : trails)
    turned_trails.push_back(
        {.operand = trail.result,
         .result = trail.operand,
         .lag = turned[trail.operand].size - turned[trail.result].size + trail.lag});
  ArenaPlan plan = searched(turned, turned_trails, search);
  const int64_t top = plan.total;
  plan.total = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    plan.offsets[i] = buffers[i].size == 0 ? 0 : top - plan.offsets[i] - turned[i].size;
    plan.total = std::max(plan.total, plan.offsets[i] + buffers[i].size);
  }
  return plan;
}

bool have_one_alignment(std::span<const ArenaBuffer> buffers) {
  return std::ranges::all_of(buffers, [&](const ArenaBuffer& buffer) {
    return buffer.alignment == buffers.front().alignment;
  });
}

}  // namespace

ArenaPlan plan_arena(std::span<const ArenaBuffer> buffers, std::span<const ArenaTrail> trails,
                     ArenaSearch search) {
  ArenaPlan plan = searched(buffers, trails, search);
  if (search == ArenaSearch::kUsual || plan.total <= plan.max_live || trails.empty() ||
      !have_one_alignment(buffers))
    return plan;
  ArenaPlan turned = searched_from_top(buffers, trails, search);
  if (turned.total >= plan.total) return plan;
  plan.offsets = std::move(turned.offsets);
  plan.total = turned.total;
  return plan;
}

ArenaPlan plan_arena_greedy(std::span<const ArenaBuffer> buffers) {
  ArenaPlanner planner(buffers, {});
  planner.try_greedy_by_size();
  return std::move(planner).result();
}

}  // namespace dtr
