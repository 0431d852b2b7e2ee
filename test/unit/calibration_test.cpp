// Samples, and what a model computes of them: ranges, channels, their file.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>

#include "compiler/executors/onednn_executor.h"
#include "compiler/quantizer/not_finite.h"
#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

using test::calibrate_reference;
using test::kSmall;
using test::neutron_patterns;
using test::parse;
using test::ramp;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Calibrate, DoesNotDependOnThreads) {
  const Module module = parse(kSmall);
  const Annotation annotation = annotate(module.forward(), neutron_patterns());
  std::vector<NamedTensor> arrays = ramp("x", {37, 1, 2, 4, 4}, -3, 5);
  std::mt19937 generator(1);
  std::ranges::shuffle(arrays[0].tensor.values<float>(), generator);
  const auto one = calibrate_reference(module, annotation, arrays, 1);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->samples, 37U);
  EXPECT_EQ(one->values.at("x").count(), 37 * 32);
  const std::string text = to_json(*one);
  for (const unsigned threads : {2U, 5U, 16U})
    EXPECT_EQ(to_json(*calibrate_reference(module, annotation, arrays, threads)), text);

  const auto loaded = parse_calibration(text, "cal.json");
  ASSERT_TRUE(loaded) << to_text(loaded.error());
  EXPECT_TRUE(*loaded == *one);
  const std::string path = testing::TempDir() + "/deuteron_calibration.json";
  ASSERT_TRUE(save_calibration(path, *one));
  EXPECT_TRUE(*load_calibration(path) == *one);
  std::filesystem::remove(path);
}

// Channel means against a plain sum, in both layouts that an executor may use.
TEST(Calibrate, SumsChannelsInBothLayouts) {
  const auto arrays = ramp("x", {2, 3, 5, 7}, -1, 1);
  const TensorView logical = arrays[0].tensor.view();
  Tensor last(DType::kFloat32, {2, 5, 7, 3});
  std::vector<double> wanted(3);
  for (size_t n = 0; n < 2; ++n)
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < 35; ++i) {
        const float x = logical.values<float>()[(n * 3 + c) * 35 + i];
        last.values<float>()[(n * 35 + i) * 3 + c] = x;
        wanted[c] += static_cast<double>(x);
      }
  for (const auto& [tensor, axis] : {std::pair<TensorView, size_t>{logical, 1}, {last.view(), 3}}) {
    std::vector<double> sums(3);
    std::vector<float> low(3, kInfinity), high(3, -kInfinity);
    observe_channels(tensor, axis, sums, low, high);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(sums[c], wanted[c], 1e-4);
    EXPECT_EQ(low[0], -1);
    EXPECT_EQ(high[2], 1);
  }
}

// Element i of three samples is i: 16 of a channel lie side by side, 32 make a sample.
TEST(Calibrate, MeansOfChannelsAreOverAllSamples) {
  const Module module = parse(kSmall);
  const auto found = calibrate_reference(module, annotate(module.forward(), neutron_patterns()),
                                         ramp("x", {3, 1, 2, 4, 4}, 0, 95), 2);
  ASSERT_TRUE(found);
  const ChannelStatistics& x = found->channels.at("x");
  EXPECT_EQ(x.mean, (std::vector<double>{39.5, 55.5}));
  EXPECT_EQ(x.min, (std::vector<float>{0, 16}));
  EXPECT_EQ(x.max, (std::vector<float>{79, 95}));
}

TEST(Calibrate, SavedRangesSayThatNoiseChoseThem) {
  CalibrationResult result;
  result.samples = 3;
  EXPECT_FALSE(parse_calibration(to_json(result), "ranges.json")->on_noise);
  result.on_noise = true;
  EXPECT_EQ(*parse_calibration(to_json(result), "ranges.json"), result);
}

TEST(Calibrate, RefusesDamagedJson) {
  const std::string good =
      R"({"format": "deuteron-calibration", "version": 1, "samples": 1, "values": {"x": {"min": 0, "max": 0, "zeros": 1, "count": 1, "exponent": -120, "first_bin": 0, "bins": [1]}}, "channels": {"x": {"axis": 1, "min": [0], "max": [0], "mean": [0]}}})";
  ASSERT_TRUE(parse_calibration(good, "cal.json"))
      << to_text(parse_calibration(good, "cal.json").error());
  const std::pair<const char*, const char*> damages[] = {
      {R"("deuteron-calibration")", R"("other")"},
      {R"("samples": 1,)", R"("samples": 1, "on_noise": 1,)"},
      {R"("version": 1)", R"("version": 2)"},
      {R"("samples": 1)", R"("samples": -1)"},
      {R"("min": 0)", R"("min": 1)"},
      {R"("max": 0)", R"("max": 1e300)"},
      {R"("zeros": 1)", R"("zeros": 2)"},
      {R"("count": 1)", R"("count": 0)"},
      {R"([1]}})", R"([1, 0]}})"},
      {R"([1]}})", R"([-1]}})"},
      {R"([1]}})", R"({}}})"},
      {R"("exponent": -120)", R"("exponent": 1000000)"},
      {R"("first_bin": 0)", R"("first_bin": 9)"},
      {R"("mean": [0])", R"("mean": [0, 1])"},
      {R"("axis": 1)", R"("axis": "y")"},
      {R"("channels")", R"("chanels")"},
      {R"({"format")", R"(["format")"},
      {"}}}", "}}"}};
  for (const auto& [from, to] : damages) {
    std::string text = good;
    text.replace(text.find(from), std::string(from).size(), to);
    const auto result = parse_calibration(text, "cal.json");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().id, DiagnosticId::kCalibrationInvalid);
    EXPECT_EQ(result.error().place.file, "cal.json");
  }
  const auto with_elements = [](const std::string& elements, const std::string& counts) {
    return R"({"format": "deuteron-calibration", "version": 1, "samples": 1, "values": {"x": {"elements": [)" +
           elements + R"(], "counts": [)" + counts + R"(]}}, "channels": {}})";
  };
  const auto few = parse_calibration(with_elements("-1, 0, 0.5", "1, 2, 3"), "cal.json");
  ASSERT_TRUE(few) << to_text(few.error());
  EXPECT_EQ(few->values.at("x").count(), 6);
  EXPECT_EQ(few->values.at("x").zeros(), 2);
  EXPECT_EQ(to_json(*parse_calibration(to_json(*few), "cal.json")), to_json(*few));
  const std::pair<const char*, const char*> wrong[] = {{"", ""},
                                                       {"1, 0", "1, 1"},
                                                       {"1, 1", "1, 1"},
                                                       {"1, 2", "1"},
                                                       {"1, 2", "1, 0"},
                                                       {"1, 2", "1, 1.5"},
                                                       {"1e300", "1"},
                                                       {"-0.0", "1"},
                                                       {"1, \"2\"", "1, 1"},
                                                       {"1, 2", "1, [1]"},
                                                       {"1, 2", "9223372036854775807, 9"}};
  for (const auto& [elements, counts] : wrong) {
    const auto result = parse_calibration(with_elements(elements, counts), "cal.json");
    ASSERT_FALSE(result) << elements << " " << counts;
    EXPECT_EQ(result.error().id, DiagnosticId::kCalibrationInvalid);
  }
  EXPECT_EQ(load_calibration("/nowhere/cal.json").error().id, DiagnosticId::kFileNotFound);
  // No text, whatever is in it, crashes the parser.
  std::mt19937 generator(4);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change)
      text[generator() % text.size()] = static_cast<char>(generator() % 96 + 32);
    (void)parse_calibration(text.substr(0, text.size() - generator() % 20), "cal.json");
  }
}

TEST(Calibrate, SaysWhereTheModelComputesNaN) {
  const Module module = parse(kSmall);
  const Annotation annotation = annotate(module.forward(), neutron_patterns());
  std::vector<NamedTensor> arrays = ramp("x", {9, 1, 2, 4, 4}, 0, 1);
  const auto values = arrays[0].tensor.values<float>();
  for (size_t i = 0; i < 32; ++i)
    values[i + 96] = values[i + 160] =
        std::numeric_limits<float>::max();  // the sum overflows in the addition
  for (const unsigned threads : {1U, 4U}) {
    const auto result = calibrate_reference(module, annotation, arrays, threads);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().id, DiagnosticId::kCalibrationNotFinite);
    EXPECT_NE(result.error().reason.find("sample 3"), std::string::npos) << result.error().reason;
    EXPECT_EQ(result.error().place.source_line, "model.py:3");
  }
}

// An infinity that is only a result saturates; NaN does not, nor one that is read.
TEST(Calibrate, InfiniteResults) {
  const auto range_of = [](std::string_view ops, float low) -> Result<float> {
    const Module module =
        parse("graph @forward(%x: f32[8]) {\n" + std::string(ops) + "\n  return %y\n}");
    const Graph& graph = module.forward();
    const auto calibration =
        calibrate_reference(module, annotate(graph, neutron_patterns()), ramp("x", {1, 8}, low, 3));
    if (!calibration) return tl::unexpected(calibration.error());
    return calibration->values.at("y").range().max;
  };
  const Result<float> largest = range_of("  %y: f32[8] = aten.log(%x)", 0);  // log 0
  ASSERT_TRUE(largest) << to_text(largest.error());
  EXPECT_FLOAT_EQ(*largest, std::log(3.0F));
  EXPECT_FALSE(range_of("  %y: f32[8] = aten.log(%x)", -1));
  EXPECT_FALSE(range_of("  %l: f32[8] = aten.log(%x)\n  %y: f32[8] = aten.abs(%l)", 0));
  const Result<float> read =
      range_of("  %l: f32[8] = aten.log(%x)\n  %y: f32[8] = aten.exp(%l)", 0);
  ASSERT_TRUE(read) << to_text(read.error());  // exp(-inf) is 0, and so is exp of the least code
  EXPECT_FLOAT_EQ(*read, 3);
}

std::vector<NamedTensor> elements_of(const std::string& name, Shape shape,
                                     const std::vector<float>& elements) {
  std::vector<NamedTensor> arrays;
  arrays.push_back({name, Tensor(DType::kFloat32, std::move(shape))});
  std::ranges::copy(elements, arrays[0].tensor.values<float>().begin());
  return arrays;
}

// Logarithms of zero, whose reciprocals are zero: `l` may have -inf where `y` has none.
constexpr std::string_view kInfiniteInside = R"(graph @forward(%x: f32[4]) {
  %l: f32[4] = aten.log(%x)
  %v: f32[2,2] = aten.view(%l) {size = [2, 2]}
  %r: f32[2,2] = aten.reciprocal(%v)
  %y: f32[2,2] = aten.abs(%r)
  return %y
}
)";

// What is infinite inside of the model only has no range, and is named with its first sample.
TEST(Calibrate, InfiniteInside) {
  const Module module = parse(kInfiniteInside);
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto run = [&](const std::vector<float>& x) {
    return calibrate_reference(module, annotation,
                               elements_of("x", {static_cast<int64_t>(x.size() / 4), 4}, x), 2);
  };
  const auto found = run({2, 3, 4, 5, 2, 0, 3, 4, 0, 2, 2, 2});
  ASSERT_TRUE(found) << to_text(found.error());
  ASSERT_TRUE(found->not_finite.contains("l"));
  EXPECT_EQ(found->not_finite.at("l"), 1U);
  EXPECT_FALSE(found->values.contains("l"));
  EXPECT_EQ(found->values.at("r").range(), (Range{0, 1 / std::log(2.0F)}));
  EXPECT_EQ(*parse_calibration(to_json(*found), "cal.json"), *found);
  EXPECT_TRUE(run({2, 3, 4, 5})->not_finite.empty());
  // Nothing else in it: the samples are wrong, or the weights.
  const auto all = run({2, 3, 4, 5, 0, 0, 0, 0});
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().id, DiagnosticId::kCalibrationNotFinite);
  // Not of the model's making.
  const auto seen = run({2, 2, 3, kInfinity});
  ASSERT_FALSE(seen);
  EXPECT_EQ(seen.error().id, DiagnosticId::kDataNotFinite);
  EXPECT_FALSE(run({2, 2, 3, -1}));  // log −1 is NaN, and so is what follows
  EXPECT_FALSE(run({2, 2, 1, 0}));   // 1 / log 1 is infinite too

  const std::string good = to_json(*found);
  const auto with = [&](const char* wrong) {
    std::string text = good;
    const size_t at = text.find("\"l\": 1", text.find("not_finite"));
    return parse_calibration(text.replace(at, 6, wrong), "cal.json").error().id;
  };
  EXPECT_EQ(with("\"l\": -1"), DiagnosticId::kCalibrationInvalid);
  EXPECT_EQ(with("\"l\": []"), DiagnosticId::kCalibrationInvalid);
}

// Of such a value there are no ranges of channels either: on no sample were they observed.
TEST(Calibrate, InfiniteOperandOfALayer) {
  const Module module = parse(R"(graph @forward(%x: f32[1,2]) {
  %w: f32[2,2] = constant splat<1.0>
  %l: f32[1,2] = aten.log(%x)
  %h: f32[1,2] = aten.linear(%l, %w, _)
  %y: f32[1,2] = aten.relu(%h)
  return %y
}
)");
  const auto found = calibrate_reference(module, annotate(module.forward(), neutron_patterns()),
                                         elements_of("x", {2, 1, 2}, {0, 2, 3, 0}), 1);
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_TRUE(found->not_finite.contains("l"));
  EXPECT_FALSE(found->channels.contains("l"));
  EXPECT_EQ(*parse_calibration(to_json(*found), "cal.json"), *found);
}

// The op that computes the value, ops that move its elements and the op that reads them stay float;
// their annotation observes nothing that was not observed, or calibration runs again.
TEST(Calibrate, KeepsFloatWhatIsNotFinite) {
  const Module module = parse(kInfiniteInside);
  const Graph& graph = module.forward();
  const auto patterns = neutron_patterns();
  Annotation annotation = annotate(graph, patterns);
  const auto arrays = elements_of("x", {2, 4}, {2, 3, 4, 5, 2, 0, 3, 4});
  const Samples samples = *Samples::bind(graph, arrays, "arrays");
  int executors = 0;
  std::vector<OpId> kept;
  const auto calibration = calibrate_finite(
      module, graph, annotation,
      [&]() -> Result<std::unique_ptr<Executor>> {
        ++executors;
        return make_reference_executor(module, graph);
      },
      samples, {.threads = 1},
      [&](const std::vector<OpId>& not_finite) {
        kept = not_finite;
        return annotate(graph, patterns, {.not_finite = not_finite});
      });
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  std::vector<std::string> names;
  for (const OpId id : kept) names.push_back(graph.value(graph.op(id).results[0]).name);
  EXPECT_EQ(names, (std::vector<std::string>{"l", "v", "r"}));
  EXPECT_EQ(executors, 1);
  EXPECT_TRUE(find_not_finite(graph, annotation, *calibration).empty());
  for (const OpId id : kept) {
    EXPECT_FALSE(annotation.ops[id.index]);
    EXPECT_EQ(annotation.reasons[id.index].id, "quantizer-not-finite");
  }
  const auto warning = not_finite_warning(module, graph, *calibration);
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->id, DiagnosticId::kCalibrationNotFinite);
  EXPECT_EQ(warning->severity, Severity::kWarning);
  EXPECT_NE(warning->reason.find("sample 1"), std::string::npos) << warning->reason;
}

// What makes the elements that are moved is found, too: they need not have been observed there.
TEST(Calibrate, NotFiniteElementsAreFollowedBothWays) {
  const Module module = parse(kInfiniteInside);
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto found = [&](const std::string& value) {
    CalibrationResult calibration;
    calibration.not_finite.emplace(value, 0);
    std::string names;
    for (const OpId id : find_not_finite(graph, annotation, calibration))
      names += graph.value(graph.op(id).results[0]).name;
    return names;
  };
  EXPECT_EQ(found("l"), "lvr");
  EXPECT_EQ(found("v"), "lvr");
  EXPECT_EQ(found("r"), "ry");
}

// A second calibration observes nothing of what stays float: what the first one found is kept.
TEST(Calibrate, FurtherRoundsForgetNothing) {
  const Module module = parse(kInfiniteInside);
  const Graph& graph = module.forward();
  const auto patterns = neutron_patterns();
  Annotation annotation = annotate(graph, patterns, {.kept_float = {graph.last_op()}});
  const auto arrays = elements_of("x", {2, 4}, {2, 3, 4, 5, 2, 0, 3, 4});
  const Samples samples = *Samples::bind(graph, arrays, "arrays");
  int executors = 0;
  const auto calibration = calibrate_finite(
      module, graph, annotation,
      [&]() -> Result<std::unique_ptr<Executor>> {
        ++executors;
        return make_reference_executor(module, graph);
      },
      samples, {.threads = 1},
      [&](const std::vector<OpId>& not_finite) {
        return annotate(graph, patterns, {.not_finite = not_finite});
      });
  ASSERT_TRUE(calibration) << to_text(calibration.error());
  EXPECT_EQ(executors, 2);
  EXPECT_TRUE(calibration->values.contains("y"));
  ASSERT_TRUE(calibration->not_finite.contains("l"));
  EXPECT_EQ(calibration->not_finite.at("l"), 1U);
  EXPECT_TRUE(not_finite_warning(module, graph, *calibration));
}

// The range of `value` when `arrays` are the inputs of a graph.
Range observed_range(std::string_view text, const std::string& value,
                     const std::vector<NamedTensor>& arrays) {
  const Module module = parse(text);
  const Graph& graph = module.forward();
  const auto calibration = calibrate_reference(module, annotate(graph, neutron_patterns()), arrays);
  EXPECT_TRUE(calibration) << (calibration ? "" : to_text(calibration.error()));
  if (!calibration || !calibration->values.contains(value)) return {};
  return calibration->values.at(value).range();
}

// Of a row of four, 8 + ln 4 below its greatest element count. A row that is masked wholly does
// not.
TEST(Calibrate, SoftmaxNeedsNothingFarBelowTheGreatestOfARow) {
  constexpr std::string_view kRows = R"(graph @forward(%x: f32[3,4]) {
  %s: f32[3,4] = aten.softmax(%x) {dim = 1}
  return %s
}
)";
  const float below = 8 + std::log(4.0F);
  const std::vector<float> masked(4, -1e6F);
  std::vector<float> x{1, 3, -1e6F, 0, -20, -18, -100, -19};
  x.insert(x.end(), masked.begin(), masked.end());
  const Range range = observed_range(kRows, "x", elements_of("x", {1, 3, 4}, x));
  EXPECT_FLOAT_EQ(range.min, -18 - below);
  EXPECT_FLOAT_EQ(range.max, 3);

  // Scores of −10,000 are no masks beside others of that size, nor alone.
  const std::vector<float> large{-10010, -10003, -10004, -10005, -9990, -9991, -9992, -9993};
  for (const size_t rows : {size_t{1}, size_t{2}}) {
    std::vector<float> y(12, -10006);
    std::copy_n(large.begin(), 4 * rows, y.begin());
    const Range of_scores = observed_range(kRows, "x", elements_of("x", {1, 3, 4}, y));
    EXPECT_FLOAT_EQ(of_scores.min, -10010);
    EXPECT_FLOAT_EQ(of_scores.max, rows == 1 ? -10003.0F : -9990.0F);
  }

  // Along the other axis, in front of a view, and of a sum in front of that.
  const Range column = observed_range(R"(graph @forward(%x: f32[4,3]) {
  %n: f32[4,3] = aten.neg(%x)
  %r: f32[4,3] = aten.relu(%n)
  %a: f32[4,3] = aten.add.Tensor(%x, %r)
  %v: f32[1,4,3] = aten.view(%a) {size = [1, 4, 3]}
  %s: f32[1,4,3] = aten.softmax(%v) {dim = -2}
  return %s
}
)",
                                      "v", ramp("x", {1, 4, 3}, 0, 110));
  EXPECT_FLOAT_EQ(column.min, 90 - below);  // columns end at 90, 100 and 110
  EXPECT_FLOAT_EQ(column.max, 110);
}

// log(1 + exp(beta x)) / beta ends where beta x does: at x = -80 for a beta of 0.1.
TEST(Calibrate, SoftplusEndsWithItsBeta) {
  const auto least = [](std::string_view attributes) {
    return observed_range(fmt::format(R"(graph @forward(%x: f32[4]) {{
  %y: f32[4] = aten.softplus(%x){}
  return %y
}}
)",
                                      attributes),
                          "x", elements_of("x", {1, 4}, {2, 0, -90, -1}))
        .min;
  };
  EXPECT_FLOAT_EQ(least(""), -8);
  EXPECT_FLOAT_EQ(least(" {beta = 2.0, threshold = 20.0}"), -4);
  EXPECT_FLOAT_EQ(least(" {beta = 0.1, threshold = 20.0}"), -80);
  EXPECT_FLOAT_EQ(least(" {beta = -1.0, threshold = 20.0}"), -90);
}

TEST(Calibrate, WhatOthersReadToCountsWholly) {
  const auto x = elements_of("x", {1, 2, 2}, {0, -90, 5, 40});
  EXPECT_EQ(observed_range(R"(graph @forward(%x: f32[2,2]) {
  %s: f32[2,2] = aten.softmax(%x) {dim = 1}
  %y: f32[2,2] = aten.add.Tensor(%x, %s)
  return %y
}
)",
                           "x", x),
            (Range{-90, 40}));
  EXPECT_EQ(observed_range(R"(graph @forward(%x: f32[2,2]) {
  %a: f32[2,2] = aten.sigmoid(%x)
  %b: f32[2,2] = aten.tanh(%x)
  return %a, %b
}
)",
                           "x", x),
            (Range{-90, 40}));
}

TEST(Calibrate, CurvedFunctionsEndSomewhere) {
  const auto x = elements_of("x", {1, 5}, {-90, -4, 0, 4, 40});
  const auto range = [&](const std::string& op) {
    return observed_range(
        "graph @forward(%x: f32[5]) {\n  %y: f32[5] = aten." + op + "(%x)\n  return %y\n}\n", "x",
        x);
  };
  EXPECT_EQ(range("sigmoid"), (Range{-8, 8}));
  EXPECT_EQ(range("tanh"), (Range{-5, 5}));
  EXPECT_EQ(range("exp"), (Range{32, 40}));
  EXPECT_EQ(range("silu"), (Range{-12, 40}));
  EXPECT_EQ(range("hardswish"), (Range{-3, 40}));
  EXPECT_EQ(range("abs"), (Range{-90, 40}));
  const auto both = observed_range(R"(graph @forward(%x: f32[5]) {
  %n: f32[5] = aten.neg(%x)
  %y: f32[5] = aten.exp(%n)
  return %y
}
)",
                                   "x", x);
  EXPECT_EQ(both, (Range{-90, -82}));
  // Of small results the tail counts: sigmoid(−20) is a sixth of a step of sigmoid(−12).
  EXPECT_EQ(observed_range("graph @forward(%x: f32[3]) {\n  %y: f32[3] = aten.sigmoid(%x)\n  "
                           "return %y\n}\n",
                           "x", elements_of("x", {1, 3}, {-12, -19, -50})),
            (Range{-20, -12}));
}

// oneDNN hands a convolution's result channels-last; rows along channels are the same ones.
TEST(Calibrate, RowsAreFoundInBothLayouts) {
  const Module module = parse(R"(graph @forward(%x: f32[1,2,4,3]) {
  %w: f32[5,2,1,1] = constant dense<90, 1, -60, 2, 8, -3, 20, 40, -70, 5>
  %c: f32[1,5,4,3] = aten.convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %s: f32[1,5,4,3] = aten.softmax(%c) {dim = 1}
  %d: f32[1,5,4,3] = aten.convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %t: f32[1,5,4,3] = aten.softmax(%d) {dim = 2}
  return %s, %t
}
)");
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto arrays = ramp("x", {3, 1, 2, 4, 3}, 1, 2);
  const auto samples = Samples::bind(graph, arrays, "cal.npz");
  ASSERT_TRUE(samples);
  const auto executor = make_onednn_executor(module, graph, {.observe_any_layout = true});
  ASSERT_TRUE(executor) << to_text(executor.error());
  const auto fast = calibrate(module, graph, annotation, **executor, *samples);
  const auto slow = calibrate_reference(module, annotation, arrays);
  ASSERT_TRUE(fast && slow);
  for (const char* name : {"c", "d"}) {
    EXPECT_NEAR(fast->values.at(name).range().min, slow->values.at(name).range().min, 1e-3);
    EXPECT_NEAR(fast->values.at(name).range().max, slow->values.at(name).range().max, 1e-3);
  }
  EXPECT_NE(slow->values.at("c").range(), slow->values.at("d").range());
}

TEST(Calibrate, RefusesBadSamples) {
  const Module module = parse(kSmall);
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto id_of = [&](const std::vector<NamedTensor>& arrays) {
    const auto result = calibrate_reference(module, annotation, arrays);
    EXPECT_FALSE(result);
    EXPECT_FALSE(result || result.error().fix.empty());
    return result ? DiagnosticId::kIrInvalid : result.error().id;
  };
  EXPECT_EQ(id_of({}), DiagnosticId::kDataMissingArray);
  EXPECT_EQ(id_of(ramp("y", {1, 2, 4, 4}, 0, 1)), DiagnosticId::kDataMissingArray);
  EXPECT_EQ(id_of(ramp("x", {1, 2, 4, 5}, 0, 1)), DiagnosticId::kDataShape);
  EXPECT_EQ(id_of(ramp("x", {}, 0, 1)), DiagnosticId::kDataShape);
  EXPECT_EQ(id_of(ramp("x", {0, 2, 4, 4}, 0, 1)), DiagnosticId::kDataEmpty);
  EXPECT_EQ(id_of(ramp("x", {4, 1, 2, 4, 4}, 0, kInfinity)), DiagnosticId::kDataNotFinite);
  std::vector<NamedTensor> doubles;
  doubles.push_back({"x", Tensor(DType::kFloat64, {1, 2, 4, 4})});
  EXPECT_EQ(id_of(doubles), DiagnosticId::kDataDtype);
  EXPECT_EQ(calibrate_reference(module, annotation, doubles).error().fix,
            "convert it before saving: array.astype(numpy.float32)");
  const auto none = calibrate(module, graph, annotation, *make_reference_executor(module, graph),
                              Samples::random(graph, 0));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().id, DiagnosticId::kCalibrationMissing);
}

TEST(Samples, AreFoundByNameOrOrder) {
  const Module module = parse("graph @forward(%a: f32[1,3], %b: f32[2]) {\n  return %a, %b\n}\n");
  const Graph& graph = module.forward();
  const auto bind = [&](std::initializer_list<std::pair<const char*, Shape>> wanted) {
    std::vector<NamedTensor> arrays;
    for (const auto& [name, shape] : wanted)
      arrays.push_back({name, Tensor(DType::kFloat32, shape)});
    return Samples::bind(graph, arrays, "data.npz");
  };
  EXPECT_EQ(bind({{"b", {5, 2}}, {"a", {5, 3}}})->size(), 5U);
  EXPECT_EQ(bind({{"input_1", {5, 2}}, {"input_0", {5, 1, 3}}, {"label", {5}}})->size(), 5U);
  EXPECT_EQ(bind({{"input", {1, 3}}, {"b", {2}}})->size(), 1U);
  EXPECT_EQ(bind({{"a", {5, 3}}, {"b", {4, 2}}}).error().id, DiagnosticId::kDataCount);
  EXPECT_EQ(bind({{"a", {5, 3}}}).error().place.file, "data.npz");
  // `input` is the first input alone, and only an extent of 1 counts samples.
  EXPECT_EQ(bind({{"input", {2}}, {"b", {2}}}).error().id, DiagnosticId::kDataShape);
  EXPECT_EQ(bind({{"a", {1, 3}}, {"input", {2}}}).error().id, DiagnosticId::kDataMissingArray);
  EXPECT_EQ(bind({{"a", {1, 3}}, {"b", {4}}}).error().id, DiagnosticId::kDataShape);
  const auto two = bind({{"a", {5, 3}}, {"b", {5, 2}}, {"input_1", {5, 2}}});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().reason, "the arrays `b` and `input_1` are both for input `b`");
  const Module swapped = parse("graph @forward(%input_1: f32[3], %y: f32[2]) {\n  return %y\n}\n");
  std::vector<NamedTensor> named;
  named.push_back({"input_1", Tensor(DType::kFloat32, {4, 3})});
  named.push_back({"y", Tensor(DType::kFloat32, {4, 2})});
  EXPECT_TRUE(Samples::bind(swapped.forward(), named, "data.npz"));

  const Module one = parse("graph @forward(%x: f32[3]) {\n  return %x\n}\n");
  const auto arrays = ramp("photo", {2, 3}, 0, 5);
  EXPECT_FALSE(Samples::bind(one.forward(), arrays, "photo.npz"));
  const auto npy = Samples::bind(one.forward(), arrays, "photo.npy");
  ASSERT_TRUE(npy);
  EXPECT_EQ(npy->inputs(1)[0].values<float>()[0], 3);
}

// A .tflite file counts N, H, W, C: a reshape would mix pixels and channels.
TEST(Samples, SayWhenChannelsComeLast) {
  const Module module = parse("graph @forward(%x: f32[1,3,4,5]) {\n  return %x\n}\n");
  const auto fix = [&](const Shape& shape) {
    return Samples::bind(module.forward(), ramp("x", shape, 0, 1), "x.npz").error().fix;
  };
  EXPECT_NE(fix({1, 4, 5, 3}).find("array.transpose(0, 3, 1, 2), do not reshape"),
            std::string::npos);
  EXPECT_NE(fix({7, 4, 5, 3}).find("array.transpose(0, 3, 1, 2)"), std::string::npos);
  EXPECT_NE(fix({7, 1, 4, 5, 3}).find("array.transpose(0, 1, 4, 2, 3)"), std::string::npos);
  EXPECT_EQ(fix({1, 4, 3, 5}), "give it the shape Nx1x3x4x5 for N samples");
}

// Arrays of complex numbers have one dimension more.
TEST(Samples, SayWhenNumbersAreComplex) {
  const Module module = parse("graph @forward(%x: f32[1,3,4]) {\n  return %x\n}\n");
  const auto bound = Samples::bind(module.forward(), ramp("x", {7, 3, 4, 2}, 0, 1), "x.npz");
  EXPECT_EQ(bound.error().reason,
            "the array is 7x3x4x2, as one of complex numbers is read; the input `x` is real, "
            "1x3x4");
  EXPECT_NE(bound.error().fix.find("array.real"), std::string::npos);
}

// What no input takes stays unread: the name of each input, `input_K` and `input` are taken.
TEST(Samples, AreReadFromWhatInputsTake) {
  const Module module = parse("graph @forward(%a: f32[1,3], %b: f32[2]) {\n  return %a, %b\n}\n");
  const Graph& graph = module.forward();
  for (const char* name : {"a", "b", "input", "input_0", "input_1"})
    EXPECT_TRUE(Samples::is_input_array(graph, name)) << name;
  for (const char* name : {"", "c", "input_2", "inputs", "label"})
    EXPECT_FALSE(Samples::is_input_array(graph, name)) << name;
  std::vector<NamedTensor> arrays = ramp("input", {4, 3}, 0, 11);
  arrays.push_back({"b", Tensor(DType::kFloat32, {4, 2})});
  arrays.push_back({"label", Tensor(DType::kInt64, {9})});
  const std::string path = testing::TempDir() + "/deuteron_samples.npz";
  ASSERT_TRUE(write_npz(path, arrays, false));
  const auto samples = Samples::read(graph, path);
  std::filesystem::remove(path);
  ASSERT_TRUE(samples) << to_text(samples.error());
  EXPECT_EQ(samples->size(), 4U);
  EXPECT_EQ(samples->inputs(2)[0].values<float>()[1], 7);  // 2 · 3 + 1
}

TEST(Samples, NameWhatIsNotFinite) {
  const Module module = parse("graph @forward(%x: f32[2,3]) {\n  return %x\n}\n");
  auto arrays = ramp("x", {4, 2, 3}, 0, 1);
  arrays[0].tensor.values<float>()[20] = kInfinity;  // 3 · 6 + 2
  const auto samples = Samples::bind(module.forward(), arrays, "data.npz");
  ASSERT_TRUE(samples);
  const Result<void> finite = samples->check_finite();
  ASSERT_FALSE(finite);
  EXPECT_EQ(finite.error().reason, "element 2 of sample 3 is NaN or infinite");
}

TEST(Samples, RandomOnesAreNormalAndRepeatable) {
  const Module module = parse("graph @forward(%x: f32[1000]) {\n  return %x\n}\n");
  const Samples samples = Samples::random(module.forward(), 10);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < samples.size(); ++i)
    for (const float x : samples.inputs(i)[0].values<float>()) {
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
  EXPECT_NEAR(sum / 1e4, 0, 0.05);
  EXPECT_NEAR(squares / 1e4, 1, 0.05);
  const Samples again = Samples::random(module.forward(), 10);
  EXPECT_EQ(again.inputs(9)[0].values<float>()[999], samples.inputs(9)[0].values<float>()[999]);
}

}  // namespace
}  // namespace dtr
