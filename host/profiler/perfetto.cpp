// https://perfetto.dev opens Chrome's trace event format: JSON with one object an event, times in
// microseconds.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "device/pte/debug_map_generated.h"
#include "host/profiler/report.h"
#include "host/profiler/steps.h"

namespace dtr {
namespace {

using Json = nlohmann::ordered_json;

enum Thread : int { kHost = 1, kNpu = 2, kCopy = 3 };

class PerfettoWriter {
 public:
  PerfettoWriter(const Profile& profile, const PteFile* pte_file)
      : profile_(profile), map_(pte_file == nullptr ? nullptr : pte_file->debug_map()) {
    // Without a clock a cycle is shown as a nanosecond.
    const uint64_t clock =
        profile.id && profile.id->clock_hz > 0 ? profile.id->clock_hz : 1'000'000'000;
    microseconds_ = 1e6 / static_cast<double>(clock);
  }

  std::string write() {
    metadata("process_name", 0,
             profile_.complete ? profile_.program : profile_.program + " (PARTIAL)");
    for (const auto& [thread, name] : {std::pair(kHost, "Cortex-M"), std::pair(kNpu, "NPU"),
                                       std::pair(kCopy, "copy engine (flash to SRAM)")})
      metadata("thread_name", thread, name);
    for (const ProfileSpan& span : profile_.spans) add(span);
    count_sram();
    Json document{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events_)}};
    if (profile_.id)
      document["otherData"] = {{"time", profile_.time()},
                               {"error", profile_.time_error().reason},
                               {"machine model", "docs/npu.md"}};
    return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  double at(uint64_t cycles) const { return static_cast<double>(cycles) * microseconds_; }

  void metadata(std::string_view what, int thread, std::string_view name) {
    Json event{{"ph", "M"}, {"pid", 1}, {"name", what}, {"args", {{"name", name}}}};
    if (thread != 0) event["tid"] = thread;
    events_.push_back(std::move(event));
  }

  void complete(int thread, std::string_view name, uint64_t start, uint64_t end, Json arguments) {
    events_.push_back({{"ph", "X"},
                       {"pid", 1},
                       {"tid", thread},
                       {"name", name},
                       {"ts", at(start)},
                       {"dur", at(end) - at(start)},
                       {"args", std::move(arguments)}});
  }

  void flow(std::string_view phase, int thread, uint64_t time, uint64_t id) {
    Json event{{"ph", phase},   {"pid", 1}, {"tid", thread}, {"name", "call"},
               {"cat", "call"}, {"id", id}, {"ts", at(time)}};
    if (phase == "f") event["bp"] = "e";
    events_.push_back(std::move(event));
  }

  void add(const ProfileSpan& span) {
    const ProfileRow& row = profile_.rows[span.row];
    Json arguments{{"operator", row.name}, {std::string(profile_.unit()), span.end - span.start}};
    if (!row.module_path.empty()) arguments["module"] = row.module_path;
    if (!row.source_line.empty()) arguments["source"] = row.source_line;
    if (span.step.macs > 0) arguments["MACs"] = span.step.macs;
    if (span.step.bytes > 0) arguments["bytes"] = span.step.bytes;
    if (!span.step.limit.empty()) arguments["limited by"] = span.step.limit;
    const std::string name = fmt::format("{}: {}", span.kernel, row.name);
    if (span.track == ProfileSpan::Track::kCopy)
      return complete(kCopy, name, span.start, span.end, std::move(arguments));
    if (span.track == ProfileSpan::Track::kHost) {
      host_ = std::max(host_, span.end);
      return complete(kHost, name, span.start, span.end, std::move(arguments));
    }
    // The host is in the call from where it left the one before.
    const uint64_t begin = std::min(host_, span.start);
    complete(kHost, "call " + span.kernel, begin, span.end, {{"operator", row.name}});
    flow("s", kHost, begin, flows_);
    complete(kNpu, name, span.start, span.end, std::move(arguments));
    flow("f", kNpu, span.start, flows_++);
    host_ = span.end;
  }

  // What of the planned memory holds values, step by step.
  void count_sram() {
    if (map_ == nullptr || map_->buffers() == nullptr) return;
    const StepClock steps(map_);
    for (const ProfileSpan& span : profile_.spans) {
      const auto step = span.track == ProfileSpan::Track::kCopy || span.waits
                            ? std::nullopt
                            : steps.of(span.instruction, span.command);
      if (!step) continue;
      uint64_t values = 0, staged = 0;
      for (const pte::DebugBuffer* buffer : *map_->buffers())
        if (buffer->first_step() <= *step && *step <= buffer->last_step())
          (buffer->staged() ? staged : values) += buffer->bytes();
      events_.push_back({{"ph", "C"},
                         {"pid", 1},
                         {"name", "SRAM bytes"},
                         {"ts", at(span.start)},
                         {"args", {{"values", values}, {"constants from flash", staged}}}});
    }
  }

  const Profile& profile_;
  const pte::DebugMap* map_;
  double microseconds_;
  Json events_ = Json::array();
  uint64_t host_ = 0;
  uint64_t flows_ = 1;
};

}  // namespace

std::string to_perfetto(const Profile& profile, const PteFile* pte_file) {
  return PerfettoWriter(profile, pte_file).write();
}

}  // namespace dtr
