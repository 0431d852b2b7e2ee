// What is said of the error of a time: of programs that resemble published runs, that do not, and
// of the CPU's part.
#include "compiler/targets/time_error.h"

#include <gtest/gtest.h>

namespace dtr {
namespace {

constexpr uint32_t kPublished = 44;  // compiler/targets/time_error.cpp, held by bench/calibrate.py

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
  EXPECT_EQ(error.percent, kPublished);
  EXPECT_EQ(error.npu_percent, kPublished);
  EXPECT_FALSE(error.cpu_percent);
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
  EXPECT_FALSE(error.percent);
  EXPECT_FALSE(error.npu_percent);
  EXPECT_EQ(error.known, "simulated, not compared with silicon");
  EXPECT_EQ(error.reason, std::string("NPU: ") + GetParam().why);
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
               "its schedule and the place of its constants are not known: the program says them"},
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
              "the place of constants in published runs (CIFARNet, the MLPerf autoencoder) is "
              "unknown: no band");
    EXPECT_FALSE(time_error(work).percent);
  }
  work.target = find_target("test-4x4");
  EXPECT_EQ(difference_from_published_runs(work), "no figure is published for test-4x4");
}

TEST(TimeError, FlashHasItsOwnRun) {
  TimedWork work = keywords();
  work.configuration->constants = ConstantMemory::kFlash;
  work.npu_calls = 29;
  work.npu_macs = 568'741'376;
  EXPECT_EQ(time_error(work).percent, kPublished);
}

TEST(TimeError, OfASumIsThatOfItsParts) {
  TimedWork work = keywords();
  const char* kernel = "cortex_m::quantized_conv2d.out";
  work.cpu = {{kernel, 100'000}};
  const TimeError alone = time_error({.target = work.target, .cpu = work.cpu});
  ASSERT_TRUE(alone.cpu_percent);
  EXPECT_FALSE(alone.percent);
  EXPECT_FALSE(alone.npu_percent);
  EXPECT_EQ(alone.known, "estimated ±" + std::to_string(*alone.cpu_percent) +
                             " % of counted instructions, not compared with silicon");
  EXPECT_EQ(alone.reason, "CPU: within " + std::to_string(*alone.cpu_percent) +
                              " % of instructions counted in QEMU");
  // 200,000 cycles with one error, 100,000 with the other.
  const TimeError both = time_error(work);
  EXPECT_EQ(both.npu_percent, kPublished);
  EXPECT_EQ(both.cpu_percent, alone.cpu_percent);
  EXPECT_EQ(both.percent, (2 * kPublished + *alone.cpu_percent + 2) / 3);
  EXPECT_EQ(both.reason, "NPU: ±44 % by published runs; " + alone.reason);
  // Without a comparison of the NPU's part there is none of the sum; the CPU's stays.
  work.configuration->nxp_like = false;
  const TimeError own = time_error(work);
  EXPECT_FALSE(own.percent);
  EXPECT_EQ(own.cpu_percent, alone.cpu_percent);
  EXPECT_EQ(own.known, "simulated, not compared with silicon");
  EXPECT_EQ(own.reason, "NPU: no published run has Deuteron's own schedule; " + alone.reason);
}

// A kernel whose estimate is 5 % off on one core and 6 % on the other
// (compiler/targets/cpu_errors.inc).
TEST(TimeError, EachCoreHasItsOwn) {
  const auto percent = [](std::string_view target) {
    return time_error(
               {.target = find_target(target), .cpu = {{"cortex_m::quantized_add.out", 100}}})
        .cpu_percent;
  };
  EXPECT_EQ(percent("cortex-m33"), 5U);
  EXPECT_EQ(percent("cortex-m55"), 6U);
}

// 452 % of the estimate: a count is at most 5.52 times as large, and never below zero.
TEST(TimeError, AboveItsTimeIsNoErrorDownwards) {
  const TimeError error =
      time_error({.target = find_target("cortex-m33"), .cpu = {{"cortex_m::softmax.out", 1000}}});
  ASSERT_EQ(error.cpu_percent, 452U);
  EXPECT_EQ(error.known,
            "estimated -100 to +460 % of counted instructions, not compared with silicon");
  EXPECT_EQ(error.reason, "CPU: instructions counted in QEMU are up to 5.6 times the estimate");
}

TEST(TimeError, StaysInProportionBeyondWhatAnIntegerCounts) {
  const char* kernel = "cortex_m::quantized_conv2d.out";
  const TimeError error =
      time_error({.target = find_target("cortex-m33"), .cpu = {{kernel, 100'000}}});
  const TimeError of_damage = time_error(
      {.target = find_target("cortex-m33"), .cpu = {{kernel, UINT64_MAX}, {kernel, UINT64_MAX}}});
  ASSERT_TRUE(error.cpu_percent);
  EXPECT_EQ(of_damage.cpu_percent, error.cpu_percent);
}

TEST(TimeError, OfEstimatesThatNobodyCountedIsNotKnown) {
  TimedWork work{
      .target = find_target("cortex-m33"),
      .cpu = {{"aten::b.out", 10}, {"aten::a.out", 20}, {"cortex_m::quantized_conv2d.out", 30}}};
  const TimeError error = time_error(work);
  EXPECT_FALSE(error.percent);
  EXPECT_FALSE(error.cpu_percent);
  EXPECT_EQ(error.known, "estimated, not compared with silicon");
  EXPECT_EQ(error.reason,
            "CPU: the estimate of aten::a.out (and 1 more) was never held against a count");
  work.npu_cycles = 100;
  EXPECT_EQ(time_error(work).known, "simulated, not compared with silicon");
  // What takes no time needs no error.
  work = {.target = find_target("cortex-m33"),
          .cpu = {{"aten::a.out", 0}, {"cortex_m::quantized_conv2d.out", 30}}};
  EXPECT_TRUE(time_error(work).cpu_percent);
}

TEST(TimeError, CountedInstructionsAreNotEstimates) {
  TimedWork work{
      .target = find_target("cortex-m33"), .cpu = {{"aten::a.out", 20}}, .cpu_counted = true};
  const TimeError error = time_error(work);
  EXPECT_FALSE(error.percent);
  EXPECT_FALSE(error.cpu_percent);
  EXPECT_EQ(error.known, "of counted instructions, not compared with silicon");
  EXPECT_EQ(error.reason, "CPU: instructions counted in QEMU, which are not cycles");
}

}  // namespace
}  // namespace dtr
