// Time to plan an arena against the number of buffers, for chains with residuals as networks have
// them. The complexity line shows growth.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "compiler/support/arena_planner.h"

namespace {

std::vector<dtr::ArenaBuffer> network(int32_t count) {
  std::mt19937 random(count);
  std::uniform_int_distribution<int64_t> size(64, 65536);
  std::vector<dtr::ArenaBuffer> buffers;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t reach = i % 4 == 0 ? 3 : 1;  // every fourth value is a residual
    buffers.push_back({.size = size(random), .first = i, .last = i + reach});
  }
  return buffers;
}

void plan_arena(benchmark::State& state) {
  const auto buffers = network(static_cast<int32_t>(state.range(0)));
  dtr::ArenaPlan plan;
  for ([[maybe_unused]] auto _ : state) {
    plan = dtr::plan_arena(buffers);
    benchmark::DoNotOptimize(plan.total);
  }
  state.SetComplexityN(state.range(0));
  state.counters["total/bound"] =
      static_cast<double>(plan.total) / static_cast<double>(plan.max_live);
}

}  // namespace

BENCHMARK(plan_arena)
    ->RangeMultiplier(4)
    ->Range(16, 1024)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity();
