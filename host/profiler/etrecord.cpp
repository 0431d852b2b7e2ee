#include "host/profiler/etrecord.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "compiler/frontends/pt2/torch_file.h"
#include "compiler/frontends/pt2/trace.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/json.h"
#include "compiler/support/zip_writer.h"
#include "device/pte/debug_map_generated.h"

namespace dtr {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::string_view kMarker = "ETRECORD_V0", kEdgeProgram = "edge_dialect_exported_program",
                           kDebugHandles = "debug_handle_map", kDelegates = "delegate_map",
                           kOutputs = "instruction_id_to_num_outs_map",
                           kInputs = "representative_inputs", kMethod = "forward";
// Upstream's reader takes any member for a program, unless its name ends like one that belongs to a
// program.
constexpr std::string_view kOurs = "deuteron/operators_constants";
constexpr std::string_view kNxpDelegate = "NeutronBackend";
constexpr std::string_view kEdgeOps = "executorch.exir.dialects.edge.ops.";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Json handles_of(const Origin& origin) {
  Json handles = Json::array();
  for (const uint32_t source : origin.sources) handles.push_back(source + 1);
  return handles;
}

// Every command has an entry, in order: upstream takes for one that has none the last whose digits
// are in it. So has the event behind the last kernel, in which NXP's driver writes the profile.
Json delegate_json(const OperatorMap& map, int32_t instruction, int32_t commands, bool is_nxp) {
  Json handles = Json::object();
  for (int32_t command = 0; command < commands; ++command) {
    const MappedStep* step = map.served(instruction, command);
    handles[std::to_string(command)] = step == nullptr ? Json::array() : handles_of(step->origin);
  }
  if (is_nxp) handles[std::to_string(commands)] = Json::array();
  return handles;
}

Json step_json(int32_t instruction, int32_t command, const MappedStep& step) {
  return {{"instruction", instruction}, {"command", command},
          {"kernel", step.kernel},      {"sources", step.origin.sources},
          {"part", step.origin.part},   {"parts", step.origin.parts},
          {"macs", step.macs},          {"bytes", step.bytes},
          {"limit", step.limit},        {"rearranges", step.rearranges}};
}

Json ours_json(const PteFile& pte_file, const OperatorMap& map) {
  const TraceSource program = trace_source(pte_file);
  Json json{{"version", 1},
            {"program", program.checksum},
            {"target", program.target},
            {"clock_hz", program.clock_hz}};
  json["sources"] = Json::array();
  for (const SourceOp& source : map.sources())
    json["sources"].push_back({{"name", source.name},
                               {"op", source.target},
                               {"module", source.module_path},
                               {"source_line", source.source_line}});
  json["steps"] = Json::array();
  for (const auto& [at, step] : map.steps())
    json["steps"].push_back(step_json(at.first, at.second, step));
  return json;
}

template <class Number>
std::optional<Number> number_of(std::string_view digits) {
  Number value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

std::map<std::string, uint32_t, std::less<>> debug_handles(const pte::DebugMap& map) {
  std::map<std::string, uint32_t, std::less<>> handles;
  for (uint32_t i = 0; map.sources() != nullptr && i < map.sources()->size(); ++i)
    handles[map.sources()->Get(i)->name()->str()] = i + 1;
  return handles;
}

Result<std::vector<std::byte>> to_etrecord(const PteFile& pte_file, const pt2::EdgeExport& edge,
                                           std::span<const TensorView> inputs) {
  if (pte_file.debug_map() == nullptr)
    return fail(DiagnosticId::kNoDebugMap,
                "a record is made from the debug map, and the program has none",
                "compile without --no-debug-map", {.file = pte_file.path()});
  const OperatorMap map(*pte_file.debug_map());
  Json handles = Json::object(), delegates = Json::object(), outputs = Json::object();
  for (auto at = map.steps().begin(); at != map.steps().end();) {
    const int32_t instruction = at->first.first;
    const MappedStep& call = at->second;
    int32_t commands = 0;
    for (++at; at != map.steps().end() && at->first.first == instruction; ++at)
      commands = at->first.second + 1;
    const std::string key = std::to_string(instruction);
    outputs[key] = 1;
    // What a delegate's events have, its call has not too: the Inspector adds up the events of a
    // module.
    handles[key] = commands > 0 ? Json::array() : handles_of(call.origin);
    if (commands > 0)
      delegates[key] = {
          {"name", call.kernel},
          {"delegate_map", delegate_json(map, instruction, commands, call.kernel == kNxpDelegate)}};
  }
  ZipWriter writer;
  const auto add_text = [&](std::string_view name, const std::string& text) {
    writer.add(std::string(name), bytes_of(text), true);
  };
  const std::string program = fmt::format("{}/{}", kEdgeProgram, kMethod);
  writer.add(std::string(kMarker), {});
  add_text(program, edge.json);
  writer.add(program + "_state_dict", edge.state_dict);
  writer.add(program + "_constants", edge.constants);
  writer.add(program + "_example_inputs", {});
  add_text(kDebugHandles, Json{{kMethod, handles}}.dump());
  add_text(kDelegates, Json{{kMethod, delegates}}.dump());
  add_text(kOutputs, Json{{kMethod, outputs}}.dump());
  if (!inputs.empty()) {
    std::vector<pt2::TorchTensor> sample;
    for (const TensorView& input : inputs)
      sample.push_back({fmt::format("input_{}", sample.size()),
                        Tensor::copy_of(input.dtype, input.shape, {input.data, input.bytes()})});
    writer.add(std::string(kInputs), pt2::to_torch_file(sample));
  }
  add_text(kOurs, ours_json(pte_file, map).dump());
  return writer.finish();
}

// A number without a fraction. Another kind is reported as below: nlohmann::json would convert a
// float, which may be beyond any integer.
template <class Integer>
Integer integer(const Json& value) {
  return static_cast<Integer>(value.get_ref<const Json::number_integer_t&>());
}

// Reads members as they come; nlohmann::json reports by exceptions what is missing or of another
// kind.
class EtRecordReader {
 public:
  EtRecordReader(const ZipArchive& zip, std::string file) : zip_(zip), file_(std::move(file)) {}

  Result<EtRecord> read() {
    if (zip_.find(kMarker) == nullptr)
      return damaged("the archive is no ETRecord: it has no member ETRECORD_V0");
    try {
      DTR_ASSIGN(const Json ours, member(kOurs));
      if (!ours.is_null()) {
        if (read_ours(ours)) return std::move(record_);
        return damaged("its operators are not those of its steps");
      }
      DTR_ASSIGN(Json edge, member(fmt::format("{}/{}", kEdgeProgram, kMethod)));
      if (edge.is_null()) {
        DTR_ASSIGN(edge, member(kEdgeProgram));
      }
      if (edge.is_null()) return damaged("the record has no program of the method forward");
      for (const Json& node : edge.at("graph_module").at("graph").at("nodes")) read_node(node);
      DTR_ASSIGN(const Json handles, member(kDebugHandles));
      if (handles.is_null()) return damaged("the record has no debug handles");
      for (const auto& [instruction, value] : handles.at(std::string(kMethod)).items())
        if (const auto number = number_of<int32_t>(instruction))
          record_.calls_[*number] = sources_of(value);
      DTR_ASSIGN(const Json delegates, member(kDelegates));
      if (!delegates.is_null()) read_delegates(delegates.at(std::string(kMethod)));
      return std::move(record_);
    } catch (const Json::exception&) {
      return damaged("a member is not as ExecuTorch writes it");
    }
  }

 private:
  tl::unexpected<Diagnostic> damaged(std::string reason) const {
    return fail(DiagnosticId::kTraceDamaged, std::move(reason),
                "make it again: deuteron compile --etrecord", {.file = file_});
  }

  Result<Json> member(std::string_view name) const {
    const ZipEntry* const entry = zip_.find(name);
    if (entry == nullptr) return Json();
    DTR_ASSIGN(const ZipData data, zip_.read_text(*entry));
    if (json_is_too_deep(data.text())) return damaged(fmt::format("`{}` is nested too deep", name));
    return Json::parse(data.text());
  }

  bool read_ours(const Json& json) {
    if (json.at("version") != 1) return false;
    record_.program_ =
        TraceSource{integer<uint32_t>(json.at("program")), json.at("target").get<std::string>(),
                    integer<uint64_t>(json.at("clock_hz"))};
    OperatorMap map;
    for (const Json& source : json.at("sources"))
      map.add_source({.name = source.at("name").get<std::string>(),
                      .target = source.at("op").get<std::string>(),
                      .module_path = source.at("module").get<std::string>(),
                      .source_line = source.at("source_line").get<std::string>()});
    for (const Json& step : json.at("steps")) {
      MappedStep mapped{.kernel = step.at("kernel").get<std::string>(),
                        .origin = {.part = integer<uint32_t>(step.at("part")),
                                   .parts = integer<uint32_t>(step.at("parts"))},
                        .macs = integer<int64_t>(step.at("macs")),
                        .bytes = integer<uint64_t>(step.at("bytes")),
                        .limit = step.at("limit").get<std::string>(),
                        .rearranges = step.at("rearranges").get<std::string>()};
      for (const Json& source : step.at("sources")) {
        mapped.origin.sources.push_back(integer<uint32_t>(source));
        if (mapped.origin.sources.back() >= map.sources().size()) return false;
      }
      map.add(integer<int32_t>(step.at("instruction")), integer<int32_t>(step.at("command")),
              std::move(mapped));
    }
    record_.ours_ = std::move(map);
    return true;
  }

  void read_node(const Json& node) {
    const Json& metadata = node.at("metadata");
    if (!metadata.contains("debug_handle")) return;
    const auto handle = number_of<int64_t>(metadata["debug_handle"].get<std::string>());
    if (!handle) return;
    std::string target = node.at("target").get<std::string>();
    if (target.starts_with(kEdgeOps)) target.erase(0, kEdgeOps.size());
    by_handle_[*handle].push_back(static_cast<uint32_t>(record_.sources_.size()));
    record_.sources_.push_back(
        {.name = node.value("name", std::string()),
         .target = std::move(target),
         .module_path = pt2::module_path(metadata.value("nn_module_stack", std::string())),
         .source_line = pt2::source_line(metadata.value("stack_trace", std::string()))});
  }

  // A handle, several, or none.
  std::vector<uint32_t> sources_of(const Json& handles) const {
    std::vector<uint32_t> sources;
    const auto add = [&](const Json& handle) {
      if (const auto found = by_handle_.find(integer<int64_t>(handle)); found != by_handle_.end())
        sources.insert(sources.end(), found->second.begin(), found->second.end());
    };
    if (handles.is_array())
      for (const Json& handle : handles) add(handle);
    else if (!handles.is_null())
      add(handles);
    std::ranges::sort(sources);
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    return sources;
  }

  void read_delegates(const Json& delegates) {
    for (const auto& [instruction, value] : delegates.items()) {
      const auto number = number_of<int32_t>(instruction);
      if (!number) continue;
      record_.delegates_[*number];
      for (const auto& [id, handles] : value.at("delegate_map").items())
        record_.delegates_[*number][id] = sources_of(handles);
    }
  }

  const ZipArchive& zip_;
  std::string file_;
  std::map<int64_t, std::vector<uint32_t>> by_handle_;
  EtRecord record_;
};

Result<EtRecord> EtRecord::parse(std::span<const std::byte> bytes, const std::string& file,
                                 ZipLimits limits) {
  DTR_ASSIGN(const ZipArchive zip, ZipArchive::open(bytes, file, limits));
  return EtRecordReader(zip, file).read();
}

Result<EtRecord> EtRecord::open(const std::string& path) {
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  return parse(file.bytes(), path);
}

OperatorMap EtRecord::operators(const Trace& trace) const {
  if (ours_) return *ours_;
  OperatorMap map;
  for (const SourceOp& source : sources_) map.add_source(source);
  for (const auto& [instruction, sources] : calls_)
    map.add(instruction, -1, {.origin = {.sources = sources}});
  for (const TraceRun& run : trace.runs)
    for (const TraceEvent& event : run.events) {
      const auto delegate = delegates_.find(event.instruction);
      if (event.command < 0 || delegate == delegates_.end()) continue;
      auto found = delegate->second.find(std::to_string(event.command));
      if (found == delegate->second.end()) found = delegate->second.find(event.name);
      const MappedStep* call = map.find(
          event.instruction, -1);  // what a delegate does not tell apart is all of its call
      const Origin origin = found != delegate->second.end() ? Origin{.sources = found->second}
                            : call != nullptr               ? call->origin
                                                            : Origin{};
      map.add(event.instruction, event.command, {.kernel = event.name, .origin = origin});
    }
  return map;
}

}  // namespace dtr
