// Observers, calibration, annotation, conversion.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "backends/neutron/quantization.h"
#include "ir/npz.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "quantizer/convert.h"

namespace dtr {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Program parse(std::string_view text) {
  Result<Program> program = parse_program(text, "test.ir");
  EXPECT_TRUE(program) << (program ? "" : to_text(program.error()));
  return program ? std::move(*program) : Program{};
}

std::string source(const std::string& path) {
  const char* root = std::getenv("DEUTERON_SOURCE");
  return (root == nullptr ? std::string(".") : std::string(root)) + "/" + path;
}

const NamedTensor* find(const std::vector<NamedTensor>& arrays, const std::string& name) {
  for (const NamedTensor& array : arrays)
    if (array.name == name) return &array;
  return nullptr;
}

std::vector<NamedTensor> observer_vectors() {
  auto arrays = read_npz(source("test/data/observer_vectors.npz"));
  EXPECT_TRUE(arrays) << (arrays ? "" : to_text(arrays.error()));
  return arrays ? std::move(*arrays) : std::vector<NamedTensor>{};
}

double squared_error(std::span<const float> values, double scale, double zero_point) {
  double sum = 0;
  for (const float x : values) {
    const double q = std::clamp(std::nearbyint(static_cast<double>(x) / scale) + zero_point, -128.0, 127.0);
    sum += std::pow((q - zero_point) * scale - static_cast<double>(x), 2);
  }
  return sum;
}

constexpr std::string_view kDistributions[] = {"normal",  "relu",     "relu6", "outliers", "shifted",
                                               "growing", "negative", "tiny",  "zeros",    "one_value"};

TEST(Observer, MinMaxGivesTheParametersOfPyTorch) {
  const auto arrays = observer_vectors();
  for (const std::string_view distribution : kDistributions) {
    const std::string name(distribution);
    ValueStatistics statistics(false);
    EXPECT_TRUE(statistics.observe(find(arrays, name)->tensor.values<float>()));
    const Quantization affine = affine_quantization(best_range(statistics), kActivationEps);
    const auto wanted = find(arrays, name + "_min_max")->tensor.values<double>();
    EXPECT_EQ(affine.scale(), static_cast<float>(wanted[0])) << name;
    EXPECT_EQ(affine.zero_point(), static_cast<int>(wanted[1])) << name;
    const Quantization symmetric = symmetric_quantization(best_range(statistics), std::numeric_limits<float>::epsilon());
    EXPECT_EQ(symmetric.scale(), static_cast<float>(find(arrays, name + "_symmetric")->tensor.values<double>()[0])) << name;
  }
}

TEST(Observer, WeightScalesArePyTorchs) {
  const auto arrays = observer_vectors();
  const Tensor& weights = find(arrays, "weights")->tensor;
  const Quantization q = weight_quantization(weights.values<float>(), weights.shape(), 0);
  const auto wanted = find(arrays, "weights_scales")->tensor.values<double>();
  ASSERT_EQ(q.scales.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(q.scales[i], static_cast<float>(wanted[i]));
  EXPECT_EQ(q.qmin, -127);
  // Another axis: the maximum over the slices.
  const Quantization inner = weight_quantization(std::vector<float>{1, -2, 3, 4, 5, -6}, {1, 3, 2}, 2);
  EXPECT_EQ(inner.scales, (std::vector<float>{5.0F / 127, 6.0F / 127}));
}

// The histogram's range quantizes the very data with no more error than PyTorch's does.
TEST(Observer, HistogramIsNoWorseThanPyTorchs) {
  const auto arrays = observer_vectors();
  for (const std::string_view distribution : kDistributions) {
    const std::string name(distribution);
    const auto values = find(arrays, name)->tensor.values<float>();
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values.first(values.size() / 2)));
    EXPECT_TRUE(statistics.observe(values.subspan(values.size() / 2)));
    const Quantization ours = affine_quantization(best_range(statistics), kActivationEps);
    const auto theirs = find(arrays, name + "_histogram")->tensor.values<double>();
    const double error = squared_error(values, static_cast<double>(ours.scale()), ours.zero_point());
    EXPECT_LE(error, squared_error(values, theirs[0], theirs[1]) * 1.02) << name << ": scale " << ours.scale() << ", PyTorch " << theirs[0];
  }
}

TEST(Observer, ClipsRareOutliers) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(100000);
  for (float& x : values) x = normal(generator);
  values[7] = 100;
  ValueStatistics statistics;
  EXPECT_TRUE(statistics.observe(values));
  // Rounding costs 1e5 · (range/255)²/12, saturation 3 · (100 − max)².
  EXPECT_LT(best_range(statistics).max, 97.0F);
  const Quantization clipped = affine_quantization(best_range(statistics), kActivationEps);
  const Quantization full = affine_quantization(statistics.range(), kActivationEps);
  EXPECT_LT(squared_error(values, static_cast<double>(clipped.scale()), clipped.zero_point()),
            squared_error(values, static_cast<double>(full.scale()), full.zero_point()));
}

// Any split of the data over any number of observers, merged in any order, is the same statistics.
TEST(Observer, MergesExactly) {
  std::mt19937 generator(9);
  std::vector<std::vector<float>> pieces;
  for (int piece = 0; piece < 24; ++piece) {
    const float spread = std::ldexp(1.0F, static_cast<int>(generator() % 60) - 50);
    std::normal_distribution<float> normal(static_cast<float>(piece % 3), spread);
    pieces.emplace_back(piece == 5 ? 20000 : 1 + generator() % 300);
    for (float& x : pieces.back()) x = normal(generator);
  }
  pieces.push_back({0, -0.0F, 1e-45F, -1e-45F, 1e-38F, -1e-38F});
  pieces.push_back({-1e-45F});
  ValueStatistics one;
  for (const auto& piece : pieces) EXPECT_TRUE(one.observe(piece));
  for (int round = 0; round < 8; ++round) {
    std::shuffle(pieces.begin(), pieces.end(), generator);
    std::vector<ValueStatistics> several(3);
    for (const auto& piece : pieces) EXPECT_TRUE(several[generator() % 3].observe(piece));
    ValueStatistics merged;
    for (const size_t i : {2, 0, 1}) merged.merge(several[i]);
    EXPECT_TRUE(merged == one);
  }
  int64_t counted = 0;
  for (const int64_t bin : one.bins()) counted += bin;
  EXPECT_EQ(counted, one.count());
}

// Bins against their definition, with the hardest floats; under sanitizers this is also the bounds check.
TEST(Observer, CountsExtremeElements) {
  const std::vector<std::vector<float>> cases{{3.4e38F, -3.4e38F},
                                              {1e-45F},
                                              {-1e-45F},
                                              {-1000, -1e-45F},
                                              {1e38F, 1e-45F, -1e-45F},
                                              {0},
                                              {-0.0F},
                                              {5, 5, 5},
                                              {1, std::nextafter(1.0F, 2.0F)},
                                              {-1e-45F, 0}};
  for (const auto& values : cases) {
    ValueStatistics statistics;
    EXPECT_TRUE(statistics.observe(values));
    std::vector<int64_t> wanted(statistics.bins().size());
    for (const float x : values)
      ++wanted.at(static_cast<size_t>(std::floor(std::ldexp(static_cast<double>(x), -statistics.exponent())) -
                                      static_cast<double>(statistics.first_bin())));
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), statistics.bins().begin()));
    EXPECT_LE(wanted.size(), static_cast<size_t>(ValueStatistics::kMaxBins));
    const Quantization q = affine_quantization(best_range(statistics), kActivationEps);
    EXPECT_TRUE(std::isfinite(q.scale()) && q.scale() > 0);
  }
}

TEST(Observer, RefusesNonFiniteElements) {
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()})
    for (const size_t at : {size_t{0}, size_t{15}, size_t{16}, size_t{36}}) {
      std::vector<float> values(37, 1.0F);
      values[at] = bad;
      ValueStatistics statistics;
      EXPECT_FALSE(statistics.observe(values));
      EXPECT_TRUE(statistics.empty());
    }
}

constexpr std::string_view kSmall = R"(sources {
  0: "conv2d" "aten.conv2d.default" "stem" "model.py:1"
  1: "max_pool2d" "aten.max_pool2d.default" "" "model.py:2"
  2: "add" "aten.add.Tensor" "" "model.py:3"
  3: "softmax" "aten.softmax.int" "" "model.py:4"
}
graph @forward(%x: f32[1,2,4,4]) {
  %w: f32[2,2,1,1] = constant dense<1, -0.5, 0.25, 0.125>
  %b: f32[2] = constant dense<0.5, -0.25>
  %c: f32[1,2,4,4] = aten.convolution(%x, %w, %b) {activation = "relu", dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false} loc(0)
  %p: f32[1,2,4,4] = aten.max_pool2d(%c) {ceil_mode = false, dilation = [1, 1], kernel_size = [1, 1], padding = [0, 0], stride = [1, 1]} loc(1)
  %s: f32[1,2,4,4] = aten.add.Tensor(%p, %x) loc(2)
  %y: f32[1,2,4,4] = aten.softmax(%s) {dim = 1} loc(3)
  return %y
}
)";

std::vector<std::unique_ptr<QuantizationPatterns>> neutron_patterns() {
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(neutron::make_quantization_patterns());
  return patterns;
}

// The NPU's patterns with plain ranges, whose numbers follow by hand.
class MinMaxPatterns final : public QuantizationPatterns {
 public:
  tl::expected<OpAnnotation, std::string> annotate(const Graph& graph, OpId op) const override {
    auto specs = neutron_->annotate(graph, op);
    if (!specs) return specs;
    for (std::vector<QuantSpec>* list : {&specs->operands, &specs->results})
      for (QuantSpec& spec : *list) spec.observer = QuantSpec::Observer::kMinMax;
    return specs;
  }

 private:
  std::unique_ptr<QuantizationPatterns> neutron_ = neutron::make_quantization_patterns();
};

std::vector<NamedTensor> ramp(const std::string& name, Shape shape, float low, float high) {
  std::vector<NamedTensor> arrays;
  arrays.push_back({name, Tensor(DType::kFloat32, std::move(shape))});
  const auto values = arrays[0].tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(std::max<size_t>(values.size() - 1, 1));
  return arrays;
}

Result<CalibrationResult> calibrate_reference(const Program& program, const Annotation& annotation, const std::vector<NamedTensor>& arrays,
                                              unsigned threads = 1) {
  const Graph& graph = program.forward();
  const auto samples = Samples::bind(graph, arrays, "cal.npz");
  if (!samples) return tl::unexpected(samples.error());
  return calibrate(program, graph, annotation, *make_reference_executor(program, graph), *samples, {.threads = threads});
}

TEST(Annotate, SharesQuantizationAlongPoolsAndWithReaders) {
  const Program program = parse(kSmall);
  const Graph& graph = program.forward();
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
  EXPECT_EQ(shared.observed.size(), 1U);  // the convolution's result only
  EXPECT_EQ(annotation.groups[static_cast<size_t>(group("y"))].spec, QuantSpec::fixed(1.0F / 256, -128));
}

TEST(Convert, GivesTheNumbersOfHand) {
  Program program = parse(kSmall);
  Graph& graph = program.forward();
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(std::make_unique<MinMaxPatterns>());
  const Annotation annotation = annotate(graph, patterns);
  const auto calibration = calibrate_reference(program, annotation, ramp("x", {1, 2, 4, 4}, -1, 2));
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  const auto report = convert(program, graph, annotation, *calibration);
  ASSERT_TRUE(report) << to_text(report.error());
  EXPECT_EQ(report->quantized_ops, 4U);
  EXPECT_TRUE(report->float_ops.empty());
  ASSERT_TRUE(verify(program)) << to_text(verify(program).error());

  std::vector<std::string> names;
  for (const OpId op : graph.ops()) names.emplace_back(graph.op(op).def->name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"quantize", "aten.convolution", "aten.max_pool2d", "aten.add.Tensor", "aten.softmax", "dequantize"}));
  const Op& convolution = graph.op(graph.op(graph.first_op()).next);
  const Quantization& x = *graph.type(convolution.operands[0]).quantization;
  EXPECT_EQ(x.scale(), 3.0F / 255);
  EXPECT_EQ(x.zero_point(), -43);  // -128 + 85
  const Quantization& w = *graph.type(convolution.operands[1]).quantization;
  EXPECT_EQ(w.scales, (std::vector<float>{1.0F / 127, 0.25F / 127}));
  const auto weights = program.constants.values<int8_t>(graph.value(convolution.operands[1]).constant);
  EXPECT_EQ(std::vector<int8_t>(weights.begin(), weights.end()), (std::vector<int8_t>{127, -64, 127, 64}));  // 63.5 to even
  const auto bias = program.constants.values<int32_t>(graph.value(convolution.operands[2]).constant);
  // 0.5·255/3·127 = 5397.5 and -0.25·255/3·127/0.25 = -10795, and what rounding took from the second weight: 0.5 code each, times the
  // mean of channel 1, -1 + 3·23.5/31, in steps of the input: 0.5·1.2742·85 = 54.15.
  EXPECT_EQ(bias[0], 5452);
  EXPECT_EQ(bias[1], -10849);
  EXPECT_EQ(graph.type(convolution.operands[2]).quantization->scales[1], x.scale() * w.scales[1]);
  EXPECT_EQ(graph.type(convolution.results[0]).quantization->zero_point(), -128);  // after the ReLU
  // quantize serves the convolution, dequantize the softmax.
  EXPECT_EQ(graph.op(graph.first_op()).origin.sources, std::vector<uint32_t>{0});
  EXPECT_EQ(graph.op(graph.last_op()).origin.sources, std::vector<uint32_t>{3});
}

}  // namespace
}  // namespace dtr
