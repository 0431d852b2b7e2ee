// The lowering rules of the backend: a row for each operator, and one rule for every elementwise
// function of one int8 tensor.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "compiler/backends/neutron/lowering/builder.h"
#include "compiler/partitioner/backend.h"
#include "device/numerics/binary.h"

namespace dtr::neutron {

using Table = std::array<int8_t, 256>;  // result of every int8 value q, at q + 128

// The ops that one call computes: the head, and the table, addition and clamps that its epilogue
// absorbs. A head without members is a group too.
struct Group {
  OpId head;
  std::vector<OpId> members;                 // behind the head, in order
  std::optional<numerics::Range> clamp;      // of the head's own result, tighter than its range
  std::optional<Table> table;                // composed of the members before the addition
  OpId add;                                  // the addition among the members, if any
  std::optional<numerics::Range> add_clamp;  // of the sum, tighter than its range

  OpId root() const { return members.empty() ? head : members.back(); }
};

// What the epilogue of an operator's call can absorb.
enum class Absorbs : uint8_t {
  kNothing,
  kClamp,
  kTables,
  kTable,
  kEpilogue
};  // kTables: the head is one itself

// How the backend runs one operator: under which conditions, in which layouts, at what cost, and
// the function that emits its calls.
struct LoweringRule {
  const OpDef* def;
  std::span<const Condition* const> conditions;
  LayoutChoice (*layouts)(const OpView&);
  // The op's main kernel call with shapes but without addresses, for estimates; std::nullopt if the
  // op emits no call.
  std::optional<Kernel> (*estimate)(const Machine&, const OpView&);
  void (*lower)(Builder&, const Group&);
  Absorbs absorbs = Absorbs::kNothing;
  // Replaces `estimate` for ops that may need several calls: cycles of all calls, with what the
  // host needs to start them.
  uint64_t (*cost)(const Machine&, const OpView&) = nullptr;
};

// The rule of an op, or nullptr if there is none. An operator of two operands becomes a table if
// one of them is a scalar constant; otherwise it has a rule of its own.
const LoweringRule* find_rule(const Graph& graph, OpId op);
// The rule of an operator, whatever its operands are; nullptr if there is none.
const LoweringRule* find_rule(const OpDef& def);

// The rules of each source file of lowering/.
std::span<const LoweringRule> convolution_rules();
std::span<const LoweringRule> linear_rules();
std::span<const LoweringRule> pool_rules();  // max_pool2d, avg_pool2d, adaptive ones
std::span<const LoweringRule>
reduction_rules();  // mean.dim, sum.dim_IntList, amax, amin, argmax, argmin
std::span<const LoweringRule> resize_rules();  // upsample_nearest2d, upsample_bilinear2d
std::span<const LoweringRule>
binary_rules();  // add, sub, mul, maximum, minimum, prelu of two tensors
std::span<const LoweringRule> softmax_rules();  // softmax, log_softmax
std::span<const LoweringRule> matmul_rules();
std::span<const LoweringRule> normalize_rules();  // layer_norm, group_norm, rms_norm
std::span<const LoweringRule> index_rules();      // index_select
std::span<const LoweringRule>
movement_rules();  // view, permute, slice, expand, flip, constant_pad_nd, cat, dim order
const LoweringRule& elementwise_rule();  // every elementwise function of one tensor

// True if the operator is elementwise and has an integer evaluation from int8 to int8.
bool is_function(const OpDef& def);
// True if the op is an elementwise function of one int8 tensor, which a table of 256 entries
// computes: every other operand is a constant of one element.
bool is_table_op(const Graph& graph, OpId op);
// The operand of such an op that is the tensor.
ValueId table_operand(const Graph& graph, OpId op);
// The result of such an op for all 256 operands.
Table table_of(const Module& module, const Graph& graph, OpId op);
// outer(inner(q)) for all q.
Table compose(const Table& outer, const Table& inner);
// The range [low, high] if the table only clamps operands of `domain` to it; else std::nullopt.
std::optional<numerics::Range> as_clamp(const Table& table, numerics::Range domain);

// Shared by several rules.
Origin origin_of(const Graph& graph, const Group& group);
LayoutChoice any_layout(const OpView& view);  // results have the layout of the operands
LayoutChoice channels_last(const OpView& view);
npu::BinaryArguments binary_arguments(const numerics::BinaryParameters& function,
                                      std::optional<numerics::Range> clamp);

}  // namespace dtr::neutron
