#include "compiler/backends/neutron/lowering/rules.h"

#include "compiler/ops/ops.h"

namespace dtr::neutron {

const LoweringRule* find_rule(const OpDef& def) {
  for (const std::span<const LoweringRule> rules :
       {convolution_rules(), linear_rules(), pool_rules(), binary_rules(), softmax_rules(),
        matmul_rules(), normalize_rules(), movement_rules(), index_rules(), reduction_rules(),
        resize_rules()})
    for (const LoweringRule& rule : rules)
      if (rule.def == &def) return &rule;
  return is_function(def) && def.schema.max_operands() == 1 ? &elementwise_rule() : nullptr;
}

const LoweringRule* find_rule(const Graph& graph, OpId op) {
  return is_table_op(graph, op) ? &elementwise_rule() : find_rule(*graph.op(op).def);
}

Origin origin_of(const Graph& graph, const Group& group) {
  Origin origin = graph.op(group.head).origin;
  for (const OpId member : group.members) origin = merge(origin, graph.op(member).origin);
  return origin;
}

LayoutChoice any_layout(const OpView&) { return {}; }
LayoutChoice channels_last(const OpView&) { return {.contiguous = false, .channels_last = true}; }

}  // namespace dtr::neutron
