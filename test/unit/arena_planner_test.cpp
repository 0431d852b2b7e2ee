// Plans of arenas: nothing overlaps that lives at the same time, but for results over their
// operands; totals near the bound, or at an optimum that is found by hand or by trying all orders.
#include "compiler/support/arena_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "test/unit/arena_plans.h"

namespace dtr {
namespace {

using test::expect_sound;

int64_t brute_force_max_live(std::span<const ArenaBuffer> buffers) {
  int64_t most = 0;
  for (const ArenaBuffer& at : buffers) {
    int64_t live = 0;
    for (const ArenaBuffer& buffer : buffers)
      live += buffer.first <= at.first && at.first <= buffer.last ? buffer.size : 0;
    most = std::max(most, live);
  }
  return most;
}

std::vector<ArenaBuffer> random_buffers(std::mt19937& random, int count) {
  std::vector<ArenaBuffer> buffers;
  for (int i = 0; i < count; ++i) {
    const auto first = static_cast<int32_t>(random() % static_cast<uint32_t>(count));
    const uint64_t length =
        random() % 8 == 0 ? random() % static_cast<uint32_t>(count / 4 + 1) : random() % 4;
    const int64_t size = random() % 50 == 0 ? 0 : 1 + random() % 20000;
    buffers.push_back({size, random() % 10 == 0 ? 64 : 16, first,
                       std::min(count - 1, first + static_cast<int32_t>(length))});
  }
  return buffers;
}

constexpr int kLongEvery = 4;  // programs of which one is searched long

TEST(ArenaPlanner, RandomProgramsAreSoundAndNearTheBound) {
  std::mt19937 random(7);
  int near_bound = 0;
  constexpr int kPrograms = 60;
  for (int round = 0; round < kPrograms; ++round) {
    const std::vector<ArenaBuffer> buffers =
        random_buffers(random, 5 + static_cast<int>(random() % 150));
    const ArenaPlan plan = plan_arena(buffers);
    expect_sound(buffers, plan);
    const ArenaPlan greedy = plan_arena_greedy(buffers);
    expect_sound(buffers, greedy);
    EXPECT_LE(plan.total, greedy.total);
    EXPECT_EQ(plan.max_live, brute_force_max_live(buffers));
    EXPECT_GE(plan.total, plan.max_live);
    EXPECT_EQ(plan.offsets, plan_arena(buffers).offsets);
    near_bound += plan.total * 100 <= plan.max_live * 102 ? 1 : 0;
    if (round % kLongEvery != 0) continue;
    const ArenaPlan searched_long = plan_arena(buffers, {}, ArenaSearch::kLong);
    expect_sound(buffers, searched_long);
    EXPECT_LE(searched_long.total, plan.total);
  }
  EXPECT_GE(near_bound, kPrograms * 9 / 10);
}

// First fit over every order finds an optimum of these small programs; ours may end later by less
// than one alignment.
TEST(ArenaPlanner, SmallProgramsAreOptimal) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const std::vector<ArenaBuffer> buffers = random_buffers(random, 6);
    std::vector<size_t> order{0, 1, 2, 3, 4, 5};
    int64_t best = INT64_MAX;
    do {
      std::vector<int64_t> offset(6, -1);
      int64_t top = 0;
      for (const size_t i : order) {
        int64_t at = 0;
        for (bool moved = true; moved;) {
          moved = false;
          for (const size_t j : order) {
            if (offset[j] < 0 || buffers[i].size == 0 || buffers[j].size == 0 || j == i) continue;
            const bool in_time =
                buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
            if (!in_time || at + buffers[i].size <= offset[j] || offset[j] + buffers[j].size <= at)
              continue;
            at = (offset[j] + buffers[j].size + buffers[i].alignment - 1) / buffers[i].alignment *
                 buffers[i].alignment;
            moved = true;
          }
        }
        offset[i] = at;
        if (buffers[i].size > 0) top = std::max(top, at + buffers[i].size);
      }
      best = std::min(best, top);
    } while (std::ranges::next_permutation(order).found);
    EXPECT_LT(plan_arena(buffers).total, best + 16);
  }
}

// A result of 100 bytes that stays 30 below an operand of 200: 230 bytes and their alignment.
TEST(ArenaPlanner, AResultGoesBelowItsOperand) {
  const std::vector<ArenaBuffer> buffers{{200, 16, 0, 2}, {100, 16, 2, 4}};
  const ArenaTrail trail{0, 1, 30};
  const ArenaPlan plan = plan_arena(buffers, {&trail, 1});
  EXPECT_EQ(plan.max_live, 230);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{32, 0}));
  EXPECT_EQ(plan.total, 232);
  EXPECT_EQ(plan_arena(buffers).total, 308);
  // A lag of the whole result saves nothing.
  const ArenaTrail none{0, 1, 100};
  EXPECT_EQ(plan_arena(buffers, {&none, 1}).max_live, 300);
}

// Trails that share a buffer save less than their overlaps together, for these may not overlap each
// other. All totals are those of placements by hand.
TEST(ArenaPlanner, TrailsOfOneBufferDoNotSaveTwice) {
  const auto expect_bytes = [](int64_t bytes, std::vector<ArenaBuffer> buffers,
                               std::vector<ArenaTrail> trails) {
    const ArenaPlan plan = plan_arena(buffers, trails, ArenaSearch::kLong);
    EXPECT_EQ(plan.max_live, bytes);
    EXPECT_EQ(plan.total, bytes);
  };
  // A result of 160 bytes, 80 below one operand and 96 below another: it lies over one of them.
  expect_bytes(400, {{160, 16, 0, 1}, {160, 16, 0, 1}, {160, 16, 1, 2}}, {{0, 2, 80}, {1, 2, 96}});
  // The second operand, of 32 bytes, is in the 112 between the result and the first.
  expect_bytes(272, {{160, 16, 0, 1}, {32, 16, 0, 1}, {160, 16, 1, 2}}, {{0, 2, 112}, {1, 2, 16}});
  // Results of 48 and 64 bytes over the same operand: what is not read any more are 48 bytes for
  // the first, none for the second, which begins 16 below the operand.
  expect_bytes(176, {{160, 16, 0, 1}, {48, 16, 1, 2}, {64, 16, 1, 2}}, {{0, 1, -48}, {0, 2, 0}});
}

// The total is the bound: no plan takes less. First fit from the bottom, in any order that the
// usual search tries, takes 784 and 576 bytes.
TEST(ArenaPlanner, TrailsFromTheTopOfTheArena) {
  const std::vector<ArenaBuffer> buffers{{480, 16, 1, 3}, {464, 16, 3, 6}, {208, 16, 0, 1},
                                         {384, 16, 0, 0}, {320, 16, 4, 7}, {112, 16, 0, 2}};
  const std::vector<ArenaTrail> trails{{0, 1, 112}, {1, 4, 112}, {2, 0, 96}};
  EXPECT_EQ(plan_arena(buffers, trails).total, 784);
  const ArenaPlan plan = plan_arena(buffers, trails, ArenaSearch::kLong);
  EXPECT_EQ(plan.max_live, 704);
  EXPECT_EQ(plan.total, 704);
  const std::vector<ArenaBuffer> others{{240, 16, 2, 2}, {112, 16, 3, 6}, {176, 16, 1, 1},
                                        {304, 16, 2, 3}, {256, 16, 5, 8}, {160, 16, 3, 3}};
  const std::vector<ArenaTrail> other_trails{{1, 4, 0}, {3, 5, 112}};
  EXPECT_EQ(plan_arena(others, other_trails, ArenaSearch::kLong).total, 544);
  EXPECT_EQ(plan_arena(others, other_trails).max_live, 544);
}

// Two random sets that are 1.8 and 2.1 % above the bound while all buffers are placed from the
// bottom.
TEST(ArenaPlanner, BuffersFromBothEnds) {
  for (const uint32_t seed : {3u, 40u}) {
    std::mt19937 random(seed);
    const auto draw = [&](int32_t low, int32_t high) {
      return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
    };
    std::vector<ArenaBuffer> buffers;
    const int32_t count = draw(8, 40);
    for (int32_t i = 0; i < count; ++i) {
      const int32_t first = draw(0, count / 2);
      const int64_t size = draw(1, 4096);
      const int32_t longest = draw(1, count / 2);
      buffers.push_back({size, 16, first, first + draw(0, longest)});
    }
    const ArenaPlan plan = plan_arena(buffers, {}, ArenaSearch::kLong);
    expect_sound(buffers, plan);
    EXPECT_LE(plan.total * 100, plan.max_live * 101) << plan.total << " of " << plan.max_live;
  }
}

void expect_trails_kept(std::span<const ArenaBuffer> buffers, std::span<const ArenaTrail> trails,
                        const ArenaPlan& plan) {
  int64_t top = 0;
  for (uint32_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % buffers[a].alignment, 0);
    if (buffers[a].size > 0) top = std::max(top, plan.offsets[a] + buffers[a].size);
    for (uint32_t b = 0; b < a; ++b) {
      if (buffers[a].first > buffers[b].last || buffers[b].first > buffers[a].last ||
          plan.offsets[a] >= plan.offsets[b] + buffers[b].size ||
          plan.offsets[b] >= plan.offsets[a] + buffers[a].size)
        continue;
      EXPECT_TRUE(std::ranges::any_of(
          trails,
          [&](const ArenaTrail& trail) {
            return std::minmax(trail.operand, trail.result) == std::minmax(a, b) &&
                   plan.offsets[trail.result] + trail.lag <= plan.offsets[trail.operand];
          }))
          << a << " and " << b;
    }
  }
  EXPECT_EQ(plan.total, top);
  EXPECT_GE(plan.total, plan.max_live);
}

TEST(ArenaPlanner, TrailsAreKept) {
  std::mt19937 random(11);
  int smaller = 0, smallest = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<ArenaBuffer> buffers = random_buffers(random, 5 + static_cast<int>(random() % 60));
    // With one alignment the long search plans the arena from its top too.
    if (round % (2 * kLongEvery) == 0)
      for (ArenaBuffer& buffer : buffers) buffer.alignment = 16;
    std::vector<ArenaTrail> trails;
    for (uint32_t a = 0; a < buffers.size(); ++a)
      for (uint32_t b = 0; b < buffers.size(); ++b)
        if (a != b && buffers[a].first < buffers[b].first && buffers[b].first <= buffers[a].last &&
            buffers[a].size > 0 && buffers[b].size > 0 && random() % 2 == 0)
          trails.push_back({a, b, static_cast<int64_t>(random() % 4000) - 1000});
    const ArenaPlan plan = plan_arena(buffers, trails);
    expect_trails_kept(buffers, trails, plan);
    smaller += plan.total < plan_arena(buffers).total ? 1 : 0;
    if (round % kLongEvery != 0) continue;
    const ArenaPlan searched_long = plan_arena(buffers, trails, ArenaSearch::kLong);
    expect_trails_kept(buffers, trails, searched_long);
    EXPECT_LE(searched_long.total, plan.total);
    smallest += searched_long.total < plan.total ? 1 : 0;
  }
  EXPECT_GE(smaller, 20);
  EXPECT_GE(smallest, 7);  // of 15
}

TEST(ArenaPlanner, EdgeCases) {
  EXPECT_EQ(plan_arena({}).total, 0);
  const ArenaBuffer empty{0, 16, 0, 5};
  EXPECT_EQ(plan_arena({&empty, 1}).total, 0);
  const ArenaBuffer one{100, 16, 3, 3};
  const ArenaPlan plan = plan_arena({&one, 1});
  EXPECT_EQ(plan.total, 100);
  EXPECT_EQ(plan.max_live_step, 3);
}

// What is placed around a plan avoids whoever lives in its first or last step, too.
TEST(ArenaPlanner, GuestsAvoidWhoeverSharesAStep) {
  const std::vector<ArenaBuffer> buffers = {{100, 16, 3, 5}};
  const auto offset = [&](int32_t first, int32_t last) {
    return place_around(buffers, plan_arena(buffers),
                        std::vector<ArenaBuffer>{{50, 16, first, last}})[0];
  };
  EXPECT_EQ(offset(0, 2), 0);
  EXPECT_EQ(offset(6, 7), 0);
  for (const auto& [first, last] : {std::pair{1, 3}, {5, 6}, {4, 4}, {0, 9}})
    EXPECT_EQ(offset(first, last), 112) << first;
}

}  // namespace
}  // namespace dtr
