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
  Module module = parse(kTwoOps);
  Recipe recipe = recipe_with({});
  recipe.pop_back();
  const Result<Placement> placement = place(module, module.forward(), recipe);
  ASSERT_FALSE(placement);
  EXPECT_EQ(placement.error().id, DiagnosticId::kNoBackend);
  EXPECT_EQ(placement.error().reason.substr(0, 44), "no backend of the target runs these operator");
  EXPECT_NE(placement.error().reason.find(
                "(aten.softmax)\n    fake: the fake delegate does not take this operator"),
            std::string::npos);
}

TEST(Placement, AsksADelegateOnceAnOp) {
  Module module = parse(kTwoOps);
  const Recipe recipe = recipe_with({"aten.relu"});
  const Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  EXPECT_EQ(dynamic_cast<const FakeDelegate&>(*recipe[0]).questions, 2U);
  EXPECT_EQ(reason_of(placement, module.forward(), "b.float"),
            "fake-no: the fake delegate does not take this operator");
  EXPECT_EQ(reason_of(placement, module.forward(), "a"), "");
}

TEST(Placement, KeepsOffAndForcesOn) {
  Module module = parse(kTwoOps);
  const Recipe recipe = recipe_with({"aten.relu"});
  PlacementOptions options{.weigh_costs = false};
  options.overrides = {PlacementOverride::kKeepOff, PlacementOverride::kNone};
  Placement placement = *place(module, module.forward(), recipe, options);
  EXPECT_EQ(reason_of(placement, module.forward(), "a.float"),
            "kept-off: the options of the compilation keep it off the NPU");

  module = parse(kTwoOps);
  options.overrides = {PlacementOverride::kNone, PlacementOverride::kForceOn};
  const Result<Placement> forced = place(module, module.forward(), recipe, options);
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
  Module module = parse(kText);
  Placement placement = *place(module, module.forward(), recipe_with({"aten.relu"}, {}, 6000));
  EXPECT_EQ(reason_of(placement, module.forward(), "b.float"),
            "costs-more: an operator next to one on the CPU runs on the NPU if that saves cycles; "
            "moving this operator to the NPU costs 6,001 cycles including the call; the CPU needs "
            "3,895 (follows a.float)");
  module = parse(kText);
  placement = *place(module, module.forward(), recipe_with({"aten.relu"}, {}, 3000));
  EXPECT_EQ(reason_of(placement, module.forward(), "b"), "");
  module = parse(kText);
  PlacementOptions forced;
  forced.overrides = {PlacementOverride::kNone, PlacementOverride::kForceOn};
  placement = *place(module, module.forward(), recipe_with({"aten.relu"}, {}, 6000), forced);
  EXPECT_EQ(reason_of(placement, module.forward(), "b"), "");
}

TEST(Placement, ViewsAloneAreNotDelegated) {
  constexpr std::string_view kText = R"(
graph @forward(%x: i8[2,3] quant<0.5>) {
  %a: i8[3,2] quant<0.5> = aten.view(%x) {size = [3, 2]}
  %b: i8[6] quant<0.5> = aten.view(%a) {size = [6]}
  return %b
})";
  Module module = parse(kText);
  const Placement placement = *place(module, module.forward(), recipe_with({"aten.view"}));
  EXPECT_EQ(reason_of(placement, module.forward(), "a"),
            "only-views: a call of the NPU that has only views computes nothing");
  EXPECT_EQ(placement.backend, (std::vector<uint8_t>{1, 1}));
}

TEST(Placement, SaysWhatAQuantizedModelLeavesFloat) {
  Module module = parse(R"(
graph @forward(%x: i8[1,5] quant<0.5>) {
  %d: f32[1,5] = dequantize(%x)
  %a: f32[1,5] = aten.hardswish(%d)
  %b: f32[1,5] = aten.relu(%a)
  %q: i8[1,5] quant<0.5> = quantize(%b)
  return %q
})");
  const Placement placement =
      *place(module, module.forward(), recipe_with({"aten.relu", "aten.hardswish"}));
  EXPECT_EQ(reason_of(placement, module.forward(), "a"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its result `a` has no "
            "quantization");
  EXPECT_EQ(reason_of(placement, module.forward(), "b"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its operand `a` has no "
            "quantization (follows a)");
}

// What another reader, or the application, takes in float has to be computed in float.
TEST(Placement, SaysWhatIsAlsoReadInFloat) {
  constexpr std::string_view kText = R"(
graph @forward(%x: i8[1,5] quant<0.5>) {{
  %d: f32[1,5] = dequantize(%x)
  %a: f32[1,5] = aten.relu(%d)
  %q: i8[1,5] quant<0.5> = quantize(%a)
  {}
}})";
  for (const char* rest : {"return %q, %a", "%n: f32[1,5] = aten.neg(%a)\n  return %q, %n"}) {
    Module module = parse(fmt::format(kText, rest));
    const Placement placement = *place(module, module.forward(), recipe_with({"aten.relu"}));
    EXPECT_EQ(reason_of(placement, module.forward(), "a"),
              "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
              "operands and its result; its result `a` is also read in float");
  }
}

TEST(Placement, SaysWhatABatchNormOfAQuantizedModelLacks) {
  Module module = parse(R"(
graph @forward(%x: f32[1,2,4]) {
  %m: f32[2] = constant dense<1, 2>
  %a: f32[1,2,4] = aten.batch_norm(%x, _, _, %m, %m) {eps = 0.1}
  %q: i8[1,2,4] quant<0.5> = quantize(%a)
  return %q
})");
  const Placement placement = *place(module, module.forward(), recipe_with({"aten.convolution"}));
  EXPECT_EQ(reason_of(placement, module.forward(), "a"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its operand `x` has no "
            "quantization");
}

TEST(Placement, SaysWhatIsWrongWithAQuantizedWeight) {
  Module module = parse(R"(
graph @forward(%x: i8[1,3] quant<0.5>) {
  %w: i8[2,3] quant<0.25:7> = constant seeded<1>
  %b: f32[2] = constant seeded<2>
  %d: f32[1,3] = dequantize(%x)
  %v: f32[2,3] = dequantize(%w)
  %a: f32[1,2] = aten.linear(%d, %v, %b)
  %q: i8[1,2] quant<0.5> = quantize(%a)
  return %q
})");
  const Placement placement = *place(module, module.forward(), recipe_with({"aten.linear"}));
  EXPECT_EQ(reason_of(placement, module.forward(), "a"),
            "not-quantized-in-model: an operator runs in int8 where the model quantizes its "
            "operands and its result; its weight `v` has the "
            "zero point 7 in place of 0");
}

// ---- partitions

Placement placed(Module& module, const Recipe& recipe) {
  return *place(module, module.forward(), recipe, {.weigh_costs = false});
}

TEST(Partition, ABranchOutsideSplitsTheDelegate) {
  // relu → tanh (outside) → relu, and a way around: both relus in one partition would depend on
  // themselves.
  Module module = parse(R"(
graph @forward(%x: f32[1,5]) {
  %a: f32[1,5] = aten.relu(%x)
  %t: f32[1,5] = aten.tanh(%a)
  %b: f32[1,5] = aten.add.Tensor(%a, %t)
  %c: f32[1,5] = aten.relu(%b)
  return %c
})");
  const Recipe recipe = recipe_with({"aten.relu", "aten.add.Tensor"});
  const Placement placement = placed(module, recipe);
  const std::vector<Partition> partitions = make_partitions(module.forward(), placement, recipe);
  ASSERT_EQ(partitions.size(), 3U);
  EXPECT_EQ(partitions[0].ops.size(), 1U);
  EXPECT_EQ(partitions[1].backend, 1);
  EXPECT_EQ(partitions[2].ops.size(), 2U);
  EXPECT_EQ(partitions[2].inputs.size(), 2U);
  const Graph part = extract(module.forward(), partitions[2]);
  EXPECT_EQ(part.inputs().size(), 2U);
  EXPECT_EQ(part.op_count(), 2U);
  EXPECT_EQ(part.value(part.outputs()[0]).name, "c");
}

// A diamond with a CPU op in one arm. The other arm can run before or behind it; what crosses is
// smallest behind the pool's first half: 400 bytes between the pool and the second relu, 1600
// elsewhere.
TEST(Partition, TheArmBesideACpuOpIsCutWhereItIsThinnest) {
  Module module = parse(R"(
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
  const Placement placement = placed(module, recipe);
  const Graph& graph = module.forward();
  const std::vector<Partition> partitions = make_partitions(graph, placement, recipe);
  std::vector<std::string> delegated;
  for (const Partition& partition : partitions) {
    if (partition.backend != 0) continue;
    std::string names;
    for (const OpId op : partition.ops) names += graph.value(graph.op(op).results[0]).name;
    delegated.push_back(names);
  }
  EXPECT_EQ(delegated.size(), 2U);
  EXPECT_EQ(delegated[0].substr(0, 3), "abc");
  // Inputs 1600 + outputs 1600 (the tanh reads it) + 400, then 400 + 400 + 400.
  EXPECT_EQ(dispatch_cost(graph, partitions, recipe), 2 * 100U + 3600 / 8 + 1200 / 8);
}

// Work that depends on nothing joins the unit that runs anyway, so that two calls become one.
TEST(Partition, IndependentWorkWaitsForTheOneCall) {
  Module module = parse(R"(
graph @forward(%x: f32[1,5], %z: f32[1,5]) {
  %a: f32[1,5] = aten.relu(%z)
  %t: f32[1,5] = aten.tanh(%x)
  %b: f32[1,5] = aten.relu(%t)
  return %a, %b
})");
  const Recipe recipe = recipe_with({"aten.relu"});
  const Placement placement = placed(module, recipe);
  const std::vector<Partition> partitions = make_partitions(module.forward(), placement, recipe);
  ASSERT_EQ(partitions.size(), 2U);
  EXPECT_EQ(partitions[1].ops.size(), 2U);
}

Module random_graph(std::mt19937& random, int ops) {
  Module module;
  module.graphs.emplace_back();
  Rewriter rewriter(module.forward());
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
  return module;
}

// What a partitioner does that merges as it goes: each delegate op joins the last unit of one of
// its producers if no circle arises.
std::vector<Partition> greedy(const Graph& graph, const Placement& placement) {
  std::vector<std::vector<OpId>> members;
  std::vector<int> unit_of(graph.op_slots(), -1);
  // Whether `unit` can be reached from `op` backwards through another unit.
  const auto depends = [&](OpId op, int partition) {
    std::vector<OpId> stack;
    std::vector<bool> seen(graph.op_slots(), false);
    for (const ValueId operand : graph.op(op).operands)
      if (const OpId from = graph.producer(operand);
          from.valid() && unit_of[from.index] != partition)
        stack.push_back(from);
    while (!stack.empty()) {
      const OpId at = stack.back();
      stack.pop_back();
      if (seen[at.index]) continue;
      seen[at.index] = true;
      if (unit_of[at.index] == partition) return true;
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
  std::vector<Partition> partitions;
  for (std::vector<OpId>& ops : members) {
    Partition partition{.backend = placement.backend[ops.front().index], .ops = ops};
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
        partition.outputs.push_back(graph.op(op).results[0]);
    }
    partition.inputs.assign(inputs.begin(), inputs.end());
    partitions.push_back(std::move(partition));
  }
  return partitions;
}

// `program` cut so that no call of the delegate has more than `most` operands.
std::vector<Partition> cut_at(Module& module, size_t most) {
  const Recipe recipe = recipe_with({"aten.relu", "aten.add.Tensor", "aten.view"});
  dynamic_cast<FakeDelegate&>(*recipe[0]).most_operands = most;
  const Placement placement = placed(module, recipe);
  return make_partitions(module.forward(), placement, recipe);
}

// Inputs that are added up one after the other, and every sum an output if `all_sums`.
Module sum_of(size_t inputs, bool all_sums) {
  Module module;
  module.graphs.emplace_back();
  Rewriter rewriter(module.forward());
  std::vector<ValueId> sums{rewriter.add_input({.shape = {1, 5}}, "x0")};
  for (size_t i = 1; i < inputs; ++i) {
    const ValueId next = rewriter.add_input({.shape = {1, 5}}, fmt::format("x{}", i));
    sums.push_back(*rewriter.append({.def = &ops::kAddTensor, .operands = {sums.back(), next}}));
  }
  if (all_sums) sums.erase(sums.begin());
  rewriter.set_outputs(all_sums ? sums : std::vector{sums.back()});
  return module;
}

TEST(Partition, CallsHaveNoMoreOperandsThanTheDelegateTakes) {
  for (const auto& [inputs, partitions] : {std::pair{63, 1}, {64, 2}, {65, 2}, {70, 2}, {200, 4}}) {
    Module module = sum_of(static_cast<size_t>(inputs), false);
    EXPECT_EQ(cut_at(module, 64).size(), static_cast<size_t>(partitions)) << inputs;
  }
  Module module = sum_of(33, true);  // 33 inputs and 32 outputs
  EXPECT_EQ(cut_at(module, 65).size(), 1U);
  EXPECT_EQ(cut_at(module, 64).size(), 2U);
}

// Each relu costs a cycle, and five for 20 bytes that it reads and 20 that it writes.
TEST(Partition, CallsHaveNoMoreWorkThanTheDelegateTakes) {
  Module module;
  module.graphs.emplace_back();
  Rewriter rewriter(module.forward());
  ValueId value = rewriter.add_input({.shape = {1, 5}}, "x");
  for (int i = 0; i < 10; ++i) value = *rewriter.append({.def = &ops::kRelu, .operands = {value}});
  rewriter.set_outputs({value});
  const Recipe recipe = recipe_with({"aten.relu"});
  const Placement placement = placed(module, recipe);
  for (const auto& [most, partitions] :
       {std::pair{60, 1}, {59, 2}, {30, 2}, {29, 3}, {12, 5}, {11, 10}, {6, 10}, {1, 10}}) {
    dynamic_cast<FakeDelegate&>(*recipe[0]).most_work = static_cast<uint64_t>(most);
    EXPECT_EQ(make_partitions(module.forward(), placement, recipe).size(),
              static_cast<size_t>(partitions))
        << most;
  }
}

// Two hundred values of their own, then their sum by pairs: what is close in the graph shares a
// call, though it is far in program order.
TEST(Partition, PiecesFollowTheGraph) {
  Module module;
  module.graphs.emplace_back();
  Rewriter rewriter(module.forward());
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
  EXPECT_EQ(cut_at(module, 64).size(), 5U);  // 256 inputs and what is handed on
}

TEST(Partition, PiecesOfRandomGraphsAreWholeAndInOrder) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Module module = random_graph(random, 8 + static_cast<int>(random() % 40));
    const Graph& graph = module.forward();
    const size_t most = 3 + random() % 4;
    std::set<ValueId> ready(graph.inputs().begin(), graph.inputs().end());
    size_t ops = 0;
    for (const Partition& partition : cut_at(module, most)) {
      if (partition.backend == 0) {
        EXPECT_LE(partition.inputs.size() + partition.outputs.size(), most);
      }
      for (const ValueId input : partition.inputs)
        EXPECT_TRUE(ready.contains(input)) << "round " << round;
      for (const ValueId output : partition.outputs) ready.insert(output);
      ops += partition.ops.size();
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
    Module module = random_graph(random, 8 + static_cast<int>(random() % 30));
    const Graph& graph = module.forward();
    const Recipe recipe = recipe_with({"aten.relu", "aten.add.Tensor"}, {}, 1000);
    const Placement placement = placed(module, recipe);
    const std::vector<Partition> partitions = make_partitions(graph, placement, recipe);
    std::set<ValueId> ready(graph.inputs().begin(), graph.inputs().end());
    size_t ops = 0;
    for (const Partition& partition : partitions) {
      for (const ValueId input : partition.inputs) EXPECT_TRUE(ready.contains(input));
      for (const ValueId output : partition.outputs) ready.insert(output);
      ops += partition.ops.size();
    }
    EXPECT_EQ(ops, graph.op_count());
    for (const ValueId output : graph.outputs()) EXPECT_TRUE(ready.contains(output));
    const uint64_t ours = dispatch_cost(graph, partitions, recipe),
                   theirs = dispatch_cost(graph, greedy(graph, placement), recipe);
    EXPECT_LE(ours, theirs) << "round " << round;
    better += ours < theirs ? 1 : 0;
  }
  EXPECT_GT(better, 50U);
}

}  // namespace
}  // namespace dtr
