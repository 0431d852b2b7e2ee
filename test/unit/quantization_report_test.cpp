// The report on quantization, against figures by hand.
#include "host/accuracy/quantization_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/pipeline/compile.h"
#include "test/unit/parse.h"

namespace dtr {
namespace {

using test::parse;

std::vector<NamedTensor> array(Shape shape, const std::vector<float>& values) {
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kFloat32, std::move(shape))});
  std::ranges::copy(values, arrays[0].tensor.values<float>().begin());
  return arrays;
}

double decibels(double signal, double noise) { return 10 * std::log10(signal / noise); }

// The codes of q are 0.5 apart; those of r end at 2.55.
TEST(QuantizationReport, TellsWhatEachOperatorAdds) {
  const Module module = parse(R"(sources {
  0: "relu" "aten.relu.default" "head" "model.py:7"
}
graph @forward(%x: f32[4]) {
  %q: i8[4] quant<0.5> = quantize(%x) loc(0)
  %r: i8[4] quant<0.01:-128> = aten.relu(%q) loc(0)
  %y: f32[4] = dequantize(%r) loc(0)
  return %y
}
)");
  const Graph& graph = module.forward();
  const std::vector<NamedTensor> arrays = array({1, 4}, {1.2F, -3, 2, 5});
  const auto samples = Samples::bind(graph, arrays, "x.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto report = report_quantization(module, float_counterpart(graph), graph, *samples);
  ASSERT_TRUE(report) << to_text(report.error());

  ASSERT_EQ(report->tensors.size(), 2U);
  const TensorRow& q = report->tensors[0];
  EXPECT_EQ(q.name, "q");
  EXPECT_EQ(q.range, (Range{-3, 5}));
  EXPECT_EQ(q.scale, 0.5F);
  EXPECT_EQ(q.saturated, 0);
  EXPECT_NEAR(q.sqnr_db, decibels(39.44, 0.04), 1e-3);
  const TensorRow& r = report->tensors[1];
  EXPECT_EQ(r.range, (Range{0, 5}));
  EXPECT_EQ(r.zero_point, -128);
  EXPECT_EQ(r.saturated, 0.25);
  EXPECT_NEAR(r.sqnr_db, decibels(30.44, 0.04 + 2.45 * 2.45), 1e-3);

  ASSERT_EQ(report->operators.size(), 2U);
  EXPECT_EQ(report->operators[0].op, "aten.relu");  // the worst first
  EXPECT_EQ(report->operators[0].source_line, "model.py:7");
  EXPECT_NEAR(report->operators[0].adds_db, decibels(30, 2.45 * 2.45), 1e-3);
  EXPECT_EQ(report->operators[1].op, "quantize");
  EXPECT_NEAR(report->operators[1].adds_db, decibels(39.44, 0.04), 1e-3);
  EXPECT_EQ(report->first_bad, "r");

  const std::string text = to_text(*report);
  EXPECT_NE(text.find("first bad operator: relu (aten.relu) in head, model.py:7: 7.0 dB, of which "
                      "it adds 7.0 dB\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("   25.000 %      7.0\n"), std::string::npos) << text;
  const std::string json = to_json(*report);
  EXPECT_NE(
      json.find(
          R"({"name": "r", "min": 0, "max": 5, "scale": 0.00999999978, "zero_point": -128, "saturated": 0.25, )"
          R"("sqnr_db": 7.022, "selected": false}])"),
      std::string::npos)
      << json;
}

// Weights and biases of integers are what they are worth; a model that is exact in integers has no
// error anywhere.
TEST(QuantizationReport, DequantizesConstants) {
  const Module module = parse(R"(graph @forward(%x: i8[1,4] quant<0.5:1>) {
  %w: i8[2,4] quant<axis=0, range=-127..127, 0.5, 0.25> = constant dense<1, -2, 3, 4, 5, 6, -7, 8>
  %b: i32[2] quant<bias> = constant dense<5, -6>
  %l: i8[1,2] quant<0.125> = aten.linear(%x, %w, %b)
  %s: f32[1,2] = dequantize(%l)
  %e: f32[1,2] = aten.erf(%s)
  return %e
}
)");
  const Graph& graph = module.forward();
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kInt8, {1, 4})});
  std::ranges::copy(std::vector<int8_t>{3, -2, 1, 0}, arrays[0].tensor.values<int8_t>().begin());
  const auto samples = Samples::bind(graph, arrays, "x.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto report = report_quantization(module, float_counterpart(graph), graph, *samples);
  ASSERT_TRUE(report) << to_text(report.error());
  ASSERT_EQ(report->tensors.size(), 2U);
  for (const TensorRow& row : report->tensors) EXPECT_EQ(row.sqnr_db, 99) << row.name;
  EXPECT_EQ(report->tensors[0].range, (Range{-1.5, 1}));
  ASSERT_EQ(report->operators.size(), 1U);
  EXPECT_EQ(report->operators[0].adds_db, 99);
  EXPECT_EQ(report->float_ops.size(), 1U);
  EXPECT_NE(to_text(*report).find("every tensor has 10 dB or more\n"), std::string::npos);
}

// Half of x saturates, and the clamp selects none of that.
TEST(QuantizationReport, CountsNothingThatNobodySelects) {
  Module module = parse(R"(graph @forward(%x: f32[64]) {
  %y: f32[64] = aten.clamp(%x) {max = 0.5, min = -0.25}
  return %y
}
)");
  std::vector<float> ramp;
  for (int i = 0; i < 64; ++i) ramp.push_back(static_cast<float>(i) / 8 - 4);
  const std::vector<NamedTensor> arrays = array({1, 64}, ramp);
  const auto samples = Samples::bind(module.forward(), arrays, "x.npz");
  ASSERT_TRUE(samples) << to_text(samples.error());
  const auto quantized =
      quantize_model(std::move(module), {.target = find_target("imxrt700"), .samples = &*samples});
  ASSERT_TRUE(quantized) << to_text(quantized.error());
  const auto report = report_quantization(*quantized);
  ASSERT_TRUE(report) << to_text(report.error());
  ASSERT_EQ(report->tensors.size(), 2U);
  EXPECT_TRUE(report->tensors[0].selected);
  EXPECT_GT(report->tensors[0].saturated, 0.8);
  EXPECT_GT(report->tensors[0].sqnr_db, 50);
  EXPECT_FALSE(report->tensors[1].selected);
  EXPECT_EQ(report->tensors[1].saturated, 0);
  EXPECT_GT(report->tensors[1].sqnr_db, 50);
  EXPECT_NE(to_text(*report).find("  selected\n"), std::string::npos);
}

// JSON has no infinity: an infinite result, or one that nothing is known of.
TEST(QuantizationReport, WritesNullForWhatIsNotFinite) {
  QuantizationReport report;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  report.tensors.push_back({.name = "y",
                            .range = {-kInfinity, 2},
                            .scale = 0.5F,
                            .sqnr_db = std::numeric_limits<double>::quiet_NaN()});
  report.operators.push_back({.name = "log",
                              .op = "aten.log",
                              .tensor = "y",
                              .adds_db = -std::numeric_limits<double>::infinity(),
                              .sqnr_db = 3});
  const std::string json = to_json(report);
  EXPECT_NE(
      json.find(
          R"({"name": "y", "min": null, "max": 2, "scale": 0.5, "zero_point": 0, "saturated": 0, "sqnr_db": null,)"),
      std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("adds_db": null, "sqnr_db": 3.000,)"), std::string::npos) << json;
}

}  // namespace
}  // namespace dtr
