// The compare at the end of a compilation: it accepts what was compiled and refuses anything else.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <numeric>

#include "compiler/executors/executor.h"
#include "compiler/ir/parser.h"
#include "compiler/ir/printer.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/sample_warnings.h"
#include "compiler/support/temporary_folder.h"
#include "host/accuracy/accuracy_candidates.h"
#include "host/accuracy/check.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/search_tasks.h"

namespace dtr {
namespace {

// A quantized convolution and softmax; `seed` makes the weights.
Module model(int seed) {
  const std::string text = R"(graph @forward(%x: f32[1,3,7,6]) {
  %q: i8[1,3,7,6] quant<0.02:-3> = quantize(%x)
  %w: i8[10,3,3,3] quant<range=-127..127, 0.01> = constant seeded<)" +
                           std::to_string(seed) + R"(>
  %a: i8[1,10,7,6] quant<0.05:4> = aten.convolution(%q, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  %y: f32[1,10,7,6] = dequantize(%a)
  return %y
})";
  return *parse_module(text, "model.ir");
}

TEST(Check, RefusesAProgramThatComputesSomethingElse) {
  const CompileSettings settings{.target = find_target("imxrt700"), .ranges = AsItIs{}};
  Result<Compilation> compiled = compile_model(model(1), settings);
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const Result<CheckFigures> figures = check_program(*compiled);
  ASSERT_TRUE(figures) << to_text(figures.error());
  EXPECT_FALSE(compile_report(*compiled).checked);
  const CompileReport report = compile_report(*compiled, *figures);
  EXPECT_TRUE(report.checked);
  EXPECT_EQ(report.npu_calls, 1U);

  Result<Compilation> other = compile_model(model(2), settings);
  ASSERT_TRUE(other) << to_text(other.error());
  other->written = std::move(compiled->written);
  const Result<CheckFigures> status = check_program(*other);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().id, DiagnosticId::kCheckFailed);
  EXPECT_NE(status.error().reason.find("output 0 differs from the quantized graph at element"),
            std::string::npos);
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

TEST(Sqnr, CountsWhatIsFinite) {
  const auto decibels_of = [](std::array<float, 2> expected, std::array<float, 2> actual) {
    Tensor e(DType::kFloat32, {2}), a(DType::kFloat32, {2});
    std::ranges::copy(expected, e.values<float>().begin());
    std::ranges::copy(actual, a.values<float>().begin());
    Sqnr sqnr;
    sqnr.add(e.view(), a.view());
    return sqnr.decibels();
  };
  EXPECT_NEAR(decibels_of({10, -INFINITY}, {9, -7}), 20, 1e-6);
  EXPECT_NEAR(decibels_of({10, NAN}, {9, 3}), 20, 1e-6);
  EXPECT_EQ(decibels_of({10, INFINITY}, {10, INFINITY}), 99);
  EXPECT_EQ(decibels_of({10, INFINITY}, {10, -INFINITY}), -99);
  EXPECT_EQ(decibels_of({10, INFINITY}, {10, NAN}), -99);
  EXPECT_EQ(decibels_of({10, 1}, {10, NAN}), -99);
  EXPECT_EQ(decibels_of({10, 1}, {10, INFINITY}), -99);
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

// --- float32 against double ---

// y = FUNCTION of a linear layer, in float.
std::string on_linear(const std::string& function, int seed = 1) {
  return R"(graph @forward(%x: f32[7,11]) {
  %w: f32[13,11] = constant seeded<)" +
         std::to_string(seed) + R"(>
  %l: f32[7,13] = aten.linear(%x, %w)
)" + function +
         "\n  return %y\n}";
}

// A program of `compiled` held against the graph of `wanted`.
Result<void> check_against(const std::string& wanted, const std::string& compiled) {
  const CompileSettings settings{.target = find_target("executorch"), .ranges = AsItIs{}};
  DTR_ASSIGN(Compilation made, compile_model(*parse_module(compiled, "made.ir"), settings));
  DTR_ASSIGN(Compilation own, compile_model(*parse_module(wanted, "model.ir"), settings));
  own.written = std::move(made.written);
  own.values = made.values;
  DTR_TRY(check_program(own));
  return {};
}

// Functions that make much of little: what float32 rounds in the layer changes their result by far
// more than 2^-20 of it.
const std::string kIllConditioned[] = {
    R"(%c: f32[] = constant dense<0.001> %a: f32[7,13] = aten.abs(%l) %s: f32[7,13] = aten.add.Tensor(%a, %c) {alpha = 1.0}
       %y: f32[7,13] = aten.reciprocal(%s))",
    R"(%c: f32[] = constant dense<0.000001> %a: f32[7,13] = aten.abs(%l) %s: f32[7,13] = aten.add.Tensor(%a, %c) {alpha = 1.0}
       %y: f32[7,13] = aten.log(%s))",
    R"(%c: f32[] = constant dense<0.001> %a: f32[7,13] = aten.abs(%l) %s: f32[7,13] = aten.add.Tensor(%a, %c) {alpha = 1.0}
       %y: f32[7,13] = aten.rsqrt(%s))",
    R"(%c: f32[] = constant dense<1000.0> %s: f32[7,13] = aten.mul.Tensor(%l, %c) %y: f32[7,13] = aten.sin(%s))",
    R"(%c: f32[] = constant dense<20.0> %s: f32[7,13] = aten.mul.Tensor(%l, %c) %y: f32[7,13] = aten.exp(%s))",
    R"(%c: f32[] = constant dense<1e6> %s: f32[7,13] = aten.mul.Tensor(%l, %c) %f: f32[7,13] = aten.floor(%s) %g: f32[7,13] = aten.sub.Tensor(%s, %f) {alpha = 1.0}
       %y: f32[7,13] = aten.log(%g))",
    R"(%y: f32[7,13] = aten.threshold(%l) {threshold = inf, value = 0.0})",
    R"(%y: f32[7,13] = aten.threshold(%l) {threshold = 0.5, value = inf})",
};

TEST(Check, TakesWhatFloat32Leaves) {
  for (const std::string& function : kIllConditioned) {
    const Result<void> status = check_against(on_linear(function), on_linear(function));
    EXPECT_TRUE(status) << function << "\n" << (status ? "" : to_text(status.error()));
  }
}

TEST(Check, RefusesWhatFloat32DoesNotLeave) {
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& function : kIllConditioned) {
    const bool depends = function.find("threshold = inf") ==
                         std::string::npos;  // no value is above infinity, whatever the weights
    EXPECT_EQ(check_against(on_linear(function), on_linear(function, 2)).has_value(), !depends)
        << function;
  }
  const std::string &reciprocal = on_linear(kIllConditioned[0]),
                    &logarithm = on_linear(kIllConditioned[1]),
                    &sine = on_linear(kIllConditioned[3]), &power = on_linear(kIllConditioned[4]);
  // Kernels that compute something near.
  EXPECT_FALSE(check_against(sine, with(sine, "aten.sin", "aten.cos")));
  EXPECT_FALSE(check_against(reciprocal, with(reciprocal, "0.001", "0.00101")));
  EXPECT_FALSE(check_against(logarithm, with(logarithm, "0.000001", "0.000002")));
  EXPECT_FALSE(check_against(sine, with(sine, "1000.0", "1000.01")));
  EXPECT_FALSE(check_against(power, with(power, "20.0", "20.001")));
}

// The last third of the places is rounded by more than the zeros beside them have digits.
TEST(Check, TakesRoundedPlacesOfAResize) {
  const auto resized = [](const std::string& odd, const std::string& align) {
    std::string mask;
    for (int i = 0; i < 17; ++i) mask += (i == 0 ? "0, " : ", 0, ") + odd;
    return "graph @forward(%x: f32[1,1,2,34]) {\n  %m: f32[34] = constant dense<" + mask +
           ">\n  %s: f32[1,1,2,34] = aten.mul.Tensor(%x, %m)\n  %y: f32[1,1,4,100] = "
           "aten.upsample_bilinear2d(%s) {align_corners = " +
           align + ", output_size = [4, 100]}\n  return %y\n}";
  };
  const std::string wanted = resized("1", "true");
  const Result<void> status = check_against(wanted, wanted);
  EXPECT_TRUE(status) << (status ? "" : to_text(status.error()));
  EXPECT_FALSE(check_against(wanted, resized("1.0001", "true")));
  EXPECT_FALSE(check_against(wanted, resized("1", "false")));
}

TEST(Check, NamesTheFirstOperatorThatIsWrong) {
  const std::string sine = on_linear(kIllConditioned[3]);
  std::string cosine = sine;
  cosine.replace(cosine.find("aten.sin"), 8, "aten.cos");
  const Result<void> status = check_against(sine, cosine);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().id, DiagnosticId::kCheckFailed);
  EXPECT_NE(status.error().reason.find("; `y`, aten.sin: element"), std::string::npos)
      << status.error().reason;
}

// --- accuracy against the float model ---

// Calibrated on noise, and checked on it.
Result<void> check_quantized(const std::string& text, double least = kLeastCheckDecibels) {
  DTR_ASSIGN(const Compilation compiled,
             compile_model(*parse_module(text, "model.ir"),
                           {.target = find_target("imxrt700"), .samples = NoiseSamples{2}}));
  DTR_TRY(check_program(compiled, least));
  return {};
}

std::string scaled_layer(const std::string& factor) {
  return R"(graph @forward(%x: f32[1,4]) {
  %w: f32[2,4] = constant dense<)" +
         factor + ", " + factor + ", " + factor + ", -" + factor + ", " + factor + ", -" + factor +
         ", " + factor + ", " + factor + R"(>
  %y: f32[1,2] = aten.linear(%x, %w)
  return %y
})";
}

TEST(Check, RefusesAnOutputOfWhichNothingIsLeft) {
  const Result<void> status = check_quantized(scaled_layer("1e-38"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().id, DiagnosticId::kCheckInaccurate);
  EXPECT_EQ(status.error().reason,
            "output 0, `y`: 0.0 dB against the float model on noise, at least 3.0 dB "
            "asked for; a program that gives nothing "
            "but zeros has 0 dB");
  EXPECT_TRUE(check_quantized(scaled_layer("1e-38"), -99));
  EXPECT_TRUE(check_quantized(scaled_layer("0.5")));
  EXPECT_FALSE(check_quantized(scaled_layer("0.5"), 90));
}

// Scale 1/255: ones are exact, 0.003 becomes 0.0039216, and 20·log10(0.003 / 0.00092157) dB are
// left of it. That is within a step, which the gate takes behind the first sample.
TEST(Check, FigureIsThatOfTheWorstSample) {
  Tensor data(DType::kFloat32, {4, 1, 2});
  const std::array<float, 8> values = {1, 0, 1, 0, 1, 0, 0.003F, 0};
  std::ranges::copy(values, data.values<float>().begin());
  Module module = *parse_module(
      "graph @forward(%x: f32[1,2]) { %y: f32[1,2] = aten.relu(%x) return %y }", "model.ir");
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(data)});
  const Samples samples = *Samples::bind(module.forward(), arrays, "data");
  CompileSettings settings{.target = find_target("imxrt700"), .samples = &samples};
  settings.observer = QuantSpec::Observer::kMinMax;
  const Result<Compilation> compiled = compile_model(std::move(module), settings);
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const Result<CheckFigures> figures = check_program(*compiled, 30);
  ASSERT_TRUE(figures) << to_text(figures.error());
  const OutputCheck& check = figures->outputs;
  EXPECT_EQ(check.samples, 4U);
  EXPECT_TRUE(check.is_int8);
  EXPECT_FALSE(check.on_noise);
  EXPECT_FALSE(check.came_quantized);
  EXPECT_FALSE(check.equal);
  EXPECT_NEAR(check.sqnr_db, 10.25, 0.01);
}

// The check itself ran on real samples, and tells something of the accuracy on those.
TEST(Check, SaysThatLoadedRangesWereChosenOnNoise) {
  const Result<Compilation> noise =
      compile_model(*parse_module(scaled_layer("0.5"), "model.ir"),
                    {.target = find_target("imxrt700"), .samples = NoiseSamples{9}});
  ASSERT_TRUE(noise) << to_text(noise.error());
  Tensor data(DType::kFloat32, {1, 1, 4});
  std::ranges::copy(std::array{0.5F, -1.0F, 0.25F, 1.0F}, data.values<float>().begin());
  Module module = *parse_module(scaled_layer("0.5"), "model.ir");
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(data)});
  const Samples samples = *Samples::bind(module.forward(), arrays, "data");
  const Result<Compilation> compiled = compile_model(
      std::move(module),
      {.target = find_target("imxrt700"), .samples = &samples, .ranges = &*noise->calibration});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  EXPECT_TRUE(compiled->calibrated_on_noise());
  const Result<CheckFigures> figures = check_program(*compiled);
  ASSERT_TRUE(figures) << to_text(figures.error());
  EXPECT_TRUE(figures->outputs.calibrated_on_noise);
  EXPECT_FALSE(figures->outputs.on_noise);
  EXPECT_EQ(to_text(figures->outputs).find("noise"), std::string::npos);
}

TEST(Check, SaysThatRangesWereChosenOnNoise) {
  const Result<Compilation> compiled =
      compile_model(*parse_module(scaled_layer("0.5"), "model.ir"),
                    {.target = find_target("imxrt700"), .samples = NoiseSamples{9}});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const Result<CheckFigures> figures = check_program(*compiled);
  ASSERT_TRUE(figures) << to_text(figures.error());
  EXPECT_TRUE(figures->outputs.calibrated_on_noise);
  EXPECT_TRUE(figures->outputs.on_noise);
  EXPECT_EQ(figures->outputs.samples, 4U);
}

// Ranges of a file, without samples: noise has the magnitude of what they were chosen on.
TEST(Check, DrawsNoiseInTheRangesOfTheInputs) {
  Tensor data(DType::kFloat32, {1, 1, 4});
  std::ranges::copy(std::array{500.0F, -1000.0F, 250.0F, 1000.0F}, data.values<float>().begin());
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(data)});
  Module first = *parse_module(scaled_layer("0.5"), "model.ir");
  const Samples samples = *Samples::bind(first.forward(), arrays, "data");
  const Result<Compilation> calibrated =
      compile_model(std::move(first), {.target = find_target("imxrt700"), .samples = &samples});
  ASSERT_TRUE(calibrated) << to_text(calibrated.error());
  const Result<Compilation> loaded =
      compile_model(*parse_module(scaled_layer("0.5"), "model.ir"),
                    {.target = find_target("imxrt700"), .ranges = &*calibrated->calibration});
  ASSERT_TRUE(loaded) << to_text(loaded.error());
  const Result<CheckFigures> figures = check_program(*loaded);
  ASSERT_TRUE(figures) << to_text(figures.error());
  EXPECT_TRUE(figures->outputs.on_noise);
  EXPECT_GT(figures->outputs.sqnr_db, 25);
  // What is asked for is held, noise or not.
  const Result<CheckFigures> held = check_program(*loaded, 95);
  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().id, DiagnosticId::kCheckInaccurate);
}

// The second output has the small channel alone, in the steps of both.
TEST(Check, WarnsOfAnOutputThatIsFarFromTheFloatModel) {
  Tensor data(DType::kFloat32, {16, 1, 4});
  for (size_t i = 0; i < data.values<float>().size(); ++i)
    data.values<float>()[i] = std::sin(static_cast<float>(i * i));
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(data)});
  Module model = *parse_module(R"(graph @forward(%x: f32[1,4]) {
  %w: f32[2,4] = constant dense<1, -1, 1, 1, 50, 50, -50, 50>
  %y: f32[1,2] = aten.linear(%x, %w)
  %small: f32[1,1] = aten.slice.Tensor(%y) {dim = 1, start = 0, end = 1, step = 1}
  return %y, %small
})",
                               "model.ir");
  const Samples samples = *Samples::bind(model.forward(), arrays, "data");
  const Result<Compilation> compiled =
      compile_model(std::move(model), {.target = find_target("imxrt700"), .samples = &samples});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const Result<CheckFigures> figures = check_program(*compiled, -99);
  ASSERT_TRUE(figures) << to_text(figures.error());
  OutputCheck check = figures->outputs;
  EXPECT_GT(check.sqnr_db, 24);  // of both together, where the large channel hides it
  EXPECT_EQ(check.worst_output, "small");
  EXPECT_GT(check.worst_output_db, 3);
  EXPECT_LT(check.worst_output_db, 18);
  const auto warning = accuracy_warning(check, {}, "model.ir");
  ASSERT_TRUE(warning);
  EXPECT_EQ(warning->id, DiagnosticId::kCheckInaccurate);

  check.worst_output_db = 12;
  check.samples = 1;
  EXPECT_EQ(accuracy_warning(check, {}, "model.ir")->reason,
            "output `small` has 12.0 dB against the float model on 1 calibration sample: its error "
            "is 25 % of the signal");
  EXPECT_FALSE(accuracy_warning(check, 12, "model.ir"));  // accepted with --min-sqnr
  EXPECT_TRUE(accuracy_warning(check, 13, "model.ir"));
  check.worst_output_db = 20;
  EXPECT_FALSE(accuracy_warning(check, {}, "model.ir"));
  check.worst_output_db = 12;
  check.on_noise = true;
  EXPECT_FALSE(accuracy_warning(check, {}, "model.ir"));
}

// The small channel is zero in the steps of the large one.
TEST(Check, WarnsOfIntegersThatAreWrong) {
  Tensor data(DType::kFloat32, {16, 1, 4});
  for (size_t i = 0; i < data.values<float>().size(); ++i)
    data.values<float>()[i] = static_cast<float>(1 + i % 3);
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", std::move(data)});
  Module model = *parse_module(R"(graph @forward(%x: f32[1,4]) {
  %w: f32[2,4] = constant dense<1, 1, 1, 1, 3000, -1000, 3000, 3000>
  %y: f32[1,2] = aten.linear(%x, %w)
  %least: f32[] = constant splat<0.1>
  %above: bool[1,2] = aten.gt.Tensor(%y, %least)
  return %above
})",
                               "model.ir");
  const Samples samples = *Samples::bind(model.forward(), arrays, "data");
  const Result<Compilation> compiled =
      compile_model(std::move(model),  // by cost, the layer would run in float
                    {.target = find_target("imxrt700"), .samples = &samples, .weigh_costs = false});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const Result<CheckFigures> figures = check_program(*compiled);
  ASSERT_TRUE(figures) << to_text(figures.error());
  OutputCheck check = figures->outputs;
  EXPECT_EQ(check.worst_integers.output, "above");
  EXPECT_EQ(check.worst_integers.elements, 8);  // of 4 samples
  EXPECT_EQ(check.worst_integers.differing, 4);
  EXPECT_EQ(check.worst_integers.part, 1);  // all are true
  EXPECT_TRUE(accuracy_warning(check, {}, "model.ir"));

  check.worst_integers = {.output = "above", .elements = 1000, .differing = 20, .part = 0.1};
  ASSERT_TRUE(accuracy_warning(check, {}, "model.ir"));
  EXPECT_EQ(
      accuracy_warning(check, {}, "model.ir")->reason,
      "20 of 1,000 elements of output `above` differ against the float model on 4 calibration "
      "samples");
  check.worst_integers.part = 0.09;
  EXPECT_FALSE(accuracy_warning(check, {}, "model.ir"));
  check.worst_integers = {.output = "above", .elements = 4, .differing = 1, .part = 1};
  EXPECT_FALSE(accuracy_warning(check, {}, "model.ir"));
}

TEST(Check, HoldsAQuantizedModelAgainstItself) {
  const Result<Compilation> compiled =
      compile_model(model(1), {.target = find_target("imxrt700"), .ranges = AsItIs{}});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const Result<CheckFigures> figures = check_program(*compiled);
  ASSERT_TRUE(figures) << to_text(figures.error());
  EXPECT_TRUE(figures->outputs.came_quantized);
  EXPECT_TRUE(figures->outputs.equal);
  EXPECT_EQ(to_text(figures->outputs), "equals the quantized model on 1 sample of noise");
}

TEST(Check, TakesAnOutputThatIsInfiniteWhereTheModelSaysSo) {
  EXPECT_TRUE(
      check_quantized("graph @forward(%x: f32[1,16]) { %r: f32[1,16] = aten.relu(%x) %y: f32[1,16] "
                      "= aten.log(%r) return %y }"));
}

TEST(Check, TakesAnOutputThatIsZeroOrConstant) {
  EXPECT_TRUE(check_quantized(scaled_layer("0.0")));
  EXPECT_TRUE(check_quantized(
      "graph @forward(%x: f32[1,4]) { %a: f32[1,4] = aten.abs(%x) %n: f32[1,4] = aten.neg(%a) "
      "%y: f32[1,4] = aten.relu(%n) return %y }"));
  EXPECT_TRUE(
      check_quantized("graph @forward(%x: f32[1,4]) { %y: f32[1,4] = aten.clamp(%x) {max = 2.5, "
                      "min = 2.5} return %y }"));
  EXPECT_TRUE(
      check_quantized("graph @forward(%x: f32[1,4]) { %y: f32[1,4] = aten.sub.Tensor(%x, %x) "
                      "{alpha = 1.0} return %y }"));
}

// ---- candidates of the search for accuracy

// One worker, in this process.
class OwnPool final : public TaskPool {
 public:
  explicit OwnPool(std::unique_ptr<TaskWorker> worker) : worker_(std::move(worker)) {}
  size_t size() const override { return 1; }
  Result<std::vector<std::vector<std::byte>>> run(
      std::span<const std::vector<std::byte>> inputs) override {
    std::vector<std::vector<std::byte>> results;
    for (const std::vector<std::byte>& input : inputs) {
      DTR_ASSIGN(std::vector<std::byte> result, worker_->run(results.size(), input));
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  std::unique_ptr<TaskWorker> worker_;
};
class OwnExecutor final : public TaskExecutor {
 public:
  Result<void> run(const TaskJob&, const TakeResult&, const ProgressFunction&) override {
    return {};
  }
  Result<std::unique_ptr<TaskPool>> start(const TaskJob& job) override {
    DTR_ASSIGN(std::unique_ptr<TaskWorker> worker, job.open());
    return std::make_unique<OwnPool>(std::move(worker));
  }
};

// What a worker is told travels as bytes. The channels between the layers have the ranges 1, 64 and
// 1/64, which one scale does not hold unless they are equalized; there is no stream to rotate.
TEST(Candidates, AreJudgedAlikeByWorkers) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const std::string path = folder->path() + "/net.ir";
  const std::string text = R"(graph @forward(%x: f32[1,2,3,5]) {
  %w: f32[3,2,1,1] = constant dense<1, -0.5, 64, 32, 0.015625, 0.0078125>
  %b: f32[3] = constant dense<0.25, 16, 0.00390625>
  %v: f32[2,3,1,1] = constant dense<1, 0.015625, -64, 0.5, 0.0078125, 60>
  %a: f32[1,3,3,5] = aten.convolution(%x, %w, %b) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %z: f32[1,3,3,5] = aten.relu(%a)
  %y: f32[1,2,3,5] = aten.convolution(%z, %v) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  return %y
}
)";
  std::ofstream(path) << text;
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kFloat32, {8, 1, 2, 3, 5})});
  const auto values = arrays[0].tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const Module parsed = *parse_module(text, "net.ir");
  const Samples samples = *Samples::bind(parsed.forward(), arrays, "data");

  OwnExecutor executor;
  const ModelSource source = path;
  const AccuracySearchOptions options{.executor = &executor};
  const CompileSettings base{.target = find_target("imxrt700"), .samples = &samples, .threads = 1};
  CandidateJudge judge(source, base, options);
  const Result<void> prepared = judge.prepare(base, true);
  ASSERT_TRUE(prepared) << to_text(prepared.error());
  const auto pool = CandidatePool::start(source, base, options);
  ASSERT_TRUE(pool) << to_text(pool.error());
  std::vector<double> decibels_of;
  for (const bool equalize : {false, true}) {
    CompileSettings settings = base;
    settings.equalize = equalize;
    for (const bool over_folds : {false, true}) {
      const Result<Candidate> own = judge.make(settings, over_folds);
      ASSERT_TRUE(own) << to_text(own.error());
      const auto theirs = (*pool)->judge(settings, over_folds, float_fingerprint(judge.all()));
      ASSERT_TRUE(theirs) << to_text(theirs.error());
      EXPECT_EQ(theirs->sqnr_db, own->figures.sqnr_db);
      EXPECT_EQ(theirs->folds_db, own->figures.folds_db);
      EXPECT_EQ(own->figures.folds_db.has_value(), over_folds);
      EXPECT_EQ(theirs->cycles, own->figures.cycles);
      decibels_of.push_back(own->figures.sqnr_db);
    }
  }
  EXPECT_EQ(decibels_of[1], decibels_of[0]);
  EXPECT_GT(decibels_of[2], decibels_of[0] + 1);

  // Each fold as the one that is held out: two of eight samples, or one of three. Over all folds
  // the errors and the signals add up. Sample `part` moves behind the others, in its place there.
  const auto floats = make_reference_executor(parsed, parsed.forward(), Precision::kFloat);
  for (const size_t count : {8, 3}) {
    const size_t parts = std::min<size_t>(4, count);
    double errors = 0, signals = 0;
    for (size_t part = 0; part < parts; ++part) {
      std::vector<size_t> order;
      for (size_t i = 0; i < count; ++i)
        order.push_back((i + part + 1) % parts + i / parts * parts);
      const Samples turned = samples.choose(order);
      std::vector<size_t> others, own;
      for (size_t i = 0; i < count; ++i) (i % parts == parts - 1 ? own : others).push_back(i);
      const Samples calibrated = turned.choose(others), judged = turned.choose(own);
      CompileSettings settings = base;
      settings.samples = &judged;
      CandidateJudge of_fold(source, settings, options);
      ASSERT_TRUE(of_fold.prepare(settings, true));  // few samples: it judges on all of them
      const Result<Compilation> made = of_fold.compile_on(calibrated, base);
      ASSERT_TRUE(made);
      double signal = 0;
      for (size_t i = 0; i < judged.size(); ++i) {
        const Result<std::vector<Tensor>> outputs = floats->run(judged.inputs(i));
        ASSERT_TRUE(outputs);
        for (const float y : (*outputs)[0].values<float>()) signal += double{y} * double{y};
      }
      errors += signal * std::pow(10, -of_fold.judge(*made)->sqnr_db / 10);
      signals += signal;
    }
    const Samples some = samples.choose([&] {
      std::vector<size_t> first(count);
      std::iota(first.begin(), first.end(), size_t{0});
      return first;
    }());
    CompileSettings settings = base;
    settings.samples = &some;
    CandidateJudge of_all(source, settings, options);
    ASSERT_TRUE(of_all.prepare(settings, true));
    const Result<Candidate> own = of_all.make(settings, true);
    ASSERT_TRUE(own);
    EXPECT_EQ(of_all.known().in_turn, count == 3);
    const double decibels = count == 3 ? own->figures.sqnr_db : own->figures.folds_db.value_or(0);
    EXPECT_NEAR(decibels, 10 * std::log10(signals / errors), 1e-3) << count;
  }
}

}  // namespace
}  // namespace dtr
