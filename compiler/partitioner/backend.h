// The interface of a backend: which ops it runs, in which layouts, at what cost, and how it turns a
// partition into the payload of a delegate or an op into a kernel call. Recipes compose backends;
// no backend depends on another.
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

// The element types and conditions with which a backend runs an operator, for docs/operators.md.
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
      false;  // results may have another layout than operands at no cost: the op permutes for free
  bool prefers_contiguous = false;  // operands and results, where nothing else decides
};

// Memory that a delegate uses while it runs, by steps (a step is a kernel call), for the memory
// planner of the program.
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

// Memory of a partition: an operand, or one of its buffers.
struct MemoryRef {
  enum class Kind : uint8_t { kInput, kOutput, kBuffer } kind = Kind::kBuffer;
  uint32_t index = 0;
};

// The calls of the partition write `result` while they still read `operand`, and never over bytes
// that are read later if the address of `result` plus `lag` is at most that of `operand`.
struct Trail {
  MemoryRef operand, result;
  int64_t lag = 0;
};

// One kernel call or copy of a partition, for reports: its source operators and its cost.
struct StepInfo {
  static constexpr uint32_t kNoCommand = UINT32_MAX;
  // Index in the microcode. kNoCommand: a row of reports, since the delegate does not tell which of
  // its commands it is.
  uint32_t command = 0;
  std::string kernel;  // "Conv2d", "Depthwise", "Pool", … "Copy"
  Origin origin;
  int64_t macs = 0;
  uint64_t cycles = 0;          // busy cycles of the NPU
  std::string_view limit = {};  // "array", "weight port", …
  // of a copy: read from flash; else read and written in SRAM, each byte counted once
  uint64_t bytes = 0;
  std::string rearranges = {};  // the name of the value, if the step only changes its layout
};

// The memory of a value of the source graph inside a delegate, for the debug map; values that
// fusion removed have none.
struct InteriorValue {
  std::string name;
  Type type;
  std::optional<uint32_t> buffer;  // index into `buffers`
  std::optional<uint32_t> output =
      {};  // instead of `buffer`: the value shares the memory of this output of the partition
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
// A value as an argument: a ConstantArgument for a constant, std::monostate for an absent operand.
KernelArgument kernel_argument(const Graph& graph, ValueId value);

struct KernelCall {
  std::string name;  // "aten::_softmax.out"
  std::vector<KernelArgument> arguments;
  std::vector<Type> extra_outputs = {};  // out tensors beside the op's results, which no op reads
};

// Which results a plan may count on being placed over operands that they are computed from. With
// those of single operators a plan has fewer bytes live at its fullest step, but its arena may have
// more gaps: only placing both tells which needs less.
enum class Overlaps : uint8_t { kOfChains, kOfSingleOperatorsToo };

// How a plan within a limit is searched.
struct PlanSearch {
  Overlaps overlaps = Overlaps::kOfChains;
  // Also tries to run more in stripes than the limit demands, which leaves room for constants on
  // their way: finds faster plans, in up to five times the time.
  bool leaves_room = false;
  unsigned threads = 1;  // of the search, which finds the same with any number
  bool operator==(const PlanSearch&) const = default;
};

// A partition after scheduling, before addresses are known.
class LoweredPartition {
 public:
  virtual ~LoweredPartition() = default;
  uint32_t steps = 0;
  bool plans_scratch =
      // true: the memory planner gives the delegate a scratch operand, its last one, for `buffers`;
      // false: the delegate allocates from its runtime
      true;
  uint32_t runtime_bytes = 0;  // of SRAM that the delegate takes from its runtime while it runs
  std::vector<OperandUse> inputs, outputs;  // of the partition's graph, in order
  std::vector<InteriorBuffer> buffers;
  std::vector<Trail> trails;
  std::vector<StepInfo> step_info;  // commands in order
  std::vector<InteriorValue> values;

  // The payload, once the planner has placed the buffers: buffers[i] begins `offsets[i]` bytes from
  // the start of the scratch operand. Errors: those of the backend; kWorkExceeded (neutron).
  virtual Result<std::vector<std::byte>> encode(std::span<const uint32_t> offsets,
                                                uint32_t scratch_bytes) const = 0;

  // Decides again how the partition runs, within that many bytes of SRAM at every step for its
  // operands and buffers (UINT64_MAX: as it was lowered), and sets the members above; leaves them
  // as they are on error. A delegate that has no choice does nothing. Errors: kMemoryExceeded, with
  // the operator that needs more; kWorkExceeded (neutron).
  virtual Result<void> plan_within(const Module&, uint64_t /*sram_bytes*/, PlanSearch) {
    return {};
  }
  // Frees what only plan_within needs, which is not called any more.
  virtual void end_planning() {}
  // Frees what only the functions above need; they are not called any more.
  virtual void release() {}
  // Cycles of the partition as it is planned, to compare plans of one partition; 0: unknown.
  virtual uint64_t planned_cycles() const { return 0; }
};

class DelegateBackend;
class KernelBackend;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "neutron"

  // Why the op does not run on this backend: its first violated condition. std::nullopt: the op
  // runs here.
  std::optional<Refusal> refuse(const Graph& graph, OpId op) const;
  // std::nullopt: no op of this operator runs here.
  std::optional<OperatorSupport> support(const OpDef& op) const;
  virtual LayoutChoice layouts(const Graph& graph, OpId op) const = 0;
  // Estimated cycles of the op alone, at the target's clock, for an op that runs here; 0: it
  // computes nothing.
  virtual uint64_t cost(const Graph& graph, OpId op) const = 0;

  // The backend as one of its two kinds; the other one is null.
  virtual const DelegateBackend* as_delegate() const { return nullptr; }
  virtual const KernelBackend* as_kernels() const { return nullptr; }

  // The element types (a text for docs/operators.md) and conditions of an operator. std::nullopt:
  // the backend does not run it.
  struct OperatorRule {
    std::string_view dtypes;
    Conditions conditions;
  };
  virtual std::optional<OperatorRule> rule(const OpDef& op) const = 0;
  // The rule of one op, for backends where it depends on the op's operands.
  virtual std::optional<OperatorRule> rule_of(const Graph& graph, OpId op) const {
    return rule(*graph.op(op).def);
  }
  // The refusal of an operator without a rule.
  virtual Refusal no_rule(const OpDef& op) const = 0;
  // Evaluates a condition for one op: the clause that says what violates it, or std::nullopt. A
  // backend whose conditions read more than the graph passes a query type of its own.
  virtual std::optional<std::string> violation(const Condition& condition,
                                               const OpQuery& query) const {
    return condition.violation(query);
  }
  // Replaces {names} in a sentence or remedy by the machine's numbers.
  virtual std::string with_numbers(std::string_view text) const { return std::string(text); }
};

// A backend whose ops are grouped into partitions; each partition becomes the payload of one
// delegate call.
class DelegateBackend : public Backend {
 public:
  const DelegateBackend* as_delegate() const final { return this; }

  virtual std::string_view delegate_id() const = 0;  // in the program: "DeuteronBackend"
  // The fewest cycles in which the machine could compute the op if its types and sizes had no
  // limits.
  virtual uint64_t bound(const Graph&, OpId) const { return 0; }
  // Cycles to start one call of the delegate, beside its work.
  virtual uint64_t dispatch_cycles() const = 0;
  // How many inputs and outputs one call may have together, constants not counted.
  virtual size_t max_operands() const { return SIZE_MAX; }
  // How many cycles one call may take together, as `cost` estimates them, and a cycle for every
  // eight bytes that its ops read and write.
  virtual uint64_t max_work() const { return UINT64_MAX; }
  // False: calls are those that NXP's converter lists, for comparison (docs/npu.md 7).
  virtual bool has_own_schedule() const { return true; }
  // True if inputs and outputs of partitions are to be marked contiguous where their bytes are the
  // same in both layouts.
  virtual bool prefers_contiguous() const { return false; }
  // `graph` is the partition as a graph of its own, with layouts assigned and conversions explicit.
  // Errors: kMemoryExceeded (no schedule fits SRAM), and those of an external converter.
  virtual Result<std::unique_ptr<LoweredPartition>> lower(Module& module, Graph graph) const = 0;
  // The cycles of a call that computes `graph`, which is as for `lower`, as the simulator counts
  // them. std::nullopt: not known.
  virtual std::optional<uint64_t> call_cycles(Module&, const Graph&) const { return std::nullopt; }
};

// A backend that runs each op as one kernel call on the CPU.
class KernelBackend : public Backend {
 public:
  const KernelBackend* as_kernels() const final { return this; }

  // Rewrites an op that was placed here into ops for which this backend has kernels (splits a fused
  // activation, for one). Returns true if it changed the graph. Errors: those of the rewrite, which
  // mean an invalid graph.
  virtual Result<bool> legalize(Module&, Graph&, OpId) const { return false; }
  // The kernel call of a legalized op. Errors: those of the backend; `legalize` makes sure that
  // there is a kernel.
  virtual Result<KernelCall> kernel_call(Module& module, const Graph& graph, OpId op) const = 0;
};

}  // namespace dtr
