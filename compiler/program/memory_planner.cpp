#include "compiler/program/memory_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/text.h"

namespace dtr {
namespace {

constexpr int64_t kAlignment = 16;

// Collects live ranges, then reads the result back.
class MemoryPlanner {
 public:
  explicit MemoryPlanner(MethodPlan& plan) : plan_(plan), range_(plan.tensors.size()) {}

  void collect() {
    for (const TensorRef input : plan_.inputs) touch(input, 0, 0);
    for (uint32_t call = 0; call < plan_.calls.size(); ++call) {
      map_.first_step.push_back(static_cast<uint32_t>(step_));
      call_ = call;
      std::visit([&](const auto& planned) { step_ += collect_call(planned); }, plan_.calls[call]);
    }
    map_.steps = std::max(step_, 1);
    for (const TensorRef output : plan_.outputs) touch(output, map_.steps - 1, map_.steps - 1);
    for (uint32_t i = 0; i < range_.size(); ++i) {
      if (range_[i].first <= range_[i].last)
        add(MemoryMapEntry::Kind::kTensor, i, plan_.tensors[i].type.bytes(), range_[i]);
    }
  }

  MemoryMap place(StagedPlacement staged_placement, unsigned threads) {
    // Values first, as densely as possible; then staged constants in the gaps and above.
    std::vector<ArenaBuffer> values, staged;
    std::vector<uint32_t> place_among(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      std::vector<ArenaBuffer>& kind = map_.entries[i].staged ? staged : values;
      place_among[i] = static_cast<uint32_t>(kind.size());
      kind.push_back(buffers_[i]);
    }
    resolve_trails();
    std::vector<ArenaTrail> among_values = map_.trails;
    for (ArenaTrail& trail : among_values)
      trail.operand = place_among[trail.operand], trail.result = place_among[trail.result];
    const ArenaPlan arena = plan_arena(values, among_values);
    const std::vector<int64_t> staged_offsets = place_around(values, arena, staged);
    map_.value_bytes = map_.arena_bytes = arena.total;
    size_t next_value = 0, next_staged = 0;
    for (MemoryMapEntry& entry : map_.entries) {
      entry.offset = entry.staged ? staged_offsets[next_staged++] : arena.offsets[next_value++];
      map_.arena_bytes = std::max(map_.arena_bytes, entry.offset + entry.bytes);
    }
    map_.max_live_values = arena.max_live;
    measure_live();
    if (staged_placement != StagedPlacement::kAround && map_.arena_bytes > map_.max_live_bytes)
      place_together(
          staged_placement == StagedPlacement::kTogether ? ArenaSearch::kUsual : ArenaSearch::kLong,
          threads);
    plan_.arena_bytes = map_.arena_bytes;
    plan_.max_live_bytes = map_.max_live_bytes;
    const auto after =
        std::ranges::upper_bound(map_.first_step, static_cast<uint32_t>(map_.max_live_step));
    map_.max_live_call = after == map_.first_step.begin()
                             ? 0
                             : static_cast<uint32_t>(after - map_.first_step.begin() - 1);
    for (const MemoryMapEntry& entry : map_.entries) {
      if (entry.kind == MemoryMapEntry::Kind::kTensor)
        plan_.tensors[entry.index].offset = entry.offset;
    }
    place_scratch();
    return std::move(map_);
  }

 private:
  // Trails of a delegate between entries of the map. One whose operand is read by somebody else
  // later, or whose result was written before, does not hold.
  void resolve_trails() {
    std::vector<uint32_t> of_tensor(plan_.tensors.size(), kNone);
    std::vector<std::vector<uint32_t>> of_buffer(plan_.calls.size());
    for (uint32_t i = 0; i < map_.entries.size(); ++i) {
      const MemoryMapEntry& entry = map_.entries[i];
      if (entry.kind == MemoryMapEntry::Kind::kTensor) {
        of_tensor[entry.index] = i;
      } else {
        of_buffer[entry.call].resize(entry.index + 1, kNone);
        of_buffer[entry.call][entry.index] = i;
      }
    }
    for (uint32_t call = 0; call < plan_.calls.size(); ++call) {
      const auto* delegate = std::get_if<DelegateCallPlan>(&plan_.calls[call]);
      if (delegate == nullptr || delegate->partition == nullptr) continue;
      const LoweredPartition& partition = *delegate->partition;
      struct Found {
        uint32_t entry;
        int32_t first, last;  // in the delegate
      };
      const auto find = [&](MemoryRef ref) -> Found {
        const auto of = [&](const auto& use, uint32_t entry) {
          const auto start = static_cast<int32_t>(map_.first_step[call]);
          return Found{entry, start + static_cast<int32_t>(use.first_step),
                       start + static_cast<int32_t>(use.last_step)};
        };
        switch (ref.kind) {
          case MemoryRef::Kind::kInput:
            return of(partition.inputs[ref.index], of_tensor[delegate->inputs[ref.index].index]);
          case MemoryRef::Kind::kOutput:
            return of(partition.outputs[ref.index], of_tensor[delegate->outputs[ref.index].index]);
          case MemoryRef::Kind::kBuffer:
            break;
        }
        return of(partition.buffers[ref.index], of_buffer[call][ref.index]);
      };
      for (const Trail& trail : partition.trails) {
        const Found operand = find(trail.operand), result = find(trail.result);
        if (operand.entry == kNone || result.entry == kNone || is_output(operand.entry) ||
            map_.entries[operand.entry].last_step != operand.last ||
            map_.entries[result.entry].first_step != result.first)
          continue;
        map_.trails.push_back({operand.entry, result.entry, trail.lag});
      }
    }
  }

  bool is_output(uint32_t entry) const {
    return map_.entries[entry].kind == MemoryMapEntry::Kind::kTensor &&
           std::ranges::any_of(plan_.outputs, [&](TensorRef output) {
             return output.index == map_.entries[entry].index;
           });
  }

  // Replaces the offsets if one plan of all buffers is smaller.
  void place_together(ArenaSearch search, unsigned threads) {
    const ArenaPlan together = plan_arena(buffers_, map_.trails, search, threads);
    if (together.total >= map_.arena_bytes) return;
    map_.arena_bytes = together.total;
    map_.value_bytes = std::min(map_.value_bytes, together.total);
    for (size_t i = 0; i < buffers_.size(); ++i) map_.entries[i].offset = together.offsets[i];
  }

  // Most bytes of values and staged constants together.
  void measure_live() {
    std::vector<int64_t> change(static_cast<size_t>(map_.steps) + 1, 0);
    for (const MemoryMapEntry& entry : map_.entries) {
      change[static_cast<size_t>(entry.first_step)] += entry.bytes;
      change[static_cast<size_t>(entry.last_step) + 1] -= entry.bytes;
    }
    for (const TrailSaving& saving : trail_savings(buffers_, map_.trails)) {
      change[static_cast<size_t>(saving.first)] -= saving.bytes;
      change[static_cast<size_t>(saving.last) + 1] += saving.bytes;
    }
    int64_t live = 0;
    for (int32_t step = 0; step < map_.steps; ++step) {
      live += change[static_cast<size_t>(step)];
      if (live <= map_.max_live_bytes) continue;
      map_.max_live_bytes = live;
      map_.max_live_step = step;
    }
  }

  struct Range {
    int32_t first = INT32_MAX;
    int32_t last = -1;
  };

  void touch(TensorRef ref, int32_t first, int32_t last) {
    if (plan_.tensor(ref).constant || plan_.tensor(ref).initial_state) return;
    Range& range = range_[ref.index];
    range.first = std::min(range.first, first);
    range.last = std::max(range.last, last);
  }

  void add(MemoryMapEntry::Kind kind, uint32_t index, int64_t bytes, Range range,
           bool staged = false) {
    map_.entries.push_back({kind, staged, call_, index, 0, bytes, range.first, range.last});
    buffers_.push_back({bytes, kAlignment, range.first, range.last});
  }

  // Both return the number of steps.
  int32_t collect_call(const KernelCallPlan& call) {
    const auto touch_now = [&](TensorRef ref) { touch(ref, step_, step_); };
    for (const PlanArgument& argument : call.arguments) {
      if (const auto* ref = std::get_if<TensorRef>(&argument)) touch_now(*ref);
      if (const auto* list = std::get_if<TensorRefs>(&argument)) {
        for (const std::optional<TensorRef>& ref : *list) {
          if (ref) touch_now(*ref);
        }
      }
    }
    std::ranges::for_each(call.outputs, touch_now);
    return 1;
  }

  int32_t collect_call(const DelegateCallPlan& call) {
    const auto steps =
        static_cast<int32_t>(call.partition == nullptr ? 1 : std::max(call.partition->steps, 1u));
    const auto touch_all = [&](const std::vector<TensorRef>& refs,
                               const std::vector<OperandUse>* uses) {
      DTR_CHECK(uses == nullptr || uses->size() == refs.size());
      for (size_t i = 0; i < refs.size(); ++i) {
        const Range range = uses == nullptr ? Range{0, steps - 1} : range_of((*uses)[i], steps);
        touch(refs[i], step_ + range.first, step_ + range.last);
      }
    };
    touch_all(call.inputs, call.partition == nullptr ? nullptr : &call.partition->inputs);
    touch_all(call.outputs, call.partition == nullptr ? nullptr : &call.partition->outputs);
    if (call.partition == nullptr) return steps;
    for (uint32_t i = 0; i < call.partition->buffers.size(); ++i) {
      const InteriorBuffer& buffer = call.partition->buffers[i];
      Range range = range_of(buffer, steps);
      range.first += step_, range.last += step_;
      add(MemoryMapEntry::Kind::kInterior, i, buffer.bytes, range,
          buffer.role == BufferRole::kStaging);
    }
    return steps;
  }

  template <class Use>
  static Range range_of(const Use& use, int32_t steps) {
    const Range range{static_cast<int32_t>(use.first_step), static_cast<int32_t>(use.last_step)};
    DTR_CHECK(range.first >= 0 && range.first <= range.last && range.last < steps);
    return range;
  }

  // The scratch operand spans the delegate's interior buffers. Tensors that are not live at the
  // steps of these buffers may be between them.
  void place_scratch() {
    std::vector<std::pair<int64_t, int64_t>> span(plan_.calls.size(), {INT64_MAX, 0});
    for (const MemoryMapEntry& entry : map_.entries) {
      if (entry.kind != MemoryMapEntry::Kind::kInterior || entry.bytes == 0) continue;
      span[entry.call].first = std::min(span[entry.call].first, entry.offset);
      span[entry.call].second = std::max(span[entry.call].second, entry.offset + entry.bytes);
    }
    for (size_t i = 0; i < plan_.calls.size(); ++i) {
      auto* call = std::get_if<DelegateCallPlan>(&plan_.calls[i]);
      if (call == nullptr) continue;
      const bool any = span[i].second > 0;
      call->scratch_offset = any ? span[i].first : 0;
      call->scratch_bytes = any ? static_cast<uint32_t>(span[i].second - span[i].first) : 0;
      call->interior_offsets.assign(
          call->partition == nullptr ? 0 : call->partition->buffers.size(), 0);
    }
    for (const MemoryMapEntry& entry : map_.entries) {
      if (entry.kind != MemoryMapEntry::Kind::kInterior || entry.bytes == 0) continue;
      auto& call = std::get<DelegateCallPlan>(plan_.calls[entry.call]);
      call.interior_offsets[entry.index] =
          static_cast<uint32_t>(entry.offset - call.scratch_offset);
    }
  }

  MethodPlan& plan_;
  std::vector<Range> range_;  // by tensor
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<ArenaBuffer> buffers_;
  MemoryMap map_;
  int32_t step_ = 0;
  uint32_t call_ = 0;
};

// States live from run to run: each has its own place, in a memory that nothing else uses.
void plan_states(MethodPlan& plan) {
  plan.state_bytes = 0;
  for (PlanTensor& tensor : plan.tensors) {
    if (!tensor.initial_state) continue;
    tensor.offset = plan.state_bytes;
    plan.state_bytes += (tensor.type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

std::string call_name(const MethodPlan& plan, uint32_t call) {
  if (call >= plan.calls.size()) return "the program's inputs and outputs";
  if (const auto* kernel = std::get_if<KernelCallPlan>(&plan.calls[call])) return kernel->kernel;
  return std::get<DelegateCallPlan>(plan.calls[call]).delegate_id;
}

}  // namespace

Result<MemoryMap> plan_memory(MethodPlan& plan, int64_t limit_bytes, StagedPlacement staged,
                              unsigned threads) {
  plan_states(plan);
  MemoryPlanner planner(plan);
  planner.collect();
  MemoryMap map = planner.place(staged, threads);
  if (map.arena_bytes + plan.state_bytes > limit_bytes) {
    Place place;
    if (map.max_live_call < plan.calls.size()) {
      const Origin& origin =
          std::visit([](const auto& call) -> const Origin& { return call.origin; },
                     plan.calls[map.max_live_call]);
      if (!origin.sources.empty() && origin.sources.front() < plan.sources.size()) {
        const SourceOp& source = plan.sources[origin.sources.front()];
        place = {.node = source.name,
                 .module_path = source.module_path,
                 .source_line = source.source_line};
      }
    }
    return fail(
        DiagnosticId::kMemoryExceeded,
        fmt::format("the program needs {} bytes of SRAM, {} has {} (most is live at {}: {} bytes)",
                    with_thousands(static_cast<uint64_t>(map.arena_bytes + plan.state_bytes)),
                    plan.target.empty() ? "the target" : plan.target,
                    with_thousands(static_cast<uint64_t>(limit_bytes)),
                    call_name(plan, map.max_live_call),
                    with_thousands(static_cast<uint64_t>(map.max_live_bytes))),
        "use a smaller input or a target with more SRAM", std::move(place));
  }
  return map;
}

Result<void> encode_payloads(MethodPlan& plan) {
  for (PlanCall& planned : plan.calls) {
    auto* call = std::get_if<DelegateCallPlan>(&planned);
    if (call == nullptr || call->partition == nullptr) continue;
    DTR_ASSIGN(call->payload, call->partition->encode(call->interior_offsets, call->scratch_bytes));
  }
  return {};
}

}  // namespace dtr
