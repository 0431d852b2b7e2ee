// Decides how a partition runs: whole calls or stripes, constants in one block or in parts, and
// when each copy starts. Alternatives are compared by the timeline of docs/npu.md 3.
#pragma once

#include <span>

#include "compiler/backends/neutron/memory/memory.h"
#include "compiler/backends/neutron/schedule/schedule.h"
#include "compiler/partitioner/backend.h"

namespace dtr::neutron {

// A partition with everything decided but addresses.
struct Plan {
  LoweredGraph graph;
  MemoryPlan memory;
  Schedule schedule;
  uint64_t cycles = 0;  // of its timeline
};

// The plan without a budget: every call whole unless splitting it by channels saves time or is
// needed, copies as late as costs nothing. The first of `variants`, which are ways to lower the
// partition, that fits the machine's SRAM; if none does, as plan_within. Constants that are in SRAM
// from the start count. Error: kMemoryExceeded.
Result<Plan> plan_unlimited(const Machine& machine, const Module& module,
                            std::span<const LoweredGraph> variants);

// The fastest plan found in which operands, stripes and constants take at most `limit` bytes of
// SRAM at every call. Considers: chains of calls, single ones only if the overlaps of `search` have
// them, in stripes where a call does not fit, or not into a part of the limit if it leaves room;
// blocks of constants split by channels where they do not fit or where calls wait for them; copies
// later than in plan_unlimited. Constants that are in SRAM from the start are not counted. Error:
// kMemoryExceeded, with the operator that needs more.
Result<Plan> plan_within(const Machine& machine, const Module& module,
                         std::span<const LoweredGraph> variants, uint64_t limit, PlanSearch search);

}  // namespace dtr::neutron
