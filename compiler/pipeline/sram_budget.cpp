#include "compiler/pipeline/sram_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <tuple>

#include "compiler/support/cancellation.h"
#include "compiler/support/text.h"
#include "device/pte/manifest.h"

namespace dtr {
namespace {

// The bisection stops where its bounds are this many bytes apart, or this part of the upper one.
constexpr uint64_t kStep = 16;
constexpr uint64_t kPart = 1024;
constexpr int kMostSteps = 24;
constexpr int kMostTries = 10;
constexpr uint64_t kWorthCycles = 50;  // one part of so many is worth another search
constexpr uint64_t kNeighbours = 8;
constexpr size_t kMostLong = 3;        // long searches
constexpr uint64_t kNear = 16;         // the smallest: at most one part of so many above
constexpr int kMostRounds = 8;         // each within fewer bytes than the one before
constexpr uint64_t kPartOfFloats = 4;  // from here on floats at the ends are worth a word

// Bytes of tensors that are live while a call of the program runs and are not its operands.
std::vector<uint64_t> bytes_outside(const MethodPlan& plan) {
  const auto calls = static_cast<uint32_t>(plan.calls.size());
  struct LiveRange {
    uint32_t first = UINT32_MAX, last = 0;
    std::vector<uint32_t> users;
  };
  std::vector<LiveRange> ranges(plan.tensors.size());
  const auto touch = [&](TensorRef ref, uint32_t call, bool uses) {
    if (plan.tensor(ref).constant) return;
    LiveRange& range = ranges[ref.index];
    range.first = std::min(range.first, call);
    range.last = std::max(range.last, call);
    if (uses) range.users.push_back(call);
  };
  for (const TensorRef input : plan.inputs) touch(input, 0, false);
  for (uint32_t call = 0; call < calls; ++call) {
    if (const auto* delegate = std::get_if<DelegateCallPlan>(&plan.calls[call])) {
      for (const TensorRef ref : delegate->inputs) touch(ref, call, true);
      for (const TensorRef ref : delegate->outputs) touch(ref, call, true);
      continue;
    }
    const auto& kernel = std::get<KernelCallPlan>(plan.calls[call]);
    for (const PlanArgument& argument : kernel.arguments) {
      if (const auto* ref = std::get_if<TensorRef>(&argument)) touch(*ref, call, true);
      if (const auto* list = std::get_if<TensorRefs>(&argument))
        for (const std::optional<TensorRef>& ref : *list)
          if (ref) touch(*ref, call, true);
    }
    for (const TensorRef ref : kernel.outputs) touch(ref, call, true);
  }
  for (const TensorRef output : plan.outputs)
    if (calls > 0) touch(output, calls - 1, false);
  std::vector<uint64_t> outside(calls, 0);
  for (size_t tensor = 0; tensor < ranges.size(); ++tensor) {
    const LiveRange& range = ranges[tensor];
    if (range.first == UINT32_MAX) continue;
    const auto bytes = static_cast<uint64_t>(plan.tensors[tensor].type.bytes());
    for (uint32_t call = range.first; call <= range.last && call < calls; ++call)
      if (std::ranges::find(range.users, call) == range.users.end()) outside[call] += bytes;
  }
  return outside;
}

class BudgetSearch {
 public:
  BudgetSearch(const Module& module, EmitResult& emitted, const SramBudget& budget,
               uint64_t target_bytes, const ProgramBytes& program_bytes, unsigned threads,
               MadePlans& made)
      : module_(module),
        emitted_(emitted),
        budget_(budget),
        target_bytes_(target_bytes),
        program_bytes_(program_bytes),
        threads_(threads),
        outside_(bytes_outside(emitted.plan)),
        has_delegates_(std::ranges::any_of(
            emitted.partitions, [](const auto& partition) { return partition != nullptr; })),
        made_(made) {}

  Result<MemoryMap> run() {
    DTR_ASSIGN(const std::optional<PlanChoice> unlimited, plan(kWithoutBudget));
    if (!unlimited) return nothing_fits();
    largest_ = unlimited->cost.sram_bytes;
    cycles_unlimited_ = unlimited->cost.cycles;
    const bool fits = largest_ <= budget_.bytes;
    uint32_t& flags = emitted_.plan.manifest_flags;
    flags &= ~uint32_t{pte::kWithinBudget};
    if (fits && budget_.optimize == Optimize::kSpeed) return take(*unlimited);
    flags |= pte::kWithinBudget;

    std::optional<PlanChoice> fastest = unlimited;
    if (!fits) {
      DTR_ASSIGN(fastest, find_fastest(budget_.bytes));
    }
    std::optional<PlanChoice> best = fastest;
    if (fastest && budget_.optimize == Optimize::kBalance) {
      const uint64_t most_cycles = with_percent(fastest->cost.cycles);
      DTR_TRY(find_smaller(most_cycles, kWays.back(), /*leaves_room=*/true));
      for (const PlanChoice& choice : considered_)
        if (choice.cost.cycles <= most_cycles && is_smaller(choice, best)) best = choice;
    } else if (!fastest || budget_.optimize == Optimize::kSize || is_near_smallest_) {
      DTR_ASSIGN(const std::optional<PlanChoice> smallest, find_smallest(fastest.has_value()));
      if (!fastest || budget_.optimize == Optimize::kSize) best = smallest;
    }
    if (best && budget_.optimize == Optimize::kSpeed)
      for (const PlanChoice& choice : considered_)
        if (choice.cost.sram_bytes <= budget_.bytes && is_faster(choice, best)) best = choice;
    if (!best) return nothing_fits();
    DTR_ASSIGN(memory_, take(*best));
    // With the program in SRAM, the step `check size` reports the error: it knows the file's size.
    if (best->cost.sram_bytes > budget_.bytes && !made_.program_is_in_sram)
      return too_small(best->cost.sram_bytes);
    return std::move(memory_);
  }

 private:
  static constexpr int64_t kNoLimit = INT32_MAX;
  static constexpr uint64_t kUnlimited = UINT64_MAX;  // the plan that delegates came with
  // The one with which most fits is the last.
  static constexpr std::array kWays{Overlaps::kOfChains, Overlaps::kOfSingleOperatorsToo};

  static constexpr PlanWay kWithoutBudget{
      .limit = kUnlimited, .overlaps = kWays.back(), .placement = StagedPlacement::kAround};

  Result<PlannedCost> cost_of(const MemoryMap& memory) {
    DTR_ASSIGN(const uint64_t program, program_bytes_(memory));
    made_.program_is_in_sram = program > 0;
    return planned_cost(emitted_, memory, program);
  }

  // Plans delegates and memory that way. std::nullopt: some delegate does not fit.
  Result<std::optional<PlanChoice>> make_plan(const PlanWay& way) {
    check_cancelled();
    planned_.reset();
    const PlanSearch search{
        .overlaps = way.overlaps, .leaves_room = way.leaves_room, .threads = threads_};
    for (size_t call = 0; call < emitted_.partitions.size(); ++call) {
      if (emitted_.partitions[call] == nullptr) continue;
      const uint64_t room = way.limit == kUnlimited      ? way.limit
                            : way.limit > outside_[call] ? way.limit - outside_[call]
                                                         : 0;
      if (Result<void> planned = emitted_.partitions[call]->plan_within(module_, room, search);
          !planned) {
        if (planned.error().id != DiagnosticId::kMemoryExceeded)
          return tl::unexpected(std::move(planned).error());
        if (way.overlaps == kWays.back() && way.limit >= made_.why_not_limit) {
          made_.why_not = std::move(planned).error();
          made_.why_not_limit = way.limit;
        }
        return std::nullopt;
      }
    }
    DTR_ASSIGN(memory_, plan_memory(emitted_.plan, kNoLimit, way.placement, threads_));
    DTR_ASSIGN(const PlannedCost cost, cost_of(memory_));
    const auto gaps = static_cast<uint64_t>(memory_.arena_bytes - memory_.max_live_bytes);
    planned_ = PlanChoice{.way = way, .cost = cost, .least = cost.sram_bytes - gaps};
    return planned_;
  }

  // What a plan made that way costs. Plans it unless an earlier search did.
  Result<std::optional<PlanChoice>> plan(PlanWay way) {
    if (!has_delegates_)  // only the placement of tensors may differ
      way = {.limit = kUnlimited, .overlaps = kWays.back(), .placement = way.placement};
    auto known = made_.choices.find(way);
    if (known == made_.choices.end()) {
      DTR_ASSIGN(const std::optional<PlanChoice> made, make_plan(way));
      known = made_.choices.emplace(way, made).first;
    }
    if (known->second) considered_.push_back(*known->second);
    return known->second;
  }

  // The memory of that plan.
  Result<MemoryMap> take(const PlanChoice& choice) {
    if (planned_ != choice) {
      DTR_ASSIGN(const std::optional<PlanChoice> again, make_plan(choice.way));
      DTR_CHECK(again == choice);
    }
    return std::move(memory_);
  }

  static bool is_smaller(const PlanChoice& choice, const std::optional<PlanChoice>& than) {
    return !than || choice.cost.sram_bytes < than->cost.sram_bytes ||
           (choice.cost.sram_bytes == than->cost.sram_bytes &&
            choice.cost.cycles < than->cost.cycles);
  }
  static bool is_faster(const PlanChoice& choice, const std::optional<PlanChoice>& than) {
    return !than || choice.cost.cycles < than->cost.cycles ||
           (choice.cost.cycles == than->cost.cycles &&
            choice.cost.sram_bytes < than->cost.sram_bytes);
  }
  static uint64_t with_percent(uint64_t cycles) { return cycles + cycles / 100; }
  static bool is_much_faster(const PlanChoice& choice, const PlanChoice& than) {
    return choice.cost.cycles + choice.cost.cycles / kWorthCycles < than.cost.cycles;
  }

  // Leaves one of the plans that cost the same.
  static void sort_unique(std::vector<PlanChoice>& choices, auto key) {
    std::ranges::stable_sort(choices, {}, key);
    const auto same = [&](const PlanChoice& a, const PlanChoice& b) { return key(a) == key(b); };
    choices.erase(std::unique(choices.begin(), choices.end(), same), choices.end());
  }

  Result<std::optional<PlanChoice>> plan_long(const PlanChoice& choice) {
    PlanWay way = choice.way;
    way.placement = StagedPlacement::kTogetherLong;
    return plan(way);
  }

  // The fastest plan within the bytes. One whose buffers leave gaps in the arena exceeds its limit:
  // lowers the limit by the excess, and bisects between a limit that is too large and one with a
  // plan that fits, or with none.
  Result<std::optional<PlanChoice>> find_fastest(uint64_t bytes) {
    std::optional<PlanChoice> fastest;
    std::vector<PlanChoice> larger;  // than that, but not without their gaps
    std::optional<PlannedCost> of_first_way;
    for (const Overlaps overlaps : kWays) {
      std::optional<PlanChoice> fits;
      uint64_t low = 0, high = bytes + 1, limit = bytes;
      for (int i = 0; i < kMostTries; ++i) {
        DTR_ASSIGN(const std::optional<PlanChoice> choice,
                   plan({.limit = limit, .overlaps = overlaps, .leaves_room = true}));
        if (i == 0 && choice) {
          if (choice->cost == of_first_way) break;  // both ways mostly differ in few plans then
          of_first_way = choice->cost;
        }
        uint64_t lower = 0;  // a limit that another plan needs
        if (!choice) {
          low = limit;
          is_near_smallest_ = true;
        } else if (choice->cost.sram_bytes <= bytes) {
          low = limit;
          fits = choice;
          if (is_faster(*choice, fastest)) fastest = choice;
        } else {
          high = limit;
          const uint64_t excess = choice->cost.sram_bytes - bytes;
          lower = std::min(limit - std::min(limit, excess), choice->least - kStep);
          if (choice->least <= bytes) larger.push_back(*choice);
          if (fits && !is_much_faster(*choice, *fits)) break;
        }
        if (high - low <= std::max(kStep, high / kPart)) break;
        limit = lower > low && lower < high ? lower : low + (high - low) / 2;
      }
    }
    // Plans of larger limits may take fewer bytes than those of this one, where what has more room
    // runs in other chains.
    for (const uint64_t sixteenths : {17, 18, 20, 24}) {
      const uint64_t limit = bytes * sixteenths / 16;
      if (limit >= largest_) break;
      DTR_ASSIGN(const std::optional<PlanChoice> choice,
                 plan({.limit = limit, .overlaps = kWays.front(), .leaves_room = true}));
      if (!choice) continue;
      if (choice->cost.sram_bytes > bytes && choice->least <= bytes) larger.push_back(*choice);
      if (choice->cost.sram_bytes <= bytes && is_faster(*choice, fastest)) fastest = choice;
    }
    // A longer search of the arena closes gaps.
    sort_unique(larger, [](const PlanChoice& choice) {
      return std::tuple(choice.cost.cycles, choice.least, choice.cost.sram_bytes);
    });
    for (size_t i = 0; i < larger.size() && i < kMostLong; ++i) {
      if (fastest && !is_much_faster(larger[i], *fastest)) break;
      DTR_ASSIGN(const std::optional<PlanChoice> found, plan_long(larger[i]));
      DTR_CHECK(found.has_value());
      if (found->cost.sram_bytes <= bytes) return found;
    }
    return fastest;
  }

  // Makes plans of at most so many cycles, down to the smallest.
  Result<void> find_smaller(uint64_t most_cycles, Overlaps overlaps, bool leaves_room) {
    std::optional<PlanChoice> smallest;
    const auto is_fast = [&](const std::optional<PlanChoice>& choice) {
      return choice && choice->cost.cycles <= most_cycles;
    };
    const auto try_limit = [&](uint64_t limit) -> Result<std::optional<PlanChoice>> {
      DTR_ASSIGN(const std::optional<PlanChoice> choice,
                 plan({.limit = limit, .overlaps = overlaps, .leaves_room = leaves_room}));
      if (is_fast(choice) && is_smaller(*choice, smallest)) smallest = choice;
      return choice;
    };
    uint64_t low = 0, high = largest_;  // plans within `low` do not exist, or take too long
    for (int i = 0; i < kMostSteps && high - low > std::max(kStep, high / kPart); ++i) {
      const uint64_t limit = low + (high - low) / 2;
      DTR_ASSIGN(const std::optional<PlanChoice> choice, try_limit(limit));
      (is_fast(choice) ? high : low) = limit;
    }
    // With its constants in SRAM a program grows by the calls of stripes where its tensors shrink:
    // the bytes of both follow no limit, and others are tried around the best one.
    for (uint64_t step = largest_ / (4 * kNeighbours);
         made_.program_is_in_sram && smallest && step >= kStep; step /= 2) {
      const uint64_t best = smallest->way.limit;
      DTR_TRY(try_limit(best + step));
      DTR_TRY(try_limit(best - std::min(best, step)));
    }
    // Gaps of the arena do not shrink with the limit: a plan within more bytes may need fewer.
    if (!smallest) return {};
    const uint64_t top = smallest->cost.sram_bytes;
    for (uint64_t i = 1; i <= kNeighbours && high < top; ++i)
      DTR_TRY(try_limit(high + (top - high) * i / (kNeighbours + 1)));
    // Nor do cycles always grow as the limit shrinks.
    if (most_cycles != UINT64_MAX)
      for (uint64_t i = 1; i <= kNeighbours / 2; ++i) {
        DTR_ASSIGN(const std::optional<PlanChoice> choice,
                   try_limit(high - high * i / kNeighbours));
        if (!choice) break;
      }
    return {};
  }

  // The smallest plan that is found, and the fastest of as many bytes: of the one without a budget;
  // of those that find_smaller tries after a long search of their arenas, first of the smallest
  // one, then of those that could become smallest; and of the plans behind the fastest one within
  // fewer bytes, and again within fewer than that one takes. The latter are left out where the
  // budget is far above, unless the smallest is asked for. Makes the same plans whatever the budget
  // is, so that it names bytes within which the search finds them again.
  Result<std::optional<PlanChoice>> find_smallest(bool fits) {
    const size_t first_plan = considered_.size();
    const auto smallest_so_far = [&] {
      std::optional<PlanChoice> smallest;
      for (const PlanChoice& choice : std::span(considered_).subspan(first_plan))
        if (is_smaller(choice, smallest)) smallest = choice;
      return smallest;
    };
    DTR_TRY(plan(kWithoutBudget));
    for (const Overlaps overlaps : kWays)
      DTR_TRY(find_smaller(UINT64_MAX, overlaps, /*leaves_room=*/false));
    // With its constants in SRAM a program of few calls may be smaller than one of few tensors.
    if (made_.program_is_in_sram)
      DTR_TRY(find_smaller(with_percent(cycles_unlimited_), kWays.back(), /*leaves_room=*/true));
    std::vector<PlanChoice> tried(considered_.begin() + static_cast<ptrdiff_t>(first_plan),
                                  considered_.end());
    sort_unique(tried, [](const PlanChoice& choice) {
      return std::pair(choice.least, choice.cost.sram_bytes);
    });
    const auto first = std::ranges::min_element(
        tried, {}, [](const PlanChoice& choice) { return choice.cost.sram_bytes; });
    std::rotate(tried.begin(), first, first + 1);
    size_t searched = 0;
    for (const PlanChoice& choice : tried) {
      if (choice.least >= smallest_so_far()->cost.sram_bytes) continue;
      if (searched++ == kMostLong) break;
      DTR_TRY(plan_long(choice));
    }
    const uint64_t bytes = smallest_so_far()->cost.sram_bytes;
    if (fits && budget_.optimize == Optimize::kSpeed && budget_.bytes > bytes + bytes / kNear)
      return smallest_so_far();
    for (int round = 0; round < kMostRounds && smallest_so_far()->cost.sram_bytes > 0; ++round) {
      DTR_ASSIGN(const std::optional<PlanChoice> smaller,
                 find_fastest(smallest_so_far()->cost.sram_bytes - 1));
      if (!smaller) break;
    }
    DTR_TRY(find_fastest(smallest_so_far()->cost.sram_bytes));
    return smallest_so_far();
  }

  tl::unexpected<Diagnostic> nothing_fits() const {
    Diagnostic why = made_.why_not.value_or(Diagnostic{
        .id = DiagnosticId::kMemoryExceeded,
        .reason = "the tensors of some operator are too large",
        .fix = "use smaller tensors: a lower resolution, fewer channels or a smaller batch"});
    why.reason = fmt::format("no program within {} bytes of SRAM is found: {}",
                             with_thousands(target_bytes_), why.reason);
    return tl::unexpected(std::move(why));
  }

  // memory_ is the smallest program's.
  tl::unexpected<Diagnostic> too_small(uint64_t smallest) const {
    const std::vector<PlanCall>& calls = emitted_.plan.calls;
    const bool at_kernel = memory_.max_live_call >= calls.size() ||
                           std::holds_alternative<KernelCallPlan>(calls[memory_.max_live_call]);
    const bool names_operator = made_.why_not && !at_kernel;
    const std::string needs = names_operator
                                  ? "which this operator needs: " + made_.why_not->reason
                                  : "most of them at once for " + largest_at(memory_.max_live_step);
    std::vector<std::string> fixes;
    if (smallest <= target_bytes_) fixes.push_back(fmt::format("give --sram {} or more", smallest));
    if (const uint64_t floats = float_operands();
        !budget_.has_int8_io && floats >= smallest / kPartOfFloats)
      fixes.push_back(
          fmt::format("let inputs and outputs be int8 (--io int8; as floats they take "
                      "{} bytes)",
                      with_thousands(floats)));
    fixes.push_back(fmt::format("make the tensors of {} smaller",
                                names_operator ? "that operator" : "the model"));
    return fail(
        DiagnosticId::kMemoryExceeded,
        fmt::format("no program within {} byte{} of SRAM is found: the smallest takes {} bytes, {}",
                    with_thousands(budget_.bytes), budget_.bytes == 1 ? "" : "s",
                    with_thousands(smallest), needs),
        fmt::format("{}", fmt::join(fixes, ", or ")),
        names_operator ? made_.why_not->place : Place{.file = module_.file});
  }

  // The names and bytes of the two largest tensors at a step.
  std::string largest_at(int32_t step) const {
    std::vector<MemoryMapEntry> live;
    for (const MemoryMapEntry& entry : memory_.entries)
      if (entry.first_step <= step && step <= entry.last_step) live.push_back(entry);
    std::ranges::stable_sort(live, std::greater{}, &MemoryMapEntry::bytes);
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min<size_t>(live.size(), 2); ++i) {
      const MemoryMapEntry& entry = live[i];
      const std::string& name = entry.kind == MemoryMapEntry::Kind::kTensor
                                    ? emitted_.plan.tensors[entry.index].name
                                    : emitted_.partitions[entry.call]->buffers[entry.index].name;
      names.push_back(fmt::format("{} bytes of `{}`",
                                  with_thousands(static_cast<uint64_t>(entry.bytes)), name));
    }
    return fmt::format("{}", fmt::join(names, " and "));
  }

  uint64_t float_operands() const {
    uint64_t bytes = 0;
    for (const std::vector<TensorRef>* refs : {&emitted_.plan.inputs, &emitted_.plan.outputs})
      for (const TensorRef ref : *refs)
        if (const Type& type = emitted_.plan.tensor(ref).type; type.dtype == DType::kFloat32)
          bytes += static_cast<uint64_t>(type.bytes());
    return bytes;
  }

  const Module& module_;
  EmitResult& emitted_;
  const SramBudget& budget_;
  uint64_t target_bytes_;
  const ProgramBytes& program_bytes_;
  unsigned threads_;
  std::vector<uint64_t> outside_;  // by call
  bool has_delegates_;
  MadePlans& made_;
  uint64_t largest_ = 0, cycles_unlimited_ = 0;  // of the plan without a budget
  bool is_near_smallest_ = false;                // a limit below the budget has no plan
  std::optional<PlanChoice> planned_;            // what the delegates and memory_ are planned for
  std::vector<PlanChoice> considered_;           // by this search
  MemoryMap memory_;
};

}  // namespace

PlannedCost planned_cost(const EmitResult& emitted, const MemoryMap& memory,
                         uint64_t program_bytes) {
  PlannedCost cost{.sram_bytes =
                       static_cast<uint64_t>(memory.arena_bytes + emitted.plan.state_bytes) +
                       program_bytes};
  for (size_t call = 0; call < emitted.plan.calls.size(); ++call) {
    if (const auto* kernel = std::get_if<KernelCallPlan>(&emitted.plan.calls[call]))
      cost.kernel_cycles += kernel->cycles;
    else if (emitted.partitions[call] != nullptr)
      cost.cycles += emitted.partitions[call]->planned_cycles();
  }
  cost.cycles += cost.kernel_cycles;
  return cost;
}

Result<MemoryMap> plan_within_budget(const Module& module, EmitResult& emitted,
                                     const SramBudget& budget, uint64_t target_bytes,
                                     const ProgramBytes& program_bytes, unsigned threads,
                                     MadePlans& made) {
  return BudgetSearch(module, emitted, budget, target_bytes, program_bytes, threads, made).run();
}

}  // namespace dtr
