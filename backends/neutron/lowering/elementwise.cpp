// Every elementwise function of one int8 tensor is a table of 256 entries: relu, clamp, hardswish, sigmoid, tanh, requantize, and what
// ops.inc will gain. The table is the op's own integer evaluation of all 256 values, so it is bit-exact by construction.
#include "backends/neutron/lowering/rules.h"
#include "ops/ops.h"

namespace dtr::neutron {
namespace {

uint64_t table_bytes(const Question&) { return sizeof(Table); }
constexpr const Check* kChecks[] = {&kInt8Operand, &kNotEmpty, &kFitsSram<table_bytes>};

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  return npu::Lookup{.elements = static_cast<uint32_t>(view.operand(0).elements())};
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const ValueId x = graph.op(group.head).operands[0];
  const ValueId y = graph.op(group.root()).results[0];
  const Type& type = graph.type(x);
  const Order order = graph.is_constant(x) ? contiguous_order(type.elements()) : builder.order(x);
  const auto same = as_clamp(*group.table, {});
  if (same && *same == numerics::Range{} && !graph.is_constant(x)) return builder.alias(y, x, order);
  const npu::Address input = builder.read(x, order);
  const npu::Address table = builder.constant(std::as_bytes(std::span(*group.table)));
  builder.emit(
      npu::Lookup{.input = input, .output = builder.define(y, order), .table = table, .elements = static_cast<uint32_t>(type.elements())},
      origin_of(graph, group));
}

}  // namespace

bool is_table_op(const OpDef& def) {
  return def.has_trait(kElementwise) && def.min_operands == 1 && def.max_operands == 1 && def.evaluate_integer != nullptr &&
         &def != &ops::kQuantize && &def != &ops::kDequantize;
}

Table table_of(const OpView& view) {
  Table operands;
  Table results{};
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = static_cast<int8_t>(static_cast<int>(i) - 128);
  Type operand_type = view.operand(0);
  Type result_type = view.result();
  operand_type.shape = result_type.shape = {256};
  const Type* operand_types[] = {&operand_type};
  const Type* result_types[] = {&result_type};
  const OpView row{view.def, operand_types, view.attributes, result_types};
  const TensorView x{DType::kInt8, {256}, reinterpret_cast<std::byte*>(operands.data())};
  const TensorView y{DType::kInt8, {256}, reinterpret_cast<std::byte*>(results.data())};
  view.def->evaluate_integer(row, {&x, 1}, {&y, 1});
  return results;
}

Table compose(const Table& outer, const Table& inner) {
  Table both;
  for (size_t i = 0; i < both.size(); ++i) both[i] = outer[static_cast<size_t>(inner[i] + 128)];
  return both;
}

std::optional<numerics::Range> as_clamp(const Table& table, numerics::Range domain) {
  const auto at = [&](int32_t q) { return int32_t{table[static_cast<size_t>(q) + 128]}; };
  const numerics::Range range{at(domain.low), at(domain.high)};
  if (range.low > range.high) return std::nullopt;
  for (int32_t q = domain.low; q <= domain.high; ++q)
    if (at(q) != range.clamp(q)) return std::nullopt;
  return range;
}

const Rule& elementwise_rule() {
  static constexpr Rule kRule{nullptr, kChecks, any_layout, estimate, lower, Absorbs::kTables};
  return kRule;
}

}  // namespace dtr::neutron
