// Emits partitions as the plan of the program: tensors, kernel calls and delegate calls in order.
#pragma once

#include <memory>
#include <vector>

#include "compiler/partitioner/partition.h"
#include "compiler/program/plan.h"

namespace dtr {

// The result of `emit`; the plan refers to `partitions`.
struct EmitResult {
  MethodPlan plan;
  // For each call of the plan: the partition of a delegate call, null for a kernel call; and the
  // backend that runs it.
  std::vector<std::unique_ptr<LoweredPartition>> partitions;
  std::vector<uint8_t> backends;
  // The values of the graph that calls store in memory, in the order of the calls.
  struct StoredValue {
    ValueId value;
    uint32_t call;
    TensorRef tensor;
  };
  std::vector<StoredValue> results;
};

// `graph` has layouts assigned, `partitions` are in execution order. Payloads and offsets are set
// later (compiler/program/memory_planner.h). Errors: those of DelegateBackend::lower and
// KernelBackend::kernel_call.
Result<EmitResult> emit(Module& module, const Graph& graph, const Recipe& recipe,
                        const std::vector<Partition>& partitions);

}  // namespace dtr
