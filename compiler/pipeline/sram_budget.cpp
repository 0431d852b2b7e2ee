#include "compiler/pipeline/sram_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

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
constexpr uint64_t kNeighbours = 8;
constexpr int kMostLong = 3;           // long searches
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
               uint64_t target_bytes, const ProgramBytes& program_bytes)
      : module_(module),
        emitted_(emitted),
        budget_(budget),
        target_bytes_(target_bytes),
        program_bytes_(program_bytes),
        outside_(bytes_outside(emitted.plan)) {}

  Result<MemoryMap> run() {
    MemoryMap memory;
    DTR_ASSIGN(const std::optional<Choice> unlimited, plan(kUnlimited, {kWays.back()}, &memory));
    if (!unlimited) return tl::unexpected(*std::move(why_not_));
    const PlannedCost& first = unlimited->cost;
    largest_ = first.sram_bytes;
    const bool fits = first.sram_bytes <= budget_.bytes;
    uint32_t& flags = emitted_.plan.manifest_flags;
    flags &= ~uint32_t{pte::kWithinBudget};
    if (fits && budget_.optimize == Optimize::kSpeed) return memory;
    flags |= pte::kWithinBudget;

    std::optional<uint64_t> fastest;  // cycles of the fastest plan that fits
    if (fits) {
      best_ = unlimited;
      fastest = first.cycles;
    } else {
      DTR_TRY(find_fastest(fastest));
    }
    const bool wants_smallest = !fastest || budget_.optimize == Optimize::kSize;
    if (!fastest || budget_.optimize != Optimize::kSpeed) {
      const uint64_t most_cycles = wants_smallest ? UINT64_MAX : *fastest + *fastest / 100;
      DTR_TRY(find_smallest(most_cycles));
    }
    if (!best_)
      return tl::unexpected(why_not_.value_or(Diagnostic{
          .id = DiagnosticId::kMemoryExceeded,
          .reason = "no plan fits the SRAM",
          .fix = "use smaller tensors: a lower resolution, fewer channels or a smaller batch"}));
    MemoryMap planned;
    StagedPlacement staged = StagedPlacement::kTogether;
    if (wants_smallest) {
      staged = StagedPlacement::kLong;
      DTR_TRY(search_long());
    }
    if (!best_->search.leaves_room) DTR_TRY(make_faster(staged));
    DTR_ASSIGN(const std::optional<Choice> last,
               plan(best_->limit, best_->search, &planned, staged));
    DTR_CHECK(last && last->cost.sram_bytes <= best_->cost.sram_bytes);
    best_ = last;
    // With the program in SRAM, the step `check size` reports the error: it knows the file's size.
    if (best_->cost.sram_bytes > budget_.bytes && !program_is_in_sram_) return too_small(planned);
    return planned;
  }

 private:
  static constexpr int64_t kNoLimit = INT32_MAX;
  static constexpr uint64_t kUnlimited = UINT64_MAX;  // the plan that delegates came with
  // The one with which most fits is the last.
  static constexpr std::array kWays{Overlaps::kOfChains, Overlaps::kOfSingleOperatorsToo};

  struct Choice {
    uint64_t limit = 0;  // of the bytes that delegates use
    PlanSearch search;
    PlannedCost cost;
    uint64_t least = 0;  // bytes below which no placement of its buffers gets
  };

  Result<PlannedCost> cost_of(const MemoryMap& memory) {
    DTR_ASSIGN(const uint64_t program, program_bytes_(memory));
    program_is_in_sram_ = program > 0;
    return planned_cost(emitted_, memory, program);
  }

  // Plans delegates within `limit` bytes. std::nullopt: some delegate does not fit.
  Result<std::optional<Choice>> plan(uint64_t limit, PlanSearch search, MemoryMap* kept = nullptr,
                                     StagedPlacement staged = StagedPlacement::kTogether) {
    check_cancelled();
    for (size_t call = 0; call < emitted_.partitions.size(); ++call) {
      if (emitted_.partitions[call] == nullptr) continue;
      const uint64_t room = limit == kUnlimited      ? limit
                            : limit > outside_[call] ? limit - outside_[call]
                                                     : 0;
      if (Result<void> planned = emitted_.partitions[call]->plan_within(module_, room, search);
          !planned) {
        if (planned.error().id != DiagnosticId::kMemoryExceeded)
          return tl::unexpected(std::move(planned).error());
        if (search.overlaps == kWays.back() && limit >= why_not_limit_) {
          why_not_ = std::move(planned).error();
          why_not_limit_ = limit;
        }
        return std::nullopt;
      }
    }
    DTR_ASSIGN(MemoryMap memory,
               plan_memory(emitted_.plan, kNoLimit,
                           limit == kUnlimited ? StagedPlacement::kAround : staged));
    DTR_ASSIGN(const PlannedCost cost, cost_of(memory));
    const auto gaps = static_cast<uint64_t>(memory.arena_bytes - memory.max_live_bytes);
    if (kept != nullptr) *kept = std::move(memory);
    return Choice{.limit = limit, .search = search, .cost = cost, .least = cost.sram_bytes - gaps};
  }

  static bool is_smaller(const Choice& choice, const std::optional<Choice>& than) {
    return !than || choice.cost.sram_bytes < than->cost.sram_bytes ||
           (choice.cost.sram_bytes == than->cost.sram_bytes &&
            choice.cost.cycles < than->cost.cycles);
  }
  void keep(const Choice& choice) {
    if (is_smaller(choice, best_)) best_ = choice;
  }

  // Of the plans that were tried, the one that is smallest after a long search of its arena. First
  // the smallest one so far, then those that could become smallest. Plans of the same bytes are
  // mostly one.
  Result<void> search_long() {
    const auto bytes = [](const Choice& choice) {
      return std::pair(choice.least, choice.cost.sram_bytes);
    };
    std::ranges::stable_sort(tried_, {}, bytes);
    const auto same = [&](const Choice& a, const Choice& b) { return bytes(a) == bytes(b); };
    tried_.erase(std::unique(tried_.begin(), tried_.end(), same), tried_.end());
    const auto smallest = std::ranges::min_element(
        tried_, {}, [](const Choice& choice) { return choice.cost.sram_bytes; });
    if (smallest != tried_.end()) std::rotate(tried_.begin(), smallest, smallest + 1);
    int searched = 0;
    for (const Choice& choice : tried_) {
      if (choice.least >= best_->cost.sram_bytes) continue;
      if (searched++ == kMostLong) break;
      DTR_ASSIGN(const std::optional<Choice> found,
                 plan(choice.limit, choice.search, nullptr, StagedPlacement::kTogetherLong));
      DTR_CHECK(found.has_value());
      keep(*found);
    }
    return {};
  }

  // Takes the fastest plan within the same limit if its arena is no larger.
  Result<void> make_faster(StagedPlacement staged) {
    DTR_ASSIGN(const std::optional<Choice> found,
               plan(best_->limit, {.overlaps = best_->search.overlaps, .leaves_room = true},
                    nullptr, staged));
    DTR_CHECK(found.has_value());
    if (found->cost.sram_bytes <= best_->cost.sram_bytes && found->cost.cycles < best_->cost.cycles)
      best_ = found;
    return {};
  }

  // A plan whose buffers leave gaps in the arena exceeds its limit: lowers the limit by the excess.
  Result<void> find_fastest(std::optional<uint64_t>& fastest) {
    for (const Overlaps overlaps : kWays) {
      uint64_t limit = budget_.bytes;
      for (int i = 0; i < kMostTries && limit > 0; ++i) {
        DTR_ASSIGN(const std::optional<Choice> choice,
                   plan(limit, {.overlaps = overlaps, .leaves_room = true}));
        if (!choice) break;
        const PlannedCost& cost = choice->cost;
        if (cost.sram_bytes <= budget_.bytes) {
          if (!fastest || cost.cycles < *fastest) {
            fastest = cost.cycles;
            best_ = choice;
          }
          break;
        }
        if (!fastest) keep(*choice);
        const uint64_t excess = cost.sram_bytes - budget_.bytes;
        limit = limit > excess ? limit - excess : 0;
      }
    }
    return {};
  }

  // Tries the same limits whatever find_fastest found, and search_long the same plans, so that a
  // budget of the bytes of the program of `--optimize size` finds that program too.
  Result<void> find_smallest(uint64_t most_cycles) {
    for (const Overlaps overlaps : kWays) DTR_TRY(find_smallest(most_cycles, overlaps));
    return {};
  }
  Result<void> find_smallest(uint64_t most_cycles, Overlaps overlaps) {
    std::optional<Choice> smallest;
    const auto see = [&](const Choice& choice) {
      if (is_smaller(choice, smallest)) smallest = choice;
      tried_.push_back(choice);
      keep(choice);
    };
    uint64_t low = 0, high = largest_;  // plans within `low` do not exist, or take too long
    for (int i = 0; i < kMostSteps && high - low > std::max(kStep, high / kPart); ++i) {
      const uint64_t limit = low + (high - low) / 2;
      DTR_ASSIGN(const std::optional<Choice> choice, plan(limit, {overlaps}));
      if (!choice || choice->cost.cycles > most_cycles) {
        low = limit;
        continue;
      }
      see(*choice);
      high = limit;
    }
    // Gaps of the arena do not shrink with the limit: a plan within more bytes may need fewer.
    if (!smallest) return {};
    const uint64_t top = smallest->cost.sram_bytes;
    for (uint64_t i = 1; i <= kNeighbours && high < top; ++i) {
      const uint64_t limit = high + (top - high) * i / (kNeighbours + 1);
      DTR_ASSIGN(const std::optional<Choice> choice, plan(limit, {overlaps}));
      if (choice && choice->cost.cycles <= most_cycles) see(*choice);
    }
    return {};
  }

  // `planned` is the smallest program.
  tl::unexpected<Diagnostic> too_small(const MemoryMap& planned) const {
    const uint64_t smallest = best_->cost.sram_bytes;
    const std::vector<PlanCall>& calls = emitted_.plan.calls;
    const bool at_kernel = planned.max_live_call >= calls.size() ||
                           std::holds_alternative<KernelCallPlan>(calls[planned.max_live_call]);
    const bool names_operator = why_not_ && !at_kernel;
    const std::string needs =
        names_operator ? "which this operator needs: " + why_not_->reason
                       : "most of them at once for " + largest_at(planned, planned.max_live_step);
    std::vector<std::string> fixes;
    if (smallest <= target_bytes_) fixes.push_back(fmt::format("give --sram {} or more", smallest));
    if (const uint64_t floats = float_operands(); floats >= smallest / kPartOfFloats)
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
        names_operator ? why_not_->place : Place{.file = module_.file});
  }

  // The names and bytes of the two largest tensors at a step.
  std::string largest_at(const MemoryMap& planned, int32_t step) const {
    std::vector<MemoryMapEntry> live;
    for (const MemoryMapEntry& entry : planned.entries)
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
  std::vector<uint64_t> outside_;  // by call
  uint64_t largest_ = 0;
  bool program_is_in_sram_ = false;
  std::optional<Choice> best_;
  std::vector<Choice> tried_;  // by find_smallest
  std::optional<Diagnostic> why_not_;
  uint64_t why_not_limit_ = 0;
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
                                     const ProgramBytes& program_bytes) {
  return BudgetSearch(module, emitted, budget, target_bytes, program_bytes).run();
}

}  // namespace dtr
