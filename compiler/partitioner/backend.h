// What a backend is to the rest of the compiler: which ops it takes, in which layouts, at what
// cost, and how it turns a partition into the payload of a delegate. Recipes compose backends; no
// backend knows another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/partitioner/condition.h"

namespace dtr {

// What a backend runs of an operator, for the table of operators.
struct OperatorSupport {
  std::string_view dtypes;
  std::vector<std::string> conditions;  // sentences; an op for which all hold is not refused

  bool operator==(const OperatorSupport&) const = default;
};

// Layouts in which a backend runs an op. An op that takes both without extra cost lists both.
struct LayoutChoice {
  bool contiguous = true;
  bool channels_last = true;
  bool mixed =
      false;  // results may have another layout than operands at no cost (the op permutes for free)
};

// How a delegate uses memory while it runs, step by step (a step is a kernel call), for the one
// planner that places every buffer.
enum class BufferRole : uint8_t { kActivation, kStaging, kScratch };
struct InteriorBuffer {
  std::string name;
  BufferRole role = BufferRole::kActivation;
  uint32_t bytes = 0;
  uint32_t first_step = 0, last_step = 0;  // inclusive
};
struct OperandUse {
  uint32_t bytes = 0;
  uint32_t first_step = 0, last_step = 0;
};

// One kernel call or copy of a partition, for reports: what it does for which source operators, and
// its cost.
struct StepInfo {
  uint32_t command = 0;  // index in the microcode
  std::string kernel;    // "Conv2d", "Depthwise", "Pool", … "Copy"
  Origin origin;
  int64_t macs = 0;
  uint64_t cycles = 0;          // busy cycles of the NPU
  std::string_view limit = {};  // "array", "weight port", …
  uint64_t bytes = 0;           // of a copy: from flash; else read and written in SRAM, each once
  std::string rearranges =
      {};  // value that the step brings into another order of bytes, if it does nothing else
};

// Where a value of the source graph lies inside a delegate while it exists, for the debug map;
// values lost to fusion have none.
struct InteriorValue {
  std::string name;
  Type type;
  std::optional<uint32_t> buffer;  // index into `buffers`
  std::optional<uint32_t> output =
      {};                   // instead: it lies where this output of the partition will be
  uint32_t after_step = 0;  // valid after this step
  Origin origin;
  std::vector<Origin> readers = {};
};

// An argument of a kernel as ExecuTorch's schema of the operator orders them; the results of the op
// follow as out tensors.
struct ConstantArgument {
  Type type;
  ConstantId constant;
};
// Memory that the kernel may write to while it runs.
struct ScratchArgument {
  int64_t bytes = 0;
};
using KernelArgument =
    std::variant<std::monostate, ValueId, ConstantArgument, ScratchArgument, bool, int64_t, double,
                 std::string, Ints, Floats, std::vector<ValueId>, DType>;
// A value as an argument: a constant where it is one, none where it is absent.
KernelArgument kernel_argument(const Graph& graph, ValueId value);

struct KernelCall {
  std::string_view name;  // "aten::_softmax.out"
  std::vector<KernelArgument> arguments;
  std::vector<Type> extra_outputs = {};  // out tensors beside the op's results, which nobody reads
};

// A partition after scheduling, before addresses are known.
class LoweredPartition {
 public:
  virtual ~LoweredPartition() = default;
  uint32_t steps = 0;
  bool plans_scratch =
      true;  // the delegate's last operand, for `buffers`; false: it asks its runtime for memory
  std::vector<OperandUse> inputs, outputs;  // of the partition's graph, in order
  std::vector<InteriorBuffer> buffers;
  std::vector<StepInfo> step_info;  // commands in order
  std::vector<InteriorValue> values;

  // The payload, once the planner has placed the buffers: `offsets[i]` of buffers[i] from the start
  // of the scratch operand.
  virtual Result<std::vector<std::byte>> encode(std::span<const uint32_t> offsets,
                                                uint32_t scratch_bytes) const = 0;
};

class DelegateBackend;
class KernelBackend;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "neutron"

  // std::nullopt: the op runs here. Asked for every op of the (quantized) graph.
  std::optional<Refusal> refuse(const Graph& graph, OpId op) const;
  // std::nullopt: no op of this kind runs here.
  std::optional<OperatorSupport> support(const OpDef& op) const;
  virtual LayoutChoice layouts(const Graph& graph, OpId op) const = 0;
  // Estimated cycles of the op alone, at the target's clock. Asked for ops that run here; 0:
  // nothing is computed.
  virtual uint64_t cost(const Graph& graph, OpId op) const = 0;

  // Every backend is one of the two; the other is null.
  virtual const DelegateBackend* as_delegate() const { return nullptr; }
  virtual const KernelBackend* as_kernels() const { return nullptr; }

  // What the backend runs of an operator: element types for docs/operators.md, and the conditions.
  // std::nullopt: nothing of it.
  struct OperatorRule {
    std::string_view dtypes;
    Conditions conditions;
  };
  virtual std::optional<OperatorRule> rule(const OpDef& op) const = 0;
  // The rule of one op, where that of its operator depends on the op's operands.
  virtual std::optional<OperatorRule> rule_of(const Graph& graph, OpId op) const {
    return rule(*graph.op(op).def);
  }
  // The refusal of an operator without a rule.
  virtual Refusal no_rule(const OpDef& op) const = 0;
  // A condition's answer for one op. A backend whose conditions read more than the graph passes its
  // own query.
  virtual std::optional<std::string> violation(const Condition& condition,
                                               const OpQuery& query) const {
    return condition.violation(query);
  }
  // A sentence or remedy with the machine's numbers in the place of {names}.
  virtual std::string with_numbers(std::string_view text) const { return std::string(text); }
};

// A backend whose operators are joined to partitions, each of which becomes the payload of one call
// of a delegate.
class DelegateBackend : public Backend {
 public:
  const DelegateBackend* as_delegate() const final { return this; }

  virtual std::string_view delegate_id() const = 0;  // in the program: "DeuteronBackend"
  // The fewest cycles in which the machine could do the op, whatever its types and limits.
  virtual uint64_t bound(const Graph&, OpId) const { return 0; }
  // Cycles to start one call of the delegate, beside its work.
  virtual uint64_t dispatch_cycles() const = 0;
  // How many inputs and outputs one call may have together, constants not counted.
  virtual size_t max_operands() const { return SIZE_MAX; }
  // False: calls are those that NXP's converter lists, for comparison (docs/npu.md 7).
  virtual bool has_own_schedule() const { return true; }
  // Inputs and outputs of partitions whose bytes are the same in both layouts are marked
  // contiguous.
  virtual bool prefers_contiguous() const { return false; }
  // `graph` is the partition as a graph of its own, with layouts assigned and conversions explicit.
  // Errors: kMemoryExceeded (no schedule fits SRAM), and those of an external converter.
  virtual Result<std::unique_ptr<LoweredPartition>> lower(Module& module, Graph graph) const = 0;
};

// A backend each of whose operators becomes a kernel call of the program, on the CPU.
class KernelBackend : public Backend {
 public:
  const KernelBackend* as_kernels() const final { return this; }

  // Cycles to quantize or dequantize that many elements.
  virtual uint64_t conversion_cycles(int64_t elements) const = 0;
  // Rewrites an op that was placed here into ops that this backend has kernels for (fused
  // activations, for one). Returns whether it did.
  virtual Result<bool> legalize(Module&, Graph&, OpId) const { return false; }
  // The kernel that runs a legalized op.
  virtual Result<KernelCall> kernel_call(Module& module, const Graph& graph, OpId op) const = 0;
};

}  // namespace dtr
