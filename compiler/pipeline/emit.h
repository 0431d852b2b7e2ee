// From units of ops to the program that the runtime runs: tensors, kernel calls and delegate calls
// in order.
#pragma once

#include <memory>
#include <vector>

#include "compiler/partitioner/partition.h"
#include "compiler/program/plan.h"

namespace dtr {

// What `emit` makes; the plan refers to the partitions.
struct EmitResult {
  ProgramPlan plan;
  // For each call of the plan: the partition of a delegate call, null for a kernel call; and the
  // backend that runs it.
  std::vector<std::unique_ptr<LoweredPartition>> partitions;
  std::vector<uint8_t> backends;
  // The values of the graph that calls leave in memory, in the order of the calls.
  struct StoredValue {
    ValueId value;
    uint32_t call;
    TensorRef tensor;
  };
  std::vector<StoredValue> results;
};

// `graph` has layouts assigned, `units` are in order of execution. Payloads and offsets are still
// open: see compiler/program/memory_planner.h.
Result<EmitResult> emit(Module& module, const Graph& graph, const Recipe& recipe,
                        const std::vector<Partition>& partitions);

}  // namespace dtr
