#include "compiler/support/arena_planner.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <utility>

#include "compiler/support/align.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/thread_pool.h"

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
// Of the long search: work for one aim, and for so many in all from each plan that it begins with.
// Few buffers need less: the best plans of test/data/arena of less than 55 buffers are found within
// as much as their pairs are given.
constexpr int64_t kMaxAimWork = 600'000;
constexpr int64_t kAimWorkOfPair = 200;
constexpr int64_t kMaxAims = 14;
constexpr int64_t kEvictWork = 10, kEvictNeighbourWork = 4;

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
    Order order = best_order_;
    std::vector<int64_t> order_offsets = best_.offsets;
    int64_t order_total = best_.total;
    std::vector<uint32_t> candidates;
    Order place_in_order(buffers_.size());
    int idle = 0;
    const int most_idle = trails_.empty() ? kMaxIdleRounds : kMaxIdleTrailRounds;
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
      const int64_t total = place_moved(next, to, order_offsets, order_total);
      idle = total < best_.total ? 0 : idle + 1;
      keep_if_better(next, total);
      if (total <= order_total) {
        order = std::move(next);
        order_total = total;
        order_offsets = offsets_;
      }
    }
  }

  // Aims at a smaller total, over and over. Buffers that end above the aim lose their places; one
  // without a place takes that where the neighbours which lose theirs to it are worth least. What a
  // buffer is worth grows whenever it finds no free place, so that no two take turns for ever. The
  // aim comes nearer to the best total when it is missed, and moves away when it is met.
  void evict() {
    XorShift random;
    const auto count = static_cast<int64_t>(used_.size());
    const int64_t aim_work = std::min(kMaxAimWork, kAimWorkOfPair * count * count);
    const int64_t most_work = work_ + kMaxAims * aim_work;
    int64_t step = (best_.total - stop_at_) / 8;
    while (best_.total > stop_at_ && work_ < most_work) {
      step = std::clamp<int64_t>(step, 1, best_.total - stop_at_);
      if (meet(best_.total - step, std::min(most_work, work_ + aim_work), random))
        step *= 2;
      else
        step /= 4;
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
    int64_t alignment = 1;
    for (const uint32_t index : used_) alignment = std::max(alignment, buffers_[index].alignment);
    for (const TrailSaving& saving : trail_savings(buffers_, trails_)) {
      const int64_t aligned = saving.bytes + 3 * alignment * saving.trails;
      change[saving.first].bytes -= saving.bytes;
      change[saving.first].aligned -= aligned;
      change[saving.last + 1].bytes += saving.bytes;
      change[saving.last + 1].aligned += aligned;
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
    stop_at_ = max_live_;
    for (const uint32_t index : used_) {
      stop_at_ = std::max(stop_at_, buffers_[index].size);
      slack = std::max(
          slack, align_up(buffers_[index].size, buffers_[index].alignment) - buffers_[index].size);
      same_alignment &= buffers_[index].alignment == buffers_[used_.front()].alignment;
    }
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
    if (!at_lower_bound()) keep_if_better(order, place(order));
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

  // First fit in that order: each buffer goes to the lowest gap between its placed neighbours.
  // Fills offsets_ and returns the total.
  int64_t place(const Order& order) {
    for (const uint32_t index : order) offsets_[index] = kUnplaced;
    work_ += order_work_;
    int64_t total = 0;
    for (const uint32_t index : order) {
      find_taken(index);
      offsets_[index] = lowest_place(buffers_[index]);
      total = std::max(total, offsets_[index] + buffers_[index].size);
    }
    return total;
  }

  // First fit that stops at a total above `limit` and returns that, in an order that differs from
  // one with the offsets `before`, which are filled, in that buffer `order[to]` moved forward to
  // there. Only buffers that may have another place now are placed anew.
  int64_t place_moved(const Order& order, uint32_t to, std::span<const int64_t> before,
                      int64_t limit) {
    std::ranges::copy(before, offsets_.begin());
    for (const uint32_t index : std::span(order).subspan(to)) offsets_[index] = kUnplaced;
    work_ += order_work_;
    int64_t total = 0;
    for (const uint32_t index : std::span(order).first(to))
      total = std::max(total, offsets_[index] + buffers_[index].size);
    stale_.assign(buffers_.size(), 0);
    stale_[order[to]] = 1;
    for (const uint32_t index : std::span(order).subspan(to)) {
      if (total > limit) return total;
      offsets_[index] = before[index];
      if (stale_[index] != 0) {
        find_taken(index);
        offsets_[index] = lowest_place(buffers_[index]);
      }
      if (index == order[to] || offsets_[index] != before[index]) mark_stale(index, before);
      total = std::max(total, offsets_[index] + buffers_[index].size);
    }
    return total;
  }

  // Marks the neighbours that first fit may place elsewhere than `before` since the buffer moved
  // from its own offset there to that in offsets_: those that overlap with its new place, and those
  // that its old place may have kept from a lower one. A trail is no plain overlap.
  void mark_stale(uint32_t index, std::span<const int64_t> before) {
    const int64_t begin = offsets_[index], end = begin + buffers_[index].size;
    const int64_t left = begin == before[index] ? INT64_MAX : before[index];
    for (size_t at = begin_[index]; at < begin_[index + 1]; ++at) {
      const uint32_t other = conflicts_[at];
      const int64_t other_end = before[other] + buffers_[other].size;
      const bool trails = !trail_of_.empty() && trail_of_[at] != nullptr;
      if (trails || left < other_end || (begin < other_end && before[other] < end))
        stale_[other] = 1;
    }
  }

  // Places all buffers below `aim`, from the best plan on. False: not within the work.
  bool meet(int64_t aim, int64_t most_work, XorShift& random) {
    offsets_ = best_.offsets;
    worth_.assign(buffers_.size(), 1);
    Order unplaced;
    const auto lift = [&](uint32_t index) {
      offsets_[index] = kUnplaced;
      unplaced.push_back(index);
    };
    for (const uint32_t index : used_)
      if (offsets_[index] + buffers_[index].size > aim) lift(index);
    while (!unplaced.empty()) {
      if (work_ >= most_work) return false;
      const auto draw = [&] { return random.below(static_cast<uint32_t>(unplaced.size())); };
      const uint32_t a = draw(), b = draw();  // the one that is worth more
      std::swap(unplaced[worth_[unplaced[a]] < worth_[unplaced[b]] ? b : a], unplaced.back());
      const uint32_t index = unplaced.back();
      unplaced.pop_back();
      const auto [offset, is_free] = cheapest_place(index, aim, random);
      if (!is_free) {
        ++worth_[index];
        for (const Barred& barred : barred_)
          if (barred.first <= offset && offset <= barred.last) lift(barred.by);
      }
      offsets_[index] = offset;
    }
    // First fit by the offsets found closes gaps below, but may be larger where buffers trail.
    Order order = used_;
    std::ranges::stable_sort(order, {}, [&](uint32_t i) { return offsets_[i]; });
    keep_if_better(order, top());
    keep_if_better(order, place(order));
    return true;
  }

  int64_t top() const {
    int64_t total = 0;
    for (const uint32_t index : used_)
      total = std::max(total, offsets_[index] + buffers_[index].size);
    return total;
  }

  // The offset below `aim` where placed neighbours that are worth least, together, would have to
  // go: fills barred_. The second: none has to.
  std::pair<int64_t, bool> cheapest_place(uint32_t index, int64_t aim, XorShift& random) {
    const ArenaBuffer& buffer = buffers_[index];
    const int64_t most = (aim - buffer.size) / buffer.alignment * buffer.alignment;
    barred_.clear();
    changes_.clear();
    find_taken(index);
    size_t next = 0;
    for (size_t at = begin_[index]; at < begin_[index + 1]; ++at) {
      if (offsets_[conflicts_[at]] == kUnplaced) continue;
      const Taken taken = taken_[next++];
      const int64_t first = std::max<int64_t>(0, taken.begin - buffer.size + 1);
      const int64_t last = taken.end - 1;
      if (first > last || align_up(first, buffer.alignment) > std::min(last, most)) continue;
      const Barred barred{.first = align_up(first, buffer.alignment),
                          .last = last / buffer.alignment * buffer.alignment,
                          .by = conflicts_[at]};
      barred_.push_back(barred);
      changes_.emplace_back(barred.first, worth_[barred.by]);
      changes_.emplace_back(barred.last + buffer.alignment, -worth_[barred.by]);
    }
    work_ +=
        kEvictWork + kEvictNeighbourWork * static_cast<int64_t>(begin_[index + 1] - begin_[index]);
    std::ranges::sort(changes_, {}, &std::pair<int64_t, int64_t>::first);
    int64_t worth = 0, least = INT64_MAX;
    ranges_.clear();
    size_t change = 0;
    for (int64_t from = 0; from <= most;) {
      for (; change < changes_.size() && changes_[change].first <= from; ++change)
        worth += changes_[change].second;
      const int64_t behind = change < changes_.size()
                                 ? std::min(changes_[change].first, most + buffer.alignment)
                                 : most + buffer.alignment;
      if (worth < least) ranges_.clear();
      if (worth <= least) ranges_.emplace_back(from, behind - buffer.alignment);
      least = std::min(least, worth);
      from = behind;
    }
    const auto& [low, high] = ranges_[random.below(static_cast<uint32_t>(ranges_.size()))];
    return {random.below(2) == 0 ? high : low, least == 0};
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
  std::vector<uint8_t> stale_;     // 1: the buffer may have another place now
  std::vector<Taken> taken_room_;  // for all conflicts of any buffer
  std::span<Taken> taken_;         // of the buffer that is placed
  ArenaPlan best_;
  Order best_order_;
  // An offset of the buffer that is placed from `first` to `last` overlaps with buffer `by`.
  struct Barred {
    int64_t first, last;
    uint32_t by;
  };
  // Of the long search.
  std::vector<int64_t> worth_;  // by buffer
  std::vector<Barred> barred_;
  std::vector<std::pair<int64_t, int64_t>> changes_;  // offset, change of what is worth there
  std::vector<std::pair<int64_t, int64_t>> ranges_;   // of offsets, ends included
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

ArenaPlan plan_arena(std::span<const ArenaBuffer> buffers, std::span<const ArenaTrail> trails,
                     ArenaSearch search, unsigned threads) {
  const auto tried = [&] {
    ArenaPlanner planner(buffers, trails);
    planner.try_greedy_by_size();
    planner.try_other_orders();
    return planner;
  };
  ArenaPlanner usual = tried();
  usual.climb();
  if (search == ArenaSearch::kUsual || usual.at_lower_bound()) return std::move(usual).result();
  // From first fit and from where the climb ended: plans far from each other.
  ArenaPlanner other = tried();
  // The first is taken where it meets the bound, whether the second is searched or not.
  std::atomic<bool> met = false;
  parallel_for(2, threads, [&](size_t i) {
    if (i == 1 && met) return;
    (i == 0 ? other : usual).evict();
    if (i == 0) met = other.at_lower_bound();
  });
  ArenaPlan plan = std::move(other).result(), climbed = std::move(usual).result();
  return plan.total <= climbed.total ? plan : climbed;
}

ArenaPlan plan_arena_greedy(std::span<const ArenaBuffer> buffers) {
  ArenaPlanner planner(buffers, {});
  planner.try_greedy_by_size();
  return std::move(planner).result();
}

}  // namespace dtr
