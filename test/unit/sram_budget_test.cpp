// Budgets of SRAM are kept, and more of it never makes a program much slower: small networks on
// three machines, over grids of budgets.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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
      return std::nullopt;
    }
    const PlannedCost cost =
        planned_cost((*made)->emitted, (*made)->memory, sram_use(**made).program_bytes);
    EXPECT_LE(cost.sram_bytes, bytes);
    return cost;
  }
  uint64_t all() const { return target_.memory.sram_bytes; }

 private:
  const TargetDescription& target_;
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
