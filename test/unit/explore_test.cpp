// `deuteron explore`: what a point of the frontier counts, and how the table compares points.
#include "host/commands/explore.h"

#include <gtest/gtest.h>

#include "compiler/pipeline/report.h"
#include "compiler/recipes/recipe.h"
#include "host/session/session.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

// Of each point, cycles of the NPU as a run of the same program has them, and of the kernels as the
// report of its compilation does.
TEST(Explore, CyclesAreThoseOfNpuAndCpuTogether) {
  const std::string path = test::source_path("test/golden/ic_resnet8.ir").string();
  const auto frontier = explore(path, {.compile = {.model = path}, .points = 2}, {});
  ASSERT_TRUE(frontier) << to_text(frontier.error());
  uint64_t waiting = 0;
  for (const FrontierPoint& point : frontier->points) {
    SCOPED_TRACE(point.budget_bytes);
    const TargetDescription* target = find_target("imxrt700");
    RecipeSpec recipe = recipe_of(*target);
    recipe.options.sram_bytes = point.budget_bytes;
    recipe.options.optimize = point.optimize;
    const auto compiled = compile_model(path, {.target = target, .recipe = std::move(recipe)});
    ASSERT_TRUE(compiled) << to_text(compiled.error());
    const auto session = Session::load(compiled->pte(), "model.pte");
    ASSERT_TRUE(session) << to_text(session.error());
    const Graph& signature = (*session)->signature();
    std::vector<Tensor> inputs;
    std::vector<TensorView> views;
    for (const ValueId input : signature.inputs())
      inputs.emplace_back(signature.type(input).dtype, signature.type(input).shape);
    for (const Tensor& input : inputs) views.push_back(input.view());
    RunStats stats;
    ASSERT_TRUE((*session)->run(views, &stats));
    const uint64_t of_kernels = compile_report(*compiled).cpu_cycles;
    EXPECT_GT(of_kernels, 0u);
    EXPECT_EQ(point.cycles, stats.total_cycles + of_kernels);
    waiting += stats.stall_cycles;
    EXPECT_EQ(point.waiting_cycles, stats.stall_cycles);
    EXPECT_EQ(point.npu_calls, stats.npu_calls);
  }
  EXPECT_GT(waiting, 0u);  // of the smallest program
}

// 1,500 cycles are half as many again as 1,000.
TEST(Explore, CyclesOverTheFastestAreSharesOfIts) {
  Frontier frontier{.model = "m", .target = "imxrt700", .clock_hz = 1'000'000, .programs = 2};
  frontier.points = {{.sram_bytes = 100, .cycles = 1500}, {.sram_bytes = 200, .cycles = 1000}};
  const std::string text = to_text(frontier);
  EXPECT_NE(text.find("  +50.0 % "), std::string::npos) << text;
  EXPECT_NE(text.find("   +0.0 % "), std::string::npos) << text;
}

}  // namespace
}  // namespace dtr
