#include "host/profiler/trace.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/program/machine.h"
#include "compiler/support/encode.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"

namespace dtr {
namespace {

using npu::ProfileEvent;

class RunDecoder {
 public:
  RunDecoder(const PteFile& pte_file, npu::ProfileUnit unit)
      : pte_file_(pte_file), plan_(pte_file.plan()) {
    const TargetDescription* target = target_of_manifest(pte_file);
    if (unit != npu::ProfileUnit::kEstimate && target != nullptr &&
        clock_hz(*target) != target->cpu.clock_hz)
      two_clocks_ = target;
  }

  TraceRun run(std::span<const npu::ProfileRecord> records, uint64_t lost) {
    run_.complete = lost == 0;
    run_.lost = lost;
    for (const npu::ProfileRecord& record : records) add(record);
    if (two_clocks_ != nullptr && !run_.events.empty() &&
        run_.events.front().kind == ProfileEvent::kRun)
      run_.events.front().end = on_timeline(run_.events.front().end);
    return std::move(run_);
  }

 private:
  void add(const npu::ProfileRecord& record) {
    const bool stopped = record.stop.event != ProfileEvent::kNone;
    if (!stopped) run_.complete = false;
    TraceEvent event{.kind = record.start.event};
    const uint64_t start = npu::time_of(record.start);
    const uint64_t took = stopped ? npu::time_between(start, npu::time_of(record.stop)) : 0;
    switch (event.kind) {
      case ProfileEvent::kRun:
        begin_ = start;
        event.name = "Method::execute";
        event.start = 0;
        event.end = took;
        break;
      case ProfileEvent::kKernel:
      case ProfileEvent::kDelegate:
        event.start = npu::time_between(begin_, start);
        event.end = event.start + took;
        if (two_clocks_ != nullptr) move_to_timeline(event);
        event.instruction = ++instruction_;
        event.name = call_name(static_cast<uint32_t>(instruction_));
        command_ = -1;
        delegate_start_ = event.start;
        break;
      case ProfileEvent::kCall:
      case ProfileEvent::kCopy:
      case ProfileEvent::kWait:
        event.instruction = instruction_;
        event.command = ++command_;
        event.start = delegate_start_ + start;
        event.end = event.start + took;
        event.name = command_name(event);
        break;
      default:
        return;
    }
    run_.events.push_back(std::move(event));
  }

  // A device counts cycles of its CPU, and within a delegate those of the NPU: the sum of both has
  // no clock. What the CPU took becomes cycles of the timeline; `own_` is where the last step ended
  // by the device's count, `now_` where it ends on the timeline.
  uint64_t on_timeline(uint64_t own) const {
    return now_ + from_cpu_cycles(*two_clocks_, own > own_ ? own - own_ : 0);
  }
  void move_to_timeline(TraceEvent& event) {
    const uint64_t took = event.end > event.start ? event.end - event.start : 0;
    const uint64_t start = on_timeline(event.start);
    now_ = start +
           (event.kind == ProfileEvent::kDelegate ? took : from_cpu_cycles(*two_clocks_, took));
    own_ = event.end;
    event.start = start, event.end = now_;
  }

  std::string call_name(uint32_t index) const {
    const auto* instructions = plan_.chains()->Get(0)->instructions();
    if (index >= instructions->size()) return {};
    if (const auto* call = instructions->Get(index)->instr_args_as_KernelCall()) {
      const pte::Operator& op = *plan_.operators()->Get(static_cast<uint32_t>(call->op_index()));
      const bool overloaded = op.overload() != nullptr && op.overload()->size() > 0;
      return overloaded ? op.name()->str() + "." + op.overload()->str() : op.name()->str();
    }
    const auto delegate = static_cast<uint32_t>(
        instructions->Get(index)->instr_args_as_DelegateCall()->delegate_index());
    return plan_.delegates()->Get(delegate)->id()->str();
  }

  std::string command_name(const TraceEvent& event) const {
    if (event.kind == ProfileEvent::kCopy) return "Copy";
    if (event.kind == ProfileEvent::kWait) return "Wait";
    const pte::DebugMap* map = pte_file_.debug_map();
    if (map != nullptr && static_cast<uint32_t>(event.instruction) < map->calls()->size())
      if (const auto* steps = map->calls()->Get(static_cast<uint32_t>(event.instruction))->steps())
        for (const pte::DebugStep* step : *steps)
          if (step->command() == static_cast<uint32_t>(event.command)) return step->kernel()->str();
    return "NPU kernel";
  }

  const PteFile& pte_file_;
  const pte::ExecutionPlan& plan_;
  TraceRun run_;
  uint64_t begin_ = 0, delegate_start_ = 0;
  const TargetDescription* two_clocks_ =
      nullptr;  // the device's, if its CPU and NPU have different ones
  uint64_t own_ = 0, now_ = 0;
  int32_t instruction_ = -1, command_ = -1;
};

}  // namespace

TraceSource trace_source(const PteFile& pte_file) {
  TraceSource program;
  if (const auto stored = pte_file.file().named_data(pte::kChecksumKey);
      stored.size() == sizeof program.checksum)
    std::memcpy(&program.checksum, stored.data(), sizeof program.checksum);
  if (const pte::Manifest* manifest = pte_file.file().manifest()) {
    program.target = manifest->target;
    if (const TargetDescription* target = target_of_manifest(pte_file))
      program.clock_hz = clock_hz(*target);
  }
  return program;
}

TraceRun decode_run(std::span<const npu::ProfileRecord> records, uint64_t lost,
                    const PteFile& pte_file, npu::ProfileUnit unit) {
  return RunDecoder(pte_file, unit).run(records, lost);
}

std::string_view Trace::own_unit() const {
  switch (unit) {
    case npu::ProfileUnit::kEstimate:
      return "ns";
    case npu::ProfileUnit::kInstructions:
      return "instructions";
    case npu::ProfileUnit::kCycles:
      break;
  }
  return "cycles";
}

void add_records(Trace& trace, const npu::ProfileHeader& header,
                 std::span<const npu::ProfileRecord> records, const PteFile& pte_file,
                 uint64_t own_run) {
  trace.unit = header.unit;
  trace.planned_bytes = header.planned_bytes;
  trace.used_bytes = std::max<uint64_t>(trace.used_bytes, header.used_bytes);
  const ProfileEvent first = records.empty() ? ProfileEvent::kNone : records.front().start.event;
  if (first == ProfileEvent::kLoad || first == ProfileEvent::kInit) {
    const uint64_t begin = npu::time_of(records.front().start);
    trace.load = {.complete = header.lost == 0, .lost = header.lost};
    for (const npu::ProfileRecord& record : records) {
      if (record.stop.event == ProfileEvent::kNone) continue;
      const uint64_t start = npu::time_between(begin, npu::time_of(record.start));
      trace.load.events.push_back(
          {.kind = record.start.event,
           .name =
               record.start.event == ProfileEvent::kLoad ? "Program::load_method" : "Method::init",
           .start = start,
           .end =
               start + npu::time_between(npu::time_of(record.start), npu::time_of(record.stop))});
    }
    return;
  }
  trace.runs.push_back(decode_run(records, header.lost, pte_file, header.unit));
  TraceRun& run = trace.runs.back();
  run.error = static_cast<pte::Error>(header.error);
  if (!run.events.empty() && own_run == 0) own_run = run.events.front().end;
  if (header.cost_events > 0)
    trace.cost = {.event = static_cast<double>(header.cost) / header.cost_events,
                  .events = records.size() + header.lost,
                  .run = static_cast<double>(own_run)};
}

std::string describe_trace(const Trace& trace) {
  std::string text = "trace";
  if (trace.program)
    text += terminal_format(" of program {:08x}{}{}, clock {} Hz", trace.program->checksum,
                            trace.program->target.empty() ? "" : " for ", trace.program->target,
                            trace.program->clock_hz);
  text += terminal_format(": {} run{}\n", trace.runs.size(), trace.runs.size() == 1 ? "" : "s");
  for (size_t i = 0; i < trace.runs.size(); ++i) {
    const TraceRun& run = trace.runs[i];
    text +=
        terminal_format("  run {}{}\n", i,
                        run.complete ? "" : terminal_format(": partial, {} events lost", run.lost));
    for (const TraceEvent& event : run.events) {
      std::string place = event.instruction < 0 ? "" : terminal_format("{}", event.instruction);
      if (event.command >= 0) place += terminal_format(".{}", event.command);
      text += terminal_format("    {:<8} {:>12} {:>12}  {}\n", place, event.start, event.end,
                              event.name);
    }
  }
  return text;
}

}  // namespace dtr
