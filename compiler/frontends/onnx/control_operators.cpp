// Sequences, whose tensors are known one by one when the model is read, and branches and loops,
// which are built in place.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/compositions/control.h"
#include "compiler/frontends/onnx/importer.h"

namespace dtr::onnx {
namespace {

constexpr int64_t kMaxParts = 4096;  // of a sequence

// ---- sequences, whose tensors are known one by one

Result<Values> sequence_construct(NodeImport& node) {
  DTR_ASSIGN(Values all, node.values());
  node.return_sequence(0, std::move(all));
  return Values{};
}

Result<Values> sequence_empty(NodeImport& node) {
  (void)node.has_attribute("dtype");
  node.return_sequence(0, {});
  return Values{};
}

Result<Values> sequence_of(NodeImport& node) {
  DTR_ASSIGN(const Binding found, node.binding(0));
  if (!found.is_sequence) return node.invalid("its operand is no sequence");
  return found.sequence;
}

Result<size_t> place_in(NodeImport& node, size_t input, size_t count) {
  DTR_ASSIGN(int64_t at, node.integer(input));
  if (at < 0) at += static_cast<int64_t>(count);
  if (at < 0 || at >= static_cast<int64_t>(count))
    return node.invalid(fmt::format("place {} of {} tensors", at, count));
  return static_cast<size_t>(at);
}

Result<Values> sequence_at(NodeImport& node) {
  DTR_ASSIGN(const Values all, sequence_of(node));
  DTR_ASSIGN(const size_t at, place_in(node, 1, all.size()));
  return Values{all[at]};
}

Result<Values> sequence_length(NodeImport& node) {
  DTR_ASSIGN(const Values all, sequence_of(node));
  return only(node.constant(DType::kInt64, {}, static_cast<double>(all.size()), "length"));
}

Result<Values> sequence_insert(NodeImport& node) {
  DTR_ASSIGN(Values all, sequence_of(node));
  DTR_ASSIGN(const ValueId x, node.value(1));
  size_t at = all.size();
  if (node.has(2)) {
    DTR_ASSIGN(at, place_in(node, 2, all.size() + 1));
  }
  if (all.size() >= static_cast<size_t>(kMaxParts)) return node.unsupported("a longer sequence");
  all.insert(all.begin() + static_cast<ptrdiff_t>(at), x);
  node.return_sequence(0, std::move(all));
  return Values{};
}

Result<Values> sequence_erase(NodeImport& node) {
  DTR_ASSIGN(Values all, sequence_of(node));
  if (all.empty()) return node.invalid("its sequence is empty");
  size_t at = all.size() - 1;
  if (node.has(1)) {
    DTR_ASSIGN(at, place_in(node, 1, all.size()));
  }
  all.erase(all.begin() + static_cast<ptrdiff_t>(at));
  node.return_sequence(0, std::move(all));
  return Values{};
}

Result<Values> split_to_sequence(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{0}));
  DTR_ASSIGN(const bool keeps, node.flag("keepdims", true));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  const int64_t extent = node.shape(x)[static_cast<size_t>(dim)];
  int64_t each = 1;  // of all parts but the last
  Ints sizes;
  if (node.has(1)) {
    DTR_ASSIGN(sizes, node.integers(1));
    DTR_ASSIGN(const ValueId given, node.value(1));
    if (node.type(given).rank() == 0) {
      each = sizes.front();
      if (each < 1) return node.invalid("parts of no element");
      sizes.clear();
    }
  }
  const int64_t count = sizes.empty() ? extent / each + (extent % each == 0 ? 0 : 1)
                                      : static_cast<int64_t>(sizes.size());
  if (count > kMaxParts) return node.unsupported(fmt::format("{} parts", count));
  if (sizes.empty())
    for (int64_t start = 0; start < extent; start += each)
      sizes.push_back(std::min(each, extent - start));
  DTR_ASSIGN(Values made, parts(node, x, dim, sizes));
  if (!keeps && !node.has(1))
    for (ValueId& one : made) {
      Shape without = node.shape(one);
      without.erase(without.begin() + dim);
      DTR_ASSIGN(one, node.view(one, without));
    }
  node.return_sequence(0, std::move(made));
  return Values{};
}

Result<Values> concat_from_sequence(NodeImport& node) {
  DTR_ASSIGN(Values all, sequence_of(node));
  DTR_ASSIGN(const int64_t stated, node.integer("axis"));
  DTR_ASSIGN(const bool stacks, node.flag("new_axis"));
  if (all.empty()) return node.invalid("its sequence is empty");
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(all[0]).rank() + (stacks ? 1 : 0)));
  if (stacks)
    for (ValueId& one : all) {
      Shape with = node.shape(one);
      with.insert(with.begin() + dim, 1);
      DTR_ASSIGN(one, node.view(one, with));
    }
  return only(node.concatenate(std::move(all), dim));
}

// ---- control flow

// The branch that a known condition chooses; else both branches, and a selection of their results.
Result<Values> branch(NodeImport& node) {
  DTR_ASSIGN(const ValueId condition, node.value(0));
  DTR_ASSIGN(const pb::GraphProto* const then_graph, node.graph_attribute("then_branch"));
  DTR_ASSIGN(const pb::GraphProto* const else_graph, node.graph_attribute("else_branch"));
  const auto known = node.constant_elements(condition);
  Values results;
  if (known) {
    if (known->size() != 1) return node.invalid("its condition is not one bool");
    const bool holds = known->front() != 0;
    DTR_ASSIGN(const std::vector<Binding> made,
               node.run_subgraph(holds ? *then_graph : *else_graph, {}, ""));
    for (size_t i = 0; i < made.size(); ++i) {
      results.push_back(made[i].value);
      if (made[i].is_sequence) node.return_sequence(i, made[i].sequence);
    }
    return results;
  }
  DTR_ASSIGN(const std::vector<Binding> then_made, node.run_subgraph(*then_graph, {}, "/then"));
  DTR_ASSIGN(const std::vector<Binding> else_made, node.run_subgraph(*else_graph, {}, "/else"));
  if (then_made.size() != else_made.size())
    return node.invalid("its branches have different numbers of results");
  for (size_t i = 0; i < then_made.size(); ++i) {
    if (then_made[i].is_sequence || else_made[i].is_sequence)
      return node.unsupported("its branches make sequences, and its condition depends on an input",
                              "Choose the branch before the export.");
    DTR_ASSIGN(const ValueId a, node.plain(then_made[i].value));
    DTR_ASSIGN(const ValueId b, node.plain(else_made[i].value));
    DTR_ASSIGN(results.emplace_back(), compositions::select_branch(node, condition, a, b));
  }
  return results;
}

// Unrolls the loop. Its number of steps must be known, and so must its condition, unless it stays
// true.
Result<Values> loop(NodeImport& node) {
  DTR_ASSIGN(const pb::GraphProto* const body, node.graph_attribute("body"));
  int64_t most = compositions::kMostLoopSteps;
  if (node.has(0)) {
    DTR_ASSIGN(most, node.integer(0));
  }
  bool goes_on = true;
  if (node.has(1)) {
    DTR_ASSIGN(const int64_t first, node.integer(1));
    goes_on = first != 0;
  }
  std::vector<Binding> state;
  for (size_t i = 2; i < node.inputs(); ++i) {
    DTR_ASSIGN(state.emplace_back(), node.binding(i));
  }
  const size_t carried = state.size();
  const auto collected = static_cast<size_t>(body->output_size());
  if (collected < carried + 1) return node.invalid("its body has too few results");
  std::vector<Values> stacks(collected - carried - 1);
  int64_t step = 0;
  for (; goes_on && step < most; ++step) {
    if (step == compositions::kMostLoopSteps)
      return node.unsupported(fmt::format("more than {} steps", compositions::kMostLoopSteps),
                              "Export one step, whose state is an input and an output.");
    DTR_ASSIGN(const ValueId counter,
               node.constant(DType::kInt64, {}, static_cast<double>(step), "step"));
    DTR_ASSIGN(const ValueId holds, node.constant(DType::kBool, {}, 1, "condition"));
    std::vector<Binding> operands{Binding{counter}, Binding{holds}};
    operands.insert(operands.end(), state.begin(), state.end());
    DTR_ASSIGN(const std::vector<Binding> made,
               node.run_subgraph(*body, operands, fmt::format("/{}", step)));
    const auto condition =
        made[0].is_sequence ? std::nullopt : node.constant_elements(made[0].value);
    if (!condition || condition->size() != 1)
      return node.unsupported("how often it repeats depends on an input of the model",
                              "Export one step, whose state is an input and an output.");
    goes_on = condition->front() != 0;
    state.assign(made.begin() + 1, made.begin() + 1 + static_cast<ptrdiff_t>(carried));
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].push_back(made[1 + carried + i].value);
  }
  Values results;
  for (size_t i = 0; i < state.size(); ++i) {
    results.push_back(state[i].value);
    if (state[i].is_sequence) node.return_sequence(i, state[i].sequence);
  }
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (!node.wants(carried + i)) {
      results.emplace_back();
      continue;
    }
    DTR_ASSIGN(results.emplace_back(), compositions::stack(node, std::move(stacks[i]), 0));
  }
  return results;
}

// A loop over the elements of tensors along a dimension.
Result<Values> scan(NodeImport& node) {
  DTR_ASSIGN(const pb::GraphProto* const body, node.graph_attribute("body"));
  DTR_ASSIGN(const int64_t count, node.integer("num_scan_inputs"));
  if (count < 1 || count > static_cast<int64_t>(node.inputs()))
    return node.invalid(fmt::format("{} scanned inputs", count));
  const auto scanned = static_cast<size_t>(count);
  const size_t carried = node.inputs() - scanned;
  if (static_cast<size_t>(body->output_size()) < carried)
    return node.invalid("its body has too few results");
  const size_t made_count = static_cast<size_t>(body->output_size()) - carried;
  DTR_ASSIGN(const Ints in_axes, node.ints("scan_input_axes", Ints(scanned, 0)));
  DTR_ASSIGN(const Ints in_ways, node.ints("scan_input_directions", Ints(scanned, 0)));
  DTR_ASSIGN(const Ints out_axes, node.ints("scan_output_axes", Ints(made_count, 0)));
  DTR_ASSIGN(const Ints out_ways, node.ints("scan_output_directions", Ints(made_count, 0)));
  if (in_axes.size() != scanned || in_ways.size() != scanned || out_axes.size() != made_count ||
      out_ways.size() != made_count)
    return node.invalid("its axes or directions differ in number from its tensors");
  std::vector<Binding> state;
  for (size_t i = 0; i < carried; ++i) {
    DTR_ASSIGN(state.emplace_back(), node.binding(i));
  }
  Values sources;
  Ints dims;
  int64_t steps = -1;
  for (size_t i = 0; i < scanned; ++i) {
    DTR_ASSIGN(const ValueId x, node.value(carried + i));
    DTR_ASSIGN(dims.emplace_back(), node.axis(in_axes[i], node.type(x).rank()));
    const int64_t extent = node.shape(x)[static_cast<size_t>(dims.back())];
    if (steps >= 0 && steps != extent) return node.invalid("its tensors differ in length");
    steps = extent;
    sources.push_back(x);
  }
  if (steps > compositions::kMostLoopSteps) return node.unsupported(fmt::format("{} steps", steps));
  std::vector<Values> stacks(made_count);
  for (int64_t step = 0; step < steps; ++step) {
    std::vector<Binding> operands = state;
    for (size_t i = 0; i < scanned; ++i) {
      const int64_t at = in_ways[i] != 0 ? steps - 1 - step : step;
      DTR_ASSIGN(const ValueId part, compositions::element(node, sources[i], dims[i], at));
      operands.push_back(Binding{part});
    }
    DTR_ASSIGN(const std::vector<Binding> made,
               node.run_subgraph(*body, operands, fmt::format("/{}", step)));
    state.assign(made.begin(), made.begin() + static_cast<ptrdiff_t>(carried));
    for (size_t i = 0; i < made_count; ++i) stacks[i].push_back(made[carried + i].value);
  }
  Values results;
  for (const Binding& each : state) results.push_back(each.value);
  for (size_t i = 0; i < made_count; ++i) {
    if (stacks[i].empty()) return node.unsupported("no step");
    if (out_ways[i] != 0) std::ranges::reverse(stacks[i]);
    DTR_ASSIGN(const int64_t dim, node.axis(out_axes[i], node.type(stacks[i][0]).rank() + 1));
    DTR_ASSIGN(results.emplace_back(), compositions::stack(node, std::move(stacks[i]), dim));
  }
  return results;
}

}  // namespace

std::vector<Operator> control_operators() {
  return {
      row("ConcatFromSequence", 1, 1, concat_from_sequence),
      row("If", 1, 1, branch),
      row("Loop", 0, kAnyNumber, loop),
      row("Scan", 1, kAnyNumber, scan),
      row("SequenceAt", 2, 2, sequence_at),
      moving_row("SequenceConstruct", 1, kAnyNumber, sequence_construct),
      row("SequenceEmpty", 0, 0, sequence_empty),
      row("SequenceErase", 1, 2, sequence_erase),
      moving_row("SequenceInsert", 2, 3, sequence_insert),
      row("SequenceLength", 1, 1, sequence_length),
      moving_row("SplitToSequence", 1, 2, split_to_sequence),
  };
}

}  // namespace dtr::onnx
