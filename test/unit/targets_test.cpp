// Rows of machines: two clocks, and costs of the CPU in the cycles of the one that times are told
// in.
#include "compiler/targets/target.h"

#include <gtest/gtest.h>

#include "compiler/backends/portable/portable.h"
#include "compiler/ir/parser.h"

namespace dtr {
namespace {

TEST(Targets, CyclesOfTheCpuBecomeThoseOfTheProgramsClock) {
  for (const TargetDescription& target : all_targets()) {
    EXPECT_EQ(clock_hz(target), has_npu(target) ? target.npu.clock_hz : target.cpu.clock_hz)
        << target.name;
    const bool one_clock = clock_hz(target) == target.cpu.clock_hz;
    if (!one_clock) continue;
    EXPECT_EQ(from_cpu_cycles(target, 1'234'567'890'123), 1'234'567'890'123u) << target.name;
  }
  TargetDescription target = *find_target("test-4x4");  // 150 MHz, the CPU 75 MHz
  EXPECT_EQ(from_cpu_cycles(target, 7), 14u);
  target.cpu.clock_hz = 400'000'000;  // 3/8
  EXPECT_EQ(from_cpu_cycles(target, 8), 3u);
  EXPECT_EQ(from_cpu_cycles(target, 7), 2u);
  EXPECT_EQ(from_cpu_cycles(target, uint64_t{1} << 60), (uint64_t{1} << 60) / 8 * 3);
}

// 10 cycles an element at 75 MHz are 20 of 150 MHz, which is what the NPU's cycles are compared
// with.
TEST(Targets, CostsAreOfTheRow) {
  const auto program = parse_module(R"(graph @forward(%x: f32[2,5]) {
    %y: f32[2,5] = aten.relu(%x)
    return %y
  })");
  ASSERT_TRUE(program);
  const auto cost = [&](const TargetDescription& target) {
    return make_portable_backend(target)->cost(program->forward(), program->forward().first_op());
  };
  EXPECT_EQ(cost(*find_target("imxrt700")), 10 * 10u);
  EXPECT_EQ(cost(*find_target("test-4x4")), 2 * 10 * 10u);
  TargetDescription slow = *find_target("imxrt700");
  slow.cpu.costs.element = 7;
  EXPECT_EQ(cost(slow), 7 * 10u);
  EXPECT_EQ(make_portable_backend(*find_target("imxrt700"))->conversion_cycles(10), 33 * 10u);
  EXPECT_EQ(make_portable_backend(*find_target("test-4x4"))->conversion_cycles(10), 66 * 10u);
}

}  // namespace
}  // namespace dtr
