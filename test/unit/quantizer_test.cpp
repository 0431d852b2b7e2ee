// Annotation and conversion to int8.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "compiler/ir/printer.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "compiler/quantizer/convert.h"
#include "compiler/quantizer/unlike_ranges.h"
#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

using test::calibrate_reference;
using test::kSmall;
using test::neutron_patterns;
using test::parse;
using test::ramp;

// The NPU's patterns with plain ranges, whose numbers follow by hand.
class MinMaxPatterns final : public QuantizationPatterns {
 public:
  std::string_view name() const override { return "test"; }
  tl::expected<OpAnnotation, FloatReason> annotate(const Graph& graph, OpId op) const override {
    auto specs = neutron_->annotate(graph, op);
    if (!specs) return specs;
    for (std::vector<QuantSpec>* list : {&specs->operands, &specs->results})
      for (QuantSpec& spec : *list) spec.observer = QuantSpec::Observer::kMinMax;
    return specs;
  }

 private:
  std::unique_ptr<QuantizationPatterns> neutron_ =
      make_int8_patterns({.backend = "neutron", .machine = "the NPU"});
};

TEST(Annotate, SharesQuantizationAlongPoolsAndWithReaders) {
  const Module module = parse(kSmall);
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto group = [&](std::string_view name) {
    for (uint32_t i = 0; i < graph.value_slots(); ++i)
      if (graph.value({i}).name == name) return annotation.group_of_value[i];
    return -2;
  };
  EXPECT_EQ(group("c"), group("p"));
  EXPECT_NE(group("x"), group("c"));
  EXPECT_NE(group("s"), group("p"));
  EXPECT_EQ(group("w"), Annotation::kNoGroup);
  const QuantizationGroup& shared = annotation.groups[static_cast<size_t>(group("p"))];
  ASSERT_EQ(shared.observed.size(), 1U);
  EXPECT_EQ(graph.value(shared.observed[0]).name,
            "p");  // of the convolution's result, what the pool selects
  EXPECT_EQ(annotation.groups[static_cast<size_t>(group("y"))].spec,
            QuantSpec::fixed(1.0F / 256, -128));
}

// Names of what decides the range in which `name` is read or made.
std::vector<std::string> observed(const Graph& graph, const Annotation& annotation,
                                  std::string_view name) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < graph.value_slots(); ++i)
    if (graph.value({i}).name == name)
      for (const ValueId value :
           annotation.groups[static_cast<size_t>(annotation.group_of_value[i])].observed)
        names.push_back(graph.value(value).name);
  return names;
}

TEST(Annotate, RangesComeFromWhatIsSelected) {
  const Module module = parse(
      R"(graph @forward(%x: f32[2,3], %y: f32[2,3], %z: f32[2,3], %u: f32[2,3], %v: f32[2,3], %w: f32[2,3]) {
  %moved: f32[3,2] = aten.permute(%x) {dims = [1, 0]}
  %top: f32[3] = aten.amax(%moved) {dim = [1], keepdim = false}
  %part: f32[2,1] = aten.slice.Tensor(%x) {dim = 1, end = 2, start = 1, step = 1}
  %limited: f32[2,3] = aten.clamp(%y) {max = 0.5, min = -0.25}
  %twice: f32[2,3] = aten.clamp(%limited) {max = 0.25, min = -0.25}
  %positive: f32[2,3] = aten.relu(%z)
  %all: f32[2,3] = aten.sin(%z)
  %above: f32[2,3] = aten.relu(%w)
  %curved: f32[2,3] = aten.hardswish(%w)
  %larger: f32[2,3] = aten.maximum(%u, %v)
  return %top, %part, %twice, %positive, %all, %larger, %u, %above, %curved
}
)");
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  using Names = std::vector<std::string>;
  EXPECT_EQ(observed(graph, annotation, "x"), (Names{"top", "part"}));
  EXPECT_EQ(observed(graph, annotation, "y"), Names{"twice"});
  EXPECT_EQ(observed(graph, annotation, "z"), (Names{"z"}));  // sin reads all of it
  EXPECT_EQ(observed(graph, annotation, "w"),
            (Names{"w", "above"}));  // of w itself what hardswish tells apart
  EXPECT_EQ(observed(graph, annotation, "u"),
            (Names{"u", "larger"}));  // u is an output; of v only what is larger counts
}

// What a minimum below the range cannot reach saturates, and the steps are as fine as the result
// needs.
TEST(Convert, ReadersThatSelectMakeFinerSteps) {
  Module module = parse(R"(graph @forward(%x: f32[1,64]) {
  %y: f32[1,64] = aten.clamp(%x) {max = 0.5, min = -0.25}
  return %y
}
)");
  Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(std::make_unique<MinMaxPatterns>());
  const Annotation annotation = annotate(graph, patterns);
  const auto calibration = calibrate_reference(module, annotation, ramp("x", {1, 1, 64}, -8, 8));
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  ASSERT_TRUE(convert(module, graph, annotation, *calibration));
  const ValueId x = graph.op(graph.first_op()).results[0];
  EXPECT_EQ(graph.type(x).quantization->scale(), 0.75F / 255);
}

// The quantization of `op` of the elements from −x to x.
Quantization of_function(std::string_view op, float x, bool fixed_tables) {
  Module module = parse("graph @forward(%x: f32[1,64]) {\n  %y: f32[1,64] = aten." +
                        std::string(op) + "(%x)\n  return %y\n}\n");
  Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(make_int8_patterns(
      {.backend = "neutron", .machine = "the NPU", .fixed_tables = fixed_tables}));
  const Annotation annotation = annotate(graph, patterns);
  const auto calibration = calibrate_reference(module, annotation, ramp("x", {1, 1, 64}, -x, x));
  EXPECT_TRUE(calibration) << (calibration ? "" : to_text(calibration.error()));
  EXPECT_TRUE(convert(module, graph, annotation, *calibration));
  return *graph.type(graph.op(graph.op(graph.first_op()).next).results[0]).quantization;
}

// tanh(x / 50) of a limit of scores is small; in steps of 1/128 it would be zero.
TEST(Convert, TanhAndSigmoidOfSmallRangesHaveAllCodes) {
  const Quantization small = of_function("tanh", 0.01F, false);
  EXPECT_NEAR(small.scale(), 0.02F / 255, 2e-6);
  const Quantization nearly = of_function("tanh", 0.6F, false);  // 1.07 / 255 is more than 1/256
  EXPECT_EQ(nearly.scale(), 1.0F / 128);
  EXPECT_EQ(nearly.zero_point(), 0);
  EXPECT_EQ(of_function("tanh", 0.01F, true).scale(), 1.0F / 128);
  EXPECT_EQ(of_function("sigmoid", 0.01F, false).scale(), 1.0F / 256);  // around 1/2
  EXPECT_EQ(of_function("tanh", 0, false).scale(), 1.0F / 128);         // nothing is known
}

TEST(Convert, SmallActivationsHaveAllCodes) {
  Module module = parse(R"(graph @forward(%x: f32[1,64]) {
  %y: f32[1,64] = aten.hardswish(%x)
  return %y
}
)");
  Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(std::make_unique<MinMaxPatterns>());
  const Annotation annotation = annotate(graph, patterns);
  const auto calibration =
      calibrate_reference(module, annotation, ramp("x", {1, 1, 64}, -0.001F, 0.001F));
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  ASSERT_TRUE(convert(module, graph, annotation, *calibration));
  EXPECT_EQ(graph.type(graph.op(graph.first_op()).results[0]).quantization->scale(), 0.002F / 255);
}

TEST(Convert, GivesTheNumbersOfHand) {
  Module module = parse(kSmall);
  Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(std::make_unique<MinMaxPatterns>());
  const Annotation annotation = annotate(graph, patterns);
  const auto calibration = calibrate_reference(module, annotation, ramp("x", {1, 2, 4, 4}, -1, 2));
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  const auto report = convert(module, graph, annotation, *calibration);
  ASSERT_TRUE(report) << to_text(report.error());
  EXPECT_EQ(report->quantized_ops, 4U);
  EXPECT_TRUE(report->float_ops.empty());
  ASSERT_TRUE(verify(module)) << to_text(verify(module).error());

  std::vector<std::string> names;
  for (const OpId op : graph.ops()) names.emplace_back(graph.op(op).def->name);
  EXPECT_EQ(names, (std::vector<std::string>{"quantize", "aten.convolution", "aten.max_pool2d",
                                             "aten.add.Tensor", "aten.softmax", "dequantize"}));
  const Op& convolution = graph.op(graph.op(graph.first_op()).next);
  const Quantization& x = *graph.type(convolution.operands[0]).quantization;
  EXPECT_EQ(x.scale(), 3.0F / 255);
  EXPECT_EQ(x.zero_point(), -43);  // -128 + 85
  const Quantization& w = *graph.type(convolution.operands[1]).quantization;
  // The greater weight of each channel is twice the other: an even code.
  const auto weights =
      module.constants.values<int8_t>(graph.value(convolution.operands[1]).constant);
  const int8_t greater = weights[0], half = static_cast<int8_t>(greater / 2);
  EXPECT_GE(greater, 120);
  EXPECT_EQ(std::vector<int8_t>(weights.begin(), weights.end()),
            (std::vector<int8_t>{greater, static_cast<int8_t>(-half), greater, half}));
  EXPECT_EQ(half * 2, greater);
  EXPECT_FLOAT_EQ(w.scales[0], 1.0F / greater);
  EXPECT_FLOAT_EQ(w.scales[1], 0.25F / greater);
  const auto bias = module.constants.values<int32_t>(graph.value(convolution.operands[2]).constant);
  EXPECT_EQ(bias[0], greater * 85 / 2);  // 0.5 / (3/255 · 1/greater)
  EXPECT_EQ(bias[1], -greater * 85);     // -0.25 / (3/255 · 0.25/greater)
  EXPECT_EQ(graph.type(convolution.operands[2]).quantization->scales[1], x.scale() * w.scales[1]);
  EXPECT_EQ(graph.type(convolution.results[0]).quantization->zero_point(), -128);  // after the ReLU
  // quantize serves the convolution, dequantize the softmax.
  EXPECT_EQ(graph.op(graph.first_op()).origin.sources, std::vector<uint32_t>{0});
  EXPECT_EQ(graph.op(graph.last_op()).origin.sources, std::vector<uint32_t>{3});
}

// 64 stands for 63.5 in half of the 80 weights. The inputs, all 1, are 255 steps each: the bias
// takes back 40 · 0.5 · 255.
TEST(Convert, BiasesTakeBackWhatWeightsLose) {
  std::string weights, ones;
  for (int i = 0; i < 40; ++i) weights += i == 0 ? "1, 0.5" : ", 1, 0.5";
  Module module =
      parse("graph @forward(%x: f32[1,80]) {\n  %w: f32[1,80] = constant dense<" + weights +
            ">\n  %b: f32[1] = constant dense<1>\n  %y: f32[1,1] = aten.linear(%x, %w, %b)\n  "
            "return %y\n}\n");
  Graph& graph = module.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(std::make_unique<MinMaxPatterns>());
  const Annotation annotation = annotate(graph, patterns);
  const auto calibration = calibrate_reference(module, annotation, ramp("x", {1, 1, 80}, 1, 1));
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  ASSERT_TRUE(convert(module, graph, annotation, *calibration));
  const Op& linear = graph.op(graph.op(graph.first_op()).next);
  EXPECT_EQ(graph.type(linear.operands[1]).quantization->scales, std::vector<float>{1.0F / 127});
  EXPECT_EQ(module.constants.values<int8_t>(graph.value(linear.operands[1]).constant)[1], 64);
  EXPECT_EQ(module.constants.values<int32_t>(graph.value(linear.operands[2]).constant)[0],
            255 * 127 - 40 * 255 / 2);
}

// One op that a test describes by its specs; anything else has no pattern.
class FixedPatterns final : public QuantizationPatterns {
 public:
  std::string_view name() const override { return "test"; }
  using Table = std::map<std::string, OpAnnotation, std::less<>>;
  explicit FixedPatterns(Table table) : table_(std::move(table)) {}
  tl::expected<OpAnnotation, FloatReason> annotate(const Graph& graph, OpId op) const override {
    const auto at = table_.find(graph.op(op).def->name);
    if (at == table_.end()) return tl::unexpected(FloatReason{"test", "not in the table"});
    return at->second;
  }

 private:
  Table table_;
};

// Annotates, calibrates on a ramp and converts; the ops' names in order.
std::vector<std::string> converted_ops(Module& module, FixedPatterns::Table table,
                                       ConversionReport* report = nullptr) {
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(std::make_unique<FixedPatterns>(std::move(table)));
  const Annotation annotation = annotate(module.forward(), patterns);
  const auto calibration = calibrate_reference(
      module, annotation,
      ramp("x", module.forward().value(module.forward().inputs()[0]).type.shape, -1, 2));
  EXPECT_TRUE(calibration) << to_text(calibration.error());
  const auto done = convert(module, module.forward(), annotation, *calibration);
  EXPECT_TRUE(done) << to_text(done.error());
  EXPECT_TRUE(verify(module)) << to_text(verify(module).error());
  if (report != nullptr) *report = *done;
  std::vector<std::string> names;
  for (const OpId op : module.forward().ops())
    names.emplace_back(module.forward().op(op).def->name);
  return names;
}

// The first output for an input of shape (1, n).
std::vector<float> run_once(const Module& module, const std::vector<float>& x) {
  Tensor input(DType::kFloat32, {1, static_cast<int64_t>(x.size())});
  std::ranges::copy(x, input.values<float>().begin());
  const std::vector<TensorView> inputs{input.view()};
  const auto outputs = make_reference_executor(module, module.forward())->run(inputs, {});
  EXPECT_TRUE(outputs) << to_text(outputs.error());
  const auto values = outputs->at(0).values<float>();
  return {values.begin(), values.end()};
}

const OpAnnotation kUnary{{QuantSpec::affine()}, {QuantSpec::affine()}};
const OpAnnotation kLayer{{QuantSpec::affine(), QuantSpec::channelwise(0), QuantSpec::bias()},
                          {QuantSpec::affine()}};

TEST(Convert, KeepsOpsWithoutPatternInFloat) {
  Module module = parse(R"(sources {
  0: "a" "aten.relu.default" "first" "model.py:1"
  1: "b" "aten.hardswish.default" "second" "model.py:2"
  2: "c" "aten.relu.default" "third" "model.py:3"
}
graph @forward(%x: f32[1,3,5]) {
  %a: f32[1,3,5] = aten.relu(%x) loc(0)
  %b: f32[1,3,5] = aten.hardswish(%a) loc(1)
  %c: f32[1,3,5] = aten.relu(%b) loc(2)
  %d: f32[1,3,5] = aten.relu(%b) loc(2)
  return %c, %a, %b, %d, %x
}
)");
  ConversionReport report;
  EXPECT_EQ(
      converted_ops(module, {{"aten.relu", kUnary}}, &report),
      (std::vector<std::string>{"quantize", "aten.relu", "dequantize", "aten.hardswish", "quantize",
                                "aten.relu", "aten.relu", "dequantize", "dequantize"}));
  ASSERT_EQ(report.float_ops.size(), 1U);
  EXPECT_EQ(report.float_ops[0].place.module_path, "second");
  EXPECT_EQ(report.float_ops[0].why.reason, "not in the table");
  const Graph& graph = module.forward();
  EXPECT_EQ(graph.op(graph.producer(graph.outputs()[1])).origin.sources,
            std::vector<uint32_t>{1});  // serves the hardswish first
}

TEST(Convert, RequantizesWhereAReaderNeedsAnotherQuantization) {
  Module module = parse(R"(graph @forward(%x: f32[1,3,5]) {
  %a: f32[1,3,5] = aten.sigmoid(%x)
  %b: f32[1,3,5] = aten.hardswish(%a)
  %c: f32[1,3,5] = aten.hardswish(%a)
  return %b, %c
}
)");
  ConversionReport report;
  EXPECT_EQ(converted_ops(
                module,
                {{"aten.sigmoid", {{QuantSpec::affine()}, {QuantSpec::fixed(1.0F / 256, -128)}}},
                 {"aten.hardswish", {{QuantSpec::symmetric()}, {QuantSpec::affine()}}}},
                &report),
            (std::vector<std::string>{"quantize", "aten.sigmoid", "requantize", "aten.hardswish",
                                      "requantize", "aten.hardswish", "dequantize", "dequantize"}));
  ASSERT_EQ(report.conflicts.size(), 2U);
  EXPECT_EQ(report.conflicts[0].value, "a");
  EXPECT_EQ(report.conflicts[0].op, "aten.hardswish");
  EXPECT_FALSE(report.conflicts[0].shared);
  ASSERT_EQ(report.patterns.size(), 3U);
  EXPECT_FALSE(report.patterns[0].verdicts[0].rejected);
}

TEST(Convert, SymmetricReadersMakeTheValueSymmetric) {
  Module module = parse(R"(graph @forward(%x: f32[1,3,5]) {
  %a: f32[1,3,5] = aten.relu(%x)
  %b: f32[1,3,5] = aten.hardswish(%a)
  return %b
}
)");
  EXPECT_EQ(converted_ops(module,
                          {{"aten.relu", kUnary},
                           {"aten.hardswish", {{QuantSpec::symmetric()}, {QuantSpec::affine()}}}}),
            (std::vector<std::string>{"quantize", "aten.relu", "aten.hardswish", "dequantize"}));
  const Graph& graph = module.forward();
  const Op& relu = graph.op(graph.op(graph.first_op()).next);
  EXPECT_EQ(graph.type(relu.results[0]).quantization->zero_point(), 0);
  EXPECT_EQ(graph.type(relu.results[0]).quantization->qmin, -127);
}

TEST(Convert, JoinedOperandsShareOneQuantization) {
  Module module = parse(R"(graph @forward(%x: f32[1,3,5]) {
  %a: f32[1,3,5] = aten.relu(%x)
  %k: f32[1,1,5] = constant dense<-4, 1, 2, 3, 9>
  %b: f32[1,7,5] = aten.cat(%a, %x, %k) {dim = 1}
  return %b
}
)");
  OpAnnotation joined{{QuantSpec::affine(), QuantSpec::shared_with(0), QuantSpec::shared_with(0)},
                      {QuantSpec::shared_with(0)}};
  EXPECT_EQ(converted_ops(module, {{"aten.relu", kUnary}, {"aten.cat", joined}}),
            (std::vector<std::string>{"quantize", "aten.relu", "aten.cat", "dequantize"}));
  const Graph& graph = module.forward();
  const Op& cat = graph.op(graph.producer(graph.op(graph.last_op()).operands[0]));
  for (const ValueId operand : cat.operands)
    EXPECT_EQ(graph.type(operand).quantization, graph.type(cat.results[0]).quantization);
  const double steps =
      13 / static_cast<double>(
               graph.type(cat.results[0]).quantization->scale());  // from −4 to 9 of the constant
  EXPECT_GE(steps, 255 * 15.0 / 16);
  EXPECT_LE(steps, 256);
}

// By the patterns of the backends, too: joining is copying.
TEST(Annotate, OperandsAndResultOfACatAreOneGroup) {
  const Module module = parse(R"(graph @forward(%x: f32[1,3], %y: f32[1,2]) {
  %a: f32[1,3] = aten.relu(%x)
  %b: f32[1,2] = aten.sigmoid(%y)
  %c: f32[1,8] = aten.cat(%a, %b, %x) {dim = 1}
  return %c
}
)");
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto& cat = annotation.ops[graph.last_op().index];
  ASSERT_TRUE(cat);
  const int group = annotation.group_of_value[graph.op(graph.last_op()).results[0].index];
  EXPECT_EQ(cat->operand_groups, (std::vector<int>{group, group, group}));
}

// One scale for values within ±1 and ±100 leaves two codes to the first. Whoever else reads it, and
// an output that is read part by part, would have only these.
class UnlikeRanges : public ::testing::Test {
 protected:
  // The scale of `%x` as each op reads it, 0 where it is float, after a second annotation.
  struct Outcome {
    std::vector<std::string> ops;
    std::vector<float> scales_of_x;
    int64_t unlike = 0;  // ops that stay float for their operands' ranges
  };
  static Outcome quantized(std::string_view body, float low, float high) {
    Module module = parse(fmt::format("graph @forward(%x: f32[1,4]) {{{}}}", body));
    Graph& graph = module.forward();
    const Annotation first = annotate(graph, neutron_patterns());
    const auto calibration = calibrate_reference(module, first, ramp("x", {1, 4}, low, high));
    EXPECT_TRUE(calibration);
    const Annotation second =
        annotate(graph, neutron_patterns(), find_unlike_ranges(graph, first, *calibration));
    EXPECT_TRUE(convert(module, graph, second, *calibration));
    Outcome outcome;
    outcome.unlike = std::ranges::count(second.reasons, "quantizer-unlike", &FloatReason::id);
    for (const OpId id : graph.ops()) {
      const Op& op = graph.op(id);
      outcome.ops.emplace_back(op.def->name);
      if (op.def == &ops::kQuantize && op.operands[0] == graph.inputs()[0])
        outcome.scales_of_x.push_back(graph.type(op.results[0]).quantization->scale());
    }
    return outcome;
  }
};

TEST_F(UnlikeRanges, AnOperandThatOthersReadHasItsOwn) {
  const Outcome outcome = quantized(R"(
  %w: f32[4,4] = constant dense<100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100>
  %l: f32[1,4] = aten.linear(%x, %w)
  %c: f32[1,8] = aten.cat(%x, %l) {dim = 1}
  %r: f32[1,8] = aten.mul.Tensor(%c, %c)
  return %r
)",
                                    -1, 1);
  ASSERT_EQ(outcome.scales_of_x.size(), 2U);  // of the layer, of the concatenation
  EXPECT_NEAR(std::ranges::min(outcome.scales_of_x), 2.0 / 255, 2.0 / 255 / 16);
  EXPECT_NEAR(std::ranges::max(outcome.scales_of_x), 200.0 / 255, 200.0 / 255 / 16);
}

// A quarter of the joint range leaves an operand 64 of the 256 codes: what has less is read apart.
// Scales may be up to 1/15 wider than their ranges.
TEST_F(UnlikeRanges, BeginAtAQuarter) {
  const auto scales = [](int factor) {
    return quantized(fmt::format(R"(
  %w: f32[4,4] = constant dense<{0}, 0, 0, 0, 0, {0}, 0, 0, 0, 0, {0}, 0, 0, 0, 0, {0}>
  %l: f32[1,4] = aten.linear(%x, %w)
  %c: f32[1,8] = aten.cat(%x, %l) {{dim = 1}}
  %r: f32[1,8] = aten.mul.Tensor(%c, %c)
  return %r
)",
                                 factor),
                     -1, 1)
        .scales_of_x;
  };
  const std::vector<float> joined = scales(3), apart = scales(5);
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_NEAR(joined[0], 6.0 / 255, 6.0 / 255 / 14);
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_NEAR(std::ranges::min(apart), 2.0 / 255, 2.0 / 255 / 14);
  EXPECT_NEAR(std::ranges::max(apart), 10.0 / 255, 10.0 / 255 / 14);
}

TEST_F(UnlikeRanges, AnOperandOfOneReaderIsJoined) {
  const Outcome outcome = quantized(R"(
  %w: f32[4,4] = constant dense<100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100>
  %u: f32[4,4] = constant dense<1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1>
  %s: f32[1,4] = aten.linear(%x, %u)
  %l: f32[1,4] = aten.linear(%x, %w)
  %c: f32[1,8] = aten.cat(%s, %l) {dim = 1}
  %r: f32[1,8] = aten.mul.Tensor(%c, %c)
  return %r
)",
                                    -1, 1);
  EXPECT_EQ(
      std::ranges::count(outcome.ops, "quantize") + std::ranges::count(outcome.ops, "requantize"),
      1);
}

// Probabilities have a fixed range, which what follows them need not have.
TEST_F(UnlikeRanges, AFixedRangeIsNotForWhatFollowsIt) {
  const Module module = parse(R"(graph @forward(%x: f32[1,4]) {
  %s: f32[1,4] = aten.sigmoid(%x)
  %c: f32[1,8] = aten.cat(%s, %x) {dim = 1}
  %d: f32[1,16] = aten.cat(%s, %s, %c) {dim = 1}
  %r: f32[1,16] = aten.relu(%d)
  %e: f32[1,8] = aten.cat(%s, %s) {dim = 1}
  return %r, %e
}
)");
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  std::vector<QuantSpec::Kind> kinds;
  for (const OpId id : graph.ops())
    if (graph.op(id).def == &ops::kCat)
      kinds.push_back(
          annotation
              .groups[static_cast<size_t>(annotation.group_of_value[graph.op(id).results[0].index])]
              .spec.kind);
  using Kind = QuantSpec::Kind;
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::kAffine, Kind::kAffine, Kind::kFixed}));
}

// Boxes of hundreds of pixels beside scores up to 1.
TEST_F(UnlikeRanges, AnOutputOfUnlikePartsIsJoinedInFloat) {
  const std::string_view body = R"(
  %w: f32[4,4] = constant dense<{0}, 0, 0, 0, 0, {0}, 0, 0, 0, 0, {0}, 0, 0, 0, 0, {0}>
  %s: f32[1,4] = aten.sigmoid(%x)
  %l: f32[1,4] = aten.linear(%x, %w)
  %c: f32[1,8] = aten.cat(%s, %l) {{dim = 1}}
  return %c
)";
  const auto with_factor = [&](int factor) {
    return quantized(fmt::format(fmt::runtime(body), factor), 0, 1);
  };
  EXPECT_EQ(with_factor(600).ops.back(), "aten.cat");
  EXPECT_EQ(with_factor(600).unlike, 1);
  EXPECT_EQ(with_factor(2).ops.back(), "dequantize");
  // Scores up to 0.73: the joint range is 17.8 and 15.0 times theirs, on either side of 16.
  EXPECT_EQ(with_factor(13).unlike, 1);
  EXPECT_EQ(with_factor(11).unlike, 0);
}

// No sample brings the first layer's result over zero: its scale means nothing, and the user is
// told where.
TEST(Convert, SaysWhatCalibrationLeftEmpty) {
  Module module = parse(R"(sources {
  0: "relu" "aten.relu.default" "head" "model.py:9"
}
graph @forward(%x: f32[1,2]) {
  %w: f32[2,2] = constant dense<1, 0, 0, -1>
  %b: f32[2] = constant splat<-3>
  %l: f32[1,2] = aten.linear(%x, %w, %b)
  %y: f32[1,2] = aten.relu(%l) loc(0)
  return %y
}
)");
  ConversionReport report;
  converted_ops(module, {{"aten.linear", kLayer}, {"aten.relu", kUnary}}, &report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(to_text(report.notes[0]),
            "warning[calibration-empty]: test.ir: `relu`: `y` is zero in every calibration "
            "sample; nothing is known of its range\n  at: head, "
            "model.py:9\n"
            "  fix: give samples that reach it, or check the operators before it");
}

TEST(Convert, NamesThreeOfManyEmptyValues) {
  Module module = parse(R"(graph @forward(%x: f32[1,2]) {
  %w: f32[2,2] = constant splat<-1>
  %c: f32[2] = constant splat<-9>
  %l: f32[1,2] = aten.linear(%x, %w, %c)
  %a: f32[1,2] = aten.relu(%l)
  %b: f32[1,2] = aten.relu(%a)
  %d: f32[1,2] = aten.relu(%b)
  %e: f32[1,2] = aten.relu(%d)
  %f: f32[1,2] = aten.relu(%e)
  return %f
}
)");
  ConversionReport report;
  converted_ops(module, {{"aten.linear", kLayer}, {"aten.relu", kUnary}}, &report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(
      report.notes[0].reason,
      "`a`, `b`, `d` and 2 more values are zero in every calibration sample; nothing is known "
      "of their ranges");
}

// What a zero constant switches off is zero for other samples too: a note, no warning, and results
// that are those of the float model.
TEST(Convert, KnowsWhatIsZeroForEveryInput) {
  Module module = parse(R"(sources {
  0: "mask" "aten.mul.Tensor" "head" "model.py:9"
}
graph @forward(%x: f32[1,2]) {
  %w: f32[2,2] = constant splat<0>
  %m: f32[1,2] = constant splat<0>
  %a: f32[1,2] = aten.linear(%x, %w)
  %b: f32[1,2] = aten.mul.Tensor(%x, %m) loc(0)
  %c: f32[1,2] = aten.add.Tensor(%a, %b)
  %d: f32[1,2] = aten.relu(%c)
  %y: f32[1,2] = aten.add.Tensor(%d, %x)
  return %y
}
)");
  const OpAnnotation binary{{QuantSpec::affine(), QuantSpec::affine()}, {QuantSpec::affine()}};
  ConversionReport report;
  converted_ops(
      module,
      {{"aten.linear", {{QuantSpec::affine(), QuantSpec::channelwise(0)}, {QuantSpec::affine()}}},
       {"aten.mul.Tensor", binary},
       {"aten.add.Tensor", binary},
       {"aten.relu", kUnary}},
      &report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0].id, DiagnosticId::kCalibrationEmpty);
  EXPECT_EQ(report.notes[0].severity, Severity::kNote);
  EXPECT_EQ(report.notes[0].reason, "`a`, `b`, `c` and `d` are zero for every input");
  const std::vector<float> y = run_once(module, {-0.75F, 1.5F});
  EXPECT_NEAR(y.at(0), -0.75F, 0.02F);
  EXPECT_NEAR(y.at(1), 1.5F, 0.02F);
}

// Weights of zero and a bias below it: relu gives zeros, but of no zeros.
TEST(Convert, ALayerOfZeroWeightsIsItsBias) {
  Module module = parse(R"(graph @forward(%x: f32[1,2]) {
  %w: f32[2,2] = constant splat<0>
  %b: f32[2] = constant splat<-3>
  %l: f32[1,2] = aten.linear(%x, %w, %b)
  %y: f32[1,2] = aten.relu(%l)
  return %y
}
)");
  ConversionReport report;
  converted_ops(module, {{"aten.linear", kLayer}, {"aten.relu", kUnary}}, &report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0].severity, Severity::kWarning) << report.notes[0].reason;
}

// The results of relu begin at zero; they are not always zero.
TEST(Convert, SaysNothingOfValuesThatAreZeroAtTimes) {
  Module module = parse(R"(graph @forward(%x: f32[1,3,5]) {
  %a: f32[1,3,5] = aten.relu(%x)
  return %a
}
)");
  ConversionReport report;
  EXPECT_EQ(converted_ops(module, {{"aten.relu", kUnary}}, &report),
            (std::vector<std::string>{"quantize", "aten.relu", "dequantize"}));
  EXPECT_TRUE(report.notes.empty());
}

// A range of calibration is a range, however small; only one without elements is not.
TEST(Convert, TinyActivationsHaveAllCodes) {
  for (const auto& [top, scale] : {std::pair{1e-9F, 1e-9 / 255}, {0.0F, 0x1p-20}}) {
    Module module = parse(R"(graph @forward(%x: f32[1,4]) {
  %y: f32[1,4] = aten.relu(%x)
  %z: f32[1,4] = aten.relu(%y)
  return %z
}
)");
    Graph& graph = module.forward();
    const Annotation annotation = annotate(graph, neutron_patterns());
    const auto calibration = calibrate_reference(module, annotation, ramp("x", {1, 4}, 0, top));
    ASSERT_TRUE(calibration);
    ASSERT_TRUE(convert(module, graph, annotation, *calibration));
    const Op& first = graph.op(*graph.ops().begin());
    ASSERT_EQ(first.def, &ops::kQuantize);
    EXPECT_NEAR(graph.type(first.results[0]).quantization->scale() / scale, 1, 1.0 / 16);
  }
}

// A bias of 2e9 quantization steps of tiny weights does not fit; the channel's weights become
// coarser, which the many of them show, the others stay.
TEST(Convert, WidensWeightsForBigBiases) {
  Module module = parse(R"(sources {
  0: "linear" "aten.linear.default" "head" "model.py:9"
}
graph @forward(%x: f32[1,4096]) {
  %w: f32[2,4096] = constant splat<1e-06>
  %b: f32[2] = constant dense<0.2, 0.0001>
  %y: f32[1,2] = aten.linear(%x, %w, %b) loc(0)
  return %y
}
)");
  ConversionReport report;
  converted_ops(module, {{"aten.linear", kLayer}}, &report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0].id, DiagnosticId::kQuantizationBiasWidened);
  EXPECT_EQ(report.notes[0].reason.substr(0, 29), "the bias of 1 of 2 channels i");
  EXPECT_EQ(report.notes[0].place.module_path, "head");
  const Graph& graph = module.forward();
  const Op& linear = graph.op(graph.op(graph.first_op()).next);
  const auto bias = module.constants.values<int32_t>(graph.value(linear.operands[2]).constant);
  EXPECT_NEAR(bias[0], 0x1p30, 0x1p12);  // and what rounding the weights takes
  EXPECT_EQ(graph.type(linear.operands[1]).quantization->scales[1], 1e-06F / 127);
}

// Weights that training left in single channels: a result of 0.3 has no code for what they add, so
// that nobody is told of their codes.
TEST(Convert, WidensWeightsThatNoResultShowsWithoutANote) {
  Module module = parse(R"(graph @forward(%x: f32[1,2]) {
  %w: f32[2,2] = constant dense<1e-12, 1e-12, 0, 0>
  %b: f32[2] = constant dense<0.3, -0.3>
  %y: f32[1,2] = aten.linear(%x, %w, %b)
  return %y
}
)");
  ConversionReport report;
  converted_ops(module, {{"aten.linear", kLayer}}, &report);
  EXPECT_TRUE(report.notes.empty());
  const std::vector<float> y = run_once(module, {-0.75F, 1.5F});
  EXPECT_NEAR(y.at(0), 0.3F, 0.6F / 255);
  EXPECT_NEAR(y.at(1), -0.3F, 0.6F / 255);
}

// Weights and biases far below 1: each has the codes that the same ones around 1 have, and results
// are as near to the float ones.
TEST(Convert, TinyWeightsHaveAllCodes) {
  for (const double size : {1.0, 1e-6, 1e-9}) {
    Module module = parse(fmt::format(R"(graph @forward(%x: f32[1,2]) {{
  %w: f32[2,2] = constant dense<{0}, {1}, {2}, {3}>
  %b: f32[2] = constant dense<{4}, {5}>
  %y: f32[1,2] = aten.linear(%x, %w, %b)
  return %y
}}
)",
                                      size, -size / 2, 0.25 * size, 0.75 * size, size / 8, -size));
    ConversionReport report;
    converted_ops(module, {{"aten.linear", kLayer}}, &report);
    EXPECT_TRUE(report.notes.empty());
    const Graph& graph = module.forward();
    const Op& linear = graph.op(graph.op(graph.first_op()).next);
    const auto codes = module.constants.values<int8_t>(graph.value(linear.operands[1]).constant);
    EXPECT_GE(*std::ranges::max_element(codes), 119);  // at most 1/15 is given up
    // By hand: x · (1, −1/2) + 1/8 and x · (1/4, 3/4) − 1.
    const std::vector<float> y = run_once(module, {-0.75F, 1.5F});
    EXPECT_NEAR(y.at(0) / size, -1.375, 0.02) << size;
    EXPECT_NEAR(y.at(1) / size, -0.0625, 0.02) << size;
  }
}

TEST(Convert, RefusesConstantsThatAreNotFinite) {
  for (const std::string_view constants :
       {"%w: f32[1,2] = constant dense<nan, 1>\n  %b: f32[1] = constant dense<0>",
        "%w: f32[1,2] = constant dense<1, 1>\n  %b: f32[1] = constant dense<inf>"}) {
    Module module = parse(
        "sources {\n  0: \"linear\" \"aten.linear.default\" \"head\" \"model.py:9\"\n}\ngraph "
        "@forward(%x: f32[1,2]) {\n  " +
        std::string(constants) +
        "\n  %y: f32[1,1] = aten.linear(%x, %w, %b) loc(0)\n  return %x\n}\n");
    const Annotation annotation = annotate(module.forward(), neutron_patterns());
    CalibrationResult calibration;
    for (const char* name : {"x", "y"}) {
      ValueStatistics statistics;
      ASSERT_TRUE(statistics.observe(std::vector<float>{0, 1}));
      calibration.values.emplace(name, statistics);
    }
    const auto report = convert(module, module.forward(), annotation, calibration);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().id, DiagnosticId::kWeightNotFinite);
    EXPECT_EQ(report.error().place.source_line, "model.py:9");
  }
}

TEST(Convert, RefusesTheCalibrationOfAnotherModel) {
  Module module = parse(kSmall);
  const Annotation annotation = annotate(module.forward(), neutron_patterns());
  const auto report = convert(module, module.forward(), annotation, {});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().id, DiagnosticId::kCalibrationMismatch);
}

}  // namespace
}  // namespace dtr
