// A call absorbs the ops after its own as long as the values in between have no other reader:
// tables before the addition are composed into one; a table that only clamps becomes the clamp of
// the op before it; one addition per call. If the calls of both operands could absorb an addition,
// the later one does, since the other operand is then computed.
#include "compiler/backends/neutron/lowering/fusion.h"

#include <algorithm>

#include "compiler/ops/binary.h"
#include "compiler/ops/ops.h"

namespace dtr::neutron {
namespace {

class Planner {
 public:
  Planner(const Machine& machine, const Module& module, const Graph& graph)
      : machine_(machine), module_(module), graph_(graph), taken_(graph.op_slots(), false) {}

  std::vector<Group> plan() {
    std::vector<OpId> ops;
    for (const OpId op : graph_.ops()) ops.push_back(op);
    // Heads with an epilogue choose first, later ones before earlier ones.
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
      if (absorbs(*op) == Absorbs::kEpilogue) groups_.push_back(grow(*op));
    for (const OpId op : ops)
      if (!taken_[op.index]) groups_.push_back(grow(op));
    std::vector<uint32_t> position(graph_.op_slots(), 0);
    for (uint32_t i = 0; i < ops.size(); ++i) position[ops[i].index] = i;
    std::ranges::sort(groups_, {},
                      [&](const Group& group) { return position[group.root().index]; });
    return std::move(groups_);
  }

 private:
  Absorbs absorbs(OpId op) const {
    const LoweringRule* rule = find_rule(graph_, op);
    const bool bytes =
        BoundOpView(graph_, op)
            ->attribute_or("of_bytes", false);  // limits of int8 are no limits of bytes
    return rule == nullptr || bytes ? Absorbs::kNothing : rule->absorbs;
  }

  Group grow(OpId head) {
    taken_[head.index] = true;
    Group group{.head = head};
    const Absorbs kind = absorbs(head);
    const BoundOpView view(graph_, head);
    if (kind == Absorbs::kTables) group.table = table_of(module_, graph_, head);
    const bool listed =
        machine_.options.nxp_like();  // only convolutions and linear layers, and one activation
    if (!machine_.options.fuse || (listed && kind != Absorbs::kEpilogue)) return group;
    if (listed && view->attributes->find("activation") != nullptr) return group;
    numerics::Range range = range_of_result(*view);  // of the value that the next op reads
    for (OpId from = head;;) {
      const OpId next = graph_.sole_user(graph_.op(from).results[0]);
      if (!next.valid() || taken_[next.index] || (listed && !is_activation(*graph_.op(next).def)))
        return group;
      if (!absorb(group, kind, range, from, next)) return group;
      taken_[next.index] = true;
      group.members.push_back(next);
      if (listed) return group;
      from = next;
    }
  }

  static bool is_activation(const OpDef& def) {
    return &def == &ops::kRelu || &def == &ops::kClamp || &def == &ops::kSigmoid ||
           &def == &ops::kTanh;
  }

  // The bounds that the head's arithmetic keeps; the whole of int8 where it has none.
  static numerics::Range range_of_result(const OpView& view) {
    if (view.def->has_trait(kKeepsQuantization) || !view.result().quantized())
      return {};  // selects an element
    const bool fused = view.attributes->find("activation") != nullptr;
    return fused ? ops::activation_range(ops::activation_bounds(view), *view.result().quantization)
                 : ops::range_of(*view.result().quantization);
  }

  bool absorb(Group& group, Absorbs kind, numerics::Range& range, OpId from, OpId next) {
    const BoundOpView view(graph_, next);
    if (is_table_op(graph_, next) && kind != Absorbs::kNothing)
      return absorb_table(group, kind, range, table_of(module_, graph_, next));
    if (kind == Absorbs::kEpilogue && view->def == &ops::kAddTensor && !group.add.valid()) {
      const std::vector<ValueId>& operands = graph_.op(next).operands;
      const Shape& shape = view->result().shape;
      if (view->operand(0).shape != shape || view->operand(1).shape != shape ||
          operands[0] == operands[1] ||
          ops::binary_parameters(*view)->kind != numerics::BinaryKind::kAdd)
        return false;
      DTR_CHECK(graph_.producer(operands[0]) == from || graph_.producer(operands[1]) == from);
      group.add = next;
      range = range_of_result(*view);
      return true;
    }
    return false;
  }

  static bool absorb_table(Group& group, Absorbs kind, numerics::Range& range, const Table& table) {
    if (kind == Absorbs::kTables) {
      group.table = compose(table, *group.table);
      return true;
    }
    const bool after_table = group.table.has_value() && !group.add.valid();
    if (after_table) {
      group.table = compose(table, *group.table);
      return true;
    }
    if (const auto clamp = as_clamp(table, range)) {
      (group.add.valid() ? group.add_clamp : group.clamp) = range = *clamp;
      return true;
    }
    if ((kind != Absorbs::kEpilogue && kind != Absorbs::kTable) || group.add.valid()) return false;
    group.table = table;
    return true;
  }

  const Machine& machine_;
  const Module& module_;
  const Graph& graph_;
  std::vector<bool> taken_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<Group> plan_groups(const Machine& machine, const Module& module, const Graph& graph) {
  return Planner(machine, module, graph).plan();
}

}  // namespace dtr::neutron
