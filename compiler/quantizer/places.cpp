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

// Adds those of `moves`, in reverse order, to the ops that stay float whose operands are float
// then: what moves codes of others moves them still.
void leave_codes_moving(const Graph& graph, const std::vector<bool>& quantized,
                        const std::vector<OpId>& moves, std::vector<OpId>& found) {
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
}

bool is_index_of_extreme(const Op& op) {
  return op.def == &ops::kArgmax || op.def == &ops::kArgmin;
}

// Selections of a graph.
class Selections {
 public:
  Selections(const Graph& graph, const std::vector<bool>& quantized)
      : graph_(graph),
        quantized_(quantized),
        is_computed_with_(graph.value_slots()),
        is_read_otherwise_(graph.value_slots()),
        stays_int8_(graph.op_slots()) {
    for (const OpId id : graph.ops()) order_.push_back(id);
    mark_what_is_computed_with();
  }

  std::vector<OpId> find() {
    constexpr int kMostRounds = 16;  // each leaves out what others read in int8
    for (int round = 0; round < kMostRounds; ++round) {
      before_.assign(graph_.op_slots(), false);
      follows_.assign(graph_.op_slots(), false);
      mark_what_is_read();
      leave_only_what_selects();
      mark_what_follows();
      if (!leave_out_what_others_read()) break;
    }
    std::vector<OpId> found, moves;
    for (auto id = order_.rbegin(); id != order_.rend(); ++id)
      if (quantized_[id->index] && is_float_here(*id))
        (graph_.op(*id).def->has_trait(kMovesData) ? moves : found).push_back(*id);
    leave_codes_moving(graph_, quantized_, moves, found);
    return found;
  }

 private:
  static bool squeezes(const Op& op) {
    return op.def == &ops::kSoftmax || op.def == &ops::kSigmoid;
  }
  // Ops that cost the CPU little beside the search for the extremes.
  static bool is_light(const Op& op) {
    constexpr const OpDef* kOthers[] = {&ops::kAmax,    &ops::kAmin,   &ops::kMaskedFill,
                                        &ops::kMeanDim, &ops::kSumDim, &ops::kWhereSelf};
    return op.results.size() == 1 &&
           (op.def->has_trait(kElementwise) || op.def->has_trait(kMovesData) || squeezes(op) ||
            std::ranges::find(kOthers, op.def) != std::end(kOthers));
  }
  bool is_float_value(ValueId value) const {
    return value.valid() && is_float(graph_.type(value).dtype);
  }
  bool is_float_here(OpId id) const { return before_[id.index] || follows_[id.index]; }

  // Values, such as an index, that an op computes with; outputs of the graph are not.
  // And values that something else than an index of an extreme reads, outputs included.
  void mark_what_is_computed_with() {
    for (const ValueId output : graph_.outputs()) is_read_otherwise_[output.index] = true;
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Op& op = graph_.op(*id);
      const bool passes_on = op.def == &ops::kConvert || op.def->has_trait(kMovesData);
      const bool read = !passes_on || std::ranges::any_of(op.results, [&](ValueId result) -> bool {
        return is_computed_with_[result.index];
      });
      const bool otherwise = op.def->has_trait(kMovesData)
                                 ? std::ranges::any_of(op.results,
                                                       [&](ValueId result) -> bool {
                                                         return is_read_otherwise_[result.index];
                                                       })
                                 : !is_index_of_extreme(op);
      for (size_t i = 0; i < op.operands.size(); ++i) {
        if (!op.operands[i].valid()) continue;
        const uint32_t value = op.operands[i].index;
        if (read || (op.def == &ops::kIndexSelect && i == 1)) is_computed_with_[value] = true;
        if (otherwise) is_read_otherwise_[value] = true;
      }
    }
  }

  // Back from the extremes to products, normalizations and inputs.
  void mark_what_is_read() {
    std::vector<bool> is_read(graph_.value_slots());
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Op& op = graph_.op(*id);
      if (is_index_of_extreme(op)) {
        before_[id->index] = is_computed_with_[op.results[0].index];
      } else {
        const bool in_product =
            !squeezes(op) && quantized_[id->index] && is_part_of_product(graph_, op, quantized_);
        before_[id->index] =
            is_light(op) && is_read[op.results[0].index] && !stays_int8_[id->index] && !in_product;
      }
      if (!before_[id->index] || squeezes(op)) continue;
      for (const ValueId operand : op.operands)
        if (is_float_value(operand)) is_read[operand.index] = true;
    }
  }

  // Of these, those round a function that squeezes or a search in turns: an extreme of what a
  // product makes is the same one of codes, and nearly so if only its index is read. A turn over
  // many elements costs the CPU more in float than the quantization that the NPU's turn needs.
  void leave_only_what_selects() {
    std::vector<bool> selects(graph_.op_slots());
    const auto reads = [&](const Op& op) {
      return std::ranges::any_of(op.operands, [&](ValueId operand) {
        const OpId producer = graph_.producer(operand);
        return producer.valid() && selects[producer.index];
      });
    };
    constexpr int64_t kMostInTurns = 1024;
    const auto takes_turns = [&](const Op& op) {
      return op.def == &ops::kWhereSelf && graph_.type(op.results[0]).elements() <= kMostInTurns;
    };
    for (const OpId id : order_) {
      const Op& op = graph_.op(id);
      const bool gates = squeezes(op) && is_read_otherwise_[op.results[0].index];
      selects[id.index] = before_[id.index] && (gates || takes_turns(op) || reads(op));
    }
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Op& op = graph_.op(*id);
      if (is_index_of_extreme(op) || !before_[id->index] || selects[id->index]) continue;
      selects[id->index] = std::ranges::any_of(
          graph_.value(op.results[0]).uses, [&](const Use& use) { return selects[use.op.index]; });
    }
    for (const OpId id : order_)
      before_[id.index] = before_[id.index] && (selects[id.index] || reads(graph_.op(id)));
  }

  void mark_what_follows() {
    for (const OpId id : order_) {
      const Op& op = graph_.op(id);
      if (before_[id.index] || !is_light(op)) continue;
      bool of_selected = false, of_others = false;
      for (const ValueId operand : op.operands) {
        if (!is_float_value(operand) || graph_.is_constant(operand)) continue;
        const OpId producer = graph_.producer(operand);
        const bool selected = producer.valid() && is_float_here(producer);
        (selected ? of_selected : of_others) = true;
      }
      follows_[id.index] = of_selected && !of_others;
    }
  }

  // Whether an op in front of a selection is read in int8 as well: it then stays int8, so that all
  // compare the same elements.
  bool leave_out_what_others_read() {
    bool any = false;
    for (const OpId id : order_) {
      const Op& op = graph_.op(id);
      if (!before_[id.index] || !quantized_[id.index] || is_index_of_extreme(op) ||
          op.def->has_trait(kMovesData))
        continue;
      const bool others = std::ranges::any_of(
          graph_.value(op.results[0]).uses,
          [&](const Use& use) { return quantized_[use.op.index] && !is_float_here(use.op); });
      stays_int8_[id.index] = stays_int8_[id.index] || others;
      any = any || others;
    }
    return any;
  }

  const Graph& graph_;
  const std::vector<bool>& quantized_;
  std::vector<OpId> order_;
  std::vector<bool> is_computed_with_, is_read_otherwise_;  // by value slot
  // By op slot: what a selection reads and the selections, what follows from them alone.
  std::vector<bool> before_, follows_, stays_int8_;
};

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
  leave_codes_moving(graph, quantized, moves, found);
  return found;
}

std::vector<OpId> find_selecting(const Graph& graph, const std::vector<bool>& quantized) {
  return Selections(graph, quantized).find();
}

}  // namespace dtr
