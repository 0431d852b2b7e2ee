// The compare at the end of a compilation: it accepts what was compiled and refuses anything else.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/check.h"
#include "compiler/compare.h"
#include "ir/parser.h"
#include "ir/printer.h"

namespace dtr {
namespace {

// A quantized convolution and softmax; `seed` makes the weights.
Program model(int seed) {
  const std::string text = R"(graph @forward(%x: f32[1,3,7,6]) {
  %q: i8[1,3,7,6] quant<0.02:-3> = quantize(%x)
  %w: i8[10,3,3,3] quant<range=-127..127, 0.01> = constant seeded<)" +
                           std::to_string(seed) + R"(>
  %a: i8[1,10,7,6] quant<0.05:4> = aten.convolution(%q, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  %y: f32[1,10,7,6] = dequantize(%a)
  return %y
})";
  return *parse_program(text, "model.ir");
}

TEST(Check, RefusesAProgramThatComputesSomethingElse) {
  const CompileSettings settings{.target = find_target("imxrt700")};
  Program program = model(1);
  const Graph original = program.forward();
  Result<CompiledProgram> compiled = compile_program(program, settings);
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  EXPECT_TRUE(check_program(program, original, original, nullptr, *compiled));
  EXPECT_TRUE(compiled->report.checked);
  EXPECT_EQ(compiled->report.npu_calls, 1U);

  Program other = model(2);
  const Graph other_graph = other.forward();
  const Status status = check_program(other, other_graph, other_graph, nullptr, *compiled);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().id, DiagnosticId::kCheckFailed);
  EXPECT_NE(status.error().reason.find("output 0 differs from the quantized graph at element"), std::string::npos);
}

// SQNR of one expected element against one actual.
double decibels(float expected, float actual) {
  Tensor e(DType::kFloat32, {1}), a(DType::kFloat32, {1});
  e.values<float>()[0] = expected;
  a.values<float>()[0] = actual;
  Comparison comparison;
  comparison.add(e.view(), a.view());
  return comparison.decibels();
}

TEST(Comparison, NoElementThatIsNotFiniteIsLeftOut) {
  EXPECT_EQ(decibels(NAN, NAN), 99);
  EXPECT_EQ(decibels(INFINITY, INFINITY), 99);
  EXPECT_EQ(decibels(NAN, 0), -99);
  EXPECT_EQ(decibels(0, NAN), -99);
  EXPECT_EQ(decibels(INFINITY, 1), -99);
  EXPECT_EQ(decibels(INFINITY, -INFINITY), -99);
  EXPECT_NEAR(decibels(10, 9), 20, 1e-6);
}

}  // namespace
}  // namespace dtr
