// Control flow: regions are imported in place, a branch on a computed condition as both branches
// and a selection, loops unrolled.
#include <fmt/format.h>

#include "compiler/compositions/control.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

namespace c = compositions;

// The only element of a bool that is known; std::nullopt if it depends on an input.
Result<std::optional<bool>> known_condition(NodeImport& node, ValueId condition) {
  if (node.type(condition).elements() != 1)
    return node.unsupported("its condition is not one bool", "reduce it with all() or any()");
  const auto elements = node.constant_elements(node.known(condition));
  if (!elements) return std::optional<bool>();
  return std::optional(elements->front() != 0);
}

// torch.autocast, torch.no_grad and the like: what is inside, whose types the file states.
Result<Values> region(NodeImport& node) {
  size_t at = 0;
  while (at < node.count() && !node.subgraph_at(at)) ++at;
  if (at == node.count()) return node.refuse_control("it has no region");
  Values operands;
  for (size_t i = at + 1; i < node.count(); ++i) {
    DTR_ASSIGN(const Values some, node.tensors_at(i));
    operands.insert(operands.end(), some.begin(), some.end());
  }
  return node.run_subgraph(*node.subgraph_at(at), operands);
}

// torch.cond(condition, true_graph, false_graph, operands)
Result<Values> cond(NodeImport& node) {
  const auto then_graph = node.subgraph_at(1), else_graph = node.subgraph_at(2);
  if (!then_graph || !else_graph) return node.refuse_control("it has no branches");
  DTR_ASSIGN(const Values operands, node.tensors_at(3));
  if (const auto holds = node.boolean_at(0))
    return node.run_subgraph(*holds ? *then_graph : *else_graph, operands);
  DTR_ASSIGN(const Values condition, node.tensors_at(0));
  if (condition.size() != 1) return node.refuse_control("its condition is no bool");
  DTR_ASSIGN(const std::optional<bool> holds, known_condition(node, condition[0]));
  if (holds) return node.run_subgraph(*holds ? *then_graph : *else_graph, operands);
  DTR_ASSIGN(const Values taken, node.run_subgraph(*then_graph, operands));
  DTR_ASSIGN(const Values other, node.run_subgraph(*else_graph, operands));
  if (taken.size() != other.size())
    return node.refuse_control("its branches have different numbers of results");
  DTR_ASSIGN(const ValueId mask, node.cast(condition[0], DType::kBool));
  Values results;
  for (size_t i = 0; i < taken.size(); ++i) {
    DTR_ASSIGN(const auto both, node.promoted_pair(taken[i], other[i]));
    DTR_ASSIGN(results.emplace_back(), c::select_branch(node, mask, both.first, both.second));
  }
  return results;
}

Values joined(const Values& a, const Values& b) {
  Values all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// while_loop(cond_graph, body_graph, state, additional operands), as often as the condition, which
// must be known at each step, is true.
Result<Values> while_loop(NodeImport& node) {
  const auto condition_graph = node.subgraph_at(0), body = node.subgraph_at(1);
  if (!condition_graph || !body) return node.refuse_control("it has no body");
  DTR_ASSIGN(Values state, node.tensors_at(2));
  DTR_ASSIGN(const Values others, node.tensors_at(3));
  for (int64_t step = 0;; ++step) {
    DTR_ASSIGN(const Values condition, node.run_subgraph(*condition_graph, joined(state, others)));
    if (condition.size() != 1) return node.refuse_control("its condition is no bool");
    DTR_ASSIGN(const std::optional<bool> goes_on, known_condition(node, condition[0]));
    if (!goes_on)
      return node.refuse_control(
          "how often it repeats depends on an input of the model",
          "repeat as often as is ever needed (for step in range(N), which the export unrolls) and "
          "keep the state that is done: torch.where(done, state, new_state)");
    if (!*goes_on) return state;
    if (step == c::kMostLoopSteps)
      return node.refuse_control(
          fmt::format("it has more than {} steps", c::kMostLoopSteps),
          "export one step, whose state is an input and an output, and loop in the application");
    DTR_ASSIGN(Values next, node.run_subgraph(*body, joined(state, others)));
    if (next.size() != state.size())
      return node.refuse_control("its body returns another number of tensors than it takes");
    for (ValueId& value : next) value = node.known(value);
    state = std::move(next);
  }
}

// The steps of a loop over the first dimension of tensors.
Result<int64_t> steps_of(NodeImport& node, const Values& xs) {
  if (xs.empty() || node.type(xs[0]).rank() == 0)
    return node.refuse_control("it has no tensor to loop over");
  const int64_t steps = node.type(xs[0]).shape[0];
  for (const ValueId x : xs)
    if (node.type(x).rank() == 0 || node.type(x).shape[0] != steps)
      return node.refuse_control("the tensors that it loops over differ in length");
  if (steps > c::kMostLoopSteps)
    return node.refuse_control(
        fmt::format("it has {} steps, and at most {} are unrolled", steps, c::kMostLoopSteps),
        "export one step, whose state is an input and an output, and loop in the application");
  return steps;
}

// The body on each element of `xs`. Its first results are the state of the next step, the others
// are stacked.
Result<Values> loop_over(NodeImport& node, size_t body, Values state, const Values& xs,
                         const Values& others) {
  DTR_ASSIGN(const int64_t steps, steps_of(node, xs));
  const size_t carried = state.size();
  std::vector<Values> stacks;
  for (int64_t step = 0; step < steps; ++step) {
    Values operands = state;
    for (const ValueId x : xs) {
      DTR_ASSIGN(operands.emplace_back(), c::element(node, x, 0, step));
    }
    DTR_ASSIGN(const Values made, node.run_subgraph(body, joined(operands, others)));
    if (made.size() < carried) return node.refuse_control("its body returns no state");
    state.assign(made.begin(), made.begin() + static_cast<ptrdiff_t>(carried));
    stacks.resize(made.size() - carried);
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].push_back(made[carried + i]);
  }
  Values results = std::move(state);
  for (Values& values : stacks) {
    DTR_ASSIGN(results.emplace_back(), c::stack(node, std::move(values), 0));
  }
  return results;
}

// scan(body, state, xs, additional operands)
Result<Values> scan(NodeImport& node) {
  const auto body = node.subgraph_at(0);
  if (!body) return node.refuse_control("it has no body");
  DTR_ASSIGN(Values state, node.tensors_at(1));
  DTR_ASSIGN(const Values xs, node.tensors_at(2));
  DTR_ASSIGN(const Values others, node.tensors_at(3));
  return loop_over(node, *body, std::move(state), xs, others);
}

// map_impl(body, xs, additional operands)
Result<Values> map(NodeImport& node) {
  const auto body = node.subgraph_at(0);
  if (!body) return node.refuse_control("it has no body");
  DTR_ASSIGN(const Values xs, node.tensors_at(1));
  DTR_ASSIGN(const Values others, node.tensors_at(2));
  return loop_over(node, *body, {}, xs, others);
}

// associative_scan(body, xs, additional operands): result i is the body of result i − 1 and xs[i].
Result<Values> associative_scan(NodeImport& node) {
  const auto body = node.subgraph_at(0);
  if (!body) return node.refuse_control("it has no body");
  DTR_ASSIGN(const Values xs, node.tensors_at(1));
  DTR_ASSIGN(const Values others, node.tensors_at(2));
  DTR_ASSIGN(const int64_t steps, steps_of(node, xs));
  Values last;
  std::vector<Values> stacks(xs.size());
  for (int64_t step = 0; step < steps; ++step) {
    Values next;
    for (const ValueId x : xs) {
      DTR_ASSIGN(next.emplace_back(), c::element(node, x, 0, step));
    }
    if (step > 0) {
      DTR_ASSIGN(next, node.run_subgraph(*body, joined(joined(last, next), others)));
    }
    if (next.size() != xs.size())
      return node.refuse_control("its body returns another number of tensors than it takes");
    for (size_t i = 0; i < xs.size(); ++i) stacks[i].push_back(next[i]);
    last = std::move(next);
  }
  Values results;
  for (Values& values : stacks) {
    DTR_ASSIGN(results.emplace_back(), c::stack(node, std::move(values), 0));
  }
  return results;
}

}  // namespace

std::vector<Operator> control_operators() {
  // Regions pass values on unchanged; what writes to an operand inside of them is refused.
  return {tensor_row("higher_order.associative_scan", "", associative_scan),
          tensor_row("higher_order.cond", "", cond),
          tensor_row("higher_order.invoke_subgraph", "", region),
          tensor_row("higher_order.map_impl", "", map),
          tensor_row("higher_order.scan", "", scan),
          tensor_row("higher_order.tag_activation_checkpoint", "", region),
          tensor_row("higher_order.while_loop", "", while_loop),
          tensor_row("higher_order.wrap", "", region),
          tensor_row("higher_order.wrap_with_autocast", "", region),
          tensor_row("higher_order.wrap_with_set_grad_enabled", "", region)};
}

}  // namespace dtr::pt2
