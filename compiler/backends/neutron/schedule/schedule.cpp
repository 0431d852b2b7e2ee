#include "compiler/backends/neutron/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/text.h"

namespace dtr::neutron {
namespace {

uint64_t copy_cycles(const npu::Target& target, uint64_t bytes) {
  return npu::copy_cycles(target, npu::Copy{.bytes = static_cast<uint32_t>(bytes)});
}

// The copies of a call's constants, one after the other: its own block, then weights that another
// call's block has.
struct Copies {
  uint64_t cycles = 0, host = 0;
};
Copies copies_of(const npu::Target& target, const Call& call) {
  Copies copies{copy_cycles(target, call.constants.size()), target.copy_host_cycles};
  if (call.weights.are_copied_apart()) {
    copies.cycles += copy_cycles(target, call.weights.bytes);
    copies.host += target.copy_host_cycles;
  }
  return copies;
}

uint64_t call_cycles(const npu::Target& target, const Call& call) {
  return target.call_host_cycles + cycles(target, call.kernel).total;
}

}  // namespace

Timeline simulate(const npu::Target& target, std::span<const Call> calls,
                  const Schedule& schedule) {
  Timeline timeline;
  std::vector<uint64_t> arrived(calls.size(), 0);
  uint64_t now = 0;
  uint64_t engine_free = 0;
  size_t next_copy = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    for (; next_copy < calls.size() &&
           (schedule.start[next_copy] == kNoCopy || schedule.start[next_copy] <= i);
         ++next_copy) {
      if (schedule.start[next_copy] == kNoCopy) continue;
      const auto copy = [&](uint64_t bytes) {
        now += target.copy_host_cycles;
        timeline.host += target.copy_host_cycles;
        engine_free = std::max(engine_free, now) + copy_cycles(target, bytes);
      };
      copy(calls[next_copy].constants.size());
      if (calls[next_copy].weights.are_copied_apart()) copy(calls[next_copy].weights.bytes);
      arrived[next_copy] = engine_free;
    }
    const uint64_t stall = arrived[i] > now ? arrived[i] - now : 0;
    timeline.stalls.push_back(stall);
    timeline.stall += stall;
    timeline.host += target.call_host_cycles;
    timeline.busy += cycles(target, calls[i].kernel).total;
    now += stall + call_cycles(target, calls[i]);
  }
  timeline.total = now;
  return timeline;
}

std::vector<uint32_t> last_readers(std::span<const Call> calls) {
  std::vector<uint32_t> last(calls.size());
  for (uint32_t i = 0; i < calls.size(); ++i) {
    last[i] = i;
    if (calls[i].block_of != kNoCall) last[calls[i].block_of] = i;
    if (calls[i].weights.staged_by != kNoCall) last[calls[i].weights.staged_by] = i;
  }
  return last;
}

Result<Schedule> plan_copies(const Machine& machine, std::span<const Call> calls,
                             std::span<const uint64_t> live_bytes, bool early) {
  const npu::Target& target = machine.target;
  const size_t count = calls.size();
  Schedule schedule{std::vector<uint32_t>(count, kNoCopy)};
  const auto has_copy = [&](size_t call) { return !calls[call].constants.empty(); };

  // Earliest begin of each call: copies back to back from 0, each call after the one before it and
  // after its constants.
  std::vector<uint64_t> begin(count, 0);
  uint64_t engine = 0;
  uint64_t host = 0;
  for (size_t i = 0; i < count; ++i) {
    if (has_copy(i)) {
      const Copies copies = copies_of(target, calls[i]);
      engine += copies.cycles;
      host += copies.host;
      begin[i] = std::max(host, engine + copies.host);
    } else {
      begin[i] = host;
    }
    host = begin[i] + call_cycles(target, calls[i]);
  }
  // Latest start of each copy that keeps these, and the last call boundary before it.
  uint64_t latest = UINT64_MAX;
  for (size_t i = count; i-- > 0;) {
    if (!has_copy(i)) continue;
    const Copies copies = copies_of(target, calls[i]);
    const uint64_t end = std::min(latest, begin[i]);
    latest = end > copies.cycles + copies.host ? end - copies.cycles : 0;
    size_t slot = i;
    const size_t first = i - std::min<size_t>(i, machine.options.prefetch_calls);
    while (slot > first && !early &&
           begin[slot - 1] + call_cycles(target, calls[slot - 1]) + copies.host > latest)
      --slot;
    schedule.start[i] = static_cast<uint32_t>(early ? first : slot);
  }

  // Room in SRAM: a copy that finds none at some call it is ahead of starts behind that call.
  std::vector<uint64_t> used(live_bytes.begin(), live_bytes.end());
  const std::vector<uint32_t> last = last_readers(calls);
  uint32_t previous = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!has_copy(i)) continue;
    const uint64_t bytes = staged_bytes(calls[i]);
    uint32_t start = std::max(schedule.start[i], previous);
    for (auto step = static_cast<uint32_t>(i); step + 1 > start; --step) {
      if (used[step] + bytes <= target.sram_bytes) continue;
      start = step + 1;
      break;
    }
    const auto fullest =
        *std::max_element(used.begin() + static_cast<ptrdiff_t>(i), used.begin() + last[i] + 1);
    if (start > i || fullest + bytes > target.sram_bytes)
      return fail(DiagnosticId::kMemoryExceeded,
                  fmt::format("kernel call {} needs {} bytes of SRAM for tensors and {} for its "
                              "constants; the NPU has {}",
                              i, with_thousands(fullest), with_thousands(bytes),
                              with_thousands(target.sram_bytes)),
                  "use smaller tensors: a lower resolution, fewer channels or a smaller batch");
    for (uint32_t step = start; step <= last[i]; ++step) used[step] += bytes;
    schedule.start[i] = previous = start;
  }
  return schedule;
}

}  // namespace dtr::neutron
