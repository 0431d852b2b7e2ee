#include "compiler/quantizer/places.h"

#include <algorithm>

#include "compiler/ops/ops.h"

namespace dtr {
namespace {

// The operand of an op that is a place; an invalid value if none is.
ValueId place_operand(const Graph& graph, const Op& op) {
  if (op.def == &ops::kGridSampler2d) return op.operands[1];
  const bool counts = op.def == &ops::kConvert && is_float(graph.type(op.operands[0]).dtype) &&
                      !is_float(graph.type(op.results[0]).dtype) &&
                      graph.type(op.results[0]).dtype != DType::kBool;
  return counts ? op.operands[0] : ValueId{};
}

// Whether the call of a product before it scales, shifts or bounds its result as this op does.
bool is_part_of_product(const Graph& graph, const Op& op, const std::vector<bool>& quantized) {
  ValueId computed;
  for (const ValueId operand : op.operands) {
    if (!operand.valid()) continue;
    if (graph.is_constant(operand)) {
      if (graph.type(operand).elements() != 1) return false;
    } else if (computed.valid()) {
      return false;
    } else {
      computed = operand;
    }
  }
  const OpId producer = computed.valid() ? graph.producer(computed) : OpId{};
  return producer.valid() && quantized[producer.index] && graph.op(producer).def->macs != nullptr &&
         graph.value(computed).uses.size() == 1;
}

}  // namespace

std::vector<OpId> find_read_exactly(const Graph& graph, const std::vector<bool>& quantized,
                                    ReadExactly as) {
  std::vector<OpId> order;
  for (const OpId id : graph.ops()) order.push_back(id);
  std::vector<bool> is_exact(graph.value_slots());
  std::vector<OpId> moves, found;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Op& op = graph.op(*id);
    if (as == ReadExactly::kPlaces) {
      if (const ValueId place = place_operand(graph, op); place.valid())
        is_exact[place.index] = true;
    } else if (op.origin.keeps_float) {
      for (const ValueId operand : op.operands)
        if (operand.valid()) is_exact[operand.index] = true;
    }
    if (!quantized[id->index] ||
        std::ranges::none_of(op.results, [&](ValueId r) { return is_exact[r.index]; }))
      continue;
    if (op.def->has_trait(kMovesData)) {
      moves.push_back(*id);
    } else if (op.def->has_trait(kElementwise) && !is_part_of_product(graph, op, quantized)) {
      found.push_back(*id);
    } else {
      continue;
    }
    for (const ValueId operand : op.operands)
      if (operand.valid()) is_exact[operand.index] = true;
  }
  // What moves codes of others moves them still.
  std::vector<bool> left = quantized;
  for (const OpId id : found) left[id.index] = false;
  for (auto id = moves.rbegin(); id != moves.rend(); ++id) {
    const Op& op = graph.op(*id);
    const bool codes = std::ranges::any_of(op.operands, [&](ValueId operand) {
      const OpId producer = operand.valid() ? graph.producer(operand) : OpId{};
      return producer.valid() && left[producer.index];
    });
    if (codes) continue;
    left[id->index] = false;
    found.push_back(*id);
  }
  return found;
}

}  // namespace dtr
