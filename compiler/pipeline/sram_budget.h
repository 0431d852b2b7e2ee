// Plans a program within a budget of SRAM: chooses among the plans that delegates can make
// (LoweredPartition::plan_within) by the settings' Optimize.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "compiler/pipeline/emit.h"
#include "compiler/program/memory_planner.h"
#include "compiler/recipes/recipe.h"

namespace dtr {

struct SramBudget {
  uint64_t bytes = 0;  // for the arena, and for the program if its constants are in SRAM
  Optimize optimize = Optimize::kSpeed;
  bool has_int8_io = false;  // refusals do not advise it then
};

// What a plan costs.
struct PlannedCost {
  uint64_t sram_bytes = 0;
  uint64_t cycles = 0;         // of delegates and kernels of the CPU, as they are estimated
  uint64_t kernel_cycles = 0;  // of these: of kernels
  bool operator==(const PlannedCost&) const = default;
};

// How a plan is made: the bytes that delegates may use, and what else decides.
struct PlanWay {
  uint64_t limit = 0;
  Overlaps overlaps = Overlaps::kOfChains;
  bool leaves_room = false;
  StagedPlacement placement = StagedPlacement::kTogether;
  auto operator<=>(const PlanWay&) const = default;
};
struct PlanChoice {
  PlanWay way;
  PlannedCost cost;
  uint64_t least = 0;  // bytes below which no placement of its buffers gets
  bool operator==(const PlanChoice&) const = default;
};

// The plans that were made for a program: they depend on no budget, and the search for another one
// does not make them again.
struct MadePlans {
  std::map<PlanWay, std::optional<PlanChoice>> choices;  // std::nullopt: some delegate does not fit
  bool program_is_in_sram = false;
  std::optional<Diagnostic> why_not;  // of the largest limit with which some delegate does not fit
  uint64_t why_not_limit = 0;
};

// The bytes of the program in SRAM, once its memory is planned; 0 if it stays in flash.
using ProgramBytes = std::function<Result<uint64_t>(const MemoryMap&)>;

// Plans the memory of `emitted` within the budget, delegates included:
//   kSpeed    the plan without a budget if it fits, else the fastest that is found
//   kBalance  the smallest that is found with at most 1 % more cycles than the fastest
//   kSize     the smallest that is found; of those with as many bytes the fastest
// The search bisects the bytes that delegates may use, in two ways: some dozens of plans, at most
// about 350, on so many threads (0: default_threads()), which find the same.
// `budget.bytes` has to be at most `target_bytes`, what the target has. Errors: kMemoryExceeded,
// with the smallest program that is found and what needs it; those of plan_within and
// `program_bytes`. `made`: of earlier budgets for the same program.
Result<MemoryMap> plan_within_budget(const Module& module, EmitResult& emitted,
                                     const SramBudget& budget, uint64_t target_bytes,
                                     const ProgramBytes& program_bytes, unsigned threads,
                                     MadePlans& made);

// The cost of the plan as it is.
PlannedCost planned_cost(const EmitResult& emitted, const MemoryMap& memory,
                         uint64_t program_bytes);

}  // namespace dtr
