// The long search against an exact solver, on sets of buffers of programs and random ones: for each
// set test/data/arena/best.txt has the least bytes that are known (bench/arena_sets.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "test/unit/arena_sets.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

constexpr int64_t kMostPerMille = 1010;  // of the best known
// The same of sets that the search misses by more; docs/memory.md says why.
const std::map<std::string, int64_t> kMissed = {{"mobilenet_v2/imxrt700/25%", 1012},
                                                {"three_resolutions/imx95/size", 1011}};
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kEvery = 8;  // one of eight sets
#else
constexpr size_t kEvery = 1;
#endif

std::vector<test::ArenaSet> all_sets() {
  std::vector<test::ArenaSet> sets;
  std::ifstream recorded(test::source_path("test/data/arena/sets.txt"));
  for (test::ArenaSet set; recorded >> set;) sets.push_back(set);
  for (uint32_t seed = 0; seed < test::kRandomArenaSets; ++seed)
    sets.push_back(test::random_arena_set(seed));
  return sets;
}

TEST(ArenaSets, AtMostOnePercentAboveTheBestKnown) {
  struct Best {
    int64_t bytes = 0, bound = 0;
  };
  std::map<std::string, Best> best;
  std::ifstream lines(test::source_path("test/data/arena/best.txt"));
  for (std::string name; lines >> name;) lines >> best[name].bytes >> best[name].bound;
  const std::vector<test::ArenaSet> sets = all_sets();
  EXPECT_GE(sets.size(), 200u);
  EXPECT_EQ(best.size(), sets.size());
  for (size_t i = 0; i < sets.size(); i += kEvery) {
    const test::ArenaSet& set = sets[i];
    ASSERT_TRUE(best.contains(set.name)) << set.name;
    const Best& known = best[set.name];
    const ArenaPlan plan = plan_arena(set.buffers, set.trails, ArenaSearch::kLong);
    const auto missed = kMissed.find(set.name);
    const int64_t most = missed == kMissed.end() ? kMostPerMille : missed->second;
    EXPECT_LE(plan.total * 1000, known.bytes * most)
        << set.name << ": " << plan.total << " bytes, " << known.bytes << " are known";
    // Less than is possible: the plan, or what the solver was told, is wrong.
    EXPECT_GE(plan.total, known.bound) << set.name;
    EXPECT_LE(plan.max_live, known.bytes) << set.name;
  }
}

}  // namespace
}  // namespace dtr
