// What int8 cannot carry to a logarithm, a root or a divisor stays float.
#include "compiler/quantizer/steep_functions.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"
#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

struct Found {
  std::string names;  // of the values whose ops stay float, one behind the other
  CalibrationResult calibration;
};

// `%x` rises evenly from `low` to `high`.
Found find(std::string_view body, float low, float high) {
  const Module module = test::parse(fmt::format("graph @forward(%x: f32[1,4,64]) {{{}}}\n", body));
  const Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(make_int8_patterns(
      {.backend = "cortex_m", .machine = "the Cortex-M", .divides_tensors = true}));
  const Annotation first = annotate(graph, patterns);
  const std::vector<NamedTensor> arrays = test::ramp("x", {1, 4, 64}, low, high);
  auto calibration = test::calibrate_reference(module, first, arrays);
  const auto samples = Samples::bind(graph, arrays, "cal.npz");
  if (!calibration || !samples) return {.names = "no samples"};
  const auto make_executor = [&]() -> Result<std::unique_ptr<Executor>> {
    return make_reference_executor(module, graph);
  };
  if (!find_steep_functions(module, graph, first, make_executor, *samples, *calibration))
    return {.names = "an error"};
  const Annotation second =
      annotate(graph, patterns, {.steep = steep_functions_of(graph, first, *calibration)});
  Found found{.calibration = std::move(*calibration)};
  for (const OpId id : graph.ops())
    if (second.reasons[id.index].id == "quantizer-steep")
      found.names += graph.value(graph.op(id).results[0]).name + " ";
  return found;
}

// x² of a ramp from .001 to 1 has six decades. A twentieth of the elements, x below 1/22, has the
// code of zero or one: their logarithms, −6 to −14, cannot be told from each other.
constexpr std::string_view kLogarithm = R"(
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %l: f32[1,4,64] = aten.log(%p)
  %w: f32[8,64] = constant splat<0.125>
  %y: f32[1,4,8] = aten.linear(%l, %w)
  return %y
)";

TEST(SteepFunctions, KeepWhatMakesTheirOperandFloat) {
  EXPECT_EQ(find(kLogarithm, 0.001F, 1).names, "p l ");
}

TEST(SteepFunctions, ThatCodesAreEnoughForAreInt8) {
  // Down to x² = .04, ten steps of 1/255.
  EXPECT_EQ(find(kLogarithm, 0.2F, 1).names, "");
  // log(1 + x²) of up to 1 is nearly straight.
  EXPECT_EQ(find(R"(
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %c: f32[1] = constant dense<1.0>
  %a: f32[1,4,64] = aten.add.Tensor(%p, %c)
  %l: f32[1,4,64] = aten.log(%a)
  return %l
)",
                 0.001F, 1)
                .names,
            "");
}

// The codes of 100 x² are .39 apart, which leaves 19 dB of its sine; those of 10 x² leave 39.
TEST(SteepFunctions, OfManyPeriodsAreFloat) {
  constexpr std::string_view kSine = R"(
  %f: f32[1] = constant dense<{}>
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %t: f32[1,4,64] = aten.mul.Tensor(%p, %f)
  %s: f32[1,4,64] = aten.sin(%t)
  return %s
)";
  EXPECT_EQ(find(fmt::format(kSine, "100.0"), 0, 1).names, "p t s ");
  EXPECT_EQ(find(fmt::format(kSine, "10.0"), 0, 1).names, "");
}

// A value that one function made float is judged in the codes that another reads it in.
TEST(SteepFunctions, OfOneOperandAreFloatTogether) {
  EXPECT_EQ(find(R"(
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %f: f32[1] = constant dense<200.0>
  %t: f32[1,4,64] = aten.mul.Tensor(%p, %f)
  %s: f32[1,4,64] = aten.sin(%t)
  %c: f32[1,4,64] = aten.cos(%t)
  %y: f32[1,8,64] = aten.cat(%s, %c) {dim = 1}
  %w: f32[8,64] = constant splat<0.125>
  %z: f32[1,8,8] = aten.linear(%y, %w)
  return %z
)",
                 0, 1)
                .names,
            "p t s c ");
}

// x · log x is near zero where log x is wrong.
TEST(SteepFunctions, AreJudgedByWhatIsComputedFromThem) {
  EXPECT_EQ(find(R"(
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %l: f32[1,4,64] = aten.log(%p)
  %e: f32[1,4,64] = aten.mul.Tensor(%p, %l)
  return %e
)",
                 0.001F, 1)
                .names,
            "");
}

// The layer keeps its rows, and is all of the graph's multiplications. Its results are the elements
// of %x: the layer joins where nothing but the logarithm reads them.
constexpr std::string_view kReadLayer = R"(
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %q: f32[1,4,64] = aten.mul.Tensor(%p, %p)
  %t: f32[1,64,4] = aten.permute(%q) {{dims = [0, 2, 1]}}
  %w: f32[4,4] = constant dense<1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1>
  %k: f32[1,64,4] = aten.linear(%t, %w)
  %l: f32[1,64,4] = aten.log(%k)
  {}
)";

TEST(SteepFunctions, KeepTheLayerFloatThatNothingElseReads) {
  EXPECT_EQ(find(fmt::format(kReadLayer, "return %l"), 0.001F, 1).names, "p q t k l ");
}

TEST(SteepFunctions, LeaveALayerInt8ThatSomethingElseReads) {
  EXPECT_EQ(find(fmt::format(kReadLayer, R"(%s: f32[1,64,4] = aten.sigmoid(%k)
  return %l, %s)"),
                 0.001F, 1)
                .names,
            "");
}

// A layer that is less than an eighth of the multiplications joins whoever reads it.
TEST(SteepFunctions, KeepASmallLayerFloat) {
  EXPECT_EQ(find(fmt::format(kReadLayer, R"(%s: f32[1,64,4] = aten.sigmoid(%k)
  %v: f32[64,64] = constant splat<0.125>
  %y: f32[1,4,64] = aten.linear(%x, %v)
  return %l, %s, %y)"),
                 0.001F, 1)
                .names,
            "p q t k l ");
}

// A power whose exponent is a tensor has no pattern, so that it is float: what it reads counts.
TEST(SteepFunctions, ThatAreFloatThemselvesKeepTheirOperandFloat) {
  EXPECT_EQ(find(R"(
  %p: f32[1,4,64] = aten.mul.Tensor(%x, %x)
  %q: f32[1,4,64] = aten.mul.Tensor(%p, %p)
  %e: f32[64] = constant splat<0.05>
  %y: f32[1,4,64] = aten.pow.Tensor_Tensor(%q, %e)
  return %y
)",
                 0.001F, 1)
                .names,
            "p q ");
}

TEST(SteepFunctions, SayHowMuchWasLeft) {
  const Found found = find(kLogarithm, 0.001F, 1);
  ASSERT_TRUE(found.calibration.steep.contains("l"));
  EXPECT_LT(found.calibration.steep.at("l"), 20);
  const auto again = parse_calibration(to_json(found.calibration), "saved.json");
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, found.calibration);
}

}  // namespace
}  // namespace dtr
