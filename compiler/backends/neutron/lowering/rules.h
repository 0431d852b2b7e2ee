// What the backend does with each operator: one row an operator, and one rule for every elementwise
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

// An op with those that its call absorbs: head, then table, addition and clamps of the epilogue. A
// head alone is a group too.
struct Group {
  OpId head;
  std::vector<OpId> members;                 // behind the head, in order
  std::optional<numerics::Range> clamp;      // of the head's own result, tighter than its range
  std::optional<Table> table;                // composed of the members before the addition
  OpId add;                                  // the addition among the members, if any
  std::optional<numerics::Range> add_clamp;  // of the sum, tighter than its range

  OpId root() const { return members.empty() ? head : members.back(); }
};

// What a call's epilogue can absorb behind an operator.
enum class Absorbs : uint8_t {
  kNothing,
  kClamp,
  kTables,
  kTable,
  kEpilogue
};  // kTables: the head is one itself

struct LoweringRule {
  const OpDef* def;
  std::span<const Condition* const> conditions;
  LayoutChoice (*layouts)(const OpView&);
  // The op's main kernel with shapes but without addresses, for estimates; std::nullopt: no call.
  std::optional<Kernel> (*estimate)(const Machine&, const OpView&);
  void (*lower)(Builder&, const Group&);
  Absorbs absorbs = Absorbs::kNothing;
  // Instead of `estimate`, where the op may be several calls: cycles of all of them, the host's
  // included.
  uint64_t (*cost)(const Machine&, const OpView&) = nullptr;
};

// The rule of an op, or nullptr. An operator of two operands has its own unless one of them is a
// number: then it is a table.
const LoweringRule* find_rule(const Graph& graph, OpId op);
// The rule of an operator in general.
const LoweringRule* find_rule(const OpDef& def);

// Per file of lowering/: rows of the table.
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

// The operator is elementwise and has an integer form from int8 to int8.
bool is_function(const OpDef& def);
// The op is an elementwise function of one int8 tensor that a table can hold: each operand is that
// tensor or a constant of one element.
bool is_table_op(const Graph& graph, OpId op);
// The operand that is the tensor.
ValueId table_operand(const Graph& graph, OpId op);
// Its values for all 256 operands.
Table table_of(const Module& module, const Graph& graph, OpId op);
Table compose(const Table& outer, const Table& inner);
// [low, high] if the table, over operands in `domain`, is the operand limited to that range.
std::optional<numerics::Range> as_clamp(const Table& table, numerics::Range domain);

// What several rules share.
Origin origin_of(const Graph& graph, const Group& group);
LayoutChoice any_layout(const OpView& view);  // results lie as operands do
LayoutChoice channels_last(const OpView& view);
npu::BinaryArguments binary_arguments(const numerics::BinaryParameters& function,
                                      std::optional<numerics::Range> clamp);

}  // namespace dtr::neutron
