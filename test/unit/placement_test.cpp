// Placement with its reasons, partitions and their hand-over cost.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <numeric>
#include <random>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/partitioner/partition.h"
#include "test/unit/fake_recipe.h"

namespace dtr {
namespace {

constexpr std::string_view kTwoOps = R"(
graph @forward(%x: i8[1,5] quant<0.5>) {
  %a: i8[1,5] quant<0.5> = aten.relu(%x)
  %b: i8[1,5] quant<0.00390625:-128> = aten.softmax(%a) {dim = 1}
  return %b
})";

std::string reason_of(const Placement& placement, const Graph& graph, std::string_view value) {
  for (const OpId op : graph.ops())
    if (graph.value(graph.op(op).results[0]).name == value && placement.reasons[op.index]) {
      const Reason& reason = *placement.reasons[op.index];
      return fmt::format("{}: {}{}", reason.refusal.id, reason.refusal.reason,
                         reason.because_of.empty() ? "" : " (follows " + reason.because_of + ")");
    }
  return "";
}

TEST(Placement, NamesEveryHomelessOpWithReasons) {
  Program program = parse(kTwoOps);
  Recipe recipe = recipe_with({});
  recipe.pop_back();
  const Result<Placement> placement = place(program, program.forward(), recipe);
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().id, DiagnosticId::kNoBackend);
  EXPECT_EQ(placement.error().reason.substr(0, 44), "no backend of the target runs these operator");
  EXPECT_NE(placement.error().reason.find(
                "(aten.softmax)\n    fake: the fake delegate does not take this operator"),
            std::string::npos);
}

TEST(Placement, AsksADelegateOnceAnOp) {
  Program program = parse(kTwoOps);
  const Recipe recipe = recipe_with({"aten.relu"});
  const Placement placement = *place(program, program.forward(), recipe, {.weigh_costs = false});
  EXPECT_EQ(dynamic_cast<const FakeDelegate&>(*recipe[0]).questions, 2U);
  EXPECT_EQ(reason_of(placement, program.forward(), "b.float"),
            "fake-no: the fake delegate does not take this operator");
  EXPECT_EQ(reason_of(placement, program.forward(), "a"), "");
}

TEST(Placement, KeepsOffAndForcesOn) {
  Program program = parse(kTwoOps);
  const Recipe recipe = recipe_with({"aten.relu"});
  PlacementOptions options{.weigh_costs = false};
  options.wishes = {Wish::kKeepOff, Wish::kNone};
  Placement placement = *place(program, program.forward(), recipe, options);
  EXPECT_EQ(reason_of(placement, program.forward(), "a.float"),
            "kept-off: the options of the compilation keep it off the NPU");

  program = parse(kTwoOps);
  options.wishes = {Wish::kNone, Wish::kForceOn};
  const Result<Placement> forced = place(program, program.forward(), recipe, options);
  ASSERT_FALSE(forced);
  EXPECT_EQ(forced.error().id, DiagnosticId::kPlacementForced);
  EXPECT_EQ(forced.error().reason,
            "fake cannot run aten.softmax: the fake delegate does not take this operator");
}

// x → softmax (host) → relu → softmax (host): the relu between them is handed over only if that
// pays.
TEST(Placement, WeighsTheHandOverOfAnOpAmongOthersOnTheHost) {
  constexpr std::string_view kText = R"(
graph @forward(%x: i8[1,50] quant<0.5>) {
  %a: i8[1,50] quant<0.00390625:-128> = aten.softmax(%x) {dim = 1}
  %b: i8[1,50] quant<0.5> = aten.relu(%a)
  %c: i8[1,50] quant<0.00390625:-128> = aten.softmax(%b) {dim = 1}
  return %c
})";
  Program program = parse(kText);
  Placement placement = *place(program, program.forward(), recipe_with({"aten.relu"}, {}, 6000));
  EXPECT_EQ(reason_of(placement, program.forward(), "b.float"),
            "costs-more: an operator beside one on the CPU is handed over if that saves cycles; "
            "this one would take about 6001 cycles with "
            "the hand-over, 3800 on the CPU (follows a.float)");
  program = parse(kText);
  placement = *place(program, program.forward(), recipe_with({"aten.relu"}, {}, 3000));
  EXPECT_EQ(reason_of(placement, program.forward(), "b"), "");
  program = parse(kText);
  PlacementOptions forced;
  forced.wishes = {Wish::kNone, Wish::kForceOn};
  placement = *place(program, program.forward(), recipe_with({"aten.relu"}, {}, 6000), forced);
  EXPECT_EQ(reason_of(placement, program.forward(), "b"), "");
}

TEST(Placement, ViewsAloneAreNotDelegated) {
  constexpr std::string_view kText = R"(
graph @forward(%x: i8[2,3] quant<0.5>) {
  %a: i8[3,2] quant<0.5> = aten.view(%x) {size = [3, 2]}
  %b: i8[6] quant<0.5> = aten.view(%a) {size = [6]}
  return %b
})";
  Program program = parse(kText);
  const Placement placement = *place(program, program.forward(), recipe_with({"aten.view"}));
  EXPECT_EQ(reason_of(placement, program.forward(), "a"),
            "only-views: a call of the NPU that has only views to show computes nothing");
  EXPECT_EQ(placement.backend, (std::vector<uint8_t>{1, 1}));
}

TEST(Placement, SaysWhatAQuantizedModelLeavesFloat) {
  Program program = parse(R"(
graph @forward(%x: i8[1,5] quant<0.5>) {
  %d: f32[1,5] = dequantize(%x)
  %a: f32[1,5] = aten.hardswish(%d)
  %b: f32[1,5] = aten.relu(%a)
  %q: i8[1,5] quant<0.5> = quantize(%b)
  return %q
})");
  const Placement placement =
      *place(program, program.forward(), recipe_with({"aten.relu", "aten.hardswish"}));
  EXPECT_EQ(reason_of(placement, program.forward(), "a"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its result `a` has no "
            "quantization");
  EXPECT_EQ(reason_of(placement, program.forward(), "b"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its operand `a` has no "
            "quantization (follows a)");
}

TEST(Placement, SaysWhatABatchNormOfAQuantizedModelLacks) {
  Program program = parse(R"(
graph @forward(%x: f32[1,2,4]) {
  %m: f32[2] = constant dense<1, 2>
  %a: f32[1,2,4] = aten.batch_norm(%x, _, _, %m, %m) {eps = 0.1}
  %q: i8[1,2,4] quant<0.5> = quantize(%a)
  return %q
})");
  const Placement placement = *place(program, program.forward(), recipe_with({"aten.convolution"}));
  EXPECT_EQ(reason_of(placement, program.forward(), "a"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its operand `x` has no "
            "quantization");
}

TEST(Placement, SaysWhatIsWrongWithAQuantizedWeight) {
  Program program = parse(R"(
graph @forward(%x: i8[1,3] quant<0.5>) {
  %w: i8[2,3] quant<0.25:7> = constant seeded<1>
  %b: f32[2] = constant seeded<2>
  %d: f32[1,3] = dequantize(%x)
  %v: f32[2,3] = dequantize(%w)
  %a: f32[1,2] = aten.linear(%d, %v, %b)
  %q: i8[1,2] quant<0.5> = quantize(%a)
  return %q
})");
  const Placement placement = *place(program, program.forward(), recipe_with({"aten.linear"}));
  EXPECT_EQ(reason_of(placement, program.forward(), "a"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its weight `v` has the "
            "zero point 7 in place of 0");
}

// ---- partitions

Placement placed(Program& program, const Recipe& recipe) {
  return *place(program, program.forward(), recipe, {.weigh_costs = false});
}

TEST(Partition, ABranchOutsideSplitsTheDelegate) {
  // relu → tanh (outside) → relu, and a way around: both relus in one partition would depend on
  // themselves.
  Program program = parse(R"(
graph @forward(%x: f32[1,5]) {
  %a: f32[1,5] = aten.relu(%x)
  %t: f32[1,5] = aten.tanh(%a)
  %b: f32[1,5] = aten.add.Tensor(%a, %t)
  %c: f32[1,5] = aten.relu(%b)
  return %c
})");
  const Recipe recipe = recipe_with({"aten.relu", "aten.add.Tensor"});
  const Placement placement = placed(program, recipe);
  const std::vector<Unit> units = partition(program.forward(), placement, recipe);
  ASSERT_EQ(units.size(), 3U);
  EXPECT_EQ(units[0].ops.size(), 1U);
  EXPECT_EQ(units[1].backend, 1);
  EXPECT_EQ(units[2].ops.size(), 2U);
  EXPECT_EQ(units[2].inputs.size(), 2U);
  const Graph part = extract(program.forward(), units[2]);
  EXPECT_EQ(part.inputs().size(), 2U);
  EXPECT_EQ(part.op_count(), 2U);
  EXPECT_EQ(part.value(part.outputs()[0]).name, "c");
}

// A diamond with a CPU op in one arm. The other arm can run before or behind it; what crosses is
// smallest behind the pool's first half: 400 bytes between the pool and the second relu, 1600
// elsewhere.
TEST(Partition, TheArmBesideACpuOpIsCutWhereItIsThinnest) {
  Program program = parse(R"(
graph @forward(%x: f32[1,1,20,20]) {
  %a: f32[1,1,20,20] = aten.relu(%x)
  %t: f32[1,1,20,20] = aten.tanh(%a)
  %u: f32[1,1,10,10] = aten.max_pool2d(%t) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  %b: f32[1,1,20,20] = aten.clamp(%a) {min = 0.5}
  %c: f32[1,1,10,10] = aten.avg_pool2d(%b) {ceil_mode = false, count_include_pad = true, kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  %d: f32[1,1,10,10] = aten.relu(%c)
  %e: f32[1,1,10,10] = aten.add.Tensor(%d, %u)
  return %e
})");
  const Recipe recipe =
      recipe_with({"aten.relu", "aten.clamp", "aten.avg_pool2d", "aten.add.Tensor"}, {}, 100);
  const Placement placement = placed(program, recipe);
  const Graph& graph = program.forward();
  const std::vector<Unit> units = partition(graph, placement, recipe);
  std::vector<std::string> delegated;
  for (const Unit& unit : units) {
    if (unit.backend != 0) continue;
    std::string names;
    for (const OpId op : unit.ops) names += graph.value(graph.op(op).results[0]).name;
    delegated.push_back(names);
  }
  EXPECT_EQ(delegated.size(), 2U);
  EXPECT_EQ(delegated[0].substr(0, 3), "abc");
  // Inputs 1600 + outputs 1600 (the tanh reads it) + 400, then 400 + 400 + 400.
  EXPECT_EQ(hand_over_cost(graph, units, recipe), 2 * 100U + 3600 / 8 + 1200 / 8);
}

// Work that depends on nothing joins the unit that runs anyway, so that two calls become one.
TEST(Partition, IndependentWorkWaitsForTheOneCall) {
  Program program = parse(R"(
graph @forward(%x: f32[1,5], %z: f32[1,5]) {
  %a: f32[1,5] = aten.relu(%z)
  %t: f32[1,5] = aten.tanh(%x)
  %b: f32[1,5] = aten.relu(%t)
  return %a, %b
})");
  const Recipe recipe = recipe_with({"aten.relu"});
  const Placement placement = placed(program, recipe);
  const std::vector<Unit> units = partition(program.forward(), placement, recipe);
  ASSERT_EQ(units.size(), 2U);
  EXPECT_EQ(units[1].ops.size(), 2U);
}

Program random_graph(std::mt19937& random, int ops) {
  Program program;
  program.graphs.emplace_back();
  Rewriter rewriter(program.forward());
  std::vector<ValueId> values{rewriter.add_input({.shape = {2, 3, 4, 4}}, "x")};
  const OpDef* const kinds[] = {&ops::kRelu, &ops::kTanh, &ops::kAddTensor, &ops::kView};
  for (int i = 0; i < ops; ++i) {
    const OpDef* kind = kinds[random() % 4];
    OpSpec spec{.def = kind};
    // Mostly near the end, so that chains and skips arise.
    const auto pick = [&] {
      return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 4)];
    };
    spec.operands = {pick()};
    if (kind == &ops::kAddTensor) {
      spec.operands.push_back(pick());
      if (rewriter.graph().type(spec.operands[0]).shape !=
          rewriter.graph().type(spec.operands[1]).shape)
        spec.operands[1] = spec.operands[0];
    }
    if (kind == &ops::kView)
      spec.attributes = {{"size", random() % 2 == 0 ? Ints{96} : Ints{2, 3, 4, 4}}};
    values.push_back(*rewriter.append(std::move(spec)));
  }
  rewriter.set_outputs({values.back(), values[values.size() / 2]});
  return program;
}

// What a partitioner does that merges as it goes: each delegate op joins the last unit of one of
// its producers if no circle arises.
std::vector<Unit> greedy(const Graph& graph, const Placement& placement) {
  std::vector<std::vector<OpId>> members;
  std::vector<int> unit_of(graph.op_slots(), -1);
  // Whether `unit` can be reached from `op` backwards through another unit.
  const auto depends = [&](OpId op, int unit) {
    std::vector<OpId> stack;
    std::vector<bool> seen(graph.op_slots(), false);
    for (const ValueId operand : graph.op(op).operands)
      if (const OpId from = graph.producer(operand); from.valid() && unit_of[from.index] != unit)
        stack.push_back(from);
    while (!stack.empty()) {
      const OpId at = stack.back();
      stack.pop_back();
      if (seen[at.index]) continue;
      seen[at.index] = true;
      if (unit_of[at.index] == unit) return true;
      const int own = unit_of[at.index];
      for (const OpId member : placement.backend[at.index] == 0 ? members[static_cast<size_t>(own)]
                                                                : std::vector<OpId>{at})
        for (const ValueId operand : graph.op(member).operands)
          if (const OpId from = graph.producer(operand); from.valid()) stack.push_back(from);
    }
    return false;
  };
  for (const OpId op : graph.ops()) {
    if (placement.backend[op.index] == 0)
      for (const ValueId operand : graph.op(op).operands) {
        const OpId from = graph.producer(operand);
        if (unit_of[op.index] >= 0 || !from.valid() || placement.backend[from.index] != 0) continue;
        if (!depends(op, unit_of[from.index])) unit_of[op.index] = unit_of[from.index];
      }
    if (unit_of[op.index] < 0) {
      unit_of[op.index] = static_cast<int>(members.size());
      members.emplace_back();
    }
    members[static_cast<size_t>(unit_of[op.index])].push_back(op);
  }
  std::vector<Unit> units;
  for (std::vector<OpId>& ops : members) {
    Unit unit{.backend = placement.backend[ops.front().index], .ops = ops};
    const int own = unit_of[ops.front().index];
    std::set<ValueId> inputs;
    for (const OpId op : ops) {
      for (const ValueId operand : graph.op(op).operands) {
        const OpId from = graph.producer(operand);
        if (!from.valid() || unit_of[from.index] != own) inputs.insert(operand);
      }
      const Value& result = graph.value(graph.op(op).results[0]);
      if (result.output_uses > 0 ||
          std::any_of(result.uses.begin(), result.uses.end(),
                      [&](const Use& use) { return unit_of[use.op.index] != own; }))
        unit.outputs.push_back(graph.op(op).results[0]);
    }
    unit.inputs.assign(inputs.begin(), inputs.end());
    units.push_back(std::move(unit));
  }
  return units;
}

// `program` cut so that no call of the delegate has more than `most` operands.
std::vector<Unit> cut_at(Program& program, size_t most) {
  const Recipe recipe = recipe_with({"aten.relu", "aten.add.Tensor", "aten.view"});
  dynamic_cast<FakeDelegate&>(*recipe[0]).most_operands = most;
  const Placement placement = placed(program, recipe);
  return partition(program.forward(), placement, recipe);
}

// Inputs that are added up one after the other, and every sum an output if `all_sums`.
Program sum_of(size_t inputs, bool all_sums) {
  Program program;
  program.graphs.emplace_back();
  Rewriter rewriter(program.forward());
  std::vector<ValueId> sums{rewriter.add_input({.shape = {1, 5}}, "x0")};
  for (size_t i = 1; i < inputs; ++i) {
    const ValueId next = rewriter.add_input({.shape = {1, 5}}, fmt::format("x{}", i));
    sums.push_back(*rewriter.append({.def = &ops::kAddTensor, .operands = {sums.back(), next}}));
  }
  if (all_sums) sums.erase(sums.begin());
  rewriter.set_outputs(all_sums ? sums : std::vector{sums.back()});
  return program;
}

TEST(Partition, CallsHaveNoMoreOperandsThanTheDelegateTakes) {
  for (const auto& [inputs, units] : {std::pair{63, 1}, {64, 2}, {65, 2}, {70, 2}, {200, 4}}) {
    Program program = sum_of(static_cast<size_t>(inputs), false);
    EXPECT_EQ(cut_at(program, 64).size(), static_cast<size_t>(units)) << inputs;
  }
  Program program = sum_of(33, true);  // 33 inputs and 32 outputs
  EXPECT_EQ(cut_at(program, 65).size(), 1U);
  EXPECT_EQ(cut_at(program, 64).size(), 2U);
}

// Two hundred values of their own, then their sum by pairs: what is close in the graph shares a
// call, though it is far in program order.
TEST(Partition, PiecesFollowTheGraph) {
  Program program;
  program.graphs.emplace_back();
  Rewriter rewriter(program.forward());
  std::vector<ValueId> level;
  for (int i = 0; i < 256; ++i)
    level.push_back(rewriter.add_input({.shape = {1, 5}}, fmt::format("x{}", i)));
  for (ValueId& value : level) value = *rewriter.append({.def = &ops::kRelu, .operands = {value}});
  while (level.size() > 1) {
    std::vector<ValueId> next;
    for (size_t i = 0; i < level.size(); i += 2)
      next.push_back(
          *rewriter.append({.def = &ops::kAddTensor, .operands = {level[i], level[i + 1]}}));
    level = next;
  }
  rewriter.set_outputs(level);
  EXPECT_EQ(cut_at(program, 64).size(), 5U);  // 256 inputs and what is handed on
}

TEST(Partition, PiecesOfRandomGraphsAreWholeAndInOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Program program = random_graph(random, 8 + static_cast<int>(random() % 40));
    const Graph& graph = program.forward();
    const size_t most = 3 + random() % 4;
    std::set<ValueId> ready(graph.inputs().begin(), graph.inputs().end());
    size_t ops = 0;
    for (const Unit& unit : cut_at(program, most)) {
      if (unit.backend == 0) {
        EXPECT_LE(unit.inputs.size() + unit.outputs.size(), most);
      }
      for (const ValueId input : unit.inputs)
        EXPECT_TRUE(ready.contains(input)) << "round " << round;
      for (const ValueId output : unit.outputs) ready.insert(output);
      ops += unit.ops.size();
    }
    EXPECT_EQ(ops, graph.op_count());
    for (const ValueId output : graph.outputs()) EXPECT_TRUE(ready.contains(output));
  }
}

// On random graphs: every op once, units in an order in which everything they read exists, and no
// more to hand over than greedily.
TEST(Partition, NoCirclesAndNeverWorseThanGreedy) {
  std::mt19937 random(9);
  size_t better = 0;
  for (int round = 0; round < 500; ++round) {
    Program program = random_graph(random, 8 + static_cast<int>(random() % 30));
    const Graph& graph = program.forward();
    const Recipe recipe = recipe_with({"aten.relu", "aten.add.Tensor"}, {}, 1000);
    const Placement placement = placed(program, recipe);
    const std::vector<Unit> units = partition(graph, placement, recipe);
    std::set<ValueId> ready(graph.inputs().begin(), graph.inputs().end());
    size_t ops = 0;
    for (const Unit& unit : units) {
      for (const ValueId input : unit.inputs) EXPECT_TRUE(ready.contains(input));
      for (const ValueId output : unit.outputs) ready.insert(output);
      ops += unit.ops.size();
    }
    EXPECT_EQ(ops, graph.op_count());
    for (const ValueId output : graph.outputs()) EXPECT_TRUE(ready.contains(output));
    const uint64_t ours = hand_over_cost(graph, units, recipe),
                   theirs = hand_over_cost(graph, greedy(graph, placement), recipe);
    EXPECT_LE(ours, theirs) << "round " << round;
    better += ours < theirs ? 1 : 0;
  }
  EXPECT_GT(better, 50U);
}

}  // namespace
}  // namespace dtr
