#include "compiler/partitioner/backend.h"

#include <fmt/format.h>

namespace dtr {

KernelArgument kernel_argument(const Graph& graph, ValueId value) {
  if (!value.valid()) return std::monostate{};
  if (!graph.is_constant(value)) return value;
  return ConstantArgument{graph.type(value), graph.value(value).constant};
}

std::optional<Refusal> Backend::refuse(const Graph& graph, OpId op) const {
  const std::optional<OperatorRule> found = rule_of(graph, op);
  if (!found) return no_rule(*graph.op(op).def);
  const BoundOpView view(graph, op);
  for (const Condition* condition : found->conditions) {
    std::optional<std::string> value = violation(*condition, {graph, op, *view});
    if (!value) continue;
    const std::string limit = with_numbers(condition->sentence);
    return Refusal{.id = condition->id,
                   .reason = fmt::format("{}; {}", limit, *value),
                   .remedy = with_numbers(condition->remedy),
                   .limit = limit,
                   .value = std::move(*value)};
  }
  return std::nullopt;
}

std::optional<OperatorSupport> Backend::support(const OpDef& op) const {
  const std::optional<OperatorRule> found = rule(op);
  if (!found) return std::nullopt;
  OperatorSupport support{.dtypes = found->dtypes, .conditions = {}};
  for (const Condition* condition : found->conditions)
    support.conditions.push_back(with_numbers(condition->sentence));
  return support;
}

}  // namespace dtr
