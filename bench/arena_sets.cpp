// Writes the sets of buffers that bench/arena_sets.py solves and the planner's test plans, a line
// each (test/unit/arena_sets.h), to standard output:
//
//     bench_arena_sets record NAME MODEL TARGET [BUDGET]…   of a program: none, size, balance, or
//                                                           a part in percent, a set each
//     bench_arena_sets random                               the random ones
//     bench_arena_sets plan < SETS                          name, bytes of the usual and of the
//                                                           long search, most live bytes
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <string_view>

#include "compiler/pipeline/compile.h"
#include "compiler/targets/target.h"
#include "test/unit/arena_sets.h"

namespace dtr {
namespace {

// Steps at which nothing begins are left out, so that equal sets have equal lines.
test::ArenaSet set_of(std::string name, const MemoryMap& memory) {
  std::map<int32_t, int32_t> rank;
  for (const MemoryMapEntry& entry : memory.entries)
    if (entry.bytes > 0) rank[entry.first_step] = 0;
  int32_t next = 0;
  for (auto& [step, at] : rank) at = next++;
  test::ArenaSet set{.name = std::move(name), .buffers = {}, .trails = {}};
  std::vector<uint32_t> place(memory.entries.size());
  for (size_t i = 0; i < memory.entries.size(); ++i) {
    const MemoryMapEntry& entry = memory.entries[i];
    if (entry.bytes == 0) continue;
    place[i] = static_cast<uint32_t>(set.buffers.size());
    set.buffers.push_back({.size = entry.bytes,
                           .first = rank[entry.first_step],
                           .last = std::prev(rank.upper_bound(entry.last_step))->second});
  }
  for (const ArenaTrail& trail : memory.trails)
    if (memory.entries[trail.operand].bytes > 0 && memory.entries[trail.result].bytes > 0)
      set.trails.push_back(
          {.operand = place[trail.operand], .result = place[trail.result], .lag = trail.lag});
  return set;
}

int record(const std::string& name, const std::string& model, const std::string& target,
           const std::vector<std::string>& budgets) {
  CompileSettings settings{.target = find_target(target), .samples = NoiseSamples{}};
  if (settings.target == nullptr) {
    fmt::print(stderr, "no target {}\n", target);
    return 1;
  }
  settings.io = Io::kInt8;
  const auto compiler = make_budget_compiler(model, settings);
  int64_t whole = 0;
  for (const std::string& budget : budgets) {
    SramBudget wanted{.bytes = settings.target->memory.sram_bytes};
    if (budget == "size") wanted.optimize = Optimize::kSize;
    if (budget == "balance") wanted.optimize = Optimize::kBalance;
    if (budget.ends_with('%'))
      wanted.bytes = static_cast<uint64_t>(whole * std::stoll(budget) / 100);
    const Result<const Compilation*> compiled = compiler->compile(wanted);
    if (!compiled) {
      fmt::print(stderr, "{} {} {}: {}\n", name, target, budget, to_text(compiled.error()));
      continue;
    }
    const MemoryMap& memory = (*compiled)->memory;
    if (budget == "none") whole = memory.arena_bytes;
    const std::string label = fmt::format("{}/{}/{}", name, target, budget);
    fmt::print(stderr, "{} {} arena {} live\n", label, memory.arena_bytes, memory.max_live_bytes);
    std::cout << set_of(label, memory);
  }
  return 0;
}

void plan() {
  test::ArenaSet set;
  while (std::cin >> set) {
    const auto milliseconds = [](auto work) {
      const auto start = std::chrono::steady_clock::now();
      work();
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
          .count();
    };
    ArenaPlan usual, longer;
    const double usual_ms = milliseconds([&] { usual = plan_arena(set.buffers, set.trails); });
    const double long_ms =
        milliseconds([&] { longer = plan_arena(set.buffers, set.trails, ArenaSearch::kLong); });
    fmt::print("{} {} {} {} {:.2f} {:.2f}\n", set.name, usual.total, longer.total, usual.max_live,
               usual_ms, long_ms);
  }
}

}  // namespace
}  // namespace dtr

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  if (arguments.size() >= 4 && arguments[0] == "record")
    return dtr::record(arguments[1], arguments[2], arguments[3],
                       arguments.size() == 4
                           ? std::vector<std::string>{"none"}
                           : std::vector<std::string>(arguments.begin() + 4, arguments.end()));
  if (arguments == std::vector<std::string>{"random"}) {
    for (uint32_t seed = 0; seed < dtr::test::kRandomArenaSets; ++seed)
      std::cout << dtr::test::random_arena_set(seed);
    return 0;
  }
  if (arguments == std::vector<std::string>{"plan"}) {
    dtr::plan();
    return 0;
  }
  fmt::print(stderr, "bench_arena_sets record NAME MODEL TARGET [BUDGET]... | random | plan\n");
  return 2;
}
