// Recipes: what their constraints select, and what their options are.
#include "compiler/recipes/recipe.h"

#include <gtest/gtest.h>

#include "compiler/ir/parser.h"
#include "compiler/recipes/selection.h"

namespace dtr {
namespace {

constexpr std::string_view kModel = R"(sources {
  0: "a" "aten.relu.default" "stem" "" "my.Model" "my.Linear"
  1: "b" "aten.tanh.default" "stem_tail" "" "my.Model" "my.LazyLinear"
  2: "c" "aten.relu.default" "stem.inner" "" "my.Model" "my.Linear" "other.ReLU"
  3: "d" "aten.add.Tensor" "" "" "my.Model"
}
graph @forward(%x: f32[4], %z: f32[4]) {
  %q: i8[4] quant<0.5> = quantize(%x)
  %r: f32[4] = dequantize(%q)
  %a: f32[4] = aten.relu(%r) loc(0)
  %b: f32[4] = aten.tanh(%a) loc(1)
  %c: f32[4] = aten.relu(%b) loc(2)
  %d: f32[4] = aten.add.Tensor(%c, %z) loc(3)
  return %c, %d
}
)";

// Names of the results of operators that the constraint keeps off the NPU.
std::string selected(const Constraint& constraint) {
  const auto program = parse_module(kModel, "test.ir");
  EXPECT_TRUE(program) << to_text(program.error());
  const Graph& graph = program->forward();
  RecipeSpec spec{.backends = {"neutron", "portable"}, .constraints = {constraint}};
  spec.constraints[0].keep_off = {"neutron"};
  const auto exclusions = Exclusions::resolve(*program, graph, spec, false);
  EXPECT_TRUE(exclusions) << to_text(exclusions.error());
  std::string names;
  for (const OpId op : graph.ops()) {
    if (exclusions->excluded(op, 0)) names += graph.value(graph.op(op).results[0]).name;
    EXPECT_FALSE(exclusions->excluded(op, 1));
  }
  return names;
}

TEST(Recipe, ConstraintsSelect) {
  EXPECT_EQ(selected({}), "qrabcd");  // everything
  EXPECT_EQ(selected({.where = {.names = {"b"}}}), "b");
  EXPECT_EQ(selected({.where = {.modules = {"stem"}}}), "ac");  // not those of stem_tail
  EXPECT_EQ(selected({.where = {.modules = {"stem.inner"}}}), "c");
  EXPECT_EQ(selected({.where = {.module_types = {"Linear"}}}), "ac");  // not LazyLinear
  EXPECT_EQ(selected({.where = {.module_types = {"my.LazyLinear"}}}), "b");
  EXPECT_EQ(selected({.where = {.module_types = {"ReLU"}}}), "c");
  EXPECT_EQ(selected({.where = {.operators = {"relu"}}}), "ac");
  EXPECT_EQ(selected({.where = {.operators = {"add"}}}), "d");  // aten.add.Tensor
  EXPECT_EQ(selected({.where = {.operators = {"aten.tanh.default"}}}), "b");
  EXPECT_EQ(selected({.where = {.inputs = {"x"}}}), "qra");  // conversions are looked through
  EXPECT_EQ(selected({.where = {.inputs = {"z"}}}), "d");
  EXPECT_EQ(selected({.where = {.outputs = {"c"}}}), "c");
  EXPECT_EQ(selected({.where = {.modules = {"stem"}, .operators = {"tanh"}}}), "");  // all lists
  EXPECT_EQ(selected({.where = {.operators = {"relu"}}, .except = {.names = {"a"}}}), "c");
}

TEST(Recipe, OptionsAreThoseOfTheFile) {
  const auto spec = [](std::string_view text) {
    const auto read = parse_recipe(text, "test.json", *find_target("imxrt700cm"));
    EXPECT_TRUE(read) << (read ? "" : to_text(read.error()));
    return read.value_or(RecipeSpec{});
  };
  for (const bool packed : {true, false})
    EXPECT_EQ(spec(std::string(R"({"backends": [{"name": "neutron", "row_packing": )") +
                   (packed ? "true" : "false") + R"(}, "portable"]})")
                  .options.row_packing,
              packed);
  EXPECT_FALSE(spec(R"({"backends": ["neutron", "portable"]})").options.row_packing);
  EXPECT_FALSE(spec(R"({"backends": ["portable"]})").options.constants);
  EXPECT_EQ(spec(R"({"backends": ["portable"], "constants": "sram"})").options.constants,
            ConstantMemory::kSram);
  EXPECT_EQ(spec(R"({"backends": ["portable"], "constants": "flash"})").options.constants,
            ConstantMemory::kFlash);
}

// Each key of a constraint is its own list, of what is selected and of its exceptions.
TEST(Recipe, SelectorsAreThoseOfTheFile) {
  const auto spec = parse_recipe(R"({"backends": ["neutron", "portable"], "constraints": [
      {"name": "n", "module": ["m", "m2"], "module_type": "t", "operator": "o", "input": "i",
       "output": "p", "keep_off": "neutron",
       "except": {"name": "N", "module": "M", "module_type": "T", "operator": "O",
                  "input": ["I", "I2"], "output": "P"}}]})",
                                 "test.json", *find_target("imxrt700"));
  ASSERT_TRUE(spec) << to_text(spec.error());
  ASSERT_EQ(spec->constraints.size(), 1U);
  const auto lists = [](const Selector& selector) {
    return std::vector{selector.names,     selector.modules, selector.module_types,
                       selector.operators, selector.inputs,  selector.outputs};
  };
  using Lists = std::vector<std::vector<std::string>>;
  EXPECT_EQ(lists(spec->constraints[0].where),
            (Lists{{"n"}, {"m", "m2"}, {"t"}, {"o"}, {"i"}, {"p"}}));
  EXPECT_EQ(lists(spec->constraints[0].except),
            (Lists{{"N"}, {"M"}, {"T"}, {"O"}, {"I", "I2"}, {"P"}}));
  EXPECT_EQ(spec->constraints[0].keep_off, std::vector<std::string>{"neutron"});
}

TEST(Recipe, ContradictionsAreRefused) {
  const auto reason = [](const std::string& text) {
    const auto spec = parse_recipe(text, "test.json", *find_target("imxrt700cm"));
    if (!spec) {
      EXPECT_EQ(spec.error().id, DiagnosticId::kRecipeInvalid);
      EXPECT_FALSE(spec.error().fix.empty());
    }
    return spec ? "read" : spec.error().reason;
  };
  EXPECT_EQ(reason(R"({"backends": ["neutron", "neutron", "portable"]})"),
            "`neutron` occurs twice in the recipe");
  EXPECT_EQ(reason(R"({"backends": ["neutron", {"name": "neutron"}, "portable"]})"),
            "`neutron` occurs twice in the recipe");
  const auto with_constraint = [&](const std::string& constraint) {
    return reason(R"({"backends": ["neutron", "cortex_m", "portable"], "constraints": [)" +
                  constraint + "]}");
  };
  EXPECT_EQ(with_constraint(R"({"on": "neutron"})"), "read");
  EXPECT_EQ(with_constraint(R"({"keep_off": "cortex_m"})"), "read");
  const std::string either = "a constraint needs either `keep_off` or `on`";
  EXPECT_EQ(with_constraint(R"({"on": "neutron", "keep_off": "cortex_m"})"), either);
  EXPECT_EQ(with_constraint(R"({"name": "a"})"), either);
}

// Who is named with `on` shares what is selected with the last backend alone.
TEST(Recipe, OnKeepsOffAllOthersButTheLast) {
  const auto spec = parse_recipe(R"({"backends": ["neutron", "cortex_m", "portable"],
                       "constraints": [{"name": "a", "on": "cortex_m"}, {"name": "b", "on": "portable"}]})",
                                 "test.json", *find_target("imxrt700cm"));
  ASSERT_TRUE(spec) << to_text(spec.error());
  ASSERT_EQ(spec->constraints.size(), 2U);
  EXPECT_EQ(spec->constraints[0].keep_off, std::vector<std::string>{"neutron"});
  EXPECT_EQ(spec->constraints[1].keep_off, (std::vector<std::string>{"neutron", "cortex_m"}));
}

// An operator that is forced on by operator and kept off by node is kept off; one name cannot do
// both.
TEST(Recipe, KeepingOffWins) {
  const auto program = parse_module(kModel, "test.ir");
  ASSERT_TRUE(program);
  EXPECT_EQ(resolve_overrides(*program, {"b"}, {"relu", "b"}).error().id,
            DiagnosticId::kNodeUnknown);
  const auto overrides = resolve_overrides(*program, {"b"}, {"relu"});
  ASSERT_TRUE(overrides) << to_text(overrides.error());
  const Graph& graph = program->forward();
  for (const OpId op : graph.ops()) {
    const std::string& name = graph.value(graph.op(op).results[0]).name;
    EXPECT_EQ((*overrides)[op.index], name == "b"                  ? PlacementOverride::kKeepOff
                                      : name == "a" || name == "c" ? PlacementOverride::kForceOn
                                                                   : PlacementOverride::kNone)
        << name;
  }
}

}  // namespace
}  // namespace dtr
