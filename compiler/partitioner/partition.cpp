#include "compiler/partitioner/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/rewriter.h"
#include "compiler/partitioner/min_cut.h"

namespace dtr {
namespace {

constexpr uint64_t kBytesPerCycle = 8;

uint64_t cycles_of(uint64_t bytes) { return (bytes + kBytesPerCycle - 1) / kBytesPerCycle; }

// Which ops may share a partition, and the levels that an op may take.
class Levels {
 public:
  Levels(const Graph& graph, const Placement& placement, const Recipe& recipe)
      : graph_(graph),
        placement_(placement),
        recipe_(recipe),
        first_(graph.op_slots(), 0),
        last_(graph.op_slots(), 0) {
    uint32_t last_level = 0, last_delegate = 0;
    for (const OpId op : graph.ops()) {
      for (const ValueId operand : graph.op(op).operands)
        if (const OpId from = graph.producer(operand); from.valid())
          first_[op.index] = std::max(first_[op.index], first_[from.index] + rise(from, op));
      last_level = std::max(last_level, first_[op.index]);
      if (is_delegate(op)) last_delegate = std::max(last_delegate, first_[op.index]);
    }
    for (OpId op = graph.last_op(); op.valid(); op = graph.op(op).previous) {
      uint32_t& last = last_[op.index] = is_delegate(op) ? last_delegate : last_level;
      for (const ValueId result : graph.op(op).results)
        for (const Use& use : graph.value(result).uses)
          last = std::min(last, last_[use.op.index] - rise(op, use.op));
    }
  }

  bool is_delegate(OpId op) const {
    return recipe_[placement_.backend[op.index]]->as_delegate() != nullptr;
  }
  bool same_backend(OpId a, OpId b) const {
    return placement_.backend[a.index] == placement_.backend[b.index];
  }
  uint32_t rise(OpId from, OpId to) const {
    return is_delegate(from) && !same_backend(from, to) ? 1 : 0;
  }
  uint32_t first(OpId op) const { return first_[op.index]; }
  uint32_t last(OpId op) const { return last_[op.index]; }
  const std::vector<uint32_t>& earliest() const { return first_; }

  // Nodes that the cut would have; 0: no delegate op has a choice.
  size_t choices() const {
    size_t nodes = 0;
    bool any = false;
    for (const OpId op : graph_.ops()) {
      nodes += last(op) - first(op);
      any |= is_delegate(op) && last(op) > first(op);
    }
    return any ? nodes : 0;
  }

 private:
  const Graph& graph_;
  const Placement& placement_;
  const Recipe& recipe_;
  std::vector<uint32_t> first_, last_;  // by op slot
};

// The levels that hand the fewest bytes on. Node (x, k) is on the sink side if the level of x is at
// least k.
class LevelCut {
 public:
  LevelCut(const Graph& graph, const Levels& levels)
      : graph_(graph), levels_(levels), of_op_(graph.op_slots()) {
    for (const OpId op : graph.ops())
      of_op_[op.index] = variable(levels.first(op), levels.last(op));
    for (const OpId op : graph.ops())
      for (const ValueId operand : graph.op(op).operands)
        if (const OpId from = graph.producer(operand); from.valid())
          at_least(of_op_[op.index], of_op_[from.index], levels.rise(from, op));
    for (const ValueId input : graph.inputs()) add_value(input, OpId{});
    for (const OpId op : graph.ops())
      for (const ValueId result : graph.op(op).results) add_value(result, op);
  }

  std::vector<uint32_t> solve() {
    const std::vector<bool> sink_side = cut_.solve();
    std::vector<uint32_t> level(graph_.op_slots(), 0);
    for (const OpId op : graph_.ops()) {
      const Variable& variable = of_op_[op.index];
      uint32_t& at = level[op.index] = variable.first;
      while (at < variable.last && sink_side[node(variable, at + 1)]) ++at;
    }
    return level;
  }

 private:
  struct Variable {
    uint32_t first = 0, last = 0;
    uint32_t base = 0;  // node of level first + 1
  };

  Variable variable(uint32_t first, uint32_t last) {
    Variable made{first, last, 0};
    for (uint32_t k = first + 1; k <= last; ++k) {
      const uint32_t node = cut_.add_node();
      if (k == first + 1) made.base = node;
      if (k > first + 1)
        cut_.add_edge(node - 1, node, MinCut::kInfinite);  // at least k includes at least k - 1
    }
    return made;
  }

  static uint32_t node(const Variable& variable, uint32_t k) {
    if (k <= variable.first) return MinCut::kSink;
    return k > variable.last ? MinCut::kSource : variable.base + (k - variable.first - 1);
  }

  // level(high) >= level(low) + rise.
  void at_least(const Variable& high, const Variable& low, uint32_t rise) {
    for (uint32_t k = low.first; k <= low.last; ++k)
      cut_.add_edge(node(high, k + rise), node(low, k), MinCut::kInfinite);
  }

  // Pays `bytes` for each level by which `high` is above `low`.
  void pay_distance(const Variable& high, const Variable& low, int64_t bytes) {
    for (uint32_t k = low.first + 1; k <= high.last; ++k)
      cut_.add_edge(node(low, k), node(high, k), bytes);
  }

  // A value is kept from the partition that computes it (from its first reader if no delegate
  // computes it) to its last reader.
  void add_value(ValueId id, OpId from) {
    std::vector<OpId> readers;
    for (const Use& use : graph_.value(id).uses)
      if (levels_.is_delegate(use.op)) readers.push_back(use.op);
    const bool own = from.valid() && levels_.is_delegate(from);
    if (own)
      std::erase_if(readers, [&](OpId reader) { return !levels_.same_backend(reader, from); });
    if (readers.size() + (own ? 1 : 0) < 2) return;
    uint32_t first = UINT32_MAX, last = 0;
    for (const OpId reader : readers) {
      first = std::min(first, levels_.first(reader));
      last = std::max(last, levels_.last(reader));
    }
    const auto bytes = std::max<int64_t>(graph_.type(id).bytes(), 1);
    const Variable highest = variable(first, last);
    for (const OpId reader : readers) at_least(highest, of_op_[reader.index], 0);
    if (own) return pay_distance(highest, of_op_[from.index], bytes);
    const Variable lowest = variable(first, last);
    for (const OpId reader : readers) at_least(of_op_[reader.index], lowest, 0);
    pay_distance(highest, lowest, bytes);
  }

  const Graph& graph_;
  const Levels& levels_;
  MinCut cut_;
  std::vector<Variable> of_op_;  // by op slot
};

// The ops of a partition, each as close as possible behind the ops that it reads from; `ops` are in
// program order.
std::vector<OpId> depth_first(const Graph& graph, const std::vector<OpId>& ops) {
  std::vector<uint8_t> left(graph.op_slots(), 0);  // in the partition, and not in `order` yet
  for (const OpId op : ops) left[op.index] = 1;
  std::vector<OpId> order, stack;
  for (const OpId sink : ops) {
    const auto read_later = [&](ValueId result) {
      return std::ranges::any_of(graph.value(result).uses,
                                 [&](const Use& use) { return left[use.op.index] != 0; });
    };
    if (std::ranges::any_of(graph.op(sink).results, read_later)) continue;
    stack.push_back(sink);
    while (!stack.empty()) {
      const OpId op = stack.back();
      const auto& operands = graph.op(op).operands;
      const auto missing = std::ranges::find_if(operands, [&](ValueId operand) {
        const OpId from = operand.valid() ? graph.producer(operand) : OpId{};
        return from.valid() && left[from.index] != 0;
      });
      if (missing != operands.end()) {
        stack.push_back(graph.producer(*missing));
        continue;
      }
      stack.pop_back();
      if (left[op.index] == 0) continue;
      left[op.index] = 0;
      order.push_back(op);
    }
  }
  return order;
}

// Inputs and outputs of a partition that grows op by op.
class Borders {
 public:
  explicit Borders(const Graph& graph) : graph_(graph) {}

  void add(OpId op) {
    for (const ValueId operand : graph_.op(op).operands) {
      if (!operand.valid() || graph_.is_constant(operand)) continue;
      if (const auto own = unread_.find(operand); own == unread_.end()) {
        inputs_.insert(operand);
      } else if (--own->second == 0) {
        --outputs_;
      }
    }
    for (const ValueId result : graph_.op(op).results) {
      const Value& value = graph_.value(result);
      unread_[result] = value.uses.size() + value.output_uses;
      outputs_ += unread_[result] == 0 ? 0 : 1;
    }
  }
  size_t inputs() const { return inputs_.size(); }
  size_t count() const { return inputs_.size() + outputs_; }

 private:
  const Graph& graph_;
  std::set<ValueId> inputs_;
  std::map<ValueId, size_t> unread_;  // results: how often they are read outside
  size_t outputs_ = 0;
};

// Cycles of the op and of the bytes that it reads and writes.
uint64_t work_of(const Graph& graph, OpId op, const DelegateBackend& delegate) {
  uint64_t bytes = 0;
  for (const std::vector<ValueId>* values : {&graph.op(op).operands, &graph.op(op).results})
    for (const ValueId value : *values)
      if (value.valid()) bytes += static_cast<uint64_t>(graph.type(value).bytes());
  return delegate.cost(graph, op) + cycles_of(bytes);
}

// Cuts the ops of a partition, in program order, where a call would have more operands or more work
// than its delegate takes. Each piece is as long as possible and comes after the pieces that it
// reads from.
std::vector<std::vector<OpId>> split(const Graph& graph, const std::vector<OpId>& ops,
                                     const DelegateBackend& delegate) {
  const size_t most = delegate.max_operands();
  const uint64_t most_work = delegate.max_work();
  Borders whole(graph);
  uint64_t whole_work = 0;
  for (const OpId op : ops) {
    whole.add(op);
    whole_work += work_of(graph, op, delegate);
  }
  if (whole.count() <= most && whole_work <= most_work) return {ops};
  std::vector<uint32_t> position(graph.op_slots(), 0);
  for (uint32_t i = 0; i < ops.size(); ++i) position[ops[i].index] = i;
  const std::vector<OpId> order = depth_first(graph, ops);
  std::vector<std::vector<OpId>> pieces;
  for (auto first = order.begin(); first != order.end();) {
    Borders piece(graph);
    uint64_t work = 0;
    auto end = first + 1;  // a backend refuses ops that have too many operands by themselves
    for (auto at = first; at != order.end() && piece.inputs() <= most;) {
      work += work_of(graph, *at, delegate);
      if (work > most_work) break;
      piece.add(*at++);
      if (piece.count() <= most) end = at;
    }
    pieces.emplace_back(first, end);
    std::ranges::sort(pieces.back(), {}, [&](OpId op) { return position[op.index]; });
    first = end;
  }
  return pieces;
}

// Partitions in order of level. A kernel call reads from delegates of lower levels and from kernel
// calls before it, a delegate from kernel calls of its level too, so these come first.
std::vector<Partition> partitions_at(const Graph& graph, const Placement& placement,
                                     const Recipe& recipe, const Levels& levels,
                                     const std::vector<uint32_t>& level) {
  std::map<std::pair<uint32_t, int>, std::vector<OpId>> groups;
  for (const OpId op : graph.ops())
    groups[{level[op.index], levels.is_delegate(op) ? placement.backend[op.index] : -1}].push_back(
        op);
  std::vector<Partition> partitions;
  for (const auto& [key, ops] : groups) {
    if (key.second < 0) {
      for (const OpId op : ops)
        partitions.push_back(make_partition(graph, placement.backend[op.index], {op}));
    } else {
      const auto backend = static_cast<uint8_t>(key.second);
      for (std::vector<OpId>& piece : split(graph, ops, *recipe[backend]->as_delegate()))
        partitions.push_back(make_partition(graph, backend, std::move(piece)));
    }
  }
  return partitions;
}

}  // namespace

Partition make_partition(const Graph& graph, uint8_t backend, std::vector<OpId> ops) {
  Partition partition{.backend = backend, .ops = std::move(ops)};
  const std::set<OpId> inside(partition.ops.begin(), partition.ops.end());
  std::set<ValueId> read;
  for (const OpId op : partition.ops) {
    for (const ValueId operand : graph.op(op).operands)
      if (operand.valid() && !graph.is_constant(operand) &&
          !inside.contains(graph.producer(operand)) && read.insert(operand).second)
        partition.inputs.push_back(operand);
    for (const ValueId result : graph.op(op).results) {
      const Value& value = graph.value(result);
      if (value.output_uses > 0 ||
          std::ranges::any_of(value.uses, [&](const Use& use) { return !inside.contains(use.op); }))
        partition.outputs.push_back(result);
    }
  }
  return partition;
}

std::vector<Partition> make_partitions(const Graph& graph, const Placement& placement,
                                       const Recipe& recipe) {
  const Levels levels(graph, placement, recipe);
  std::vector<Partition> partitions =
      partitions_at(graph, placement, recipe, levels, levels.earliest());
  const size_t choices = levels.choices();
  if (choices == 0 || choices > kMaxCutNodes) return partitions;
  std::vector<Partition> cut =
      partitions_at(graph, placement, recipe, levels, LevelCut(graph, levels).solve());
  // The cut weighs a value by the partitions between writing and reading it, although it is kept
  // once: the first levels may, rarely, be better.
  return dispatch_cost(graph, cut, recipe) <= dispatch_cost(graph, partitions, recipe) ? cut
                                                                                       : partitions;
}

uint64_t dispatch_cost(const Graph& graph, const std::vector<Partition>& partitions,
                       const Recipe& recipe) {
  uint64_t cycles = 0;
  for (const Partition& partition : partitions) {
    const DelegateBackend* delegate = recipe[partition.backend]->as_delegate();
    if (delegate == nullptr) continue;
    uint64_t bytes = 0;
    for (const std::vector<ValueId>* values : {&partition.inputs, &partition.outputs})
      for (const ValueId value : *values) bytes += static_cast<uint64_t>(graph.type(value).bytes());
    cycles += delegate->dispatch_cycles() + cycles_of(bytes);
  }
  return cycles;
}

Graph extract(const Graph& graph, const Partition& partition) {
  Graph part;
  part.name = graph.name;
  Rewriter rewriter(part);
  std::map<ValueId, ValueId> inside;
  for (const ValueId input : partition.inputs)
    inside[input] = rewriter.add_input(graph.type(input), graph.value(input).name);
  for (const OpId id : partition.ops) {
    const Op& op = graph.op(id);
    OpSpec spec{.def = op.def,
                .attributes = op.attributes,
                .origin = op.origin,
                .name = graph.value(op.results.front()).name};
    for (const ValueId operand : op.operands) {
      if (graph.is_constant(operand) && !inside.contains(operand))
        inside[operand] = rewriter.add_constant(graph.type(operand), graph.value(operand).constant,
                                                graph.value(operand).name);
      spec.operands.push_back(operand.valid() ? inside.at(operand) : ValueId{});
    }
    spec.quantization = graph.type(op.results.front()).quantization;
    const Result<OpId> copy = rewriter.insert(OpId{}, std::move(spec));
    DTR_CHECK(copy.has_value());  // the op is from a verified graph
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId result = part.op(*copy).results[i];
      rewriter.set_quantization(result, graph.type(op.results[i]).quantization);
      rewriter.set_layout(result, graph.type(op.results[i]).layout);
      inside[op.results[i]] = result;
    }
  }
  std::vector<ValueId> outputs;
  for (const ValueId output : partition.outputs) outputs.push_back(inside.at(output));
  rewriter.set_outputs(std::move(outputs));
  return part;
}

}  // namespace dtr
