#include "test/unit/exact_schedule.h"

#include <algorithm>
#include <map>
#include <queue>
#include <vector>

#include "compiler/backends/neutron/schedule/stripes.h"
#include "compiler/support/diagnostic.h"

namespace dtr::test {
namespace {

using neutron::Call;
using neutron::Chain;
using neutron::kNoCall;
using neutron::LoweredGraph;
using neutron::Machine;

// One call split into some number of parts.
struct Option {
  std::vector<uint64_t> run;    // by part: the host's start and the NPU's cycles
  std::vector<uint64_t> copy;   // by part: cycles of the copy engine
  std::vector<uint64_t> bytes;  // by part: of its block
  uint64_t run_sum = 0, copy_sum = 0;
};

// A call of the graph with its stripes chosen.
struct Step {
  bool has_block = false;
  std::vector<Option> options;  // the first: whole
  uint64_t live = 0;            // bytes of tensors
  uint64_t resident = 0;        // of blocks of earlier calls that this one or a later one reads
  bool stays = false;           // later calls read this call's block
  uint64_t least_run = 0, least_copy = 0, least_last = 0;
};

std::vector<Step> steps_of(const Machine& machine, const LoweredGraph& graph) {
  const npu::Target& target = machine.target;
  const std::vector<uint64_t> live = neutron::plan_memory(graph).live_bytes;
  const std::vector<uint32_t> last = neutron::last_readers(graph.calls);
  std::vector<Step> steps(graph.calls.size());
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const Call& call = graph.calls[i];
    Step& step = steps[i];
    step.live = live[i];
    step.has_block = !call.constants.empty();
    step.stays = last[i] > i;
    for (uint32_t before = 0; before < i; ++before)
      if (last[before] >= i && last[before] > before)
        step.resident += graph.calls[before].constants.size();
    const uint32_t most = step.stays ? 1 : neutron::most_slices(target, call);
    for (uint32_t parts = 1; parts <= most; ++parts) {
      LoweredGraph alone{{}, {call}, {}};
      alone.calls[0].block_of = kNoCall;
      neutron::split_into(target, alone, std::vector{parts});
      Option& option = step.options.emplace_back();
      for (const Call& part : alone.calls) {
        option.run.push_back(target.call_host_cycles + neutron::cycles(target, part.kernel).total);
        option.bytes.push_back(part.constants.size());
        option.copy.push_back(
            step.has_block
                ? npu::copy_cycles(target,
                                   npu::Copy{.bytes = static_cast<uint32_t>(part.constants.size())})
                : 0);
        option.run_sum += option.run.back();
        option.copy_sum += option.copy.back();
      }
    }
    const auto least = [&](auto of) {
      uint64_t best = UINT64_MAX;
      for (const Option& option : step.options) best = std::min(best, of(option));
      return best;
    };
    step.least_run = least([](const Option& o) { return o.run_sum; });
    step.least_copy = least([](const Option& o) { return o.copy_sum; });
    step.least_last = least([](const Option& o) { return o.run.back(); });
  }
  return steps;
}

// Where a plan has come to: the host is about to start part `part` of call `call`, or another copy.
struct State {
  uint32_t call = 0, part = 0;            // next to run
  uint32_t next_call = 0, next_part = 0;  // next to be copied
  std::vector<uint32_t> parts;  // of `call` and those behind it, as far as a copy of theirs started
  std::vector<uint64_t> arrived;  // of copies that started and whose part has not run, in order
  uint64_t now = 0, engine = 0;   // the host's clock; when the copy engine is free
  uint64_t staged = 0;            // bytes of these copies
  uint64_t bound = 0;             // no plan from here ends earlier
  int64_t from = -1;              // the state before it
};

// Searches the splits and the starts of copies of one graph.
class CopySearch {
 public:
  CopySearch(const Machine& machine, const LoweredGraph& graph, uint64_t limit)
      : target_(machine.target), graph_(graph), limit_(limit), steps_(steps_of(machine, graph)) {}

  // No plan takes fewer cycles; UINT64_MAX: none fits.
  uint64_t bound() const {
    for (const Step& step : steps_) {
      uint64_t smallest = UINT64_MAX;
      for (const Option& option : step.options)
        smallest = std::min(smallest, *std::ranges::max_element(option.bytes));
      if (step.live + step.resident + smallest > limit_) return UINT64_MAX;
    }
    State first;
    skip_calls_without_block(first);
    return bound_of(first);
  }

  // The cycles of the fastest plan, if fewer than `known`. After `most` states `open` is the bound
  // of what was not looked at.
  std::optional<uint64_t> run(uint64_t known, size_t most, size_t& looked_at, uint64_t& open) {
    State first;
    skip_calls_without_block(first);
    push(std::move(first), known);
    while (!queue_.empty()) {
      const auto [bound, index] = queue_.top();
      if (looked_at >= most) {
        open = std::min(open, bound);
        return std::nullopt;
      }
      queue_.pop();
      const State state = states_[index];
      if (state.call == steps_.size()) {
        check(index);
        return state.now;
      }
      if (is_dominated(state)) continue;
      ++looked_at;
      if (state.next_call < steps_.size()) start_copies(state, index, known);
      if (std::pair(state.next_call, state.next_part) > std::pair(state.call, state.part))
        run_part(state, index, known);
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    uint64_t bound;
    size_t index;
    // The least bound first; of equal ones the state that has come furthest.
    bool operator<(const Entry& other) const {
      return bound != other.bound ? bound > other.bound : index < other.index;
    }
  };

  const Option& option(const State& state, uint32_t call) const {
    return steps_[call].options[state.parts[call - state.call] - 1];
  }

  // Calls without a block are behind the copies as soon as those before them have started.
  void skip_calls_without_block(State& state) const {
    while (state.next_call < steps_.size() && !steps_[state.next_call].has_block) {
      state.parts.push_back(1);
      state.arrived.push_back(0);
      ++state.next_call;
    }
  }

  void start_copies(const State& state, size_t from, uint64_t known) {
    const Step& step = steps_[state.next_call];
    const bool is_begun = state.next_part > 0;
    for (uint32_t parts = 1; parts <= step.options.size(); ++parts) {
      if (is_begun && parts != state.parts.back()) continue;
      State next = state;
      next.from = static_cast<int64_t>(from);
      if (!is_begun) next.parts.push_back(parts);
      const Option& chosen = step.options[parts - 1];
      next.staged += chosen.bytes[state.next_part];
      next.now += target_.copy_host_cycles;
      next.engine = std::max(next.engine, next.now) + chosen.copy[state.next_part];
      next.arrived.push_back(next.engine);
      if (++next.next_part == parts) {
        ++next.next_call;
        next.next_part = 0;
        skip_calls_without_block(next);
      }
      push(std::move(next), known);
    }
  }

  void run_part(const State& state, size_t from, uint64_t known) {
    State next = state;
    next.from = static_cast<int64_t>(from);
    const Option& chosen = option(state, state.call);
    next.now = std::max(state.now, state.arrived.front()) + chosen.run[state.part];
    next.arrived.erase(next.arrived.begin());
    next.staged -= chosen.bytes[state.part];
    if (++next.part == chosen.run.size()) {
      ++next.call;
      next.part = 0;
      next.parts.erase(next.parts.begin());
    }
    push(std::move(next), known);
  }

  void push(State state, uint64_t known) {
    if (state.call < steps_.size()) {
      const Step& step = steps_[state.call];
      if (step.live + step.resident + state.staged > limit_) return;
    }
    state.engine = std::max(state.engine, state.now);
    for (uint64_t& time : state.arrived) time = std::max(time, state.now);
    state.bound = bound_of(state);
    if (state.from >= 0) state.bound = std::max(state.bound, states_[state.from].bound);
    if (state.bound >= known) return;
    queue_.push({state.bound, states_.size()});
    states_.push_back(std::move(state));
  }

  // The later of two bounds: all that the host and the NPU have left to do; and each copy's arrival
  // with the calls from there on, without the host's starts of copies, which waits may hide.
  uint64_t bound_of(const State& state) const {
    uint64_t busy = state.now, waiting = state.now, engine = state.engine;
    size_t pending = 0;
    const auto run = [&](uint64_t cycles, uint64_t last, uint64_t arrived) {
      busy += cycles;
      waiting = std::max(waiting + cycles, arrived + last);
    };
    const auto copy = [&](uint64_t cycles) {
      busy += target_.copy_host_cycles;
      engine = std::max(engine, state.now + target_.copy_host_cycles) + cycles;
    };
    for (uint32_t call = state.call; call < steps_.size(); ++call) {
      const Step& step = steps_[call];
      const uint32_t first = call == state.call ? state.part : 0;
      if (call < state.next_call || (call == state.next_call && state.next_part > 0)) {
        const Option& chosen = option(state, call);
        for (uint32_t part = first; part < chosen.run.size(); ++part) {
          const bool has_started = call < state.next_call || part < state.next_part;
          if (!has_started) copy(chosen.copy[part]);
          run(chosen.run[part], chosen.run[part], has_started ? state.arrived[pending++] : engine);
        }
      } else if (step.has_block) {
        copy(step.least_copy);
        run(step.least_run, step.least_last, engine);
      } else {
        run(step.least_run, step.least_run, 0);
      }
    }
    return std::max(busy, waiting);
  }

  // Another state with the same choices ahead has come here no later in any respect.
  bool is_dominated(const State& state) {
    std::vector<uint32_t> key{state.call, state.part, state.next_call, state.next_part};
    key.insert(key.end(), state.parts.begin(), state.parts.end());
    std::vector<uint64_t> times{state.now, state.engine};
    times.insert(times.end(), state.arrived.begin(), state.arrived.end());
    std::vector<std::vector<uint64_t>>& seen = seen_[key];
    const auto no_later = [](const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
      return std::ranges::equal(a, b, std::less_equal<>());
    };
    for (const std::vector<uint64_t>& other : seen)
      if (no_later(other, times)) return true;
    std::erase_if(seen, [&](const auto& other) { return no_later(times, other); });
    seen.push_back(std::move(times));
    return false;
  }

  // The plan of the state, built and run by the compiler's own timeline, takes as long.
  void check(size_t index) const {
    std::vector<uint32_t> parts(steps_.size(), 1);
    std::vector<State> path;
    for (auto at = static_cast<int64_t>(index); at >= 0; at = states_[at].from)
      path.push_back(states_[at]);
    std::ranges::reverse(path);
    for (const State& state : path)
      for (uint32_t i = 0; i < state.parts.size(); ++i) parts[state.call + i] = state.parts[i];
    std::vector<uint32_t> first_part(steps_.size() + 1, 0);
    for (size_t i = 0; i < steps_.size(); ++i) first_part[i + 1] = first_part[i] + parts[i];
    LoweredGraph graph = graph_;
    neutron::split_into(target_, graph, parts);
    neutron::Schedule schedule{std::vector<uint32_t>(graph.calls.size(), neutron::kNoCopy)};
    for (size_t i = 1; i < path.size(); ++i) {
      const State &before = path[i - 1], &after = path[i];
      if (std::pair(before.call, before.part) != std::pair(after.call, after.part)) continue;
      schedule.start[first_part[before.next_call] + before.next_part] =
          first_part[before.call] + before.part;
    }
    const neutron::Timeline timeline = neutron::simulate(target_, graph.calls, schedule);
    DTR_CHECK(timeline.total == states_[index].now);
  }

  const npu::Target& target_;
  const LoweredGraph& graph_;
  uint64_t limit_;
  std::vector<Step> steps_;
  std::vector<State> states_;
  std::priority_queue<Entry> queue_;
  std::map<std::vector<uint32_t>, std::vector<std::vector<uint64_t>>> seen_;
};

// Enumerates the sets of chains of one graph, the one with the least bound first.
class ChainSets {
 public:
  // Leaves out chains with which no plan takes fewer than `known` cycles.
  ChainSets(const Machine& machine, const LoweredGraph& graph, uint64_t limit, uint64_t known)
      : machine_(machine), graph_(graph), limit_(limit) {
    const auto count = static_cast<uint32_t>(graph.calls.size());
    std::vector<uint64_t> before(count + 1, 0);  // cycles of the calls before each one, all whole
    for (uint32_t call = 0; call < count; ++call)
      before[call + 1] = before[call] + cycles_of(graph, call, call + 1);
    runs_.resize(count);
    for (uint32_t first = 0; first < count; ++first) {
      if (fits(graph, first, first + 1))
        runs_[first].push_back({std::nullopt, cycles_of(graph, first, first + 1)});
      if (machine.options.nxp_like()) continue;
      for (uint32_t last = first; last < count; ++last) {
        const uint32_t most = neutron::most_stripes(graph, first, last);
        const bool copies = std::any_of(graph.calls.begin() + first, graph.calls.begin() + last + 1,
                                        [](const Call& call) { return !call.constants.empty(); });
        for (uint32_t stripes = 2; stripes <= most; ++stripes)
          for (const bool keeps : {true, false}) {
            if (!keeps && !copies) continue;
            const Chain chain{first, last, stripes, keeps};
            const LoweredGraph striped = neutron::in_stripes(graph, {chain});
            const auto end = static_cast<uint32_t>(striped.calls.size() - (count - 1 - last));
            const uint64_t cycles = cycles_of(striped, first, end);
            const uint64_t others = before[first] + before[count] - before[last + 1];
            if (cycles + others < known && fits(striped, first, end))
              runs_[first].push_back({chain, cycles});
          }
      }
    }
    least_.assign(count + 1, 0);
    for (uint32_t first = count; first-- > 0;) {
      least_[first] = UINT64_MAX;
      for (const Run& run : runs_[first])
        if (const uint64_t rest = least_[run.end(first)]; rest != UINT64_MAX)
          least_[first] = std::min(least_[first], run.cycles + rest);
    }
  }

  // Replaces `best` by a faster plan, if there is one. After `most_states` returns the bound of
  // what was not looked at, else UINT64_MAX.
  uint64_t search(ExactSchedule& best, size_t most_states) {
    uint64_t open = UINT64_MAX;
    std::priority_queue<Set> queue;
    queue.push({.bound = least_[0]});
    while (!queue.empty() && queue.top().bound < best.cycles) {
      Set set = queue.top();
      queue.pop();
      if (best.states >= most_states) return std::min(open, set.bound);
      if (set.from < graph_.calls.size()) {
        for (const Run& run : runs_[set.from]) {
          Set next = set;
          next.from = run.end(set.from);
          next.cycles += run.cycles;
          if (run.chain) next.chains.push_back(*run.chain);
          if (least_[next.from] == UINT64_MAX) continue;
          next.bound = next.cycles + least_[next.from];
          if (next.bound < best.cycles) queue.push(std::move(next));
        }
        continue;
      }
      const LoweredGraph striped = neutron::in_stripes(graph_, set.chains);
      CopySearch search(machine_, striped, limit_);
      if (!set.waits_count) {
        set.waits_count = true;
        set.bound = std::max(set.bound, search.bound());
        if (set.bound < best.cycles) queue.push(std::move(set));
        continue;
      }
      ++best.chain_sets;
      if (const auto faster = search.run(best.cycles, most_states, best.states, open))
        best.cycles = *faster;
    }
    return open;
  }

 private:
  struct Run {
    std::optional<Chain> chain;  // std::nullopt: one call whole
    uint64_t cycles = 0;         // of its calls and of the starts of its copies
    uint32_t end(uint32_t first) const { return chain ? chain->last + 1 : first + 1; }
  };
  // Chains of the calls before `from`.
  struct Set {
    uint64_t bound = 0;  // no plan with them takes fewer cycles
    uint32_t from = 0;
    uint64_t cycles = 0;
    std::vector<Chain> chains = {};
    bool waits_count = false;  // in `bound`
    bool operator<(const Set& other) const {
      return bound != other.bound ? bound > other.bound : from < other.from;
    }
  };

  uint64_t cycles_of(const LoweredGraph& graph, uint32_t first, uint32_t end) const {
    uint64_t cycles = 0;
    for (uint32_t i = first; i < end; ++i)
      cycles += machine_.target.call_host_cycles +
                neutron::cycles(machine_.target, graph.calls[i].kernel).total +
                (graph.calls[i].constants.empty() ? 0 : machine_.target.copy_host_cycles);
    return cycles;
  }

  bool fits(const LoweredGraph& graph, uint32_t first, uint32_t end) const {
    const std::vector<uint64_t> live = neutron::plan_memory(graph).live_bytes;
    const std::vector<uint32_t> last = neutron::last_readers(graph.calls);
    for (uint32_t i = first; i < end; ++i) {
      const Call& call = graph.calls[i];
      const uint32_t parts = last[i] == i ? neutron::most_slices(machine_.target, call) : 1;
      if (live[i] + neutron::slice_bytes(machine_.target, call, parts) > limit_) return false;
    }
    return true;
  }

  const Machine& machine_;
  const LoweredGraph& graph_;
  uint64_t limit_;
  std::vector<std::vector<Run>> runs_;  // by first call
  std::vector<uint64_t> least_;         // by call: cycles of the calls from it on
};

}  // namespace

uint64_t most_bytes(const neutron::Plan& plan) {
  std::vector<uint64_t> used = plan.memory.live_bytes;
  const std::vector<uint32_t> last = neutron::last_readers(plan.graph.calls);
  for (size_t i = 0; i < used.size(); ++i)
    if (plan.schedule.start[i] != neutron::kNoCopy)
      for (uint32_t step = plan.schedule.start[i]; step <= last[i]; ++step)
        used[step] += plan.graph.calls[i].constants.size();
  return used.empty() ? 0 : *std::ranges::max_element(used);
}

ExactSchedule fastest_schedule(const Machine& machine, std::span<const LoweredGraph> variants,
                               uint64_t limit, uint64_t known, size_t most_states) {
  ExactSchedule best{.cycles = known};
  uint64_t open = UINT64_MAX;
  for (const LoweredGraph& variant : variants)
    open =
        std::min(open, ChainSets(machine, variant, limit, best.cycles).search(best, most_states));
  if (open < best.cycles) {
    best.cycles = open;
    best.is_proven = false;
  }
  return best;
}

ScheduleComparison compare_schedules(const Machine& machine, const Module& module,
                                     std::span<const LoweredGraph> variants, uint32_t percent,
                                     size_t most_states) {
  const Result<neutron::Plan> unlimited = neutron::plan_unlimited(machine, module, variants);
  DTR_CHECK(unlimited.has_value());
  ScheduleComparison made{.limit = most_bytes(*unlimited) * percent / 100, .exact = {}};
  const auto see = [&](const neutron::Plan& plan) {
    if (most_bytes(plan) <= made.limit) made.cycles = std::min(made.cycles, plan.cycles);
  };
  see(*unlimited);
  for (const Overlaps overlaps : {Overlaps::kOfChains, Overlaps::kOfSingleOperatorsToo})
    if (const auto plan = neutron::plan_within(machine, module, variants, made.limit,
                                               {.overlaps = overlaps, .leaves_room = true}))
      see(*plan);
  // A plan that takes as long as the compiler's must be found too.
  const uint64_t known = made.cycles == UINT64_MAX ? UINT64_MAX : made.cycles + 1;
  made.exact = fastest_schedule(machine, variants, made.limit, known, most_states);
  return made;
}

}  // namespace dtr::test
