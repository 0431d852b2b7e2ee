#include "compiler/backends/neutron/schedule/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "compiler/backends/neutron/schedule/shared_weights.h"
#include "compiler/backends/neutron/schedule/stripes.h"
#include "compiler/support/text.h"
#include "compiler/support/thread_pool.h"

namespace dtr::neutron {
namespace {

// Chains are chosen for these eighths of the limit. What they leave is room for constants on their
// way, so that calls do not wait for them; how much of it pays only the timeline tells.
constexpr std::array<uint64_t, 5> kPartsForChains{8, 7, 6, 5, 4};

// Copies for a graph whose calls are split. `limited`: SRAM is a budget, whose room early copies
// may use.
Result<Plan> plan_of_split(const Machine& machine, LoweredGraph graph, MemoryPlan memory,
                           bool limited) {
  Plan plan{.graph = std::move(graph), .memory = std::move(memory), .schedule = {}};
  DTR_ASSIGN(plan.schedule, plan_copies(machine, plan.graph.calls, plan.memory.live_bytes));
  plan.cycles = simulate(machine.target, plan.graph.calls, plan.schedule).total;
  if (!limited) return plan;
  // Where copies wait for room, one that is not urgent may have to go first.
  DTR_ASSIGN(Schedule early, plan_copies(machine, plan.graph.calls, plan.memory.live_bytes, true));
  const uint64_t cycles = simulate(machine.target, plan.graph.calls, early).total;
  if (cycles < plan.cycles) {
    plan.schedule = std::move(early);
    plan.cycles = cycles;
  }
  return plan;
}

// Splits and copies for a graph whose stripes are chosen. `part_of`, if given, receives the call of
// `graph` that each call of the plan is a part of. Where calls have equal weights, these stay in
// SRAM from one to the next or are copied anew, and are split to save time or not, whichever is
// fastest.
Result<Plan> plan_with_shares(const Machine& machine, const LoweredGraph& graph, bool limited,
                              std::span<const uint32_t> shares,
                              std::vector<uint32_t>* part_of = nullptr) {
  const MemoryPlan whole = plan_memory(graph);
  const bool has_shared = has_shared_weights(graph.calls);
  std::optional<Plan> best;
  std::optional<Diagnostic> why_not;
  for (const SplitShared split : {SplitShared::kForBytesOnly, SplitShared::kWhereItSavesTime}) {
    if (!has_shared && split == SplitShared::kForBytesOnly) continue;
    LoweredGraph made = graph;
    std::vector<uint32_t> parts = split_calls(machine, made, whole.live_bytes, shares, split);
    const MemoryPlan memory = plan_memory(made);
    for (const bool stay : {true, false}) {
      if (!has_shared && stay) continue;
      LoweredGraph shared = made;
      share_weights(machine, shared.calls, memory.live_bytes, stay);
      Result<Plan> plan = plan_of_split(machine, std::move(shared), memory, limited);
      if (!plan) {
        why_not = std::move(plan.error());
      } else if (!best || plan->cycles < best->cycles) {
        best = *std::move(plan);
        if (part_of != nullptr) *part_of = parts;
      }
    }
  }
  if (!best) return tl::unexpected(*std::move(why_not));
  return *std::move(best);
}

Plan plan_in_place(const Machine& machine, LoweredGraph graph) {
  Plan plan{.graph = std::move(graph), .memory = {}, .schedule = {}};
  plan.memory = plan_memory(plan.graph);
  share_weights(machine, plan.graph.calls, plan.memory.live_bytes, true);
  plan.schedule.start.assign(plan.graph.calls.size(), kNoCopy);
  plan.cycles = simulate(machine.target, plan.graph.calls, plan.schedule).total;
  return plan;
}

// Calls that wait for their constants, and the calls with constants before them: a smaller block of
// either lets the copy start earlier.
std::vector<uint32_t> shares_where_waiting(const Machine& machine, const Plan& plan,
                                           std::span<const uint32_t> part_of, size_t calls,
                                           uint32_t share) {
  std::vector<uint32_t> shares(calls, 1);
  const Timeline timeline = simulate(machine.target, plan.graph.calls, plan.schedule);
  std::optional<size_t> previous;
  for (size_t i = 0; i < plan.graph.calls.size(); ++i) {
    if (plan.schedule.start[i] == kNoCopy) continue;
    if (timeline.stalls[i] > machine.target.copy_setup_cycles) {
      shares[part_of[i]] = share;
      if (previous) shares[part_of[*previous]] = share;
    }
    previous = i;
  }
  return shares;
}

void keep_faster(std::optional<Plan>& best, Plan plan) {
  if (!best || plan.cycles < best->cycles) best = std::move(plan);
}

tl::unexpected<Diagnostic> too_large(const Machine& machine, const Module& module,
                                     const LoweredGraph& graph, const MemoryPlan& memory,
                                     uint32_t index) {
  const Call& call = graph.calls[index];
  const uint64_t constants =
      machine.options.constants_in_sram
          ? 0
          : slice_bytes(machine.target, call, most_slices(machine.target, call));
  return fail(DiagnosticId::kMemoryExceeded,
              fmt::format("in one piece it has {} bytes of tensors live and its constants take {} "
                          "at once; {}",
                          with_thousands(memory.live_bytes[index]), with_thousands(constants),
                          machine.options.nxp_like() ? "the nxp-like schedule has no stripes"
                                                     : "no stripes of it are found that fit"),
              "use smaller tensors: a lower resolution, fewer channels or a smaller batch",
              place_of(module, call.origin));
}

Result<Plan> plan_whole(const Machine& machine, const LoweredGraph& graph) {
  if (machine.options.constants_in_sram) return plan_in_place(machine, graph);
  return plan_with_shares(machine, graph, false, {});
}

// The fastest plan with these chains; std::nullopt: each call fits alone, but not beside constants
// that others need.
std::optional<Plan> plan_with_chains(const Machine& machine, const LoweredGraph& variant,
                                     const std::vector<Chain>& chains) {
  const uint64_t limit = machine.target.sram_bytes;
  LoweredGraph striped = in_stripes(variant, chains);
  if (machine.options.constants_in_sram) {
    Plan plan = plan_in_place(machine, std::move(striped));
    return plan.memory.peak() <= limit ? std::optional(std::move(plan)) : std::nullopt;
  }
  std::vector<uint32_t> part_of;
  Result<Plan> first = plan_with_shares(machine, striped, true, {}, &part_of);
  if (!first || first->memory.peak() > limit) return std::nullopt;
  std::optional<Plan> best;
  if (!machine.options.nxp_like())
    for (const uint32_t share : {2u, 3u, 4u, 6u}) {
      const std::vector<uint32_t> shares =
          shares_where_waiting(machine, *first, part_of, striped.calls.size(), share);
      if (std::ranges::count(shares, 1u) == static_cast<ptrdiff_t>(shares.size())) break;
      if (Result<Plan> plan = plan_with_shares(machine, striped, true, shares))
        keep_faster(best, *std::move(plan));
    }
  if (!best || first->cycles <= best->cycles) best = *std::move(first);
  return best;
}

}  // namespace

Result<Plan> plan_unlimited(const Machine& machine, const Module& module,
                            std::span<const LoweredGraph> variants) {
  const bool in_sram = machine.options.constants_in_sram;
  for (const LoweredGraph& variant : variants) {
    Result<Plan> plan = plan_whole(machine, variant);
    if (!plan && plan.error().id != DiagnosticId::kMemoryExceeded) return plan;
    if (!plan) continue;
    uint64_t constants = 0;
    if (in_sram)
      for (const Call& call : plan->graph.calls) constants += call.constants.size();
    // Whether the whole program fits is known once it is written.
    const bool is_checked_later = in_sram && &variant == &variants.back();
    if (is_checked_later || plan->memory.peak() + constants <= machine.target.sram_bytes)
      return plan;
  }
  Result<Plan> plan =
      plan_within(machine, module, variants, machine.target.sram_bytes, {.leaves_room = true});
  if (plan || plan.error().id != DiagnosticId::kMemoryExceeded) return plan;
  return plan_within(machine, module, variants, machine.target.sram_bytes,
                     {.overlaps = Overlaps::kOfSingleOperatorsToo, .leaves_room = true});
}

Result<Plan> plan_within(const Machine& unlimited, const Module& module,
                         std::span<const LoweredGraph> variants, uint64_t limit,
                         PlanSearch search) {
  Machine machine = unlimited;
  machine.target.sram_bytes =
      static_cast<uint32_t>(std::min<uint64_t>(limit, unlimited.target.sram_bytes));
  const uint32_t fewest = search.overlaps == Overlaps::kOfChains ? 2 : 1;
  std::optional<Plan> best;
  std::optional<Diagnostic> why_not;
  for (const LoweredGraph& variant : variants) {
    const MemoryPlan memory = plan_memory(variant);
    const bool leaves_room = search.leaves_room && !machine.options.constants_in_sram;
    std::vector<ChainChoice> choices(leaves_room ? kPartsForChains.size() : 1);
    parallel_for(choices.size(), search.threads, [&](size_t i) {
      const uint64_t room = machine.target.sram_bytes * kPartsForChains[i] / kPartsForChains[0];
      choices[i] = choose_chains(machine, variant, memory, room, fewest);
    });
    if (!why_not && choices[0].too_large)
      why_not = too_large(machine, module, variant, memory, *choices[0].too_large).value();
    const auto fits_no_more = std::ranges::find_if(
        choices, [](const ChainChoice& choice) { return choice.too_large.has_value(); });
    choices.erase(fits_no_more, choices.end());
    const auto equal = [](const ChainChoice& a, const ChainChoice& b) {
      return a.chains == b.chains;
    };
    choices.erase(std::unique(choices.begin(), choices.end(), equal), choices.end());
    std::vector<std::optional<Plan>> plans(choices.size());
    parallel_for(choices.size(), search.threads, [&](size_t i) {
      plans[i] = plan_with_chains(machine, variant, choices[i].chains);
    });
    for (std::optional<Plan>& plan : plans)
      if (plan) keep_faster(best, *std::move(plan));
    if (best || why_not || machine.options.constants_in_sram) continue;
    // Together, though each call fits alone: the call with the most live bytes is named.
    const auto fullest = std::ranges::max_element(memory.live_bytes);
    if (fullest != memory.live_bytes.end())
      why_not = too_large(machine, module, variant, memory,
                          static_cast<uint32_t>(fullest - memory.live_bytes.begin()))
                    .value();
  }
  if (best) return *std::move(best);
  if (why_not) return tl::unexpected(*std::move(why_not));
  return fail(
      DiagnosticId::kMemoryExceeded,
      fmt::format("the tensors of the NPU do not fit into {} bytes of SRAM", with_thousands(limit)),
      "use smaller tensors: a lower resolution, fewer channels or a smaller batch");
}

}  // namespace dtr::neutron
