#include "compiler/partitioner/layout.h"

#include <algorithm>
#include <array>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/partitioner/min_cut.h"

namespace dtr {
namespace {

// What a preference costs, and a byte of a conversion.
constexpr int64_t kPreference = 1, kByte = int64_t{1} << 16;

// Label 0 (source side) is contiguous, label 1 (sink side) channels-last.
Layout label_of(bool sink_side) { return sink_side ? Layout::kChannelsLast : Layout::kContiguous; }

class Solver {
 public:
  Solver(const Graph& graph, const Recipe& recipe, const Placement& placement)
      : graph_(graph), given_(graph.value_slots()) {
    for (size_t i = 0; i < graph.outputs().size(); ++i)
      given_[graph.outputs()[i].index].push_back(fixed(graph.output_layout(i)));
    operand_node_.resize(graph.op_slots());
    result_node_.resize(graph.op_slots());
    for (const OpId op : graph.ops()) {
      const LayoutChoice choice = recipe[placement.backend[op.index]]->layouts(graph, op);
      operand_node_[op.index] = node_for(choice);
      result_node_[op.index] = choice.mixed ? cut_.add_node() : operand_node_[op.index];
      if (!choice.prefers_contiguous) continue;
      cut_.add_edge(MinCut::kSource, operand_node_[op.index], kPreference);
      cut_.add_edge(MinCut::kSource, result_node_[op.index], kPreference);
    }
    for (const ValueId input : graph.inputs()) add_value(input, fixed(graph.type(input).layout));
    for (const OpId op : graph.ops())
      for (const ValueId result : graph.op(op).results) add_value(result, result_node_[op.index]);
    sides_ = cut_.solve();
  }

  int64_t bytes_moved() const { return cut_.cost() / kByte; }
  Layout result_layout(OpId op) const { return label_of(sides_[result_node_[op.index]]); }
  Layout operand_layout(OpId op) const { return label_of(sides_[operand_node_[op.index]]); }

 private:
  static uint32_t fixed(Layout layout) {
    return layout == Layout::kContiguous ? MinCut::kSource : MinCut::kSink;
  }

  uint32_t node_for(const LayoutChoice& choice) {
    if (choice.contiguous && choice.channels_last) return cut_.add_node();
    return fixed(choice.channels_last ? Layout::kChannelsLast : Layout::kContiguous);
  }

  // Pays the bytes of a value once for each layout other than its own in which it is read.
  void add_value(ValueId id, uint32_t made) {
    const Value& value = graph_.value(id);
    if (same_order(value.type.shape, Layout::kContiguous, Layout::kChannelsLast)) return;
    std::vector<uint32_t> readers;
    for (const Use& use : value.uses) readers.push_back(operand_node_[use.op.index]);
    const std::vector<uint32_t>& given = given_[id.index];
    readers.insert(readers.end(), given.begin(), given.end());
    const int64_t cost = std::max<int64_t>(value.type.bytes(), 1) * kByte;
    if (readers.size() == 1) {
      cut_.add_edge(made, readers[0], cost);
      cut_.add_edge(readers[0], made, cost);
      return;
    }
    const uint32_t any_channels_last =
        cut_.add_node();                              // on the sink side as soon as one reader is
    const uint32_t any_contiguous = cut_.add_node();  // on the source side as soon as one reader is
    cut_.add_edge(made, any_channels_last, cost);
    cut_.add_edge(any_contiguous, made, cost);
    for (const uint32_t reader : readers) {
      cut_.add_edge(any_channels_last, reader, MinCut::kInfinite);
      cut_.add_edge(reader, any_contiguous, MinCut::kInfinite);
    }
  }

  const Graph& graph_;
  MinCut cut_;
  std::vector<uint32_t> operand_node_, result_node_;  // by op slot
  std::vector<std::vector<uint32_t>>
      given_;  // by value slot: nodes of the layouts in which it is an output
  std::vector<bool> sides_;
};

}  // namespace

Result<LayoutResult> assign_layouts(Graph& graph, const Recipe& recipe, Placement& placement) {
  const Solver solver(graph, recipe, placement);
  LayoutResult result{.conversions = {}, .bytes_moved = solver.bytes_moved()};
  Rewriter rewriter(graph);
  std::vector<OpId> ops;
  for (const OpId op : graph.ops()) ops.push_back(op);
  for (const OpId op : ops)
    for (const ValueId value : graph.op(op).results)
      rewriter.set_layout(value, solver.result_layout(op));

  // Where a value is read in another layout, one conversion right before its first reader serves
  // all of them.
  const auto convert = [&](ValueId value, Layout wanted, OpId before,
                           const Origin& origin) -> Result<ValueId> {
    OpSpec spec{
        .def = &ops::kToDimOrderCopy,
        .operands = {value},
        .attributes = {{"layout", std::string(wanted == Layout::kContiguous ? "contiguous"
                                                                            : "channels_last")}},
        .origin = origin,
        .name = graph.value(value).name +
                (wanted == Layout::kContiguous ? ".contiguous" : ".channels_last"),
        .quantization = graph.type(value).quantization};
    DTR_ASSIGN(const OpId copy, rewriter.insert(before, std::move(spec)));
    rewriter.set_layout(graph.op(copy).results[0], wanted);
    placement.backend.resize(graph.op_slots(), Placement::kNowhere);
    placement.reasons.resize(graph.op_slots());
    std::vector<uint8_t> candidates;
    if (before.valid()) candidates.push_back(placement.backend[before.index]);
    if (const OpId from = graph.producer(value); from.valid())
      candidates.push_back(placement.backend[from.index]);
    for (size_t i = 0; i < recipe.size(); ++i) candidates.push_back(static_cast<uint8_t>(i));
    for (const uint8_t candidate : candidates) {
      if (recipe[candidate]->refuse(graph, copy)) continue;
      placement.backend[copy.index] = candidate;
      break;
    }
    DTR_CHECK(placement.backend[copy.index] != Placement::kNowhere);
    result.conversions.push_back(copy);
    return graph.op(copy).results[0];
  };

  std::vector<std::array<ValueId, 2>> converted(graph.value_slots());
  for (const OpId op : ops)
    for (size_t i = 0; i < graph.op(op).operands.size(); ++i) {
      const ValueId value = graph.op(op).operands[i];
      if (!value.valid() || graph.is_constant(value)) continue;
      const Layout wanted = solver.operand_layout(op);
      if (same_order(graph.type(value).shape, graph.type(value).layout, wanted)) continue;
      ValueId& copy = converted[value.index][static_cast<size_t>(wanted)];
      if (!copy.valid()) {
        DTR_ASSIGN(copy, convert(value, wanted, op, graph.op(op).origin));
      }
      rewriter.set_operand(op, i, copy);
    }
  std::vector<ValueId> outputs = graph.outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueId& output = outputs[i];
    const Layout wanted = graph.output_layout(i);
    if (same_order(graph.type(output).shape, graph.type(output).layout, wanted)) continue;
    ValueId& copy = converted[output.index][static_cast<size_t>(wanted)];
    if (!copy.valid()) {
      const OpId from = graph.producer(output);
      DTR_ASSIGN(copy,
                 convert(output, wanted, OpId{}, from.valid() ? graph.op(from).origin : Origin{}));
    }
    output = copy;
  }
  rewriter.set_outputs(std::move(outputs));
  return result;
}

}  // namespace dtr
