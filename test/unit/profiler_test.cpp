// Profiles: what records, files and attributions say, against cycles counted by hand and by the run
// itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/report.h"
#include "compiler/support/text.h"
#include "host/profiler/etdump.h"
#include "host/profiler/etdump_generated.h"
#include "host/profiler/explain.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "host/session/session.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using npu::ProfileEvent;

// Two operators on the NPU, of which the second needs constants from flash, and one on the CPU:
//   0 kernel                 0 … 40
//   1 delegate              40 … 2000
//       command 0 copy     500 … 900    (its start takes the host 400)
//       command 1 call     600 … 1000   (400 + 200 before it: the copy, the call)
//       command 2 wait    1000 … 1100
//       command 3 call    1300 … 1900
Trace example() {
  Trace trace;
  trace.program = TraceSource{.checksum = 0x1a2b3c4d, .target = "imxrt700", .clock_hz = 1'000'000};
  trace.planned_bytes = 5000;
  trace.used_bytes = 4000;
  trace.load.events.push_back({.kind = ProfileEvent::kLoad, .name = "Program::load_method"});
  trace.runs.push_back(
      {.events = {{.kind = ProfileEvent::kRun, .name = "Method::execute", .end = 2010},
                  {.kind = ProfileEvent::kKernel,
                   .name = "aten::add.out",
                   .instruction = 0,
                   .start = 0,
                   .end = 40},
                  {.kind = ProfileEvent::kDelegate,
                   .name = "delegate",
                   .instruction = 1,
                   .start = 40,
                   .end = 2000},
                  {ProfileEvent::kCopy, "Copy", 1, 0, 500, 900},
                  {ProfileEvent::kCall, "Conv2d", 1, 1, 700, 1000},
                  {ProfileEvent::kWait, "Wait", 1, 2, 1000, 1100},
                  {ProfileEvent::kCall, "Pool", 1, 3, 1300, 1900}}});
  return trace;
}

OperatorMap example_map() {
  OperatorMap map;
  map.add_source({.name = "add", .target = "aten.add.Tensor", .module_path = "head"});
  map.add_source({.name = "conv",
                  .target = "aten.conv2d.default",
                  .module_path = "stem.conv",
                  .source_line = "model.py:7"});
  map.add_source({.name = "relu", .target = "aten.relu.default", .module_path = "stem.act"});
  map.add_source({.name = "pool", .target = "aten.max_pool2d.default", .module_path = "stem.pool"});
  map.add(0, -1, {.kernel = "aten::add.out", .origin = {{0}}});
  map.add(1, 0, {.kernel = "Copy", .origin = {{3}}, .bytes = 64, .limit = "flash"});
  map.add(1, 1,
          {.kernel = "Conv2d", .origin = {{1, 2}}, .macs = 9000, .bytes = 300, .limit = "array"});
  map.add(1, 3, {.kernel = "Pool", .origin = {{3}}, .bytes = 100, .limit = "write port"});
  return map;
}

const ProfileRow* row(const Profile& profile, std::string_view name) {
  for (const ProfileRow& each : profile.rows)
    if (each.name == name) return &each;
  return nullptr;
}

TEST(Profile, EveryCycleHasItsPlace) {
  const Profile profile = make_profile(example(), example_map(), "example.pte");
  EXPECT_EQ(profile.total, 2010u);
  const ProfileRow* add = row(profile, "add");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->spent.cpu, 40u);
  EXPECT_EQ(add->backend, "CPU");
  const ProfileRow* conv = row(profile, "conv + relu");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->spent.npu, 300u);
  EXPECT_EQ(conv->spent.host, 700u - 40 - 400);  // the start of the copy is the pool's
  EXPECT_EQ(conv->macs, 9000);
  EXPECT_DOUBLE_EQ(profile.utilization(*conv), 9000.0 / (300 * 64));  // of the NPU's own cycles
  EXPECT_EQ(conv->sram_bytes, 300u);
  EXPECT_EQ(conv->limited_by, "array");
  EXPECT_EQ(conv->source_line, "model.py:7");
  const ProfileRow* pool = row(profile, "pool");
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->spent.npu, 600u);
  EXPECT_EQ(pool->spent.host, 400u + 200);
  EXPECT_EQ(pool->spent.stall, 100u);
  EXPECT_EQ(pool->copying, 400u);
  EXPECT_EQ(pool->flash_bytes, 64u);
  const ProfileRow* leave = row(profile, "enter and leave delegates");
  ASSERT_NE(leave, nullptr);
  EXPECT_EQ(leave->spent.host, 100u);
  const ProfileRow* between = row(profile, "between calls");
  ASSERT_NE(between, nullptr);
  EXPECT_EQ(between->spent.host, 10u);
  EXPECT_EQ(spent(profile).total(), profile.total);
  EXPECT_EQ(profile.on_operators(), 1900u);
  EXPECT_DOUBLE_EQ(profile.milliseconds(profile.total), 2.01);
}

// Perfetto's times are microseconds: at 1 MHz cycles, and half as many at 2 MHz.
TEST(Profile, PerfettoHasMicroseconds) {
  Profile profile = make_profile(example(), example_map(), "example.pte");
  ASSERT_TRUE(profile.id);
  for (const uint64_t megahertz : {1, 2}) {
    profile.id->clock_hz = static_cast<uint32_t>(megahertz * 1'000'000);
    const auto document = nlohmann::json::parse(to_perfetto(profile, nullptr));
    double longest = 0;
    for (const auto& event : document.at("traceEvents"))
      if (event.at("name") == "Conv2d: conv + relu") longest = event.at("dur").get<double>();
    EXPECT_DOUBLE_EQ(longest, 300.0 / static_cast<double>(megahertz));
  }
}

// The pool takes 600 + 600 + 100 of 2010 cycles, the convolution 300 + 260.
TEST(Profile, SharesAreOfAllThatAnOperatorTakes) {
  const std::string text = to_text(make_profile(example(), example_map(), ""), {});
  const auto line = [&](const std::string& begin) {
    const size_t at = text.find("\n" + begin);
    return at == std::string::npos ? text : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  EXPECT_NE(line("pool").find(" 64.7 % "), std::string::npos) << line("pool");
  EXPECT_NE(line("conv + relu").find(" 27.9 % "), std::string::npos) << line("conv + relu");
}

// Of an operator in two calls, 560 cycles and then 300: what limits the longer one.
TEST(Profile, LimitIsThatOfTheLongestCall) {
  Trace trace = example();
  trace.runs[0].events.back().end = 1400;
  OperatorMap map = example_map();
  map.add(1, 3, {.kernel = "Pool", .origin = {{1, 2}}, .bytes = 100, .limit = "write port"});
  EXPECT_EQ(row(make_profile(trace, map, ""), "conv + relu")->limited_by, "array");
  map.add(1, 1, {.kernel = "Conv2d", .origin = {{1, 2}}, .limit = "write port"});
  map.add(1, 3, {.kernel = "Pool", .origin = {{1, 2}}, .limit = "array"});
  EXPECT_EQ(row(make_profile(trace, map, ""), "conv + relu")->limited_by, "write port");
}

// The same operator in two calls: bytes of both.
OperatorMap two_calls() {
  OperatorMap map = example_map();
  map.add(1, 3, {.kernel = "Pool", .origin = {{1, 2}}, .bytes = 100, .limit = "write port"});
  return map;
}
TEST(Profile, CallsOfAnOperatorAddUp) {
  const Profile profile = make_profile(example(), two_calls(), "");
  const ProfileRow* conv = row(profile, "conv + relu");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->npu_calls, 2u);
  EXPECT_EQ(conv->sram_bytes, 300u + 100);
  EXPECT_EQ(conv->spent.npu, 300u + 600);
}

// What packing saves in the two calls of the operator, and not what it saves in another's.
TEST(Explain, SavingsOfAllCallsAddUp) {
  const Profile profile = make_profile(example(), two_calls(), "");
  const auto saving = [](uint64_t cycles) {
    return simulator::ArrayCall{.in_channels = 3, .cycles = 9000, .packed_cycles = 9000 - cycles};
  };
  const AdvisedCalls advised{{{1, 1}, saving(100)}, {{1, 3}, saving(30)}, {{0, 1}, saving(7000)}};
  const Explanation says = explain(profile, *row(profile, "conv + relu"), nullptr, advised);
  const std::string text = fmt::format("{}", fmt::join(says.to_change, "\n"));
  EXPECT_NE(text.find("--row-packing, which saves 130 cycles = 0.130 ms of computing"),
            std::string::npos)
      << text;
}

// Constants take 400 cycles to arrive, the pool 200 to compute and 500 to start: what is around it
// could hide them. Where they take 800, and it 200 and 400, nothing could.
TEST(Explain, WaitsAreComparedWithAllThatCouldHideThem) {
  const auto advice = [](uint64_t copied_until, uint64_t waited_until) {
    Trace trace = example();
    std::vector<TraceEvent>& events = trace.runs[0].events;
    events[3].end = copied_until;
    events[5].end = waited_until;
    events[6].end = 1500;
    const Profile profile = make_profile(trace, example_map(), "");
    const ProfileRow& pool = *row(profile, "pool");
    EXPECT_EQ(pool.copying, copied_until - 500);
    EXPECT_EQ(pool.spent.npu, 200u);
    EXPECT_EQ(pool.spent.host, 400 + 1300 - waited_until);
    return fmt::format("{}", fmt::join(explain(profile, pool, nullptr).to_change, "\n"));
  };
  const std::string hidden = advice(900, 1200), not_hidden = advice(1300, 1300);
  EXPECT_NE(hidden.find("put it later in the network"), std::string::npos) << hidden;
  EXPECT_EQ(hidden.find("fewer weights"), std::string::npos) << hidden;
  EXPECT_NE(not_hidden.find("fewer weights"), std::string::npos) << not_hidden;
}

// A call of the NPU starts with 8,000 + 64 cycles: an operator of 40 costs more there, one of
// 10,000 saves 1,936 of them at most.
TEST(Explain, TheNpuIsAdvisedWhereACallIsCheaper) {
  const auto says = [](uint64_t add) {
    Trace trace = example();
    trace.runs[0].events[1].end = add;
    for (size_t i = 2; i < trace.runs[0].events.size(); ++i) {
      trace.runs[0].events[i].start += add - 40;
      trace.runs[0].events[i].end += add - 40;
    }
    trace.runs[0].events[0].end += add - 40;
    Profile profile = make_profile(trace, example_map(), "");
    profile.target = find_target("imxrt700");
    return explain(profile, *row(profile, "add"), nullptr);
  };
  const Explanation small = says(40), large = says(10'000);
  EXPECT_TRUE(small.to_change.empty()) << small.to_change.front();
  ASSERT_EQ(small.because.size(), 2u);
  EXPECT_NE(
      small.because[1].find("it would cost more in 1 call of its own: each starts with 8,064"),
      std::string::npos)
      << small.because[1];
  EXPECT_EQ(large.because.size(), 1u);
  ASSERT_EQ(large.to_change.size(), 1u);
  EXPECT_TRUE(large.to_change[0].starts_with(
      "bring it onto the NPU, which saves at most 1,936 cycles = 1.936 ms in 1 call of its own: "))
      << large.to_change[0];
}

// Between two calls of the NPU, a float operator of 9,000 cycles and conversions of 500 before and
// behind it: 10,000 - 8,064. One of 5,000 costs less than a call.
TEST(Explain, ConversionsAreJudgedWithWhatComputesBetweenThem) {
  const auto says = [](uint64_t computes) {
    OperatorMap map = example_map();
    map.add(2, -1, {.kernel = "dequantize_per_tensor", .origin = {{1, 2}}});
    map.add(3, -1, {.kernel = "aten::sin.out", .origin = {{0}}});
    map.add(4, -1, {.kernel = "quantize_per_tensor", .origin = {{3}}});
    map.add(5, 0, {.kernel = "Pool", .origin = {{3}}});
    Trace trace = example();
    std::vector<TraceEvent>& events = trace.runs[0].events;
    uint64_t now = 2000;
    const auto add = [&](ProfileEvent kind, const char* name, int32_t instruction, int32_t command,
                         uint64_t cycles) {
      events.push_back({kind, name, instruction, command, now, now + cycles});
      now += cycles;
    };
    add(ProfileEvent::kKernel, "dequantize_per_tensor", 2, -1, 500);
    add(ProfileEvent::kKernel, "aten::sin.out", 3, -1, computes);
    add(ProfileEvent::kKernel, "quantize_per_tensor", 4, -1, 500);
    events.push_back({ProfileEvent::kDelegate, "delegate", 5, -1, now, now + 100});
    add(ProfileEvent::kCall, "Pool", 5, 0, 100);
    events[0].end = now;
    Profile profile = make_profile(trace, map, "");
    profile.target = find_target("imxrt700");
    const Explanation found = explain(profile, *row(profile, "conv + relu"), nullptr);
    return fmt::format("{}\n{}", fmt::join(found.because, "\n"), fmt::join(found.to_change, "\n"));
  };
  const std::string worth = says(9000), dear = says(5000);
  EXPECT_NE(worth.find("bring what computes in float beside it onto the NPU, which saves at most "
                       "1,936 cycles"),
            std::string::npos)
      << worth;
  EXPECT_EQ(dear.find("bring"), std::string::npos) << dear;
  EXPECT_NE(dear.find("would cost more in 1 call of its own"), std::string::npos) << dear;
}

// The bytes are those of the program, whatever the trace says of its memory.
TEST(Explain, BudgetIsThatOfTheProgram) {
  std::ifstream file(test::source_path("test/golden/ic_resnet8.ir"));
  Result<Module> module =
      parse_module(std::string(std::istreambuf_iterator<char>(file), {}), "golden.ir");
  ASSERT_TRUE(module) << to_text(module.error());
  const auto compiled =
      compile_model(*std::move(module), {.target = find_target("imxrt700"),
                                         .recipe = RecipeSpec{.backends = {"neutron", "portable"},
                                                              .options = {.sram_bytes = 40000}}});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const auto pte_file = PteFile::parse(compiled->pte(), "few.pte");
  ASSERT_TRUE(pte_file) << to_text(pte_file.error());
  const uint64_t bytes = sram_use(*compiled).total_bytes;
  EXPECT_LE(bytes, 40000u);
  const Profile profile = make_profile(example(), two_calls(), "");
  const Explanation says = explain(profile, *row(profile, "conv + relu"), &*pte_file);
  const std::string text = fmt::format("{}", fmt::join(says.to_change, "\n"));
  EXPECT_NE(text.find(fmt::format("the program is planned for {} bytes, ", with_thousands(bytes))),
            std::string::npos)
      << text;
}

// 560 of 2,010 cycles: 300 of the NPU and 260 of the host.
TEST(Explain, CostsAreThoseOfTheOperator) {
  const Profile profile = make_profile(example(), example_map(), "");
  const std::string costs = explain(profile, *row(profile, "conv + relu"), nullptr).costs;
  EXPECT_TRUE(costs.starts_with("560 cycles, 28 % of the run (0.560 ms ")) << costs;
}

// Ten events of 3 ns each in a run of 600 ns.
TEST(Profile, RecordingCostIsAShareOfTheRun) {
  Profile profile;
  profile.cost = {.event = 3, .events = 10, .run = 600};
  profile.own_unit = "instructions";
  EXPECT_EQ(recording_cost(profile),
            "  recording cost 3 instructions per event, 5 % of the run with its 10 events, none of "
            "it in the cycles\n");
  profile.cost = {.event = 1512.6, .events = 1000, .run = 1.2e6};
  profile.own_unit = "ns";
  EXPECT_EQ(recording_cost(profile),
            "  recording cost 1,513 ns per event on the computer that simulated, 126 % of the run "
            "with its 1,000 events, none of it in the cycles\n");
}

TEST(Explain, NamesThePortThatLimitsAndNotTheArray) {
  const Profile profile = make_profile(example(), example_map(), "");
  const auto because = [&](const char* name) {
    return fmt::format("{}",
                       fmt::join(explain(profile, *row(profile, name), nullptr).because, "\n"));
  };
  EXPECT_NE(because("pool").find("; the write port limits it"), std::string::npos)
      << because("pool");
  EXPECT_EQ(because("conv + relu").find("limits it"), std::string::npos) << because("conv + relu");
}

TEST(Profile, ATraceWithoutProgramShowsCalls) {
  const Profile profile = make_profile(example(), {}, "example.etdump");
  EXPECT_EQ(spent(profile).total(), profile.total);
  ASSERT_NE(row(profile, "aten::add.out"), nullptr);
  EXPECT_EQ(row(profile, "aten::add.out")->spent.cpu, 40u);
  ASSERT_NE(row(profile, "Conv2d"), nullptr);
  EXPECT_EQ(profile.on_operators(), 0u);
}

TEST(Profile, TextSaysWhatIsMissing) {
  Trace trace = example();
  EXPECT_EQ(to_text(make_profile(trace, example_map(), ""), {}).find("PARTIAL"), std::string::npos);
  trace.runs[0].complete = false;
  EXPECT_NE(
      to_text(make_profile(trace, example_map(), ""), {}).find("PARTIAL: the run did not end"),
      std::string::npos);
  trace.runs[0].lost = 1234;
  EXPECT_NE(to_text(make_profile(trace, example_map(), ""), {})
                .find("PARTIAL: 1,234 events found no room"),
            std::string::npos);
}

// A run that a kernel or the NPU ended: what was not left has no end, and what there is of it adds
// up.
TEST(Profile, AbortedRunsAddUp) {
  Trace trace = example();
  TraceRun& run = trace.runs[0];
  run.complete = false;
  run.events[0].end = 0;                    // the run
  run.events[2].end = run.events[2].start;  // the delegate
  run.events.resize(5);                     // up to the first call
  const Result<Trace> read = parse_etdump(to_etdump(trace), "aborted.etdump");
  ASSERT_TRUE(read);
  const Profile profile = make_profile(*read, example_map(), "");
  EXPECT_FALSE(profile.complete);
  EXPECT_EQ(profile.total, 1000u);
  EXPECT_EQ(spent(profile).total(), 1000u);
  EXPECT_EQ(row(profile, "conv + relu")->spent.npu, 300u);
  EXPECT_NE(to_text(profile, {}).find("\n  PARTIAL: the run did not end\n"), std::string::npos);
  EXPECT_NE(to_json(profile, nullptr).find("\"complete\": false"), std::string::npos);
  EXPECT_NE(to_perfetto(profile, nullptr).find("(PARTIAL)"), std::string::npos);
}

TEST(Profile, NoEventsAreSaid) {
  Trace trace = example();
  trace.runs[0].events.resize(1);
  trace.runs[0].events[0].end = 0;
  const Profile profile = make_profile(trace, example_map(), "");
  EXPECT_EQ(profile.total, 0u);
  EXPECT_NE(to_text(profile, {})
                .find("\n  NO EVENTS: none was recorded, or the program has no operators\n"),
            std::string::npos);
}

TEST(Profile, TimesOfOthersAreTicks) {
  Trace trace = example();
  trace.program.reset();
  const Profile profile = make_profile(trace, example_map(), "");
  for (const std::string& report :
       {to_text(profile, {}), to_text(profile, {.view = ProfileView::kMemory}), to_csv(profile, {}),
        to_perfetto(profile, nullptr)}) {
    EXPECT_NE(report.find("ticks"), std::string::npos) << report;
    EXPECT_EQ(report.find("cycles"), std::string::npos) << report;
  }
  EXPECT_NE(to_json(profile, nullptr).find("\"unit\": \"ticks\""), std::string::npos);
  EXPECT_NE(to_json(profile, nullptr).find("\"simulated\": false"), std::string::npos);
  EXPECT_NE(compare_text(profile, make_profile(example(), example_map(), ""), {})
                .find("before in ticks, after in cycles: nothing to compare"),
            std::string::npos);
}

TEST(Profile, ModulesAreATree) {
  const std::string text =
      to_text(make_profile(example(), example_map(), ""), {.view = ProfileView::kModule});
  const size_t stem = text.find("\nstem "), conv = text.find("\n  conv"),
               pool = text.find("\n  pool");
  ASSERT_NE(stem, std::string::npos);
  EXPECT_LT(stem, conv);
  EXPECT_LT(conv, pool);
  EXPECT_NE(text.substr(stem, 40).find("1,860"), std::string::npos) << text;
  EXPECT_EQ(to_text(make_profile(example(), example_map(), ""),
                    {.view = ProfileView::kModule, .depth = 1})
                .find("\n  conv"),
            std::string::npos);
}

TEST(Profile, OperatorsOfNoModuleHaveALine) {
  const auto modules = [](std::string_view of_add, std::string_view of_others) {
    OperatorMap map;
    map.add_source({.name = "add", .module_path = std::string(of_add)});
    map.add_source({.name = "pool", .module_path = std::string(of_others)});
    map.add(0, -1, {.kernel = "aten::add.out", .origin = {{0}}});
    map.add(1, 1, {.kernel = "Conv2d", .origin = {{1}}});
    return to_text(make_profile(example(), map, ""), {.view = ProfileView::kModule});
  };
  const std::string text = modules("", "stem");
  const size_t line = text.find("\n(no module)");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_NE(text.substr(line + 1, text.find('\n', line + 1) - line).find(" 40 "), std::string::npos)
      << text;
  EXPECT_EQ(modules("head", "stem").find("(no module)"), std::string::npos);
  EXPECT_EQ(modules("", "").find("(no module)"), std::string::npos);
}

TEST(Profile, ComparedSlowerFirst) {
  Trace after = example();
  after.runs[0].events[1].end = 30;          // add: 10 less
  after.runs[0].events.back().start = 1200;  // pool: 100 on the NPU more, 100 on the host less
  after.runs[0].events.back().end = 1950;    // 50 more, taken from the delegate's end
  const std::string text = compare_text(make_profile(example(), example_map(), ""),
                                        make_profile(after, example_map(), ""), {});
  const size_t pool = text.find("pool"), add = text.find("add");
  EXPECT_LT(pool, add);
  EXPECT_NE(text.find("+50"), std::string::npos) << text;
  EXPECT_NE(text.find("-10"), std::string::npos) << text;
  EXPECT_NE(text.find("+3.8 %"), std::string::npos) << text;   // 50 of 1,300
  EXPECT_NE(text.find("-25.0 %"), std::string::npos) << text;  // 10 of 40
}

TEST(Etdump, RoundTrip) {
  const Trace trace = example();
  const Result<Trace> read = parse_etdump(to_etdump(trace), "trace.etdump");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->program, trace.program);
  EXPECT_EQ(read->runs, trace.runs);
  EXPECT_EQ(read->planned_bytes, 5000u);
  EXPECT_EQ(read->used_bytes, 4000u);
}

TEST(Etdump, PartialRunsStayPartial) {
  Trace trace = example();
  trace.runs[0].complete = false;
  trace.runs[0].lost = 3;
  const Result<Trace> read = parse_etdump(to_etdump(trace), "trace.etdump");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->runs, trace.runs);
}

// A clock of 32 bits that ran over in the middle of the run; a run that does not begin at 0.
TEST(Etdump, ClocksWrap) {
  Trace trace = example();
  for (TraceEvent& event : trace.runs[0].events) {
    event.start = (event.start + 0xFFFFFC00) & 0xFFFFFFFF;
    event.end = (event.end + 0xFFFFFC00) & 0xFFFFFFFF;
  }
  const Result<Trace> read = parse_etdump(to_etdump(trace), "trace.etdump");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->runs, example().runs);
}

TEST(Etdump, DamageIsSaid) {
  const std::vector<std::byte> good = to_etdump(example());
  const auto reason = [](std::span<const std::byte> bytes) {
    const Result<Trace> read = parse_etdump(bytes, "trace.etdump");
    return read ? std::string() : to_text(read.error());
  };
  EXPECT_EQ(reason(std::span(good).first(5)),
            "error[trace-damaged]: trace.etdump: the file is too short for a trace\n  fix: record "
            "it again: deuteron run --profile");
  EXPECT_EQ(reason(std::vector<std::byte>(100)),
            "error[trace-damaged]: trace.etdump: the file is no ETDump\n  fix: record it again: "
            "deuteron run --profile");
  EXPECT_EQ(reason(std::span(good).first(good.size() - 40)),
            fmt::format("error[trace-damaged]: trace.etdump: the trace has {} bytes, the file only "
                        "{}\n  fix: record it again: deuteron run "
                        "--profile",
                        good.size() - 4, good.size() - 40));
  EXPECT_EQ(reason(to_etdump({})),
            "error[trace-damaged]: trace.etdump: the trace has no run\n  fix: record it again: "
            "deuteron run --profile");
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {  // whatever it is, it ends
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    if (const Result<Trace> read = parse_etdump(bytes, "trace.etdump"))
      to_text(make_profile(*read, example_map(), ""), {});
  }
}

// Committed int8 models, run with a profile: nothing is lost, and the sums are those of the run.
class ProfiledModel : public testing::TestWithParam<const char*> {};

TEST_P(ProfiledModel, CyclesAreConserved) {
  std::ifstream file(test::source_path(std::string("test/golden/") + GetParam() + ".ir"));
  Result<Module> program =
      parse_module(std::string(std::istreambuf_iterator<char>(file), {}), "golden.ir");
  ASSERT_TRUE(program) << to_text(program.error());
  const CompileSettings settings{.target = find_target("imxrt700")};
  const auto compiled = compile_model(std::move(*program), settings);
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const auto session = Session::load(compiled->pte(), "model.pte");
  ASSERT_TRUE(session);
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  const Graph& signature = (*session)->signature();
  for (const ValueId input : signature.inputs())
    inputs.emplace_back(signature.type(input).dtype, signature.type(input).shape);
  for (const Tensor& input : inputs) views.push_back(input.view());

  Recording recording{.buffer = std::vector<npu::ProfileRecord>(4096)};
  RunStats stats;
  const auto outputs = (*session)->run(views, &stats, {.recording = &recording});
  ASSERT_TRUE(outputs);
  const PteFile& pte_file = (*session)->pte_file();
  Trace trace;
  trace.program = trace_source(pte_file);
  trace.runs.push_back(decode_run(recording.records(), recording.lost, pte_file));
  EXPECT_TRUE(trace.runs[0].complete);
  const Profile profile = make_profile(trace, OperatorMap(*pte_file.debug_map()), "model.pte");

  const CycleBreakdown all = spent(profile);
  EXPECT_EQ(all.total(), profile.total);
  EXPECT_EQ(all.npu, stats.busy_cycles);
  EXPECT_EQ(all.host, stats.host_cycles);
  EXPECT_EQ(all.stall, stats.stall_cycles);
  const CompileReport of_compiler = compile_report(*compiled);
  EXPECT_EQ(all.cpu, of_compiler.cpu_cycles);
  EXPECT_EQ(profile.total, stats.total_cycles + of_compiler.cpu_cycles);
  EXPECT_GE(profile.on_operators() * 100, profile.total * 99);
  uint64_t flash = 0;
  int64_t macs = 0;
  for (const ProfileRow& each : profile.rows) flash += each.flash_bytes, macs += each.macs;
  EXPECT_EQ(flash, stats.copied_bytes);
  int64_t reported = 0;
  for (const OperatorRow& each : of_compiler.operators) reported += each.macs;
  EXPECT_EQ(macs, reported);

  // The same run without a profile gives the same, and with a small buffer keeps the oldest.
  const auto plain = (*session)->run(views);
  ASSERT_TRUE(plain);
  for (size_t i = 0; i < outputs->size(); ++i)
    EXPECT_TRUE(std::ranges::equal((*outputs)[i].bytes(), (*plain)[i].bytes()));
  Recording few{.buffer = std::vector<npu::ProfileRecord>(5)};
  ASSERT_TRUE((*session)->run(views, nullptr, {.recording = &few}));
  EXPECT_EQ(few.used, 5u);
  EXPECT_EQ(few.used + few.lost, recording.used);
  const TraceRun partial = decode_run(few.records(), few.lost, pte_file);
  EXPECT_FALSE(partial.complete);
  ASSERT_EQ(partial.events.size(), 5u);
  EXPECT_TRUE(std::ranges::equal(partial.events, std::span(trace.runs[0].events).first(5)));
}

// Every event of an operator has the operator's result, which is stored once a run; the file says
// so as ExecuTorch's schema does.
TEST(Values, AreThoseOfOperators) {
  std::ifstream file(test::source_path("test/golden/digits_cnn.ir"));
  Result<Module> program =
      parse_module(std::string(std::istreambuf_iterator<char>(file), {}), "golden.ir");
  ASSERT_TRUE(program);
  const auto compiled = compile_model(std::move(*program), {.target = find_target("imxrt700")});
  ASSERT_TRUE(compiled) << to_text(compiled.error());
  const auto session = Session::load(compiled->pte(), "model.pte");
  ASSERT_TRUE(session);
  Result<ValueRecorder> values = ValueRecorder::create((*session)->pte_file());
  ASSERT_TRUE(values);
  Tensor input(DType::kFloat32,
               (*session)->signature().type((*session)->signature().inputs()[0]).shape);
  TraceRecorder recorder(**session, 4096);
  RunStats stats;
  std::vector<std::byte> buffer;
  for (int32_t sample = 0; sample < 2; ++sample) {
    std::ranges::fill(input.values<float>(), static_cast<float>(sample) / 2);
    const auto outputs = recorder.run(std::vector{input.view()}, stats, &*values, sample);
    ASSERT_TRUE(outputs);
    const std::vector<std::byte> more = values->take_bytes();
    buffer.insert(buffer.end(), more.begin(), more.end());
    const TraceRun& run = recorder.trace().runs.back();
    EXPECT_EQ(run.sample, sample);
    const auto bytes_of = [&](const TraceValue& value) {
      return std::span(buffer).subspan(
          value.tensor->offset,
          static_cast<size_t>(element_count(value.tensor->shape)) * byte_size(value.tensor->dtype));
    };
    const OperatorMap map(*(*session)->pte_file().debug_map());
    std::map<uint32_t, uint64_t> offset_of;
    size_t at = 0;
    for (const TraceEvent& event : run.events) {
      const MappedStep* step =
          event.instruction < 0 ? nullptr : map.served(event.instruction, event.command);
      if (step == nullptr || event.kind == ProfileEvent::kDelegate) continue;
      const TraceValue& value = run.values.at(at++);
      EXPECT_EQ(value.instruction, event.instruction);
      EXPECT_EQ(value.command, event.command);
      ASSERT_TRUE(value.tensor)
          << event.name;  // in this net every kernel call's last operator has a result
      EXPECT_EQ(value.tensor->dtype, DType::kFloat32);
      const auto [found, inserted] =
          offset_of.try_emplace(step->origin.sources.back(), value.tensor->offset);
      EXPECT_EQ(found->second, value.tensor->offset);
    }
    ASSERT_EQ(run.values.size(), at + 1);
    EXPECT_EQ(run.values[at].instruction, -1);
    EXPECT_TRUE(std::ranges::equal(bytes_of(run.values[at]), (*outputs)[0].bytes()));
    EXPECT_TRUE(std::ranges::equal(bytes_of(run.values[at - 1]),
                                   (*outputs)[0].bytes()));  // of the last dequantize
  }
  const std::vector<std::byte> dump = to_etdump(recorder.trace());
  const auto& blocks = *etdump::GetSizePrefixedETDump(dump.data())->run_data();
  EXPECT_EQ(blocks.Get(0)->bundled_input_index(), -1);
  EXPECT_EQ(blocks.Get(2)->bundled_input_index(), 1);
  const etdump::DebugEvent& last =
      *blocks.Get(2)->events()->Get(blocks.Get(2)->events()->size() - 1)->debug_event();
  EXPECT_TRUE(last.debug_entry()->output()->bool_val());
  EXPECT_EQ(last.debug_entry()->val(), etdump::ValueType::Tensor);
  EXPECT_EQ(last.debug_entry()->tensor()->sizes()->Get(1), 10);
  EXPECT_EQ(last.debug_entry()->tensor()->strides()->Get(0), 10);
  EXPECT_EQ(static_cast<uint64_t>(last.debug_entry()->tensor()->offset()),
            recorder.trace().runs[1].values.back().tensor->offset);
  Trace without = recorder.trace();
  for (TraceRun& run : without.runs) run.values.clear(), run.sample = -1;
  EXPECT_EQ(parse_etdump(dump, "values.etdump")->runs,
            parse_etdump(to_etdump(without), "values.etdump")->runs);
}

INSTANTIATE_TEST_SUITE_P(Golden, ProfiledModel,
                         testing::Values("ad_fcae", "digits_cnn", "ic_resnet8", "kws_dscnn",
                                         "vww_mobilenetv1"));

}  // namespace
}  // namespace dtr
