#include "host/profiler/etdump.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "compiler/program/scalar_types.h"
#include "compiler/support/file_contents.h"
#include "host/profiler/etdump_generated.h"

namespace dtr {
namespace {

using flatbuffers::Offset;
using npu::ProfileEvent;

constexpr std::string_view kLoad = "Program::load_method", kInit = "Method::init",
                           kExecute = "Method::execute";
constexpr std::string_view kOperatorCall = "OPERATOR_CALL", kDelegateCall = "DELEGATE_CALL",
                           kNativeCall = "native_call_";
constexpr std::string_view kLoadBlock = "Default", kRunBlock = "Execute";

class Writer {
 public:
  std::vector<std::byte> write(const Trace& trace) {
    std::vector<Offset<etdump::RunData>> blocks;
    blocks.push_back(load_block(trace));
    for (const TraceRun& run : trace.runs) blocks.push_back(run_block(run));
    const auto root = etdump::CreateETDump(builder_, 0, builder_.CreateVector(blocks));
    etdump::FinishSizePrefixedETDumpBuffer(builder_, root);
    const auto* data = reinterpret_cast<const std::byte*>(builder_.GetBufferPointer());
    return {data, data + builder_.GetSize()};
  }

 private:
  // Figures for which the format has no field are in the metadata of the load: key=value, separated
  // by spaces.
  Offset<etdump::RunData> load_block(const Trace& trace) {
    std::vector<Offset<etdump::Event>> events;
    std::string metadata;
    if (trace.program) {
      metadata = fmt::format("program={:08x} clock_hz={}", trace.program->checksum,
                             trace.program->clock_hz);
      if (!trace.program->target.empty()) metadata += " target=" + trace.program->target;
    }
    if (trace.planned_bytes > 0)
      metadata +=
          fmt::format(" planned_bytes={} used_bytes={}", trace.planned_bytes, trace.used_bytes);
    metadata += fmt::format(" unit={}", static_cast<int>(trace.unit));
    if (trace.cost.events > 0)
      metadata += fmt::format(" cost={:.6g} cost_events={} cost_run={:.0f}", trace.cost.event,
                              trace.cost.events, trace.cost.run);
    // Times of the machine that simulates are none of the cycles that all other times are.
    const bool simulated = trace.unit == npu::ProfileUnit::kEstimate;
    TraceEvent load{.name = std::string(kLoad)}, init{.name = std::string(kInit)};
    for (const TraceEvent& event : trace.load.events) {
      TraceEvent& known = event.kind == ProfileEvent::kLoad ? load : init;
      metadata += fmt::format(" {}={}", event.kind == ProfileEvent::kLoad ? "load" : "init",
                              event.end - event.start);
      if (!simulated) known.start = event.start, known.end = event.end;
    }
    events.push_back(profile_event(load, metadata));
    events.push_back(profile_event(init));
    return block(kLoadBlock, events, allocators(trace));
  }

  // The Inspector takes names of allocators, and stops at events of allocations: the sizes are in
  // the name.
  static std::vector<std::string> allocators(const Trace& trace) {
    if (trace.planned_bytes == 0) return {};
    return {fmt::format("planned memory: {} bytes, {} in use at most", trace.planned_bytes,
                        trace.used_bytes)};
  }

  Offset<etdump::RunData> run_block(const TraceRun& run) {
    std::vector<Offset<etdump::Event>> events;
    std::string metadata;
    if (!run.complete)
      metadata =
          fmt::format("incomplete=1 lost={} error={}", run.lost, static_cast<int>(run.error));
    for (const TraceEvent& event : run.events) {
      TraceEvent named = event;
      switch (event.kind) {
        case ProfileEvent::kKernel:
          named.name = std::string(kNativeCall) + event.name;
          events.push_back(profile_event(named));
          named.name = kOperatorCall;
          events.push_back(profile_event(named));
          break;
        case ProfileEvent::kDelegate:
          named.name = kDelegateCall;
          events.push_back(profile_event(named));
          break;
        case ProfileEvent::kRun:
          events.push_back(profile_event(event, metadata));
          break;
        default:
          events.push_back(profile_event(event, event.name));
      }
    }
    for (const TraceValue& value : run.values) events.push_back(debug_event(value));
    return block(kRunBlock, events, {}, run.sample);
  }

  Offset<etdump::RunData> block(std::string_view name,
                                const std::vector<Offset<etdump::Event>>& events,
                                const std::vector<std::string>& allocator_names,
                                int32_t input = -1) {
    std::vector<Offset<etdump::Allocator>> allocators;
    for (const std::string& allocator : allocator_names)
      allocators.push_back(etdump::CreateAllocator(builder_, builder_.CreateString(allocator)));
    // Each before the call: the bytes do not depend on the order in which a compiler evaluates
    // arguments.
    const auto event_vector = builder_.CreateVector(events);
    const auto allocator_vector = builder_.CreateVector(allocators);
    const auto name_text = builder_.CreateString(name.data(), name.size());
    return etdump::CreateRunData(builder_, name_text, input, allocator_vector, event_vector);
  }

  // No name: it would take the place of the profile event's.
  Offset<etdump::Event> debug_event(const TraceValue& value) {
    Offset<etdump::Tensor> tensor;
    if (value.tensor) {
      const auto sizes = builder_.CreateVector(value.tensor->shape);
      const auto steps = builder_.CreateVector(strides(value.tensor->shape, Layout::kContiguous));
      tensor = etdump::CreateTensor(builder_, static_cast<int8_t>(scalar_type(value.tensor->dtype)),
                                    sizes, steps, static_cast<int64_t>(value.tensor->offset));
    }
    const auto output =
        value.instruction < 0 ? etdump::CreateBool(builder_, true) : Offset<etdump::Bool>();
    const auto held = etdump::CreateValue(
        builder_, value.tensor ? etdump::ValueType::Tensor : etdump::ValueType::Null, tensor, 0, 0,
        0, 0, 0, output);
    return etdump::CreateEvent(
        builder_, 0, 0,
        etdump::CreateDebugEvent(builder_, 0, value.instruction, held, value.command));
  }

  // A delegate's event has an id and no name.
  Offset<etdump::Event> profile_event(const TraceEvent& event, const std::string& metadata = {}) {
    const auto name =
        event.command < 0 ? builder_.CreateString(event.name) : Offset<flatbuffers::String>();
    const auto bytes =
        builder_.CreateVector(reinterpret_cast<const uint8_t*>(metadata.data()), metadata.size());
    const auto profile = etdump::CreateProfileEvent(
        builder_, name, 0, event.instruction, event.command, 0, bytes, event.start, event.end);
    return etdump::CreateEvent(builder_, profile);
  }

  flatbuffers::FlatBufferBuilder builder_;
};

// Values of "key=value key=value".
class Metadata {
 public:
  explicit Metadata(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      const std::string_view part = text.substr(0, end);
      if (const size_t equals = part.find('='); equals != std::string_view::npos)
        values_[part.substr(0, equals)] = part.substr(equals + 1);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  std::string_view text(std::string_view key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? std::string_view() : found->second;
  }
  uint64_t number(std::string_view key, int base = 10) const {
    uint64_t value = 0;
    const std::string_view digits = text(key);
    std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return value;
  }
  double real(std::string_view key) const {
    double value = 0;
    const std::string_view digits = text(key);
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return std::isfinite(value) && value >= 0 ? value : 0;
  }
  bool has(std::string_view key) const { return values_.contains(key); }

 private:
  std::map<std::string_view, std::string_view> values_;
};

class Reader {
 public:
  Trace read(const etdump::ETDump& dump) {
    if (dump.run_data() != nullptr)
      for (const etdump::RunData* block : *dump.run_data()) read_block(*block);
    return std::move(trace_);
  }

 private:
  void read_block(const etdump::RunData& block) {
    TraceRun run;
    bool ended = false;
    int32_t named = 0;  // a delegate's events have numbers or names: here all have numbers
    if (block.events() == nullptr) return;
    for (const etdump::Event* event : *block.events()) {
      const etdump::ProfileEvent* profile = event->profile_event();
      if (profile == nullptr) continue;
      const std::string_view name = GetStringView(profile->name());
      if (name == kLoad || name == kInit) {
        trace_.load.events.push_back(
            described(name == kLoad ? ProfileEvent::kLoad : ProfileEvent::kInit, name, *profile));
        if (name == kLoad) read_program(metadata_of(*profile));
        if (name == kInit && init_)
          trace_.load.events.back().end = trace_.load.events.back().start + *init_;
      } else if (name == kExecute) {
        ended = true;
        run.events.push_back(described(ProfileEvent::kRun, name, *profile));
        const Metadata metadata(metadata_of(*profile));
        run.lost = metadata.number("lost");
        if (const uint64_t error = metadata.number("error");
            error <= static_cast<uint64_t>(pte::kLastError))
          run.error = static_cast<pte::Error>(error);
        if (metadata.has("incomplete")) run.complete = false;
      } else if (name != kOperatorCall) {
        run.events.push_back(operator_event(name, *profile));
        if (run.events.back().command < 0 && has_name(*profile))
          run.events.back().command = named++;
      }
    }
    if (run.events.empty()) return;
    if (!ended) run.complete = false;
    settle(run);
    trace_.runs.push_back(std::move(run));
  }

  static std::string_view metadata_of(const etdump::ProfileEvent& event) {
    const auto* bytes = event.delegate_debug_metadata();
    return bytes == nullptr
               ? std::string_view()
               : std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }

  static TraceEvent described(ProfileEvent kind, std::string_view name,
                              const etdump::ProfileEvent& event) {
    return {.kind = kind,
            .name = std::string(name),
            .instruction = event.instruction_id(),
            .command = event.delegate_debug_id_int(),
            .start = event.start_time(),
            .end = event.end_time()};
  }

  static bool has_name(const etdump::ProfileEvent& event) {
    return !GetStringView(event.delegate_debug_id_str()).empty();
  }

  static TraceEvent operator_event(std::string_view name, const etdump::ProfileEvent& event) {
    if (event.delegate_debug_id_int() >= 0 || has_name(event)) {
      const std::string_view metadata = metadata_of(event);
      const ProfileEvent kind = metadata == "Copy"   ? ProfileEvent::kCopy
                                : metadata == "Wait" ? ProfileEvent::kWait
                                                     : ProfileEvent::kCall;
      const bool readable =
          !has_name(event) && !metadata.empty() &&
          std::ranges::all_of(metadata, [](char c) { return c >= ' ' && c <= '~'; });
      return described(kind, readable ? metadata : GetStringView(event.delegate_debug_id_str()),
                       event);
    }
    if (name == kDelegateCall) return described(ProfileEvent::kDelegate, "delegate", event);
    return described(ProfileEvent::kKernel,
                     name.starts_with(kNativeCall) ? name.substr(kNativeCall.size()) : name, event);
  }

  void read_program(std::string_view text) {
    const Metadata metadata(text);
    trace_.planned_bytes = metadata.number("planned_bytes");
    trace_.used_bytes = metadata.number("used_bytes");
    if (const uint64_t unit = metadata.number("unit");
        unit <= static_cast<uint64_t>(npu::ProfileUnit::kCycles))
      trace_.unit = static_cast<npu::ProfileUnit>(unit);
    trace_.cost = {.event = metadata.real("cost"),
                   .events = metadata.number("cost_events"),
                   .run = metadata.real("cost_run")};
    if (metadata.has("load"))
      trace_.load.events.back().end = trace_.load.events.back().start + metadata.number("load");
    init_ = metadata.has("init") ? std::optional(metadata.number("init")) : std::nullopt;
    if (!metadata.has("program")) return;
    trace_.program = TraceSource{.checksum = static_cast<uint32_t>(metadata.number("program", 16)),
                                 .target = std::string(metadata.text("target")),
                                 .clock_hz = metadata.number("clock_hz")};
  }

  // Clocks of 32 bits wrap, times begin at any value, and events are in the order of their ends:
  // makes times begin at 0 and sorts events by their starts.
  static void settle(TraceRun& run) {
    constexpr uint64_t kWrap = uint64_t{1} << 32;
    for (TraceEvent& event : run.events)
      if (event.end < event.start && event.start < kWrap) event.end += kWrap;
    uint64_t first = UINT64_MAX;
    for (const TraceEvent& event : run.events)
      if (event.kind == ProfileEvent::kRun) first = event.start;
    if (first == UINT64_MAX)
      for (const TraceEvent& event : run.events) first = std::min(first, event.start);
    for (TraceEvent& event : run.events) {
      if (event.start < first && first < kWrap && event.start + kWrap - first < kWrap / 2)
        event.start += kWrap, event.end += kWrap;
      event.start -= std::min(event.start, first);
      event.end = std::max(event.start, event.end - std::min(event.end, first));
    }
    const auto depth = [](const TraceEvent& event) {
      return event.kind == ProfileEvent::kRun ? 0 : event.command < 0 ? 1 : 2;
    };
    std::ranges::stable_sort(run.events, [&](const TraceEvent& a, const TraceEvent& b) {
      return std::tuple(depth(a) > 0, a.instruction, depth(a), a.command) <
             std::tuple(depth(b) > 0, b.instruction, depth(b), b.command);
    });
  }

  Trace trace_;
  std::optional<uint64_t> init_;  // where the events' times are not what it took
};

}  // namespace

std::vector<std::byte> to_etdump(const Trace& trace) { return Writer().write(trace); }

Result<Trace> parse_etdump(std::span<const std::byte> bytes, const std::string& file) {
  const auto damaged = [&](std::string reason) {
    return fail(DiagnosticId::kTraceDamaged, std::move(reason),
                "record it again: deuteron run --profile", {.file = file});
  };
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < sizeof(uint32_t) + 8) return damaged("the file is too short for a trace");
  if (!flatbuffers::BufferHasIdentifier(data, etdump::ETDumpIdentifier(), true))
    return damaged("the file is no ETDump");
  const auto size = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(data);
  if (size > bytes.size() - sizeof size)
    return damaged(fmt::format("the trace has {} bytes, the file only {}", size, bytes.size()));
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!etdump::VerifySizePrefixedETDumpBuffer(verifier)) return damaged("the trace is damaged");
  Trace trace = Reader().read(*etdump::GetSizePrefixedETDump(data));
  if (trace.runs.empty()) return damaged("the trace has no run");
  return trace;
}

Result<Trace> read_etdump(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  return parse_etdump(file.bytes(), path);
}

}  // namespace dtr
