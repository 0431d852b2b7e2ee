// What is said of the error of a time: of programs that resemble published runs, that do not, and
// of the CPU's part.
#include "compiler/targets/time_error.h"

#include <gtest/gtest.h>

namespace dtr {
namespace {

constexpr ErrorBounds kPublished{44,
                                 44};  // compiler/targets/target.cpp, held by bench/calibrate.py

// As DS-CNN-S: 12 calls, 2.7 million products.
TimedWork keywords() {
  return {.target = find_target("imxrt700"),
          .configuration = NpuConfiguration{.nxp_like = true, .constants = ConstantMemory::kSram},
          .npu_cycles = 200'000,
          .npu_calls = 12,
          .npu_macs = 2'656'768,
          .npu_kernels = {"Conv2d", "Depthwise", "Conv2d", "Pool"}};
}

TEST(TimeError, OfWhatWasMeasuredIsThatOfThePublishedRuns) {
  EXPECT_EQ(difference_from_published_runs(keywords()), "");
  const TimeError error = time_error(keywords());
  EXPECT_EQ(error.whole, kPublished);
  EXPECT_EQ(error.npu, kPublished);
  EXPECT_FALSE(error.cpu);
  EXPECT_EQ(error.known, "simulated ±44 %");
  EXPECT_EQ(error.reason, "NPU: ±44 % by published runs");
  EXPECT_EQ(time_text(1.5, error), "1.500 ms simulated ±44 %");
  // The same machine, other kernels on the CPU.
  TimedWork work = keywords();
  work.target = find_target("imxrt700cm");
  EXPECT_EQ(difference_from_published_runs(work), "");
}

struct Unlike {
  const char* name;
  void (*change)(TimedWork& work);
  const char* why;
};
class TimeErrorUnlike : public testing::TestWithParam<Unlike> {};

TEST_P(TimeErrorUnlike, SaysThatNothingWasCompared) {
  TimedWork work = keywords();
  GetParam().change(work);
  EXPECT_EQ(difference_from_published_runs(work), GetParam().why);
  const TimeError error = time_error(work);
  EXPECT_FALSE(error.whole);
  EXPECT_FALSE(error.npu);
  EXPECT_EQ(error.known, "simulated, not compared with silicon");
  EXPECT_EQ(error.reason, std::string("NPU unknown: ") + GetParam().why);
}

INSTANTIATE_TEST_SUITE_P(
    EachCondition, TimeErrorUnlike,
    testing::Values(
        Unlike{"own_schedule", [](TimedWork& work) { work.configuration->nxp_like = false; },
               "no published run has Deuteron's own schedule"},
        Unlike{"flash",
               [](TimedWork& work) { work.configuration->constants = ConstantMemory::kFlash; },
               "published runs (MobileNetV1-1.0-224) have 29 to 29 calls, this one has 12"},
        Unlike{"kernel", [](TimedWork& work) { work.npu_kernels.emplace_back("Softmax"); },
               "NXP published no time for a program with a Softmax kernel"},
        Unlike{"few_calls", [](TimedWork& work) { work.npu_calls = 3; },
               "published runs (CIFARNet, MobileNetV1-0.25-128, DS-CNN-S) have 8 to 29 calls, this "
               "one has 3"},
        Unlike{"many_calls", [](TimedWork& work) { work.npu_calls = 59; },
               "published runs (CIFARNet, MobileNetV1-0.25-128, DS-CNN-S) have 8 to 29 calls, this "
               "one has 59"},
        Unlike{"small", [](TimedWork& work) { work.npu_macs = 1'300'000; },
               "published runs (CIFARNet, MobileNetV1-0.25-128, DS-CNN-S) have 2.7 to 13.6 million "
               "multiply-accumulates, this one has 1.3"},
        Unlike{"large", [](TimedWork& work) { work.npu_macs = 28'000'000; },
               "published runs (CIFARNet, MobileNetV1-0.25-128, DS-CNN-S) have 2.7 to 13.6 million "
               "multiply-accumulates, this one has 28.0"},
        Unlike{"operator", [](TimedWork& work) { work.whole_run = false; },
               "published figures are of whole runs, not of operators"},
        Unlike{"no_program", [](TimedWork& work) { work.configuration.reset(); },
               "its schedule and the memory of its constants are not known without the program"},
        Unlike{"no_target", [](TimedWork& work) { work.target = nullptr; },
               "its target is not known"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// Its two published runs choose no constant and give no band.
TEST(TimeError, PublishedRunsWithUnknownConstantsGiveNoBand) {
  TimedWork work = keywords();
  work.target = find_target("mcxn947");
  for (const bool nxp_like : {false, true}) {
    work.configuration->nxp_like = nxp_like;
    EXPECT_EQ(difference_from_published_runs(work),
              "what published runs (CIFARNet, the MLPerf autoencoder) include is unknown: no band");
    EXPECT_FALSE(time_error(work).whole);
  }
  work.target = find_target("test-4x4");
  EXPECT_EQ(difference_from_published_runs(work), "no figure is published for test-4x4");
}

TEST(TimeError, FlashHasItsOwnRun) {
  TimedWork work = keywords();
  work.configuration->constants = ConstantMemory::kFlash;
  work.npu_calls = 29;
  work.npu_macs = 568'741'376;
  EXPECT_EQ(time_error(work).whole, kPublished);
}

// 200,000 cycles with one error, 100,000 with the other: 15 % below, 70 % above
// (compiler/targets/cpu_errors.inc).
TEST(TimeError, OfASumIsThatOfItsParts) {
  TimedWork work = keywords();
  work.cpu = {{"cortex_m::quantized_conv2d.out", 100'000}};
  const TimeError alone = time_error({.target = work.target, .cpu = work.cpu});
  EXPECT_EQ(alone.cpu, (ErrorBounds{15, 70}));
  EXPECT_FALSE(alone.whole);
  EXPECT_FALSE(alone.npu);
  EXPECT_EQ(alone.known, "estimated -15/+70 % by counted instructions, not compared with silicon");
  EXPECT_EQ(alone.reason,
            "CPU: -15/+70 % by instructions counted in QEMU, each layer at its worst");
  const TimeError both = time_error(work);
  EXPECT_EQ(both.npu, kPublished);
  EXPECT_EQ(both.cpu, alone.cpu);
  EXPECT_EQ(both.whole, (ErrorBounds{35, 53}));  // (2 · 44 + 15) / 3, (2 · 44 + 70) / 3
  EXPECT_EQ(both.known, "simulated -35/+53 %");
  EXPECT_EQ(both.reason, "NPU: ±44 % by published runs; " + alone.reason);
  // Without a comparison of the NPU's part there is none of the sum; the CPU's stays.
  work.configuration->nxp_like = false;
  const TimeError own = time_error(work);
  EXPECT_FALSE(own.whole);
  EXPECT_EQ(own.cpu, alone.cpu);
  EXPECT_EQ(own.known, "simulated, not compared with silicon");
  EXPECT_EQ(own.reason,
            "NPU unknown: no published run has Deuteron's own schedule; " + alone.reason);
}

// A kernel whose counts are 1 % below to 5 % above the estimate on one core, and 6 % below on the
// other (compiler/targets/cpu_errors.inc).
TEST(TimeError, EachCoreHasItsOwn) {
  const auto error = [](std::string_view target) {
    return time_error(
               {.target = find_target(target), .cpu = {{"cortex_m::quantized_add.out", 100}}})
        .cpu;
  };
  EXPECT_EQ(error("cortex-m33"), (ErrorBounds{7, 0}));
  EXPECT_EQ(error("cortex-m55"), (ErrorBounds{6, 0}));
}

// A Cortex-M7 runs the kernels that were counted for a Cortex-M33: the words say whose they are.
TEST(TimeError, AnotherCpuIsToldWhoseInstructionsWereCounted) {
  const TimeError error =
      time_error({.target = find_target("imx95"), .cpu = {{"cortex_m::quantized_add.out", 100}}});
  EXPECT_EQ(error.known,
            "estimated -7/+0 % by counted instructions of a Cortex-M33, not compared with silicon");
  EXPECT_EQ(
      error.reason,
      "CPU: -7/+0 % by instructions of a Cortex-M33 counted in QEMU, each layer at its worst");
}

// A count is never below zero: the sides differ.
TEST(TimeError, ABoundBelowIsNoneAbove) {
  const TimeError error =
      time_error({.target = find_target("cortex-m33"), .cpu = {{"cortex_m::softmax.out", 1000}}});
  ASSERT_EQ(error.cpu, (ErrorBounds{5, 437}));
  EXPECT_EQ(error.known, "estimated -5/+440 % by counted instructions, not compared with silicon");
  EXPECT_EQ(to_text(ErrorBounds{5, 5}), "±5 %");
  EXPECT_EQ(to_text(ErrorBounds{99, 100}), "-99/+100 %");
  EXPECT_EQ(to_text(ErrorBounds{0, 1234}), "-0/+1300 %");
  EXPECT_EQ(to_json(error.cpu), "[-5, 437]");
  EXPECT_EQ(to_json(std::nullopt), "null");
}

// The sums of the MLPerf Tiny models are within 5 % on a Cortex-M33 (docs/performance.md): said of
// whole programs of the CPU with their kernels, and a like number of products.
TEST(TimeError, OfWholeProgramsLikeThoseCounted) {
  TimedWork work{.target = find_target("cortex-m33"),
                 .cpu = {{"cortex_m::quantized_conv2d.out", 100'000}},
                 .cpu_macs = 2'656'768};
  const std::string layers =
      "CPU: -15/+70 % by instructions counted in QEMU, each layer at its worst";
  EXPECT_EQ(time_error(work).cpu_programs, (ErrorBounds{5, 5}));
  EXPECT_EQ(time_error(work).reason, layers + "; whole programs like it ±5 %");
  const auto unlike = [&](void (*change)(TimedWork&)) {
    TimedWork other = work;
    change(other);
    return !time_error(other).cpu_programs;
  };
  EXPECT_TRUE(unlike([](TimedWork& w) { w.cpu_macs = 100'000; }));     // half of 264,192
  EXPECT_TRUE(unlike([](TimedWork& w) { w.cpu_macs = 26'000'000; }));  // twice 12,501,632
  EXPECT_TRUE(unlike([](TimedWork& w) { w.whole_run = false; }));
  EXPECT_TRUE(unlike([](TimedWork& w) { w.npu_cycles = 1; }));
  EXPECT_TRUE(unlike([](TimedWork& w) { w.cpu_counted = true; }));
  EXPECT_TRUE(unlike([](TimedWork& w) { w.cpu.push_back({"deuteron::quantized_matmul.out", 1}); }));
  work.target = find_target("cortex-m55");
  EXPECT_EQ(time_error(work).cpu_programs, (ErrorBounds{9, 8}));
}

TEST(TimeError, StaysInProportionBeyondWhatAnIntegerCounts) {
  const char* kernel = "cortex_m::quantized_conv2d.out";
  const TimeError error =
      time_error({.target = find_target("cortex-m33"), .cpu = {{kernel, 100'000}}});
  const TimeError of_damage = time_error(
      {.target = find_target("cortex-m33"), .cpu = {{kernel, UINT64_MAX}, {kernel, UINT64_MAX}}});
  ASSERT_TRUE(error.cpu);
  EXPECT_EQ(of_damage.cpu, error.cpu);
}

TEST(TimeError, OfEstimatesThatNobodyCountedIsNotKnown) {
  TimedWork work{
      .target = find_target("cortex-m33"),
      .cpu = {{"aten::b.out", 10}, {"aten::a.out", 20}, {"cortex_m::quantized_conv2d.out", 30}}};
  const TimeError error = time_error(work);
  EXPECT_FALSE(error.whole);
  EXPECT_FALSE(error.cpu);
  EXPECT_EQ(error.known, "estimated, not compared with silicon");
  EXPECT_EQ(error.reason,
            "CPU: the estimate of aten::a.out (and 1 more) was never held against a count");
  work.npu_cycles = 100;
  EXPECT_EQ(time_error(work).known, "simulated, not compared with silicon");
  // What takes no time needs no error.
  work = {.target = find_target("cortex-m33"),
          .cpu = {{"aten::a.out", 0}, {"cortex_m::quantized_conv2d.out", 30}}};
  EXPECT_TRUE(time_error(work).cpu);
}

TEST(TimeError, CountedInstructionsAreNotEstimates) {
  TimedWork work{
      .target = find_target("cortex-m33"), .cpu = {{"aten::a.out", 20}}, .cpu_counted = true};
  const TimeError error = time_error(work);
  EXPECT_FALSE(error.whole);
  EXPECT_FALSE(error.cpu);
  EXPECT_EQ(error.known, "of counted instructions, not compared with silicon");
  EXPECT_EQ(error.reason, "CPU: instructions counted in QEMU, which are not cycles");
}

// 200,000 cycles with the NPU and 50,000 with the CPU are 250,000, 1 ms at 250 MHz.
TEST(InferenceText, IsOneSentenceForEveryKindOfProgram) {
  TimedWork work = keywords();
  work.cpu = {{"cortex_m::quantized_add.out", 50'000}};
  EXPECT_EQ(inference_text(work, 250'000'000),
            "200,000 cycles with the NPU + 50,000 with the CPU = 250,000 = 1.000 ms simulated "
            "-37/+36 %, at 250 MHz");
  EXPECT_EQ(inference_text(work, 0), "200,000 cycles with the NPU + 50,000 with the CPU = 250,000");
  EXPECT_NE(inference_json(work, 250'000'000)
                .find("\"clock_hz\": 250000000, \"cpu_cycles\": 50000, \"total_cycles\": 250000, "
                      "\"milliseconds\": 1.000000, \"time_error_percent\": [-37, 36], "
                      "\"npu_error_percent\": [-44, 44], \"cpu_error_percent\": [-7, 0],"),
            std::string::npos)
      << inference_json(work, 250'000'000);
  TimedWork npu = work;
  npu.cpu.clear();
  EXPECT_EQ(inference_text(npu, 200'000'000),
            "200,000 cycles with the NPU = 1.000 ms simulated ±44 %, at 200 MHz");
  TimedWork cpu = work;
  cpu.npu_cycles = 0;
  EXPECT_EQ(inference_text(cpu, 50'000'000),
            "about 50,000 cycles = 1.000 ms estimated -7/+0 % by counted instructions, not "
            "compared with silicon, at 50 MHz");
  // Kernels whose cost nobody says are not left out in silence.
  npu.cpu_known = false;
  EXPECT_EQ(inference_text(npu, 200'000'000),
            "200,000 cycles with the NPU = 1.000 ms simulated, not compared with silicon, at 200 "
            "MHz; cycles of the CPU not known (no debug map)");
  EXPECT_NE(inference_json(npu, 200'000'000)
                .find("\"cpu_cycles\": null, \"total_cycles\": null, \"milliseconds\": null, "),
            std::string::npos);
  npu.npu_cycles = 0;
  EXPECT_EQ(inference_text(npu, 200'000'000), "cycles not known (no debug map)");
}

}  // namespace
}  // namespace dtr
