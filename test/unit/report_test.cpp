// Figures of the compilation's report and of `deuteron compare`, against sums made by hand.
#include "compiler/pipeline/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"
#include "host/accuracy/compare.h"

namespace dtr {
namespace {

std::string line_of(const std::string& text, const std::string& begin) {
  const size_t at = text.find("\n" + begin);
  return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// 3,000 cycles with the NPU and 2,000 with the CPU are 5,000, which take 5 ms at 1 MHz.
TEST(Report, TimeIsThatOfNpuAndCpuTogether) {
  CompileReport report;
  report.target = find_target("imxrt700");
  report.clock_hz = 1'000'000;
  report.checked = true;
  report.npu_total_cycles = 3000;
  report.operators.push_back({.kernel = "aten::a.out", .cpu_cycles = 2000});
  const std::string time = line_of(to_text(report), "time");
  for (const char* figure : {"3,000", "2,000", "5,000", "5.0"})
    EXPECT_NE(time.find(figure), std::string::npos) << figure << " in " << time;
}

// No part of the program is for the NPU: nothing was left uncounted by leaving out the check.
TEST(Report, WithoutNpuPartSaysNothingOfIt) {
  CompileReport report;
  report.target = find_target("imxrt700");
  report.clock_hz = 1'000'000;
  report.cpu_calls = 1;
  report.cpu_cycles = 2000;
  report.operators.push_back({.kernel = "aten::a.out", .cpu_cycles = 2000});
  const std::string text = to_text(report);
  EXPECT_EQ(text.find("NPU"), std::string::npos) << text;
  EXPECT_EQ(line_of(text, "time"),
            "time    about 2,000 cycles = 2.000 ms estimated, not compared with silicon, at 1 MHz");
  EXPECT_NE(to_json(report).find("\"total_cycles\": 2000, \"milliseconds\": 2.000000,"),
            std::string::npos);
  report.partitions = 1;  // whose cycles the check would have counted
  EXPECT_EQ(line_of(to_text(report), "time"), "");
  EXPECT_NE(to_json(report).find("\"total_cycles\": null, \"milliseconds\": null,"),
            std::string::npos);
}

TEST(Report, RefusalsSaveTheirSumLessACall) {
  CompileReport report;
  report.target = find_target("cortex-m33");
  report.refusals.push_back({.name = "a", .cycles_lost = 500});
  report.refusals.push_back({.name = "b", .because_of = "a", .cycles_lost = 700});
  EXPECT_NE(to_text(report).find(
                "Not on the NPU: 2 operators; their own cycles there would be at most 1,200 fewer"),
            std::string::npos)
      << to_text(report);
  EXPECT_NE(placement_json(report).find("\"cycles_lost\": 1200,"), std::string::npos)
      << placement_json(report);
  // Without a call of the NPU, they need one: 8,000 cycles of the host.
  report.target = find_target("imxrt700");
  EXPECT_NE(to_text(report).find("would be at most 0 fewer"), std::string::npos);
  report.refusals[0].cycles_lost = 8500;
  EXPECT_NE(to_text(report).find("would be at most 1,200 fewer"), std::string::npos);
  report.partitions = 1;
  EXPECT_NE(to_text(report).find("would be at most 9,200 fewer"), std::string::npos);
}

TEST(Report, CheckNamesItsReferenceAndItsSamples) {
  const OutputCheck check{.sqnr_db = 42.44, .is_int8 = true, .samples = 4};
  EXPECT_EQ(to_text(check),
            "int8 program against the float model: 42.4 dB, the worst of 4 calibration samples; "
            "accuracy: `deuteron eval`");
  const OutputCheck fine{.sqnr_db = 98.94, .is_int8 = true, .samples = 1};
  EXPECT_NE(to_text(fine).find(": 98.9 dB on 1 calibration sample;"), std::string::npos);
  OutputCheck noise = check;
  noise.on_noise = noise.calibrated_on_noise = true;
  EXPECT_EQ(
      to_text(noise),
      "int8 program against the float model: 42.4 dB, the worst of 4 samples of the noise that "
      "chose its ranges; it says nothing of accuracy: use `deuteron eval`");
  EXPECT_EQ(
      to_text(
          {.sqnr_db = 99, .equal = true, .came_quantized = true, .on_noise = true, .samples = 1}),
      "equals the quantized model on 1 sample of noise");
  EXPECT_EQ(to_text({.sqnr_db = 99, .on_noise = true, .samples = 1}),
            "program against the float model: 99 dB or more on 1 sample of noise");
  EXPECT_EQ(to_text({.sqnr_db = 99, .equal = true, .on_noise = true, .samples = 1}),
            "program against the float model: no difference on 1 sample of noise");
  CompileReport report;
  report.target = find_target("imxrt700");
  report.checked = true;
  report.check = noise;
  EXPECT_NE(to_json(report).find("\"check_sqnr_db\": 42.44, \"check_equal\": false, "
                                 "\"check_reference\": \"float model\", \"check_data\": "
                                 "\"calibration noise\", \"check_samples\": 4, "
                                 "\"check_says_accuracy\": false, \"calibrated_on_noise\": true,"),
            std::string::npos)
      << to_json(report);
}

// By which published runs and whole programs a time is compared.
TEST(Report, WorkIsThatOfEachPart) {
  CompileReport report;
  report.target = find_target("imxrt700");
  report.partitions = 1;
  report.checked = true;
  report.operators.push_back({.kernel = "Conv2d", .macs = 500, .cycles = 40});
  report.operators.push_back({.kernel = "Move", .cycles = 7});
  report.operators.push_back({.kernel = "aten::a.out", .macs = 30, .cpu_cycles = 2000});
  report.operators.push_back({.kernel = "aten::b.out", .macs = 4, .cpu_cycles = 100});
  report.operators.push_back({.kernel = "aten::free.out", .macs = 1});  // a view
  const auto work = timed_work(report);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->npu_macs, 500U);
  EXPECT_EQ(work->npu_kernels, (std::vector<std::string>{"Conv2d", "Move"}));
  EXPECT_EQ(work->cpu_macs, 34U);
  ASSERT_EQ(work->cpu.size(), 2U);
  EXPECT_EQ(work->cpu[1].cycles, 100U);
}

// 10 · 3 · 9 products for each of 42 pixels, on an array of 16 · 4 multipliers.
TEST(Report, RowOfAConvolutionByHand) {
  Module module = *parse_module(R"(graph @forward(%x: i8[1,3,7,6] quant<0.02:-3>) {
  %w: i8[10,3,3,3] quant<range=-127..127, 0.01> = constant seeded<1>
  %y: i8[1,10,7,6] quant<0.05:4> = aten.convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  return %y
})",
                                "model.ir");
  const Result<Compilation> compiled =
      compile_model(std::move(module), {.target = find_target("imxrt700")});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const CompileReport report = compile_report(*compiled);
  const auto row = std::ranges::find(report.operators, "Conv2d", &OperatorRow::kernel);
  ASSERT_NE(row, report.operators.end());
  EXPECT_EQ(row->macs, 11340);
  EXPECT_GT(row->cycles, 11340U / 64);
  EXPECT_DOUBLE_EQ(row->utilization, 11340.0 / 64 / static_cast<double>(row->cycles));
  EXPECT_EQ(report.sram.total_bytes, report.sram.planned_bytes + report.sram.staging_bytes);
}

// Two samples of three elements in steps of 0.5; 0, 1, 0, 0, −3 and 2 steps apart.
TEST(Comparison, FiguresAsComputedByHand) {
  const auto tensor = [](std::array<float, 3> values) {
    Tensor made(DType::kFloat32, {3});
    std::ranges::copy(values, made.values<float>().begin());
    return made;
  };
  const Tensor e1 = tensor({1, 2, 4}), a1 = tensor({1, 1.5F, 4}), e2 = tensor({3, 1, 2}),
               a2 = tensor({3, 2.5F, 1});
  Comparison comparison(0.5, {.relative = 0.25, .absolute = 0.25});
  comparison.add(e1.view(), a1.view());
  comparison.add(e2.view(), a2.view());
  EXPECT_EQ(comparison.samples(), 2U);
  EXPECT_EQ(comparison.elements(), 6U);
  EXPECT_EQ(comparison.different(), 3U);
  EXPECT_EQ(comparison.beyond_tolerance(), 2U);  // 1.5 > 0.5 and 1 > 0.75, but 0.5 ≤ 0.75
  EXPECT_EQ(comparison.max_absolute(), 1.5);
  EXPECT_EQ(comparison.mean_absolute(), 0.5);
  EXPECT_EQ(comparison.max_steps(), 3);
  EXPECT_EQ(comparison.mean_steps(), 1);
  EXPECT_EQ(comparison.sample(), 1U);
  EXPECT_EQ(comparison.index(), 1);
  EXPECT_EQ(comparison.expected(), 1);
  EXPECT_EQ(comparison.actual(), 2.5);
  EXPECT_EQ(comparison.largest_expected(), 4);
  EXPECT_EQ(comparison.same_argmax(), 2U);
  EXPECT_EQ(comparison.histogram(), (Comparison::Histogram{3, 1, 1, 1, 0, 0, 0, 0, 0}));
  EXPECT_NEAR(comparison.decibels(), 10, 1e-9);  // 35 / 3.5
  // Of equal elements the first is the largest: 4 at 0 and 4 at 1.
  const Tensor tie = tensor({4, 4, 2}), second_of_it = tensor({3, 4, 2});
  Comparison ties(0, {});
  ties.add(tie.view(), second_of_it.view());
  EXPECT_EQ(ties.same_argmax(), 0U);
  ties.add(second_of_it.view(), tensor({2, 4, 4}).view());
  EXPECT_EQ(ties.same_argmax(), 1U);
  Sqnr sqnr;
  sqnr.add(e1.view(), a1.view());
  EXPECT_NEAR(sqnr.decibels(), 19.2427929, 1e-6);  // 21 / 0.25
  Sqnr second;
  second.add(e2.view(), a2.view());
  sqnr.add(second);
  EXPECT_NEAR(sqnr.decibels(), 10, 1e-9);
}

}  // namespace
}  // namespace dtr
