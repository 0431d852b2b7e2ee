// Memory planner, writer, reader: offsets never overlap in time and space, files read back as they
// were planned, damage is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "compiler/backends/neutron_ir/payload.h"
#include "compiler/program/describe.h"
#include "compiler/program/reader.h"
#include "compiler/support/arena_planner.h"
#include "compiler/support/output_file.h"
#include "device/numerics/crc32.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/program_generated.h"
#include "test/unit/arena_plans.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

// ---- Memory planner ----

class FakePartition final : public LoweredPartition {
 public:
  Result<std::vector<std::byte>> encode(std::span<const uint32_t> offsets,
                                        uint32_t scratch_bytes) const override {
    std::vector<std::byte> payload(4 * (offsets.size() + 1));
    std::memcpy(payload.data(), offsets.data(), 4 * offsets.size());
    std::memcpy(payload.data() + 4 * offsets.size(), &scratch_bytes, 4);
    return payload;
  }
};

// One delegate of three steps whose input dies in step 0 and whose output is born in step 2, with
// two interior buffers.
struct DelegatePlan {
  FakePartition partition;
  MethodPlan plan;
  TensorRef x, y;
  DelegatePlan() {
    const Type type{.dtype = DType::kInt8,
                    .shape = {1, 1000},
                    .quantization = Quantization::per_tensor(0.5f, 1)};
    x = plan.add_tensor({"x", type});
    y = plan.add_tensor({"y", type});
    partition.steps = 3;
    partition.inputs = {{1000, 0, 0}};
    partition.outputs = {{1000, 2, 2}};
    partition.buffers = {{"a", BufferRole::kActivation, 1000, 0, 1},
                         {"b", BufferRole::kActivation, 1000, 1, 2}};
    partition.step_info = {{.command = 4,
                            .kernel = "Conv2d",
                            .origin = {{0}},
                            .macs = 77,
                            .cycles = 5,
                            .limit = "array"}};
    partition.values = {
        {.name = "inner", .type = type, .buffer = 1, .after_step = 1, .origin = {{1}}},
        {.name = "before y",
         .type = type,
         .buffer = {},
         .output = 0,
         .after_step = 1,
         .origin = {{1}}},
        {.name = "fused", .type = type, .buffer = {}, .origin = {{0}}}};
    static const std::vector<SourceOp> sources{
        {"conv", "aten.conv2d.default", "features.0", "model.py:7"},
        {"add", "aten.add.Tensor", "", ""}};
    plan.sources = sources;
    plan.inputs = {x};
    plan.outputs = {y};
    plan.calls.emplace_back(DelegateCallPlan{.delegate_id = "Fake",
                                             .inputs = {x},
                                             .outputs = {y},
                                             .partition = &partition,
                                             .origin = {{0, 1}}});
  }
};

TEST(MemoryPlanner, DelegateSharesMemoryWithItsOperands) {
  DelegatePlan made;
  const auto map = plan_memory(made.plan);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->steps, 3);
  // At every step just two of the four buffers live.
  EXPECT_EQ(map->max_live_bytes, 2000);
  EXPECT_EQ(map->arena_bytes, 1008 + 1000);
  const auto& call = std::get<DelegateCallPlan>(made.plan.calls[0]);
  EXPECT_EQ(call.scratch_offset, 0);
  EXPECT_EQ(call.scratch_bytes, 2008u);
  EXPECT_NE(call.interior_offsets[0], call.interior_offsets[1]);
  // x meets a, b meets y.
  EXPECT_EQ(made.plan.tensor(made.x).offset, static_cast<int64_t>(call.interior_offsets[1]));
  EXPECT_EQ(made.plan.tensor(made.y).offset, static_cast<int64_t>(call.interior_offsets[0]));
  ASSERT_TRUE(encode_payloads(made.plan));
  EXPECT_EQ(std::get<DelegateCallPlan>(made.plan.calls[0]).payload.size(), 12u);
}

// The result stays 100 bytes below the operand, unless somebody still needs the operand.
TEST(MemoryPlanner, AResultIsWrittenOverItsOperand) {
  const auto arena = [](const auto& change) {
    DelegatePlan made;
    made.partition.inputs = {{1000, 0, 2}};
    made.partition.outputs = {{1000, 1, 2}};
    made.partition.buffers.clear();
    made.partition.trails = {{{MemoryRef::Kind::kInput, 0}, {MemoryRef::Kind::kOutput, 0}, 100}};
    change(made);
    const auto map = plan_memory(made.plan);
    EXPECT_TRUE(map);
    return std::pair(map->max_live_bytes, map->arena_bytes);
  };
  EXPECT_EQ(arena([](DelegatePlan&) {}), std::pair(int64_t{1100}, int64_t{112 + 1000}));
  const std::pair<int64_t, int64_t> apart(2000, 1008 + 1000);
  EXPECT_EQ(arena([](DelegatePlan& made) {
              made.plan.calls.emplace_back(
                  DelegateCallPlan{.delegate_id = "Fake", .inputs = {made.x}, .outputs = {}});
            }),
            apart);
}

TEST(MemoryPlanner, AnOutputIsNotWrittenOver) {
  DelegatePlan made;
  made.partition.inputs = {{1000, 0, 2}};
  made.partition.outputs = {{1000, 1, 2}};
  made.partition.buffers.clear();
  made.partition.trails = {{{MemoryRef::Kind::kInput, 0}, {MemoryRef::Kind::kOutput, 0}, 100}};
  made.plan.outputs.push_back(made.x);
  const auto map = plan_memory(made.plan);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->arena_bytes, 1008 + 1000);
}

// The buffers of ArenaPlanner.TrailsFromTheTopOfTheArena: a usual search takes 784 bytes, a long
// one 704, all of them tensors. What is left for staged constants is never negative.
TEST(MemoryPlanner, TensorsTakeNoMoreThanTheArena) {
  constexpr uint32_t kBuffers[][3] = {{480, 1, 3}, {464, 3, 6}, {208, 0, 1},
                                      {384, 0, 0}, {320, 4, 7}, {112, 0, 2}};
  using Kind = MemoryRef::Kind;
  for (const auto& [staged, bytes] : {std::pair{StagedPlacement::kAround, 784},
                                      {StagedPlacement::kTogether, 784},
                                      {StagedPlacement::kTogetherLong, 704}}) {
    FakePartition partition;
    partition.steps = 8;
    for (const auto& [size, first, last] : kBuffers)
      partition.buffers.push_back({"buffer", BufferRole::kActivation, size, first, last});
    partition.trails = {{{Kind::kBuffer, 0}, {Kind::kBuffer, 1}, 112},
                        {{Kind::kBuffer, 1}, {Kind::kBuffer, 4}, 112},
                        {{Kind::kBuffer, 2}, {Kind::kBuffer, 0}, 96}};
    MethodPlan plan;
    plan.calls.emplace_back(DelegateCallPlan{
        .delegate_id = "Fake", .inputs = {}, .outputs = {}, .partition = &partition, .origin = {}});
    const auto map = plan_memory(plan, INT32_MAX, staged);
    ASSERT_TRUE(map);
    EXPECT_EQ(map->arena_bytes, bytes);
    EXPECT_EQ(map->value_bytes, bytes);
  }
}

TEST(MemoryPlanner, RefusesWhatDoesNotFit) {
  DelegatePlan made;
  made.plan.target = "tiny";
  EXPECT_TRUE(plan_memory(made.plan, 2008));
  const auto map = plan_memory(made.plan, 2007);
  ASSERT_FALSE(map);
  EXPECT_EQ(map.error().id, DiagnosticId::kMemoryExceeded);
  EXPECT_NE(map.error().reason.find("2,008"), std::string::npos) << map.error().reason;
  EXPECT_EQ(map.error().place.module_path, "features.0");
}

TEST(MemoryPlanner, InputsLiveFromTheStartAndOutputsToTheEnd) {
  MethodPlan plan = test::small_plan();
  const auto map = plan_memory(plan);
  ASSERT_TRUE(map);
  std::vector<ArenaBuffer> buffers;
  ArenaPlan places;
  for (const MemoryMapEntry& entry : map->entries) {
    buffers.push_back({entry.bytes, 16, entry.first_step, entry.last_step});
    places.offsets.push_back(entry.offset);
    const std::string& name = plan.tensors[entry.index].name;
    if (name == "x") {
      EXPECT_EQ(entry.first_step, 0);
    }
    if (name == "y") {
      EXPECT_EQ(entry.last_step, 4);
    }
    EXPECT_NE(name, "bias");
  }
  places.total = map->arena_bytes;
  test::expect_sound(buffers, places);
}

// An input that only the last of three calls reads, and an output that the first one makes.
TEST(MemoryPlanner, InputsWaitAndOutputsStay) {
  MethodPlan plan{.target = "none", .tool = "test"};
  const Type type{.shape = {1, 25}};
  const TensorRef x = plan.add_tensor({"x", type}), late = plan.add_tensor({"late", type}),
                  early = plan.add_tensor({"early", type}),
                  middle = plan.add_tensor({"middle", type}), y = plan.add_tensor({"y", type});
  plan.calls.emplace_back(KernelCallPlan{"aten::relu.out", {x}, {early}, {}});
  plan.calls.emplace_back(KernelCallPlan{"aten::relu.out", {early}, {middle}, {}});
  plan.calls.emplace_back(KernelCallPlan{"aten::maximum.out", {middle, late}, {y}, {}});
  plan.inputs = {x, late};
  plan.outputs = {early, y};
  const auto map = plan_memory(plan);
  ASSERT_TRUE(map);
  std::map<std::string, std::pair<uint32_t, uint32_t>> steps;
  for (const MemoryMapEntry& entry : map->entries)
    steps[plan.tensors[entry.index].name] = {static_cast<uint32_t>(entry.first_step),
                                             static_cast<uint32_t>(entry.last_step)};
  EXPECT_EQ(
      steps,
      (std::map<std::string, std::pair<uint32_t, uint32_t>>{
          {"early", {0, 2}}, {"late", {0, 2}}, {"middle", {1, 2}}, {"x", {0, 0}}, {"y", {2, 2}}}));
}

// ---- Writer and reader ----

std::vector<std::byte> delegate_program(bool debug_map = true) {
  DelegatePlan made;
  made.plan.target = "none";
  made.plan.target_hash = 0x1234;
  made.plan.tool = "deuteron test";
  made.plan.source_hash = 42;
  made.plan.named_data.push_back({"shared", std::vector<std::byte>(5, std::byte{9})});
  made.plan.tensors[made.x.index].readers = {{{0}}};
  const auto memory = plan_memory(made.plan);
  EXPECT_TRUE(memory);
  EXPECT_TRUE(encode_payloads(made.plan));
  const auto written = serialize_program(
      made.plan, {.debug_map = debug_map, .io_constants = false, .memory = &*memory});
  EXPECT_TRUE(written);
  EXPECT_EQ(written->sizes.file, static_cast<int64_t>(written->bytes.size()));
  EXPECT_EQ(written->sizes.payloads, 12);
  EXPECT_EQ(written->sizes.debug_map > 0, debug_map);
  return written->bytes;
}

TEST(Writer, SameBytesEachTime) {
  EXPECT_EQ(test::small_program(), test::small_program());
  EXPECT_EQ(delegate_program(), delegate_program());
}

// The committed files are what the writer writes: a change of the format shows. DEUTERON_UPDATE=1
// writes them anew.
TEST(Writer, WritesTheCommittedBytes) {
  const std::string folder = test::source_path("test/data/pte/").string();
  const auto check = [&](const char* name, const std::vector<std::byte>& bytes) {
    if (std::getenv("DEUTERON_UPDATE") != nullptr) {
      ASSERT_TRUE(write_file(folder + name, bytes));
    }
    const auto file = FileContents::read(folder + name);
    ASSERT_TRUE(file);
    EXPECT_TRUE(std::ranges::equal(file->bytes(), bytes)) << name;
  };
  check("small.pte", test::small_program());
  check("delegate.pte", delegate_program());
}

TEST(Writer, ReadsBackAsPlanned) {
  const auto pte_file = PteFile::parse(delegate_program(), "test.pte");
  ASSERT_TRUE(pte_file) << to_text(pte_file.error());
  EXPECT_EQ(pte_file->file().checksum(), pte::VerifiedFile::Checksum::kGood);
  const pte::Manifest& manifest = *pte_file->file().manifest();
  EXPECT_EQ(manifest.target_hash, 0x1234u);
  EXPECT_EQ(manifest.sram_bytes, 2008u);
  EXPECT_EQ(manifest.max_live_bytes, 2000u);
  EXPECT_EQ(manifest.source_hash, 42u);
  EXPECT_STREQ(manifest.target, "none");
  EXPECT_EQ(pte_file->file().named_data("shared").size(), 5u);
  EXPECT_TRUE(pte_file->file().named_data("missing").empty());
  EXPECT_EQ(io_names(*pte_file->file().program().execution_plan()->Get(0)),
            (std::vector<std::string>{"x"}));
  EXPECT_EQ(io_names(*pte_file->file().program().execution_plan()->Get(0), true),
            (std::vector<std::string>{"y"}));

  const pte::ExecutionPlan& plan = *pte_file->file().program().execution_plan()->Get(0);
  EXPECT_EQ(plan.name()->str(), "forward");
  EXPECT_EQ(plan.non_const_buffer_sizes()->Get(1), 2008);
  ASSERT_EQ(plan.delegates()->size(), 1u);
  EXPECT_EQ(pte_file->file().payload(*plan.delegates()->Get(0)).size(), 12u);
  // Input, output, scratch.
  const auto& call = *plan.chains()->Get(0)->instructions()->Get(0)->instr_args_as_DelegateCall();
  ASSERT_EQ(call.args()->size(), 3u);
  EXPECT_EQ(pte::tensor_bytes(
                *plan.values()->Get(static_cast<uint32_t>(call.args()->Get(2)))->val_as_Tensor()),
            2008u);
}

TEST(Writer, DebugMapNamesOriginsAndPlaces) {
  const auto pte_file = PteFile::parse(delegate_program(), "test.pte");
  ASSERT_TRUE(pte_file);
  const pte::DebugMap& map = *pte_file->debug_map();
  ASSERT_EQ(map.calls()->size(), 1u);
  EXPECT_EQ(map.calls()->Get(0)->origin()->sources()->size(), 2u);
  const pte::DebugStep& step = *map.calls()->Get(0)->steps()->Get(0);
  EXPECT_EQ(step.kernel()->str(), "Conv2d");
  EXPECT_EQ(step.macs(), 77);
  int lost = 0;
  for (const pte::DebugTensor* tensor : *map.tensors()) {
    if (tensor->name()->str() == "inner") {
      EXPECT_TRUE(tensor->in_delegate());
      EXPECT_EQ(tensor->call(), 0);
      EXPECT_EQ(tensor->step(), 1u);
      EXPECT_EQ(tensor->scales()->Get(0), 0.5f);
      EXPECT_EQ(tensor->zero_points()->Get(0), 1);
    }
    if (tensor->name()->str() == "before y") {
      EXPECT_TRUE(tensor->in_delegate());
      EXPECT_EQ(tensor->step(), 1u);
      const auto& values = *pte_file->file().program().execution_plan()->Get(0)->values();
      for (const pte::DebugTensor* other : *map.tensors()) {
        if (other->name()->str() != "y") continue;
        EXPECT_EQ(tensor->offset(), values.Get(static_cast<uint32_t>(other->value()))
                                        ->val_as_Tensor()
                                        ->allocation_info()
                                        ->memory_offset_low());
      }
    }
    if (tensor->name()->str() == "x") {
      EXPECT_EQ(tensor->call(), -1);
      ASSERT_EQ(tensor->readers()->size(), 1u);
      EXPECT_EQ(tensor->readers()->Get(0)->sources()->Get(0), 0u);
    }
    if (tensor->name()->str() == "y") {
      EXPECT_EQ(tensor->step(), 2u);
    }
    lost += tensor->value() < 0 && !tensor->in_delegate() ? 1 : 0;
  }
  EXPECT_EQ(lost, 1);
  // Steps 0 to 2 are the delegate's; b is made while a is still read, so that one of them lies
  // beside x or y.
  std::map<std::string, std::pair<uint32_t, uint32_t>> live;
  for (const pte::DebugBuffer* buffer : *map.buffers()) {
    live[buffer->name()->str()] = {buffer->first_step(), buffer->last_step()};
    EXPECT_EQ(buffer->bytes(), 1000u);
    EXPECT_FALSE(buffer->staged());
  }
  EXPECT_EQ(live, (std::map<std::string, std::pair<uint32_t, uint32_t>>{
                      {"a", {0, 1}}, {"b", {1, 2}}, {"x", {0, 0}}, {"y", {2, 2}}}));

  const auto stripped = PteFile::parse(delegate_program(false), "test.pte");
  ASSERT_TRUE(stripped);
  EXPECT_EQ(stripped->debug_map(), nullptr);
}

TEST(Writer, EqualConstantsAreStoredOnceAndInTheirLayout) {
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto bytes = std::as_bytes(std::span(values));
  MethodPlan plan;
  const Type contiguous{.shape = {1, 2, 3, 4}};
  const Type channels_last{.shape = {1, 2, 3, 4}, .layout = Layout::kChannelsLast};
  const TensorRef a = plan.add_tensor({"a", contiguous, bytes});
  const TensorRef b = plan.add_tensor({"b", contiguous, bytes});
  const TensorRef c = plan.add_tensor({"c", channels_last, bytes});
  const TensorRef y = plan.add_tensor({"y", contiguous});
  const TensorRef z = plan.add_tensor({"z", contiguous});
  plan.calls.emplace_back(KernelCallPlan{"aten::add.out", {a, b, int64_t{1}}, {y}, {}});
  plan.calls.emplace_back(KernelCallPlan{"aten::add.out", {c, c, int64_t{1}}, {z}, {}});
  plan.outputs = {y, z};
  ASSERT_TRUE(plan_memory(plan));
  const auto written = serialize_program(plan);
  ASSERT_TRUE(written);
  EXPECT_EQ(written->sizes.constants, 2 * 96);
  const auto pte_file = PteFile::parse(written->bytes, "test.pte");
  ASSERT_TRUE(pte_file);
  const pte::ExecutionPlan& read = *pte_file->file().program().execution_plan()->Get(0);
  const auto& call = *read.chains()->Get(0)->instructions()->Get(1)->instr_args_as_KernelCall();
  const pte::Tensor& stored =
      *read.values()->Get(static_cast<uint32_t>(call.args()->Get(0)))->val_as_Tensor();
  float first[4];
  std::memcpy(first, pte_file->file().constant(stored.data_buffer_idx()).data(), sizeof first);
  EXPECT_EQ(first[0], 0.0f);
  EXPECT_EQ(first[1], 12.0f);  // channel 1 of the first position
  EXPECT_EQ(first[2], 1.0f);
}

// Methods run in turn in one arena; what each keeps from run to run has its own place.
TEST(Writer, MethodsShareTheArenaAndKeepTheirStates) {
  MethodPlan first = test::small_plan(), second = test::small_plan();
  for (MethodPlan* plan : {&first, &second}) ASSERT_TRUE(plan_memory(*plan));
  first.method = "first";
  first.arena_bytes += 4096;
  first.state_bytes = 48;
  second.method = "second";
  second.max_live_bytes = first.max_live_bytes + 64;
  second.state_bytes = 16;
  const MethodToWrite methods[] = {{&first}, {&second}};
  const auto written = serialize_program(methods);
  ASSERT_TRUE(written);
  const auto pte_file = PteFile::parse(written->bytes, "test.pte");
  ASSERT_TRUE(pte_file) << to_text(pte_file.error());
  const pte::Manifest& manifest = *pte_file->file().manifest();
  EXPECT_EQ(manifest.sram_bytes, static_cast<uint64_t>(first.arena_bytes) + 64);
  EXPECT_EQ(manifest.max_live_bytes, static_cast<uint64_t>(second.max_live_bytes) + 64);
}

TEST(Writer, RefusesWhatTheFormatCannotHold) {
  MethodPlan plan;
  plan.outputs = {plan.add_tensor({"huge", {.shape = {int64_t{1} << 33, 0}}})};
  const auto written = serialize_program(plan);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().id, DiagnosticId::kProgramTooLarge);
  EXPECT_NE(written.error().reason.find("huge"), std::string::npos);
}

TEST(Writer, LeavesNoFileBehindWhenItFails) {
  MethodPlan plan = test::small_plan();
  ASSERT_TRUE(plan_memory(plan));
  const auto written = write_program(plan, "/nonexistent/folder/x.pte");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().id, DiagnosticId::kFileNotWritable);
}

TEST(Reader, TakesNoOtherMethodThanTheNamedOne) {
  MethodPlan plan = test::small_plan();
  plan.method = "decode";
  ASSERT_TRUE(plan_memory(plan));
  const auto written = serialize_program(plan);
  ASSERT_TRUE(written);
  auto pte_file = PteFile::parse(written->bytes, "test.pte");
  ASSERT_TRUE(pte_file) << to_text(pte_file.error());
  EXPECT_TRUE(pte_file->select({}));  // the only one
  EXPECT_EQ(pte_file->method(), "decode");
  EXPECT_TRUE(pte_file->select("decode"));
  const Result<void> other = pte_file->select("forward");
  ASSERT_FALSE(other);
  EXPECT_EQ(to_text(other.error()),
            "error[pte-missing-method]: test.pte: the program has no method `forward`\n"
            "  fix: give one of them with --method: decode");
}

TEST(Reader, Describes) {
  const auto pte_file = PteFile::parse(delegate_program(), "test.pte");
  ASSERT_TRUE(pte_file);
  const std::string text = describe_program(
      *pte_file, {.describe_payload = [](std::string_view id, std::span<const std::byte> payload) {
        return std::string(id) + " listing " + std::to_string(payload.size());
      }});
  for (const char* part :
       {"checksum good", "target none (hash 00001234)", "input 0: %0 `x` i8[1,1000]",
        "delegate 0: Fake, 12 bytes", "Fake listing 12", "conv features.0 (model.py:7), add",
        "Conv2d, 77 MACs, 5 cycles, array", "1 lost to fusion", "memory 1: 2008 bytes",
        "deuteron.checksum", "5 bytes shared"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  const auto small = PteFile::parse(test::small_program(), "small.pte");
  ASSERT_TRUE(small);
  const std::string listing = describe_program(*small);
  EXPECT_NE(listing.find(
                "max_pool2d_with_indices.out(%10 `real`, [2, 2], [2, 2], [0, 0], [1, 1], false,"),
            std::string::npos)
      << listing;
}

// Puts the right checksum back after a change.
void fix_checksum(std::vector<std::byte>& bytes) {
  const uint32_t crc = crc32_with_hole(bytes, bytes.size() - 4);
  std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
}

DiagnosticId parse_error(std::vector<std::byte> bytes) {
  const auto pte_file = PteFile::parse(bytes, "bad.pte");
  EXPECT_FALSE(pte_file);
  if (!pte_file) {
    EXPECT_EQ(pte_file.error().place.file, "bad.pte");
  }
  return pte_file ? DiagnosticId::kIrInvalid : pte_file.error().id;
}

TEST(Reader, NamesWhatIsWrong) {
  std::vector<std::byte> bytes = delegate_program();
  bytes[6] = std::byte{'9'};
  EXPECT_EQ(parse_error(bytes), DiagnosticId::kPteNewerVersion);
  bytes[4] = std::byte{'X'};
  EXPECT_EQ(parse_error(bytes), DiagnosticId::kPteNotAProgram);
  bytes = delegate_program();
  bytes[bytes.size() / 2] ^= std::byte{1};
  EXPECT_NE(parse_error(bytes), DiagnosticId::kIrInvalid);
  EXPECT_EQ(parse_error({}), DiagnosticId::kPteTruncated);
  EXPECT_EQ(PteFile::open("/nonexistent.pte").error().id, DiagnosticId::kFileNotFound);

  // A newer manifest, and a change in the last payload byte: found by the checksum alone.
  bytes = delegate_program();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t manifest = text.find("DTRM");
  ASSERT_NE(manifest, std::string_view::npos);
  bytes[manifest + 4] = std::byte{2};
  EXPECT_EQ(parse_error(bytes), DiagnosticId::kPteChecksum);
  fix_checksum(bytes);
  EXPECT_EQ(parse_error(bytes), DiagnosticId::kPteNewerVersion);

  // A debug map that names a value beyond the plan.
  bytes = delegate_program();
  const size_t map =
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).find("DTRD");
  ASSERT_NE(map, std::string_view::npos);
  bytes[map - 4] = std::byte{0xFF};
  bytes[map - 3] = std::byte{0xFF};
  fix_checksum(bytes);
  EXPECT_EQ(parse_error(bytes), DiagnosticId::kPteDebugMap);
}

TEST(Reader, EveryTruncationIsAnError) {
  const std::vector<std::byte> bytes = delegate_program();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(PteFile::parse(std::span(bytes).first(size), "cut.pte")) << size;
  }
}

// One row per error of loader and runtime, each with its own sentence.
TEST(Reader, EveryErrorHasADiagnostic) {
  using pte::Error;
  const auto id = [](Error error) { return to_diagnostic({error}, "x.pte").id; };
  EXPECT_EQ(id(Error::kMalformed), DiagnosticId::kPteMalformed);
  EXPECT_EQ(id(Error::kUnsupported), DiagnosticId::kPteUnsupported);
  EXPECT_EQ(id(Error::kWrongTarget), DiagnosticId::kPteWrongTarget);
  EXPECT_EQ(id(Error::kMissingMethod), DiagnosticId::kPteMissingMethod);
  EXPECT_EQ(id(Error::kMissingKernel), DiagnosticId::kPteMissingKernel);
  EXPECT_EQ(id(Error::kMissingDelegate), DiagnosticId::kPteMissingDelegate);
  EXPECT_EQ(id(Error::kMissingData), DiagnosticId::kConstantsMissing);
  EXPECT_EQ(id(Error::kInputShape), DiagnosticId::kRunInput);
  EXPECT_EQ(id(Error::kArenaTooSmall), DiagnosticId::kRunMemory);
  EXPECT_EQ(id(Error::kDelegateFailed), DiagnosticId::kRunFailed);
  EXPECT_NE(to_diagnostic({Error::kKernelIndex}, "x.pte").fix.find("index.clamp"),
            std::string::npos);
  for (int error = 1; error <= static_cast<int>(pte::kLastError); ++error) {
    EXPECT_FALSE(to_diagnostic({static_cast<Error>(error)}, "x.pte").fix.empty());
    EXPECT_STRNE(pte::text(static_cast<Error>(error)), pte::text(static_cast<Error>(error - 1)));
  }
}

TEST(Crc32, MatchesTheStandardAndSkipsTheHole) {
  const std::string_view digits = "123456789";
  const auto bytes = std::as_bytes(std::span(digits));
  EXPECT_EQ(crc32(bytes), 0xCBF43926u);  // check value of CRC-32/ISO-HDLC
  EXPECT_EQ(crc32(bytes.subspan(4), crc32(bytes.first(4))), 0xCBF43926u);
  std::vector<std::byte> holed(bytes.begin(), bytes.end());
  std::fill_n(holed.begin() + 2, 4, std::byte{0});
  EXPECT_EQ(crc32_with_hole(bytes, 2), crc32(holed));
}

// Bit by bit, of any length: hosts take 16 bytes a step, and the rest one by one.
TEST(Crc32, IsThatOfEachBit) {
  std::vector<std::byte> bytes;
  uint32_t crc = ~0U;
  for (uint32_t i = 0; i < 70; ++i) {
    ASSERT_EQ(crc32(bytes), ~crc) << i << " bytes";
    const auto byte = static_cast<std::byte>(i * 37 + i / 7);
    bytes.push_back(byte);
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
  }
}

// ---- Payloads of NeutronBackend ----

std::vector<std::byte> neutron_microcode(uint8_t version, uint32_t weights, uint32_t inputs,
                                         uint32_t outputs) {
  std::vector<uint32_t> words(16, 0);
  words[0] = 0x64434D6E;
  words[6] = 64;
  words[7] = weights;
  words[9] = 1000;
  words[version == 0 ? 10 : 12] = 2000;
  if (version == 1) words[10] = 0x80000000U | 48U, words[11] = 7;
  words[version == 0 ? 11 : 13] = inputs;
  words[version == 0 ? 12 : 14] = outputs;
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

TEST(NeutronPayload, HeaderAndAlignmentAreThoseOfExecuTorch) {
  const std::vector<std::byte> weights(5, std::byte{0x22}), kernels(3, std::byte{0x33});
  const std::vector<std::byte> microcode = neutron_microcode(0, 5, 1, 1);
  NeutronPayload payload{.inputs = {{true, 0}}, .outputs = {{true, 0}}, .input_arguments = 1};
  payload.microcode = microcode, payload.weights = weights, payload.kernels = kernels;
  const std::vector<std::byte> bytes = pack(payload);
  ASSERT_EQ(bytes.size(), 16u + 64 + 16 + 16);
  const uint8_t header[16] = {1, 1, 1, 1, 1};
  EXPECT_EQ(std::memcmp(bytes.data(), header, 16), 0);
  EXPECT_EQ(bytes[17], std::byte{0x4D});
  EXPECT_EQ(bytes[80], std::byte{0x22});
  EXPECT_EQ(bytes[85], std::byte{0});
  EXPECT_EQ(bytes[96], std::byte{0x33});

  payload.inputs = {{false, 1}, {true, 0}};
  payload.outputs = {{false, 0}};
  payload.input_arguments = 2;
  payload.version = 1;
  const std::vector<std::byte> second = neutron_microcode(1, 5, 2, 1);
  payload.microcode = second;
  const std::vector<std::byte> packed = pack(payload);
  const uint8_t longer[16] = {2, 1, 2, 0, 1, 0, 1, 0, 0, 1};
  EXPECT_EQ(std::memcmp(packed.data(), longer, 16), 0);
  const auto parsed = parse_neutron_payload(packed);
  ASSERT_TRUE(parsed) << to_text(parsed.error());
  EXPECT_EQ(parsed->inputs, payload.inputs);
  EXPECT_EQ(parsed->outputs, payload.outputs);
  EXPECT_EQ(parsed->weights.size(), 5u);
  EXPECT_EQ(parsed->kernels.size(), 16u);
  EXPECT_EQ(describe_neutron_payload(packed),
            "NeutronBackend version 1, 2 input arguments\n"
            "input 0: argument 1, as it is\n"
            "input 1: argument 0, channels_last\n"
            "output 0: argument 2, as it is\n"
            "microcode 64 bytes, weights 5 bytes, kernels 16 bytes\n"
            "scratch 1000 bytes, SRAM scratch 2000, profile 48, debug 7");
}

TEST(NeutronPayload, RefusesWhatDoesNotFit) {
  const std::vector<std::byte> microcode = neutron_microcode(0, 40, 1, 1), weights(40);
  NeutronPayload payload{.inputs = {{false, 0}}, .outputs = {{false, 0}}, .input_arguments = 1};
  payload.microcode = microcode, payload.weights = weights;
  const std::vector<std::byte> good = pack(payload);
  const auto reason = [](std::span<const std::byte> bytes) {
    const auto parsed = parse_neutron_payload(bytes);
    EXPECT_TRUE(parsed || parsed.error().id == DiagnosticId::kPteMalformed);
    return parsed ? std::string() : parsed.error().reason;
  };
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<std::byte> bytes = good;
    bytes[at] = std::byte{value};
    return reason(bytes);
  };
  EXPECT_EQ(reason(good), "");
  EXPECT_EQ(reason({}), "the payload of NeutronBackend has no header");
  EXPECT_EQ(with(0, 200),
            "the payload of NeutronBackend ends within the header of 200 inputs and 1 outputs");
  EXPECT_EQ(with(3, 2), "the payload of NeutronBackend gives operand 0 the unknown format 2");
  EXPECT_EQ(with(5, 1), "the payload of NeutronBackend takes argument 1 of 1 as input");
  EXPECT_EQ(with(7, 2), "the payload of NeutronBackend has the unknown version 2");
  EXPECT_EQ(
      with(16, 0),
      "the payload of NeutronBackend has microcode that begins with 64434d00 instead of 64434d6e");
  EXPECT_EQ(with(16 + 4 * 11, 3),
            "the payload of NeutronBackend has 1 inputs and 1 outputs, its microcode 3 and 1");
  EXPECT_EQ(with(16 + 4 * 7, 90),
            "the payload of NeutronBackend has 112 bytes behind its header, microcode and weights "
            "need 64 and 90");
  EXPECT_EQ(reason(std::span(good).first(40)),
            "the payload of NeutronBackend ends within the microcode");
  for (size_t size = 0; size < good.size(); ++size) (void)reason(std::span(good).first(size));
}

}  // namespace
}  // namespace dtr
