// The plan of a program, from the compiler to the writer: tensors, calls in order, inputs and
// outputs. It does not depend on how backends lower. The memory planner sets the offsets of
// buffers; then the delegates' payloads can be encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/partitioner/backend.h"

namespace dtr {

struct TensorRef {
  uint32_t index = UINT32_MAX;  // into MethodPlan::tensors
  auto operator<=>(const TensorRef&) const = default;
};

struct PlanTensor {
  std::string name;  // of the IR value
  Type type;         // quantization goes into the debug map only
  // Data of a constant in contiguous order, as a ConstantPool holds it (the writer converts them to
  // `type.layout`). Must outlive the plan. A tensor without data is placed by the memory planner.
  std::optional<std::span<const std::byte>> constant = {};
  // The op that computes it, for the debug map; empty for inputs and constants.
  Origin origin = {};
  std::vector<Origin> readers = {};  // ops that read it, for the debug map
  // Of a state, which the program keeps between runs in a memory of its own: the bytes that it
  // holds at first, in contiguous order. Must outlive the plan.
  std::optional<std::span<const std::byte>> initial_state = {};
  // In the arena, or of a state in the memory of states; set by plan_memory.
  int64_t offset = 0;
};

// One argument of a kernel. A list of tensors may have gaps only where the operator takes optional
// tensors.
using TensorRefs = std::vector<std::optional<TensorRef>>;
using PlanArgument = std::variant<std::monostate, TensorRef, bool, int64_t, double, std::string,
                                  Ints, Floats, TensorRefs>;

struct KernelCallPlan {
  std::string kernel;  // "aten::add.out"
  std::vector<PlanArgument>
      arguments;                   // in the order of the operator's schema, without the outputs
  std::vector<TensorRef> outputs;  // empty: the kernel writes to its first argument
  Origin origin;
  int64_t macs = 0;
  uint64_t cycles = 0;  // estimate for the Cortex-M
};

struct DelegateCallPlan {
  std::string delegate_id;  // "DeuteronBackend"
  std::vector<TensorRef> inputs, outputs;
  // Steps, live ranges of operands and interior buffers, debug information. Must outlive the plan.
  // Null: the call is one step and needs no scratch.
  const LoweredPartition* partition = nullptr;
  Origin origin;
  // Set by plan_memory: the scratch operand [scratch_offset, + scratch_bytes) of the arena, and
  // each interior buffer's offset in it.
  int64_t scratch_offset = 0;
  uint32_t scratch_bytes = 0;
  std::vector<uint32_t> interior_offsets = {};
  std::vector<std::byte> payload = {};  // set by encode_payloads
};

using PlanCall = std::variant<KernelCallPlan, DelegateCallPlan>;

struct NamedBytes {
  std::string key;
  std::vector<std::byte> bytes;
};

struct MethodPlan {
  std::string method = "forward";
  std::vector<PlanTensor> tensors;
  std::vector<PlanCall> calls;  // in order of execution
  std::vector<TensorRef> inputs, outputs;
  std::vector<NamedBytes>
      // shared constants and similar; keys starting with "deuteron." are reserved for the writer
      named_data;
  std::span<const SourceOp> sources;  // for the debug map

  std::string target;        // "imxrt700"
  std::string machine;       // the target as a file; empty: readers know it by its name
  uint32_t target_hash = 0;  // 0: the program does not depend on the target
  std::string tool;          // "deuteron 0.1.0"
  uint64_t source_hash = 0;  // of the model file
  uint32_t manifest_flags = 0;

  // Set by plan_memory.
  int64_t arena_bytes = 0;
  int64_t max_live_bytes = 0;
  int64_t state_bytes = 0;

  TensorRef add_tensor(PlanTensor tensor) {
    tensors.push_back(std::move(tensor));
    return {static_cast<uint32_t>(tensors.size() - 1)};
  }
  const PlanTensor& tensor(TensorRef ref) const { return tensors.at(ref.index); }
};

}  // namespace dtr
