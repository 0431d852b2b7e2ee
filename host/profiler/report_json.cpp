#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "compiler/program/scalar_types.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/manifest.h"
#include "device/pte/scalar_type.h"
#include "host/profiler/report.h"
#include "host/profiler/steps.h"

namespace dtr {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name(ProfileSpan::Track track) {
  switch (track) {
    case ProfileSpan::Track::kNpu:
      return "npu";
    case ProfileSpan::Track::kCopy:
      return "copy";
    case ProfileSpan::Track::kHost:
      break;
  }
  return "host";
}

Json row_json(const Profile& profile, const ProfileRow& row) {
  return {{"name", row.name},
          {"op", row.op},
          {"module", row.module_path},
          {"source_line", row.source_line},
          {"sources", row.sources},
          {"backend", row.backend},
          {"kernels", row.kernels},
          {"cycles", row.spent.total()},
          {"time_known", profile.time_error(row).known},
          {"npu", row.spent.npu},
          {"host", row.spent.host},
          {"stall", row.spent.stall},
          {"cpu", row.spent.cpu},
          {"copying", row.copying},
          {"added", row.added},
          {"calls", row.calls},
          {"macs", row.macs},
          {"utilization", profile.utilization(row)},
          {"flash_bytes", row.flash_bytes},
          {"sram_bytes", row.sram_bytes},
          {"limited_by", row.limited_by}};
}

Json spans_json(const Profile& profile, const StepClock& steps) {
  Json spans = Json::array();
  for (const ProfileSpan& span : profile.spans) {
    Json entry{{"track", name(span.track)},
               {"kernel", span.kernel},
               {"row", span.row},
               {"instruction", span.instruction}};
    if (span.command >= 0) entry["command"] = span.command;
    if (span.waits) entry["waits"] = true;
    entry["start"] = span.start;
    entry["end"] = span.end;
    if (span.track != ProfileSpan::Track::kCopy)
      if (const auto step = steps.of(span.instruction, span.command)) entry["step"] = *step;
    if (span.step.macs > 0) entry["macs"] = span.step.macs;
    if (span.step.bytes > 0) entry["bytes"] = span.step.bytes;
    if (!span.step.limit.empty()) entry["limit"] = span.step.limit;
    if (!span.step.rearranges.empty()) entry["rearranges"] = span.step.rearranges;
    if (span.step.origin.parts > 1)
      entry["part"] = fmt::format("{} of {}", span.step.origin.part + 1, span.step.origin.parts);
    spans.push_back(std::move(entry));
  }
  return spans;
}

Json sources_of(const pte::DebugOrigin& origin) {
  Json sources = Json::array();
  if (origin.sources() != nullptr)
    for (const uint32_t source : *origin.sources()) sources.push_back(source);
  return sources;
}

Json memory_json(const pte::DebugMap& map) {
  Json buffers = Json::array();
  if (map.buffers() != nullptr)
    for (const pte::DebugBuffer* buffer : *map.buffers())
      buffers.push_back({{"name", buffer->name()->str()},
                         {"offset", buffer->offset()},
                         {"bytes", buffer->bytes()},
                         {"first_step", buffer->first_step()},
                         {"last_step", buffer->last_step()},
                         {"staged", buffer->staged()}});
  return buffers;
}

Json tensor_json(const pte::DebugTensor& tensor) {
  std::string order;
  bool contiguous = true;
  for (uint32_t i = 0; tensor.dim_order() != nullptr && i < tensor.dim_order()->size(); ++i)
    contiguous = contiguous && tensor.dim_order()->Get(i) == i;
  Json json{{"name", tensor.name()->str()},
            {"dtype", name(static_cast<ScalarType>(tensor.scalar_type()))},
            {"shape", Json::array()}};
  if (tensor.sizes() != nullptr)
    for (const int32_t size : *tensor.sizes()) json["shape"].push_back(size);
  json["layout"] = contiguous ? "contiguous" : "channels_last";
  json["place"] = tensor.value() >= 0    ? "planned"
                  : tensor.in_delegate() ? "inside the delegate"
                                         : "fused away";
  json["call"] = tensor.call();
  if (tensor.scales() != nullptr && tensor.scales()->size() == 1) {
    json["scale"] = tensor.scales()->Get(0);
    json["zero_point"] = tensor.zero_points()->Get(0);
  }
  json["from"] = sources_of(*tensor.origin());
  json["readers"] = Json::array();
  if (tensor.readers() != nullptr)
    for (const pte::DebugOrigin* reader : *tensor.readers())
      json["readers"].push_back(sources_of(*reader));
  return json;
}

}  // namespace

CycleBreakdown spent(const Profile& profile) {
  CycleBreakdown all;
  for (const ProfileRow& row : profile.rows) all += row.spent;
  return all;
}

std::string to_json(const Profile& profile, const PteFile* pte_file) {
  const pte::DebugMap* map = pte_file == nullptr ? nullptr : pte_file->debug_map();
  const CycleBreakdown all = spent(profile);
  Json json{{"version", 1}, {"program", profile.program}};
  if (profile.id) {
    json["checksum"] = fmt::format("{:08x}", profile.id->checksum);
    json["target"] = profile.id->target;
    json["clock_hz"] = profile.id->clock_hz;
  }
  json["unit"] = profile.unit();
  json["simulated"] = profile.id.has_value();
  const auto or_null = [](const std::optional<ErrorBounds>& bounds) {
    return bounds ? Json{-static_cast<int64_t>(bounds->below), bounds->above} : Json();
  };
  const TimeError error = profile.time_error();
  if (profile.id) {
    json["time_error_percent"] = or_null(error.whole);
    json["npu_error_percent"] = or_null(error.npu);
    json["cpu_error_percent"] = or_null(error.cpu);
    json["time_known"] = error.known;
    json["time_error_reason"] = error.reason;
  }
  if (profile.configuration) {
    json["schedule"] = profile.configuration->nxp_like ? "nxp-like" : "own";
    json["constants"] = name(profile.configuration->constants);
  }
  json["complete"] = profile.complete;
  json["missing"] = profile.missing;
  json["lost_events"] = profile.lost;
  json["total_cycles"] = profile.total;
  json["milliseconds"] = profile.milliseconds(profile.total);
  json["runs"] = profile.run_totals;
  json["spent"] = {{"npu", all.npu}, {"host", all.host}, {"stall", all.stall}, {"cpu", all.cpu}};
  json["on_operators"] = profile.on_operators();
  if (profile.target != nullptr && has_npu(*profile.target))
    json["array"] = {{"pipelines", profile.target->npu.pipelines},
                     {"macs", profile.target->npu.macs}};
  if (profile.target != nullptr) json["sram_bytes"] = profile.target->memory.sram_bytes;
  json["planned_bytes"] = profile.planned_bytes;
  json["used_bytes"] = profile.used_bytes;
  constexpr std::string_view kUnits[] = {"estimate", "instructions",
                                         "cycles"};  // by npu::ProfileUnit
  json["cpu_times"] = kUnits[static_cast<size_t>(profile.cpu_unit)];
  if (!profile.own_unit.empty()) json["own_unit"] = profile.own_unit;
  if (profile.load) json["load"] = *profile.load;
  if (profile.init) json["init"] = *profile.init;
  if (profile.cost.events > 0)
    json["recording"] = {
        {"event", profile.cost.event}, {"events", profile.cost.events}, {"run", profile.cost.run}};
  if (pte_file != nullptr) {
    if (const pte::Manifest* manifest = pte_file->file().manifest())
      json["flash_bytes"] = manifest->flash_bytes;
    json["program_bytes"] = pte_file->bytes().size();
  }
  json["sources"] = Json::array();
  for (const SourceOp& source : profile.sources)
    json["sources"].push_back({{"name", source.name},
                               {"op", source.target},
                               {"module", source.module_path},
                               {"source_line", source.source_line}});
  json["rows"] = Json::array();
  for (const ProfileRow& row : profile.rows) json["rows"].push_back(row_json(profile, row));
  json["spans"] = spans_json(profile, StepClock(map));
  json["memory"] = map == nullptr ? Json::array() : memory_json(*map);
  json["tensors"] = Json::array();
  if (map != nullptr && map->tensors() != nullptr)
    for (const pte::DebugTensor* tensor : *map->tensors())
      json["tensors"].push_back(tensor_json(*tensor));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) +
         "\n";  // names of a model may be any bytes
}

std::string compare_json(const Profile& before, const PteFile* before_image, const Profile& after,
                         const PteFile* after_image, const ProfileTable& table) {
  Json rows = Json::array();
  for (const ComparedRow& row : compared_rows(before, after, table))
    rows.push_back({{"name", row.name},
                    {"before", row.before},
                    {"after", row.after},
                    {"change", row.change()}});
  return fmt::format("{{\"version\": 1,\n\"rows\": {},\n\"before\": {},\"after\": {}}}\n",
                     rows.dump(1, ' ', false, Json::error_handler_t::replace),
                     to_json(before, before_image), to_json(after, after_image));
}

}  // namespace dtr
