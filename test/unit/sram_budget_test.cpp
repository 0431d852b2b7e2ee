// Budgets of SRAM are kept, and more of it never makes a program much slower: small networks on
// three machines, over grids of budgets.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/report.h"
#include "compiler/targets/target.h"
#include "test/unit/small_networks.h"

namespace dtr {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint32_t kNetworks = 3;
#else
constexpr uint32_t kNetworks = 12;
#endif
constexpr uint32_t kMostLayers = 8;
constexpr uint64_t kBudgets = 12;
// Cycles over those of a smaller budget: of nearly all, and of the few others.
constexpr double kMostSlower = 1.02, kMostOfOthers = 1.09;
constexpr size_t kOthers = 6;  // of 468 budgets

Module network(uint32_t seed) {
  Result<Module> module = parse_module(test::small_network(seed, kMostLayers, false), "small.ir");
  DTR_CHECK(module.has_value());
  return *std::move(module);
}

class Budgets {
 public:
  Budgets(ModelSource model, const TargetDescription& target,
          ConstantMemory constants = ConstantMemory::kFlash)
      : target_(target) {
    settings_.target = &target;
    settings_.io = Io::kInt8;
    settings_.backend.constants = constants;
    compiler_ = make_budget_compiler(std::move(model), settings_);
  }

  // What the program takes, its constants included if they are in SRAM; std::nullopt: refused, for
  // lack of memory.
  std::optional<PlannedCost> compile(uint64_t bytes, Optimize optimize = Optimize::kSpeed) {
    const Result<const Compilation*> made =
        compiler_->compile({.bytes = bytes, .optimize = optimize});
    if (!made) {
      EXPECT_EQ(made.error().id, DiagnosticId::kMemoryExceeded) << to_text(made.error());
      fix_ = made.error().fix;
      return std::nullopt;
    }
    const uint64_t program = sram_use(**made).program_bytes;
    const PlannedCost cost = planned_cost((*made)->emitted, (*made)->memory, program);
    const MethodPlan& plan = (*made)->emitted.plan;
    EXPECT_EQ(cost.sram_bytes,
              static_cast<uint64_t>(plan.arena_bytes + plan.state_bytes) + program);
    EXPECT_LE(cost.sram_bytes, bytes);
    check_products((*made)->emitted);
    return cost;
  }
  const std::string& fix() const { return fix_; }  // of the last budget that was refused
  uint64_t all() const { return target_.memory.sram_bytes; }

 private:
  // Parts and stripes share the products of their operator; none is lost or counted twice.
  void check_products(const EmitResult& emitted) {
    int64_t products = 0;
    for (const auto& partition : emitted.partitions)
      if (partition != nullptr)
        for (const StepInfo& step : partition->step_info) products += step.macs;
    if (products_ < 0) products_ = products;
    EXPECT_EQ(products, products_);
  }

  const TargetDescription& target_;
  std::string fix_;
  int64_t products_ = -1;  // of the first program
  CompileSettings settings_;
  std::unique_ptr<BudgetCompiler> compiler_;
};

// Counts budgets whose program is more than kMostSlower slower than one of fewer bytes.
void check_budgets(Budgets& budgets, size_t& slower) {
  const auto check = [&](uint64_t cycles, uint64_t least) {
    const double ratio = static_cast<double>(cycles) / static_cast<double>(least);
    EXPECT_LE(ratio, kMostOfOthers) << cycles << " cycles, " << least << " within fewer bytes";
    slower += ratio > kMostSlower ? 1 : 0;
  };
  const std::optional<PlannedCost> whole = budgets.compile(budgets.all());
  const std::optional<PlannedCost> smallest = budgets.compile(budgets.all(), Optimize::kSize);
  ASSERT_TRUE(whole && smallest);
  EXPECT_LE(smallest->sram_bytes, whole->sram_bytes);
  // A budget of the smallest program's bytes makes that program.
  EXPECT_EQ(budgets.compile(smallest->sram_bytes), smallest);

  std::map<uint64_t, PlannedCost> made{{budgets.all(), *whole}};
  uint64_t least = smallest->cycles;
  for (uint64_t i = 0; i <= kBudgets; ++i) {
    const uint64_t bytes =
        smallest->sram_bytes + (whole->sram_bytes - smallest->sram_bytes) * i / kBudgets;
    SCOPED_TRACE(fmt::format("{} bytes", bytes));
    const std::optional<PlannedCost> cost = budgets.compile(bytes);
    ASSERT_TRUE(cost);
    check(cost->cycles, least);
    least = std::min(least, cost->cycles);
    made.emplace(bytes, *cost);
  }
  check(whole->cycles, least);

  // The balanced program: at most 1 % slower, and no larger than those that are as fast.
  const std::optional<PlannedCost> balanced = budgets.compile(budgets.all(), Optimize::kBalance);
  ASSERT_TRUE(balanced);
  EXPECT_LE(balanced->cycles, whole->cycles + whole->cycles / 100);
  EXPECT_LE(smallest->sram_bytes, balanced->sram_bytes);
  for (const auto& [bytes, cost] : made) {
    if (cost.cycles > whole->cycles + whole->cycles / 100) continue;
    EXPECT_LE(balanced->sram_bytes, cost.sram_bytes) << "within " << bytes;
  }
}

size_t count_slower(uint32_t networks, ConstantMemory constants) {
  size_t slower = 0;
  for (uint32_t seed = 0; seed < networks; ++seed)
    for (const std::string_view name : {"imxrt700", "mcxn947", "imx95"}) {
      SCOPED_TRACE(fmt::format("network {} on {}", seed, name));
      Budgets budgets(network(seed), *find_target(name), constants);
      check_budgets(budgets, slower);
    }
  return slower;
}

TEST(SramBudget, MoreBytesAreNotSlower) {
  EXPECT_LE(count_slower(kNetworks, ConstantMemory::kFlash), kOthers);
}

TEST(SramBudget, NorWithConstantsInSram) {
  EXPECT_LE(count_slower(kNetworks / 3, ConstantMemory::kSram), 1u);
}

// The bytes of the smallest program, and the advice of a refusal.
TEST(SramBudget, RefusesWithBytesThatSuffice) {
  for (const uint32_t seed : {0u, 3u, 5u})
    for (const std::string_view name : {"imxrt700", "mcxn947", "imx95"}) {
      SCOPED_TRACE(fmt::format("network {} on {}", seed, name));
      Budgets budgets(network(seed), *find_target(name));
      const std::optional<PlannedCost> smallest = budgets.compile(budgets.all(), Optimize::kSize);
      ASSERT_TRUE(smallest);
      for (const uint64_t bytes :
           {uint64_t{1}, smallest->sram_bytes / 2, smallest->sram_bytes - 1}) {
        if (budgets.compile(bytes)) continue;
        EXPECT_TRUE(
            budgets.fix().starts_with(fmt::format("give --sram {} or more", smallest->sram_bytes)))
            << budgets.fix();
      }
    }
}

// States lie beside the arena and count too.
TEST(SramBudget, CountsStates) {
  constexpr std::string_view kStream =
      R"(graph @forward(%x: i8[1,16,8,8] channels_last quant<0.1>, state %s: i8[1,16,8,8] channels_last quant<0.1> = splat<0>) {
  %w: i8[32,16,3,3] quant<0.01> = constant seeded<1>
  %v: i8[16,32,3,3] quant<0.01> = constant seeded<2>
  %j: i8[1,16,8,8] channels_last quant<0.2> = aten.add.Tensor(%x, %s) {alpha = 1.0}
  %a: i8[1,32,8,8] channels_last quant<0.4> = aten.convolution(%j, %w, _) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1}
  %y: i8[1,16,8,8] channels_last quant<0.1> = aten.convolution(%a, %v, _) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1}
  return %y, next %y
}
)";
  Result<Module> module = parse_module(kStream, "stream.ir");
  ASSERT_TRUE(module) << to_text(module.error());
  Budgets budgets(*std::move(module), *find_target("imxrt700"));
  const std::optional<PlannedCost> whole = budgets.compile(budgets.all());
  const std::optional<PlannedCost> smallest = budgets.compile(budgets.all(), Optimize::kSize);
  ASSERT_TRUE(whole && smallest);
  EXPECT_GE(smallest->sram_bytes, 3u * 16 * 8 * 8);  // state, input and output
  for (uint64_t bytes = smallest->sram_bytes; bytes < whole->sram_bytes; bytes += 512)
    EXPECT_TRUE(budgets.compile(bytes)) << bytes;
}

// A search that knows the plans of others, as those of `explore`, chooses what one alone does.
TEST(SramBudget, DoesNotDependOnEarlierBudgets) {
  for (const auto& [seed, name] : {std::pair(1u, "imxrt700"), {4u, "imx95"}, {7u, "mcxn947"}}) {
    Budgets together(network(seed), *find_target(name));
    const std::optional<PlannedCost> whole = together.compile(together.all());
    ASSERT_TRUE(whole);
    for (const uint64_t percent : {90, 40, 70, 55}) {
      const uint64_t bytes = whole->sram_bytes * percent / 100;
      Budgets alone(network(seed), *find_target(name));
      EXPECT_EQ(together.compile(bytes), alone.compile(bytes)) << seed << " within " << bytes;
    }
  }
}

// The smallest program is searched again within fewer bytes than it takes.
TEST(SramBudget, NoSmallerOneIsFoundWithin) {
  for (const auto& [seed, name] :
       {std::pair(39u, "imxrt700"), {4u, "mcxn947"}, {14u, "imx95"}, {26u, "imxrt700"}}) {
    Budgets budgets(network(seed), *find_target(name));
    const std::optional<PlannedCost> smallest = budgets.compile(budgets.all(), Optimize::kSize);
    ASSERT_TRUE(smallest);
    EXPECT_FALSE(budgets.compile(smallest->sram_bytes - 1)) << seed << " on " << name;
  }
}

// The smallest programs that are known; without limits around the best one .6 and 1.6 % larger.
TEST(SramBudget, SmallestWithConstantsInSram) {
  for (const auto& [seed, name, known] :
       {std::tuple(2u, "imxrt700", 56452u), {12u, "imx95", 214356u}}) {
    Budgets budgets(network(seed), *find_target(name), ConstantMemory::kSram);
    const std::optional<PlannedCost> smallest = budgets.compile(budgets.all(), Optimize::kSize);
    ASSERT_TRUE(smallest);
    EXPECT_LE(smallest->sram_bytes, known) << seed << " on " << name;
  }
}

// Where the search within those bytes finds a slower program of its own.
TEST(SramBudget, FindsTheSmallestProgramWithinItsBytes) {
  for (const auto& [seed, name] :
       {std::pair(12u, "mcxn947"), {29u, "mcxn947"}, {44u, "imxrt700"}}) {
    Budgets budgets(network(seed), *find_target(name));
    const std::optional<PlannedCost> smallest = budgets.compile(budgets.all(), Optimize::kSize);
    ASSERT_TRUE(smallest);
    EXPECT_EQ(budgets.compile(smallest->sram_bytes), smallest) << seed << " on " << name;
  }
}

}  // namespace
}  // namespace dtr
