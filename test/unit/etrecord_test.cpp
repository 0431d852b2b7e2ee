// Records that ExecuTorch wrote and records of ours, against what its Inspector says of them
// (test/data/etdump/make_data.py).
#include "host/profiler/etrecord.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/support/zip_writer.h"
#include "host/profiler/etdump.h"
#include "host/profiler/profile.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using Json = nlohmann::json;

std::filesystem::path data(const std::string& name) {
  return test::source_path("test/data/etdump/" + name);
}

Trace trace_of(const std::string& stem) {
  Result<Trace> trace = read_etdump(data(stem + ".etdump").string());
  EXPECT_TRUE(trace) << to_text(trace.error());
  return trace ? *std::move(trace) : Trace{};
}

EtRecord record_of(const std::string& stem) {
  Result<EtRecord> record = EtRecord::open(data(stem + ".etrecord").string());
  EXPECT_TRUE(record) << to_text(record.error());
  return record ? *std::move(record) : EtRecord{};
}

struct Row {
  std::string name;
  std::vector<uint64_t> elapsed;
  std::vector<std::string> operators, modules;
  auto operator<=>(const Row&) const = default;
};

std::string to_string(const Row& row) {
  return fmt::format("{} {} {} {}", row.name, row.elapsed.front(), fmt::join(row.operators, ","),
                     fmt::join(row.modules, ","));
}

// The Inspector's name of an event: a command's is its number, or the name that it has instead.
std::string inspector_name(const TraceEvent& event, bool named) {
  return event.command >= 0 && !named ? std::to_string(event.command) : event.name;
}

// Kernels and commands as the Inspector lists them. OPERATOR_CALL is a kernel again, with what its
// call costs.
std::vector<Row> inspector_rows(const std::string& stem) {
  std::vector<Row> rows;
  const std::vector<std::byte> bytes = test::read_bytes(data(stem + ".json"));
  for (const Json& json :
       Json::parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))) {
    Row row{json["name"], json["elapsed"], json["op_types"], json["modules"]};
    if (row.name == "OPERATOR_CALL" || row.name == "DELEGATE_CALL" || json["block"] != "Execute" ||
        row.name == "Method::execute")
      continue;
    if (row.name.starts_with("native_call_")) row.name.erase(0, sizeof "native_call_" - 1);
    std::ranges::sort(row.operators);
    std::ranges::sort(row.modules);
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows);
  return rows;
}

// The same of ours. A wait has what the call behind it has.
std::vector<Row> our_rows(const Trace& trace, const OperatorMap& map, bool named_commands) {
  std::vector<Row> rows;
  const std::vector<TraceEvent>& events = trace.runs.front().events;
  for (size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& event = events[i];
    if (event.kind == npu::ProfileEvent::kRun || event.kind == npu::ProfileEvent::kDelegate)
      continue;
    size_t served = i;
    while (events[i].kind == npu::ProfileEvent::kWait &&
           events[served].kind != npu::ProfileEvent::kCall)
      ++served;
    const MappedStep* step = map.find(events[served].instruction, events[served].command);
    EXPECT_NE(step, nullptr) << event.name;
    if (step == nullptr) continue;
    Row row{.name = inspector_name(event, named_commands && event.name.starts_with("kernel aten"))};
    for (const TraceRun& run : trace.runs)
      row.elapsed.push_back(run.events[i].end - run.events[i].start);
    for (const uint32_t source : step->origin.sources) {
      row.operators.push_back(map.sources()[source].target);
      row.modules.push_back(map.sources()[source].module_path);
    }
    std::ranges::sort(row.operators);
    std::ranges::sort(row.modules);
    rows.push_back(std::move(row));
  }
  std::ranges::sort(rows);
  return rows;
}

void expect_same(const std::vector<Row>& ours, const std::vector<Row>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_EQ(ours[i], theirs[i]) << to_string(ours[i]) << "\n" << to_string(theirs[i]);
}

TEST(EtRecord, OfExecuTorchSaysWhatItsInspectorSays) {
  const Trace trace = trace_of("upstream");
  const EtRecord record = record_of("upstream");
  EXPECT_FALSE(record.program());
  const OperatorMap map = record.operators(trace);
  expect_same(our_rows(trace, map, true), inspector_rows("upstream"));
  const Profile profile = make_profile(trace, map, "upstream.etrecord");
  EXPECT_EQ(profile.total, 7584u);
  EXPECT_EQ(profile.rows.front().source_line, "make_data.py:43");
}

TEST(EtRecord, OfOursSaysWhatTheInspectorSays) {
  const Trace trace = trace_of("branches");
  const EtRecord record = record_of("branches");
  ASSERT_TRUE(record.program() && trace.program);
  EXPECT_EQ(*record.program(), *trace.program);
  expect_same(our_rows(trace, record.operators(trace), false), inspector_rows("branches"));
}

// Without our own member the maps that upstream reads say the same.
TEST(EtRecord, OfOursSaysTheSameWithoutOurMember) {
  const std::vector<std::byte> bytes = test::read_bytes(data("branches.etrecord"));
  const auto zip = ZipArchive::open(bytes, "branches.etrecord");
  ASSERT_TRUE(zip);
  ZipWriter writer;
  for (const ZipEntry& entry : zip->entries())
    if (!entry.name.starts_with("deuteron/")) writer.add(entry.name, zip->read(entry)->bytes);
  const auto record = EtRecord::parse(writer.finish(), "branches.etrecord");
  ASSERT_TRUE(record) << to_text(record.error());
  EXPECT_FALSE(record->program());
  const Trace trace = trace_of("branches");
  expect_same(our_rows(trace, record->operators(trace), false), inspector_rows("branches"));
}

TEST(EtRecord, IsMadeOfProgramAndModelByteForByte) {
  const auto pte_file = PteFile::open(data("branches.pte").string());
  ASSERT_TRUE(pte_file) << to_text(pte_file.error());
  const std::vector<std::byte> model = test::read_bytes(data("branches.pt2"));
  const auto edge =
      pt2::to_edge_export(model, "branches.pt2", debug_handles(*pte_file->debug_map()));
  ASSERT_TRUE(edge) << to_text(edge.error());
  const auto record = to_etrecord(*pte_file, *edge);
  ASSERT_TRUE(record) << to_text(record.error());
  EXPECT_EQ(*record, test::read_bytes(data("branches.etrecord")));
}

TEST(EtRecord, TraceIsWrittenAsItWasRead) {
  EXPECT_EQ(to_etdump(trace_of("branches")), test::read_bytes(data("branches.etdump")));
}

using Members = std::vector<std::pair<std::string, std::string>>;

std::string refusal(const Members& members) {
  ZipWriter writer;
  for (const auto& [name, text] : members) writer.add(name, std::as_bytes(std::span(text)));
  const auto record = EtRecord::parse(writer.finish(), "x.etrecord");
  return record ? "taken" : record.error().reason;
}

constexpr const char* kGraph = R"({"graph_module": {"graph": {"nodes": []}}})";

TEST(EtRecord, RefusesWhatIsNone) {
  const Members marker{{"ETRECORD_V0", ""}};
  const auto with = [&](Members more) {
    Members all = marker;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  EXPECT_EQ(refusal({{"other", ""}}), "the archive is no ETRecord: it has no member ETRECORD_V0");
  EXPECT_EQ(refusal(marker), "the record has no program of the method forward");
  EXPECT_EQ(refusal(with({{"edge_dialect_exported_program/forward", kGraph}})),
            "the record has no debug handles");
  EXPECT_EQ(refusal(with({{"edge_dialect_exported_program", kGraph},
                          {"debug_handle_map", R"({"forward": {}})"}})),
            "taken");
  EXPECT_EQ(refusal(with({{"edge_dialect_exported_program/forward", "{"}})),
            "a member is not as ExecuTorch writes it");
  EXPECT_EQ(refusal(with({{"edge_dialect_exported_program/forward", "[]"}})),
            "a member is not as ExecuTorch writes it");
  EXPECT_EQ(refusal(with({{"edge_dialect_exported_program/forward", kGraph},
                          {"debug_handle_map", R"({"forward": {"0": "x"}})"}})),
            "a member is not as ExecuTorch writes it");
  EXPECT_EQ(refusal(with({{"deuteron/operators_constants", R"({"version": 2})"}})),
            "its operators are not those of its steps");
  EXPECT_EQ(
      refusal(with(
          {{"deuteron/operators_constants",
            R"({"version": 1, "program": 1, "target": "", "clock_hz": 0, "sources": [], "steps": [{"instruction": 0,
                              "command": 0, "kernel": "", "sources": [0], "part": 0, "parts": 1, "macs": 0, "bytes": 0, "limit": "",
                              "rearranges": ""}]})"}})),
      "its operators are not those of its steps");
  // A float is no number of ours, and no integer holds this one.
  EXPECT_EQ(
      refusal(with(
          {{"deuteron/operators_constants",
            R"({"version": 1, "program": 1, "target": "", "clock_hz": -1e20, "sources": [], "steps": []})"}})),
      "a member is not as ExecuTorch writes it");
  EXPECT_EQ(refusal(with({{"edge_dialect_exported_program", kGraph},
                          {"debug_handle_map", R"({"forward": {"0": [1e300]}})"}})),
            "a member is not as ExecuTorch writes it");
  std::vector<std::byte> bytes = test::read_bytes(data("upstream.etrecord"));
  bytes.resize(bytes.size() / 2);
  const auto truncated = EtRecord::parse(bytes, "x.etrecord");
  ASSERT_FALSE(truncated);
  EXPECT_EQ(truncated.error().id, DiagnosticId::kZipInvalid);
}

TEST(EtRecord, NeedsADebugMap) {
  const auto pte_file = PteFile::open(test::source_path("test/data/pte/upstream.pte").string());
  ASSERT_TRUE(pte_file) << to_text(pte_file.error());
  const auto record = to_etrecord(*pte_file, {});
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().id, DiagnosticId::kNoDebugMap);
  EXPECT_EQ(record.error().reason, "a record is made from the debug map, and the program has none");
}

}  // namespace
}  // namespace dtr
