// Divisions whose divisors are too small for the codes of int8 stay float, with what makes them.
#include "compiler/quantizer/small_divisors.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"
#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

// The names of the values whose ops a second annotation keeps float for a small divisor, one behind
// the other. `%x` rises evenly from `low` to `high`.
std::string kept_float(std::string_view body, float low, float high, bool divides_tensors = true) {
  const Module module = test::parse(fmt::format("graph @forward(%x: f32[1,4,64]) {{{}}}\n", body));
  const Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(make_int8_patterns(
      {.backend = "cortex_m", .machine = "the Cortex-M", .divides_tensors = divides_tensors}));
  const Annotation first = annotate(graph, patterns);
  const auto calibration =
      test::calibrate_reference(module, first, test::ramp("x", {1, 4, 64}, low, high));
  if (!calibration) return to_text(calibration.error());
  const Annotation second = annotate(
      graph, patterns, {.small_divisors = find_small_divisors(graph, first, *calibration)});
  std::string names;
  for (const OpId id : graph.ops())
    if (second.reasons[id.index].id == "quantizer-small-divisor")
      names += graph.value(graph.op(id).results[0]).name + " ";
  return names;
}

// The rows of %k are eight times the mean of those of %x: 1, 3, 5 and 7 for a ramp from 0 to 1, in
// which %p has 64 times their products, the greatest 49 times the least. From 0.2 to 1 they are 2.4
// to 7.2: 9 times.
constexpr std::string_view kAttention = R"(
  %w: f32[64,64] = constant splat<0.125>
  %k: f32[1,4,64] = aten.linear(%x, %w)
  %t: f32[1,64,4] = aten.permute(%k) {dims = [0, 2, 1]}
  %p: f32[1,4,4] = aten.matmul(%k, %t)
  %n: f32[1,4,4] = aten.neg(%p)
  %e: f32[1] = constant dense<0.001>
  %d: f32[1,4,4] = aten.add.Tensor(%p, %e)
  %q: f32[1,4,4] = aten.div.Tensor(%n, %d)
  %y: f32[1,4,4] = aten.relu(%q)
  return %y
)";

TEST(SmallDivisors, KeepTheDivisionBackToTheProductFloat) {
  EXPECT_EQ(kept_float(kAttention, 0, 1), "p n d q ");
  // Where the division is float anyway:
  EXPECT_EQ(kept_float(kAttention, 0, 1, false), "p n d ");
}

TEST(SmallDivisors, ThatAreNotSmallAreDividedByInInt8) {
  EXPECT_EQ(kept_float(kAttention, 0.2F, 1), "");
}

// A divisor that no product makes: below 1/510 of the greatest its code is zero's.
TEST(SmallDivisors, ThatWouldBecomeZeroKeepTheDivisionFloat) {
  constexpr std::string_view kQuotient = R"(
  %c: f32[1] = constant dense<1.0>
  %n: f32[1,4,64] = aten.sub.Tensor(%c, %x)
  %d: f32[1,4,64] = aten.relu(%x)
  %q: f32[1,4,64] = aten.div.Tensor(%n, %d)
  return %q
)";
  EXPECT_EQ(kept_float(kQuotient, 0.0019F, 1), "n d q ");
  EXPECT_EQ(kept_float(kQuotient, 0.002F, 1), "");
  EXPECT_EQ(kept_float(kQuotient, -1, 1), "");
  // Divisors below zero.
  constexpr std::string_view kNegative = R"(
  %c: f32[1] = constant dense<1.0>
  %n: f32[1,4,64] = aten.sub.Tensor(%c, %x)
  %d: f32[1,4,64] = aten.neg(%x)
  %q: f32[1,4,64] = aten.div.Tensor(%n, %d)
  return %q
)";
  EXPECT_EQ(kept_float(kNegative, 0.0019F, 1), "n d q ");
  EXPECT_EQ(kept_float(kNegative, 0.002F, 1), "");
  // x / x: where the divisor is small the dividend is.
  EXPECT_EQ(kept_float(R"(
  %n: f32[1,4,64] = aten.neg(%x)
  %d: f32[1,4,64] = aten.relu(%x)
  %q: f32[1,4,64] = aten.div.Tensor(%n, %d)
  return %q
)",
                       0.0019F, 1),
            "");
}

// The operand of the product is a product, behind a permute, of what layers make.
TEST(SmallDivisors, KeepTheProductsOfTheProductFloat) {
  EXPECT_EQ(kept_float(R"(
  %w: f32[64,64] = constant splat<0.125>
  %k: f32[1,4,64] = aten.linear(%x, %w)
  %t: f32[1,64,4] = aten.permute(%k) {dims = [0, 2, 1]}
  %s: f32[1,4,4] = aten.matmul(%k, %t)
  %u: f32[1,4,4] = aten.permute(%s) {dims = [0, 2, 1]}
  %p: f32[1,4,4] = aten.matmul(%s, %u)
  %q: f32[1,4,4] = aten.div.Tensor(%s, %p)
  return %q
)",
                       0, 1),
            "s u p q ");
}

// Where the means of the first and last row are 5.66 to 1, their squares are 32 to 1: for a ramp
// from 0.0368.
TEST(SmallDivisors, AreBelowAThirtySecondOfTheGreatest) {
  EXPECT_EQ(kept_float(kAttention, 0.036F, 1), "p n d q ");
  EXPECT_EQ(kept_float(kAttention, 0.038F, 1), "");
}

TEST(SmallDivisors, OfBothSignsAreSmall) { EXPECT_EQ(kept_float(kAttention, -1, 2), "p n d q "); }

// What divides is not made by a product: |x| + e is small where x is.
TEST(SmallDivisors, LeaveElementwiseFunctionsInt8) {
  EXPECT_EQ(kept_float(R"(
  %a: f32[1,4,64] = aten.abs(%x)
  %e: f32[1] = constant dense<0.01>
  %d: f32[1,4,64] = aten.add.Tensor(%a, %e)
  %q: f32[1,4,64] = aten.div.Tensor(%x, %d)
  return %q
)",
                       0, 1),
            "");
}

// Weights make the divisor: its result in float costs what the layer costs.
TEST(SmallDivisors, LeaveLayersInt8) {
  EXPECT_EQ(kept_float(R"(
  %w: f32[64,64] = constant splat<0.125>
  %k: f32[1,4,64] = aten.linear(%x, %w)
  %a: f32[1,4,64] = aten.neg(%k)
  %q: f32[1,4,64] = aten.div.Tensor(%x, %a)
  return %q
)",
                       -1, 1),
            "");
}

// The product is all of the graph's multiplications.
TEST(SmallDivisors, LeaveLargeProductsInt8) {
  EXPECT_EQ(kept_float(R"(
  %t: f32[1,64,4] = aten.permute(%x) {dims = [0, 2, 1]}
  %p: f32[1,4,4] = aten.matmul(%x, %t)
  %n: f32[1,4,4] = aten.neg(%p)
  %q: f32[1,4,4] = aten.div.Tensor(%n, %p)
  return %q
)",
                       0, 1),
            "");
}

}  // namespace
}  // namespace dtr
