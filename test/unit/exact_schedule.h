// The fastest plan of a partition, found by looking at every one: the judge of plan_within
// (compiler/backends/neutron/schedule/plan.h) on small partitions.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/backends/neutron/schedule/plan.h"

namespace dtr::test {

struct ExactSchedule {
  uint64_t cycles = UINT64_MAX;       // of the fastest plan; UINT64_MAX: none fits
  bool is_proven = true;              // else no plan takes fewer cycles than `cycles`
  size_t chain_sets = 0, states = 0;  // that were looked at
};

// Looks at every set of chains, with any number of stripes, constants kept or copied again; within
// it at every number of parts of each call and every call beside which each copy may start. All of
// them obey what plan_within obeys: at each call tensors and blocks of constants take at most
// `limit` bytes, calls run in the order of the partition, copies too, one after the other. The
// timeline is computed here anew, and that of the fastest plan is compared with neutron::simulate.
// `known`: cycles of a plan that exists; UINT64_MAX: none is known. Ends unproven after
// `most_states`. Constants are in flash.
ExactSchedule fastest_schedule(const neutron::Machine& machine,
                               std::span<const neutron::LoweredGraph> variants, uint64_t limit,
                               uint64_t known, size_t most_states);

// The compiler's schedule beside the fastest one.
struct ScheduleComparison {
  uint64_t limit = 0;            // bytes
  uint64_t cycles = UINT64_MAX;  // of the compiler's plan; UINT64_MAX: it finds none
  ExactSchedule exact;
  double ratio() const { return static_cast<double>(cycles) / static_cast<double>(exact.cycles); }
};
// Within `percent` of the bytes of the plan without a limit.
ScheduleComparison compare_schedules(const neutron::Machine& machine, const Module& module,
                                     std::span<const neutron::LoweredGraph> variants,
                                     uint32_t percent, size_t most_states);

// The most bytes that tensors and blocks of constants take at a call of the plan.
uint64_t most_bytes(const neutron::Plan& plan);

}  // namespace dtr::test
