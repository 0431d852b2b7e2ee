// Schedules against the fastest ones that exist.
#include "test/unit/exact_schedule.h"
#include "test/unit/neutron_fixture.h"
#include "test/unit/small_networks.h"

namespace dtr::test {
namespace {

// Two linear layers of 64 × 64 and 128 × 64: one limit for both blocks, one for the larger alone.
TEST(ExactSchedule, ExactPlanByHand) {
  Module module = parse(
      "graph @forward(%x: i8[1,64] quant<0.05>) {\n"
      "  %w1: i8[64,64] quant<0.01> = constant seeded<1>\n"
      "  %y1: i8[1,64] quant<0.1> = aten.linear(%x, %w1, _)\n"
      "  %w2: i8[128,64] quant<0.01> = constant seeded<2>\n"
      "  %y2: i8[1,128] quant<0.2> = aten.linear(%y1, %w2, _)\n"
      "  return %y2\n}\n");
  const Result<Compiled> compiled = compile(module);
  ASSERT_TRUE(compiled);
  const neutron::Machine machine{test::machine(), {}};
  const std::span<const neutron::LoweredGraph> variants = compiled->details().variants();
  const std::span<const neutron::Call> calls = variants[0].calls;
  ASSERT_EQ(calls.size(), 2u);
  const npu::Target& target = machine.target;
  const auto copy = [&](size_t call) {
    return npu::copy_cycles(target, {.bytes = static_cast<uint32_t>(calls[call].constants.size())});
  };
  const auto run = [&](size_t call) {
    return target.call_host_cycles + neutron::cycles(target, calls[call].kernel).total;
  };
  // Both copies start at once and the second arrives while the first call runs or behind it.
  const uint64_t both = calls[0].constants.size() + calls[1].constants.size() + 64 + 128;
  const uint64_t first =
      std::max(target.copy_host_cycles + copy(0), uint64_t{2} * target.copy_host_cycles);
  const uint64_t second = std::max(first + run(0), target.copy_host_cycles + copy(0) + copy(1));
  EXPECT_EQ(fastest_schedule(machine, variants, both, UINT64_MAX, 1000).cycles, second + run(1));
  // The second copy starts behind the first call. With one part of 128 channels more in SRAM while
  // that runs, a part of it could start earlier.
  const uint64_t one = calls[1].constants.size() + 64 + 128;
  const uint64_t late =
      target.copy_host_cycles + copy(0) + run(0) + target.copy_host_cycles + copy(1) + run(1);
  const ExactSchedule exact = fastest_schedule(machine, variants, one, UINT64_MAX, 100000);
  EXPECT_TRUE(exact.is_proven);
  EXPECT_LE(exact.cycles, late);
  EXPECT_GT(exact.cycles, second + run(1));
  // Less than one group of channels of the second layer takes.
  EXPECT_EQ(fastest_schedule(machine, variants, 64 + 128 + 96, UINT64_MAX, 1000).cycles,
            UINT64_MAX);
}

// The compiler's schedule is one of those that the solver looks at; few are much slower than the
// fastest.
TEST(ExactSchedule, NearTheFastest) {
  constexpr uint32_t kNetworks = 12;
  constexpr uint32_t kMostLayers = 3;
  constexpr size_t kStates = 5000;
  size_t proven = 0, near = 0;
  for (uint32_t seed = 0; seed < kNetworks; ++seed) {
    Module module = parse(small_network(seed, kMostLayers));
    for (const std::string_view target : {"imxrt700", "mcxn947", "imx95"}) {
      const neutron::Machine machine{find_target(target)->npu, {}};
      const Result<Compiled> compiled = compile(module, machine.target);
      ASSERT_TRUE(compiled);
      for (const uint32_t percent : {100u, 70u, 50u}) {
        SCOPED_TRACE(fmt::format("network {} on {} at {} %", seed, target, percent));
        const ScheduleComparison compared =
            compare_schedules(machine, module, compiled->details().variants(), percent, kStates);
        EXPECT_LE(compared.exact.cycles, compared.cycles);
        if (!compared.exact.is_proven || compared.exact.cycles == UINT64_MAX) continue;
        ++proven;
        near += compared.ratio() <= 1.03 ? 1 : 0;
        EXPECT_LE(compared.ratio(), 1.6);
        if (compared.cycles == UINT64_MAX) ADD_FAILURE() << "a plan exists and is not found";
      }
    }
  }
  EXPECT_GE(proven, kNetworks * 9 * 6 / 10);
  // 69 are near where chains leave no room for constants.
  EXPECT_GE(proven, 78u);
  EXPECT_GE(near, 72u);
}

}  // namespace
}  // namespace dtr::test
