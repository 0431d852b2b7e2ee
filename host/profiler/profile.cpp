#include "host/profiler/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "device/pte/manifest.h"

namespace dtr {
namespace {

using npu::ProfileEvent;

constexpr std::string_view kNpu = "NPU", kCpu = "CPU";
constexpr std::string_view kEnterDelegate = "enter and leave delegates";
constexpr std::string_view kBetweenCalls = "between calls";
constexpr std::string_view kCompilerMade = "made by the compiler";

class Attribution {
 public:
  Attribution(const Trace& trace, const OperatorMap& map, Profile& profile)
      : trace_(trace), map_(map), profile_(profile) {}

  void run() {
    if (trace_.runs.empty()) return;
    const TraceRun& shown = choose();
    profile_.complete = shown.complete;
    profile_.lost = shown.lost;
    profile_.error = shown.error;
    uint64_t cursor = 0, end = 0;
    bool has_end = false;
    for (size_t at = 0; at < shown.events.size();) {
      const TraceEvent& event = shown.events[at];
      if (event.kind == ProfileEvent::kRun) {
        end = event.end, has_end = event.end > 0 || shown.complete;
        ++at;
        continue;
      }
      if (event.start > cursor) lose(kBetweenCalls, event.start - cursor);
      cursor = std::max(cursor, event.start);
      if (event.kind == ProfileEvent::kDelegate) {
        size_t last = at + 1;
        while (last < shown.events.size() && shown.events[last].instruction == event.instruction &&
               shown.events[last].command >= 0)
          ++last;
        TraceEvent whole = event;
        if (shown.lost > 0 && last == shown.events.size())
          whole.end = whole.start;  // what is behind its last command found no room
        cursor = std::max(cursor,
                          delegate(whole, std::span(shown.events).subspan(at + 1, last - at - 1)));
        at = last;
      } else {
        kernel(event);
        cursor = std::max(cursor, event.end);
        ++at;
      }
    }
    // What lies behind the last event that had room is not known, though the run's end is.
    profile_.total = has_end && shown.lost == 0 ? std::max(end, cursor) : cursor;
    if (profile_.total > cursor) lose(kBetweenCalls, profile_.total - cursor);
    finish();
  }

 private:
  const TraceRun& choose() const {
    for (size_t i = trace_.runs.size(); i-- > 0;)
      if (trace_.runs[i].complete) return trace_.runs[i];
    return trace_.runs.back();
  }

  uint32_t row_of(const MappedStep* step, std::string_view otherwise) {
    const bool known = step != nullptr && !step->origin.sources.empty();
    const auto key = known ? std::pair(step->origin.sources, std::string())
                           : std::pair(std::vector<uint32_t>(), std::string(otherwise));
    const auto [found, inserted] =
        row_index_.try_emplace(key, static_cast<uint32_t>(profile_.rows.size()));
    if (!inserted) return found->second;
    ProfileRow row{.sources = key.first, .name = known ? name_of(key.first) : key.second};
    if (known) {
      const SourceOp& first = profile_.sources[row.sources[first_named(row.sources)]];
      row.op = first.target, row.module_path = first.module_path,
      row.source_line = first.source_line;
    }
    profile_.rows.push_back(std::move(row));
    kernels_.emplace_back();
    longest_.push_back(0);
    return found->second;
  }

  bool quantizes(uint32_t source) const {
    return profile_.sources[source].target.find("quantize_per_") != std::string::npos;
  }
  size_t first_named(const std::vector<uint32_t>& sources) const {
    const auto found =
        std::ranges::find_if(sources, [&](uint32_t source) { return !quantizes(source); });
    return found == sources.end() ? 0 : static_cast<size_t>(found - sources.begin());
  }
  // "conv2d_1 + relu_1": quantize and dequantize are named only where there is nothing else.
  std::string name_of(const std::vector<uint32_t>& sources) const {
    const bool all = quantizes(sources[first_named(sources)]);
    std::string name;
    for (const uint32_t source : sources)
      if (all || !quantizes(source))
        name += (name.empty() ? "" : " + ") + profile_.sources[source].name;
    return name;
  }

  void lose(std::string_view what, uint64_t cycles) {
    if (cycles > 0) profile_.rows[row_of(nullptr, what)].spent.host += cycles;
  }

  void count(uint32_t row, const std::string& kernel, const MappedStep* step, uint64_t cycles,
             std::string_view backend) {
    ProfileRow& counted = profile_.rows[row];
    ++counted.calls;
    counted.npu_calls += backend == kNpu ? 1 : 0;
    ++kernels_[row][kernel];
    if (counted.backend.find(backend) == std::string::npos)
      counted.backend += (counted.backend.empty() ? "" : "+") + std::string(backend);
    if (step == nullptr) return;
    counted.macs += step->macs;
    if (!step->rearranges.empty()) counted.added += cycles;
    if (cycles >= longest_[row] && !step->limit.empty()) {
      longest_[row] = cycles;
      counted.limited_by = step->limit;
    }
  }

  void span(ProfileSpan::Track track, const TraceEvent& event, uint32_t row,
            const MappedStep* step) {
    profile_.spans.push_back({.track = track,
                              .kernel = event.name,
                              .waits = event.kind == ProfileEvent::kWait,
                              .row = row,
                              .instruction = event.instruction,
                              .command = event.command,
                              .start = event.start,
                              .end = event.end,
                              .step = step == nullptr ? MappedStep{} : *step});
  }

  void kernel(const TraceEvent& event) {
    const MappedStep* step = map_.find(event.instruction, -1);
    const uint32_t row = row_of(step, event.name);
    const uint64_t cycles = event.end - event.start;
    profile_.rows[row].spent.cpu += cycles;
    count(row, event.name, step, cycles, kCpu);
    span(ProfileSpan::Track::kHost, event, row, step);
  }

  // Between the commands that are recorded the host starts copies and calls: that time belongs to
  // what it starts. Returns when the last of them ended: a delegate that was not left has no end.
  uint64_t delegate(const TraceEvent& whole, std::span<const TraceEvent> commands) {
    uint64_t cursor = whole.start;
    std::vector<uint32_t> starting;  // rows whose copies the host starts
    if (commands.empty()) {
      const MappedStep* step = map_.find(whole.instruction, -1);
      const uint32_t row = row_of(step, whole.name);
      profile_.rows[row].spent.npu += whole.end - whole.start;
      count(row, whole.name, step, whole.end - whole.start, kNpu);
      span(ProfileSpan::Track::kHost, whole, row, step);
      return whole.end;
    }
    for (size_t i = 0; i < commands.size(); ++i) {
      const TraceEvent& event = commands[i];
      const uint64_t cycles = event.end - event.start;
      if (event.kind == ProfileEvent::kCopy) {
        const MappedStep* step = map_.find(event.instruction, event.command);
        const uint32_t row = row_of(step, kCompilerMade);
        profile_.rows[row].copying += cycles;
        if (step != nullptr) profile_.rows[row].flash_bytes += step->bytes;
        starting.push_back(row);
        span(ProfileSpan::Track::kCopy, event, row, step);
        continue;
      }
      const bool waits = event.kind == ProfileEvent::kWait;
      const TraceEvent& served = waits ? call_behind(commands, i) : event;
      const MappedStep* step = map_.find(served.instruction, served.command);
      const uint32_t row =
          row_of(step, map_.sources().empty() ? std::string_view(served.name) : kCompilerMade);
      uint64_t gap = event.start > cursor ? event.start - cursor : 0;
      gap -= start_copies(starting, gap, waits);
      profile_.rows[row].spent.host += gap;
      if (waits) {
        profile_.rows[row].spent.stall += cycles;
        if (cycles > 0) span(ProfileSpan::Track::kHost, event, row, nullptr);
      } else {
        profile_.rows[row].spent.npu += cycles;
        if (step != nullptr) profile_.rows[row].sram_bytes += step->bytes;
        count(row, step == nullptr ? event.name : step->kernel, step, cycles + gap, kNpu);
        span(ProfileSpan::Track::kNpu, event, row, step);
      }
      cursor = std::max(cursor, event.end);
    }
    if (whole.end > cursor) lose(kEnterDelegate, whole.end - cursor);
    return std::max(cursor, whole.end);
  }

  // A wait is for the constants of the next call.
  static const TraceEvent& call_behind(std::span<const TraceEvent> commands, size_t at) {
    for (size_t i = at + 1; i < commands.size(); ++i)
      if (commands[i].kind == ProfileEvent::kCall) return commands[i];
    return commands[at];
  }

  // Shares out what the starts of copies took of a gap: all of it where nothing else is in it.
  // Returns that.
  uint64_t start_copies(std::vector<uint32_t>& starting, uint64_t gap, bool all) {
    if (starting.empty()) return 0;
    const uint64_t each = all                          ? gap / starting.size()
                          : profile_.target == nullptr ? 0
                                                       : profile_.target->npu.copy_host_cycles;
    uint64_t taken = 0;
    for (size_t i = 0; i < starting.size(); ++i) {
      const uint64_t mine =
          all && i + 1 == starting.size() ? gap - taken : std::min(each, gap - taken);
      profile_.rows[starting[i]].spent.host += mine;
      taken += mine;
    }
    starting.clear();
    return taken;
  }

  void finish() {
    for (uint32_t row = 0; row < profile_.rows.size(); ++row) {
      std::string& text = profile_.rows[row].kernels;
      for (const auto& [kernel, times] : kernels_[row])
        text += fmt::format("{}{}{}", text.empty() ? "" : ", ", kernel,
                            times > 1 ? fmt::format(" x{}", times) : "");
    }
    // Rows in program order are those of first appearance; rows that are no operator come last.
    std::vector<uint32_t> order(profile_.rows.size()), place(profile_.rows.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_partition(order.begin(), order.end(),
                          [&](uint32_t row) { return !profile_.rows[row].sources.empty(); });
    std::vector<ProfileRow> sorted;
    for (uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      sorted.push_back(std::move(profile_.rows[order[i]]));
    }
    profile_.rows = std::move(sorted);
    for (ProfileSpan& each : profile_.spans) each.row = place[each.row];
    std::ranges::stable_sort(profile_.spans, {}, &ProfileSpan::start);
  }

  const Trace& trace_;
  const OperatorMap& map_;
  Profile& profile_;
  std::map<std::pair<std::vector<uint32_t>, std::string>, uint32_t> row_index_;
  std::vector<std::map<std::string, uint32_t>> kernels_;  // by row
  std::vector<uint64_t> longest_;                         // by row
};

// Of a row, or of all of them.
TimedWork work_of(const Profile& profile, const ProfileRow* row) {
  TimedWork work{.target = profile.target,
                 .configuration = profile.configuration,
                 .whole_run = row == nullptr && profile.complete,
                 .cpu_known = profile.cpu_known,
                 .cpu_counted = profile.cpu_unit != npu::ProfileUnit::kEstimate};
  for (const ProfileRow& each : profile.rows)
    if (row == nullptr || row == &each) work.npu_cycles += each.spent.total() - each.spent.cpu;
  for (const ProfileSpan& span : profile.spans) {
    if (span.waits || (row != nullptr && &profile.rows[span.row] != row)) continue;
    if (span.track == ProfileSpan::Track::kHost) {
      work.cpu.push_back({span.kernel, span.end - span.start});
      work.cpu_macs += static_cast<uint64_t>(span.step.macs);
    }
    if (span.track != ProfileSpan::Track::kNpu) continue;
    ++work.npu_calls;
    work.npu_macs += static_cast<uint64_t>(span.step.macs);
    work.npu_kernels.push_back(span.kernel);
  }
  return work;
}

uint64_t total_of(const TraceRun& run) {
  uint64_t end = 0;
  for (const TraceEvent& event : run.events) end = std::max(end, event.end);
  return end;
}

}  // namespace

std::string_view Profile::unit() const { return id ? "cycles" : "ticks"; }

uint64_t Profile::on_operators() const {
  uint64_t sum = 0;
  for (const ProfileRow& row : rows)
    if (!row.sources.empty()) sum += row.spent.total();
  return sum;
}

double Profile::utilization(const ProfileRow& row) const {
  if (target == nullptr || !has_npu(*target) || row.spent.npu == 0) return 0;
  return static_cast<double>(row.macs) /
         (static_cast<double>(row.spent.npu) * target->npu.pipelines * target->npu.macs);
}

double Profile::milliseconds(uint64_t cycles) const {
  return !id || id->clock_hz == 0
             ? 0
             : static_cast<double>(cycles) / static_cast<double>(id->clock_hz) * 1e3;
}

TimeError Profile::time_error() const { return dtr::time_error(work_of(*this, nullptr)); }
TimeError Profile::time_error(const ProfileRow& row) const {
  return dtr::time_error(work_of(*this, &row));
}

std::string Profile::inference() const {
  return inference_text(work_of(*this, nullptr), id ? id->clock_hz : 0);
}

std::string Profile::time() const {
  return !id || id->clock_hz == 0 ? std::string() : time_text(milliseconds(total), time_error());
}
std::string Profile::time(const ProfileRow& row) const {
  return !id || id->clock_hz == 0 ? std::string()
                                  : time_text(milliseconds(row.spent.total()), time_error(row));
}

std::optional<NpuConfiguration> npu_configuration(const PteFile& pte_file) {
  const pte::Manifest* manifest = pte_file.file().manifest();
  if (manifest == nullptr) return std::nullopt;
  return NpuConfiguration{.nxp_like = (manifest->flags & pte::kNxpLikeSchedule) != 0,
                          .constants = (manifest->flags & pte::kConstantsInSram) != 0
                                           ? ConstantMemory::kSram
                                           : ConstantMemory::kFlash};
}

Profile make_profile(const Trace& trace, const OperatorMap& map, std::string program) {
  Profile profile{.program = std::move(program),
                  .id = trace.program,
                  .target = trace.program ? find_target(trace.program->target) : nullptr,
                  .sources = map.sources(),
                  .planned_bytes = trace.planned_bytes,
                  .used_bytes = trace.used_bytes,
                  .cpu_unit = trace.unit,
                  .cost = trace.cost,
                  .own_unit = trace.program ? trace.own_unit() : std::string_view()};
  for (const TraceEvent& event : trace.load.events)
    if (event.end > event.start)
      (event.kind == ProfileEvent::kLoad ? profile.load : profile.init) = event.end - event.start;
  Attribution(trace, map, profile).run();
  for (const TraceRun& run : trace.runs) profile.run_totals.push_back(total_of(run));
  return profile;
}

}  // namespace dtr
