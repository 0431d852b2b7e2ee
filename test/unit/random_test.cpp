// The random graphs themselves: every operator and attribute can be drawn and is drawn, what fails
// is found and shrunk.
#include <gtest/gtest.h>

#include <map>

#include "compiler/ir/parser.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "test/random/judge.h"
#include "test/random/random_graph.h"
#include "test/random/shrink.h"

namespace dtr::test {
namespace {

Module make(uint64_t seed, int ops) { return RandomGraph(seed, {.floats = true}).make(ops); }

TEST(RandomGraphs, EveryOperatorCanBeDrawn) {
  for (const OpDef* op : all_ops()) EXPECT_EQ(why_not_drawn(*op), "");
  // One that nobody knows.
  const OpDef strange{
      .name = "aten.strange", .summary = "", .schema = "(Tensor self, int flavour)"};
  EXPECT_EQ(why_not_drawn(strange),
            "attribute `flavour` of aten.strange has no row in random_attributes.cpp");
  const OpDef weighted{
      .name = "aten.weighted", .summary = "", .schema = "(Tensor self, Tensor weight)"};
  EXPECT_EQ(why_not_drawn(weighted),
            "operands of aten.weighted do not follow from its definition: give it a row in "
            "random_operands.cpp");
}

TEST(RandomGraphs, EveryOperatorAndAttributeIsDrawn) {
  std::map<std::string, int> ops, attributes;
  for (uint64_t seed = 1; seed <= 2800; ++seed) {
    const Module module = make(seed, 30);
    ASSERT_TRUE(verify(module));
    for (const OpId id : module.forward().ops()) {
      const Op& op = module.forward().op(id);
      ++ops[std::string(op.def->name)];
      for (const auto& [name, value] : op.attributes)
        ++attributes[std::string(op.def->name) + " " + name];
    }
  }
  for (const OpDef* op : all_ops()) {
    EXPECT_GE(ops[std::string(op->name)], 50) << op->name;
    for (const Param& attribute : op->schema.params()) {
      if (!attribute.is_attribute()) continue;
      EXPECT_GE(attributes[std::string(op->name) + " " + std::string(attribute.name)], 10)
          << op->name << " " << attribute.name;
    }
  }
}

TEST(RandomGraphs, AreTheSameForASeed) {
  EXPECT_EQ(print(make(5, 20)), print(make(5, 20)));
  EXPECT_NE(print(make(5, 20)), print(make(6, 20)));
}

// A failure that needs an op and one that reads its result, whose own result is read: nothing else
// is left.
TEST(Shrink, LeavesWhatFails) {
  const auto fails = [](const Module& module) {
    const Graph& graph = module.forward();
    for (const OpId id : graph.ops())
      for (const ValueId operand : graph.op(id).operands)
        if (graph.producer_if(operand, ops::kCat).valid() &&
            !graph.value(graph.op(id).results[0]).unused())
          return true;
    return false;
  };
  int shrunk = 0;
  for (uint64_t seed = 1; seed < 300 && shrunk < 10; ++seed) {
    Module module = make(seed, 30);
    if (!fails(module)) continue;
    const Module smallest = shrink(std::move(module), fails);
    EXPECT_TRUE(fails(smallest));
    EXPECT_TRUE(verify(smallest));
    EXPECT_EQ(smallest.forward().op_count(), 2u) << print(smallest);
    ++shrunk;
  }
  EXPECT_EQ(shrunk, 10);
}

TEST(Judge, SaysWhatIsWrong) {
  const auto relu = [] {
    return *parse_module(
        "graph @forward(%x: i8[1,3,4] quant<0.5:3>) {\n  %y: i8[1,3,4] quant<0.5:3> = "
        "aten.relu(%x)\n  return %y\n}\n",
        "t");
  };
  Module module = relu();
  EXPECT_FALSE(judge_apart(module, 1, false).failed());
  EXPECT_FALSE(judge(relu(), 1, false).failed());
  // Nothing the verifier lets pass.
  Rewriter(module.forward())
      .set_quantization(module.forward().outputs()[0], Quantization::per_tensor(-1, 0));
  EXPECT_EQ(judge_apart(module, 1, false).kind, "verifier: ir-invalid");
  EXPECT_EQ(judge(std::move(module), 1, false).kind, "verifier: ir-invalid");
}

}  // namespace
}  // namespace dtr::test
