// Every elementwise function of one int8 tensor is a table of 256 entries: relu, exp, requantize,
// but also x + 3, x · x and 1 / x, and operators that are added. The table is the op's own integer
// evaluation of all 256 values, so it is bit-exact by construction. A `lookup` also takes and gives
// bytes that are no codes of int8: its table has the bits.
#include <cstring>

#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/vectors.h"

namespace dtr::neutron {
namespace {

uint64_t table_bytes(const OpQuery&) { return sizeof(Table); }
constexpr const Condition* kConditions[] = {&kInt8Operands, &kNotEmpty,
                                            &kRowFitsSram<table_bytes, one_row>};

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  return npu::dense_lookup(static_cast<uint32_t>(view.result().elements()));
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const ValueId x = table_operand(graph, group.head);
  const ValueId y = graph.op(group.root()).results[0];
  const auto same = as_clamp(*group.table, {});
  if (same && *same == numerics::Range{} && !graph.is_constant(x)) return builder.alias(y, x);
  // Reads x in its own layout and writes the one that y's readers prefer; else both without gaps.
  const StridedLayout dense = compacted(builder.layout_of(x));
  StridedLayout from = builder.layout_of(x), to = builder.layout_to_write(y, dense, std::array{x});
  auto loops = copy_loops(from, to);
  if (!loops || loops->size() > npu::kMoveRank) {
    from = to = dense;
    loops = copy_loops(from, to);
  }
  npu::Lookup lookup = npu::dense_lookup(1);
  const size_t first = npu::kMoveRank - loops->size();
  for (size_t i = 0; i < loops->size(); ++i) {
    lookup.extent[first + i] = static_cast<uint32_t>((*loops)[i].extent);
    lookup.input_stride[first + i] = static_cast<int32_t>((*loops)[i].from_step);
    lookup.output_stride[first + i] = static_cast<int32_t>((*loops)[i].to_step);
  }
  lookup.input = builder.read(x, from);
  lookup.table = builder.constant(std::as_bytes(std::span(*group.table)));
  lookup.output = builder.define(y, to);
  builder.emit(lookup, origin_of(graph, group));
}

}  // namespace

bool is_function(const OpDef& def) {
  return def.has_trait(kElementwise) && def.evaluate_integer != nullptr &&
         &def != &ops::kQuantize && &def != &ops::kDequantize;
}

bool is_table_op(const Graph& graph, OpId op) {
  if (!is_function(*graph.op(op).def)) return false;
  const ValueId x = table_operand(graph, op);
  return x.valid() && graph.type(x).shape == graph.type(graph.op(op).results[0]).shape;
}

ValueId table_operand(const Graph& graph, OpId op) {
  const std::vector<ValueId>& operands = graph.op(op).operands;
  if (operands.size() == 1) return operands[0];
  ValueId x;
  for (const ValueId operand : operands) {
    if (graph.is_constant(operand) && graph.type(operand).elements() == 1) continue;
    if (graph.is_constant(operand) || (x.valid() && operand != x)) return {};
    x = operand;
  }
  return x;
}

Table table_of(const Module& module, const Graph& graph, OpId id) {
  const ValueId x = table_operand(graph, id);
  Table codes;
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<int8_t>(static_cast<int>(i) - 128);
  const TensorView row{graph.type(x).dtype,
                       {static_cast<int64_t>(codes.size())},
                       reinterpret_cast<std::byte*>(codes.data())};
  std::vector<const TensorView*> vectors;
  for (const ValueId operand : graph.op(id).operands)
    vectors.push_back(operand == x ? &row : nullptr);
  const Tensor results = ops::evaluate_on_vectors(module, graph, id, vectors);
  std::memcpy(codes.data(), results.bytes().data(), codes.size());
  return codes;
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

const LoweringRule& elementwise_rule() {
  static constexpr LoweringRule kRule{nullptr,  kConditions, any_layout,
                                      estimate, lower,       Absorbs::kTables};
  return kRule;
}

}  // namespace dtr::neutron
