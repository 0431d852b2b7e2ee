// The recorder of the device's runtime and what becomes of its records: clocks that begin at 0
// again, runs that end in the middle, files that are damaged.
#include "host/profiler/records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "compiler/ir/parser.h"
#include "compiler/pipeline/compile.h"
#include "device/runtime/delegate_deuteron.h"
#include "device/runtime/environment.h"
#include "device/runtime/profiler.h"
#include "host/profiler/etdump.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "host/simulator/host_simulator.h"
#include "test/unit/plan_builder.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using npu::ProfileEvent;
using npu::ProfileHeader;
using npu::ProfileRecord;
using runtime::Profiler;
using test::AlignedCopy;

constexpr uint64_t kPast32Bits = uint64_t{1} << 32;

const std::vector<std::byte>& digits() {
  static const std::vector<std::byte> pte = [] {
    std::ifstream file(test::source_path("test/golden/digits_cnn.ir"));
    Result<Module> program =
        parse_module(std::string(std::istreambuf_iterator<char>(file), {}), "golden.ir");
    return std::move(
        compile_model(std::move(*program), {.target = find_target("imxrt700")})->written.bytes);
  }();
  return pte;
}

// The runtime as a firmware has it: quantize, a partition of the NPU, dequantize. What goes wrong
// is the test's choice.
class Device {
 public:
  explicit Device(size_t events, uint64_t first_reading = 0,
                  uint32_t clock_bits = npu::kProfileTimeBits)
      : clock(first_reading),
        records_(events),
        profiler(records_,
                 {[](void* self) { return tick(*static_cast<Device*>(self)); }, this, clock_bits}),
        clock_bits_(clock_bits),
        bytes_(digits()) {
    context_.driver = {this,
                       [](void* self, const void* payload, size_t bytes, uint32_t* handle) {
                         const npu::Driver& driver = static_cast<Device*>(self)->driver_;
                         return driver.prepare(driver.context, payload, bytes, handle);
                       },
                       run_npu,
                       [](void* self, uint32_t handle) {
                         const npu::Driver& driver = static_cast<Device*>(self)->driver_;
                         driver.unprepare(driver.context, handle);
                       }};
    context_.on_event = Profiler::on_npu_event, context_.event_context = &profiler;
    const runtime::Delegate delegate = runtime::deuteron_delegate(context_);
    kernels_.assign(dtr_host_environment()->options.kernels.begin(),
                    dtr_host_environment()->options.kernels.end());
    for (runtime::Kernel& kernel : kernels_)
      if (kernel.name == "quantized_decomposed::dequantize_per_tensor.out")
        kernel.function = dequantize;
    delegates_[0] = delegate;
    EXPECT_TRUE(runtime::Program::load(bytes_.bytes(),
                                       {.kernels = kernels_, .delegates = delegates_}, &program_)
                    .ok());
    EXPECT_TRUE(method_.prepare(program_).ok());
  }

  // One run; `steps` of it until the observer ends it.
  pte::Status run(uint32_t steps = UINT32_MAX) {
    profiler.clear();
    steps_ = steps;
    const runtime::Tensor& input = *method_->input_tensor(0);
    const std::vector<std::byte> zeros(input.bytes());
    EXPECT_TRUE(
        method_
            ->set_input(0, {zeros.data(), zeros.size(), input.dtype, input.shape(), input.order()})
            .ok());
    const runtime::Observer observer{this, before, after};
    const size_t whole = profiler.start(ProfileEvent::kRun);
    const pte::Status status = method_->run(&observer);
    if (status.ok()) profiler.stop(whole);
    return status;
  }

  // What the host makes of its records.
  Trace trace(const pte::Status& status) {
    const auto pte_file = PteFile::parse(digits(), "digits.pte");
    ProfileHeader header = profiler.header();
    header.unit = npu::ProfileUnit::kInstructions;
    header.error = static_cast<uint8_t>(status.error);
    Trace trace{.program = trace_source(*pte_file)};
    add_records(trace, header, profiler.records(), *pte_file);
    return trace;
  }

  uint64_t clock;
  uint64_t step = 10;                // of the clock, from reading to reading
  uint32_t npu_events = UINT32_MAX;  // that a call makes before it times out
  bool kernel_fails = false;
  uint64_t npu_cycles = 0;  // of the last call, which the clock shows

 private:
  std::vector<ProfileRecord> records_;

 public:
  Profiler profiler;

 private:
  static uint64_t tick(Device& device) {
    device.clock += device.step;
    return device.clock_bits_ < 64 ? device.clock & ((uint64_t{1} << device.clock_bits_) - 1)
                                   : device.clock;
  }
  static bool before(void* self, const runtime::Method& method, uint32_t step) {
    auto& device = *static_cast<Device*>(self);
    if (step >= device.steps_) return false;
    failing = device.kernel_fails;
    return device.profiler.observer().before(&device.profiler, method, step);
  }
  static void after(void* self, const runtime::Method& method, uint32_t step) {
    auto& device = *static_cast<Device*>(self);
    if (method.is_delegate(step))
      device.clock += device.npu_cycles = device.context_.report.total_cycles;
    device.profiler.observer().after(&device.profiler, method, step);
  }
  static npu::Report run_npu(void* self, uint32_t handle, const npu::Buffer* operands,
                             uint32_t count, npu::Buffer scratch,
                             void (*on_event)(void* context, const npu::Event& event),
                             void* event_context) {
    struct Few {
      uint32_t left;
      void (*on_event)(void* context, const npu::Event& event);
      void* context;
    } few{static_cast<Device*>(self)->npu_events, on_event, event_context};
    const npu::Driver& driver = static_cast<Device*>(self)->driver_;
    npu::Report report = driver.run(
        driver.context, handle, operands, count, scratch,
        [](void* context, const npu::Event& event) {
          auto& some = *static_cast<Few*>(context);
          if (some.left > 0 && some.left-- > 0) some.on_event(some.context, event);
        },
        &few);
    if (few.left == 0) report.status = npu::Status::kTimeout;
    return report;
  }
  static pte::Error dequantize(std::span<runtime::Value* const>) {
    return failing ? pte::Error::kKernelArguments : pte::Error::kOk;
  }
  static inline bool failing = false;

  uint32_t clock_bits_;
  uint32_t steps_ = UINT32_MAX;
  simulator::HostSimulator simulator_{find_target("imxrt700")->npu, simulator::best_kernel_set()};
  npu::Driver driver_ = simulator_.driver();
  AlignedCopy bytes_;
  runtime::DeuteronContext context_;
  runtime::Delegate delegates_[1];
  std::vector<runtime::Kernel> kernels_;
  runtime::Program program_;
  test::PreparedMethod method_;
};

constexpr size_t kRoom = 64;

TEST(Records, AClockThatBeginsAgainIsNoticed) {
  Device plain(kRoom), wraps(kRoom, kPast32Bits - 25, 32),
      wraps_40(kRoom, (uint64_t{1} << 40) - 45);
  const pte::Status good = plain.run();
  ASSERT_TRUE(good.ok() && wraps.run().ok() && wraps_40.run().ok());
  const Trace expected = plain.trace(good);
  ASSERT_TRUE(expected.runs[0].complete);
  EXPECT_EQ(wraps.trace(good).runs, expected.runs);
  EXPECT_EQ(wraps_40.trace(good).runs, expected.runs);
}

// Each reading is nearly a whole turn of the counter behind the one before; those of lost events
// count too.
TEST(Records, ManyTurnsOfAClock) {
  Device whole(kRoom, 5, 32), few(3, 5, 32);
  whole.step = few.step = kPast32Bits - 100'000;
  const pte::Status good = whole.run();
  ASSERT_TRUE(good.ok() && few.run().ok());
  const Trace all = whole.trace(good), oldest = few.trace(good);
  EXPECT_EQ(all.runs[0].events[0].end, 7 * (kPast32Bits - 100'000) + whole.npu_cycles);
  EXPECT_EQ(oldest.runs[0].lost + 3, all.runs[0].events.size());
  EXPECT_EQ(oldest.runs[0].events[0], all.runs[0].events[0]);
}

void expect_partial(const Trace& trace, std::string_view why) {
  const Result<Trace> read = parse_etdump(to_etdump(trace), "trace.etdump");
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->runs[0].events.size(), trace.runs[0].events.size());
  EXPECT_EQ(read->runs[0].error, trace.runs[0].error);
  EXPECT_EQ(read->unit, trace.unit);
  const Profile profile = make_profile(*read, {}, "");
  EXPECT_EQ(spent(profile).total(), profile.total);
  const std::string text = to_text(profile, {});
  EXPECT_NE(text.find(fmt::format("PARTIAL: {}\n", why)), std::string::npos) << text;
}

TEST(Records, WhatEndsARunLeavesThePartBefore) {
  Device device(kRoom);
  const pte::Status good = device.run();
  ASSERT_TRUE(good.ok());
  const std::vector<TraceEvent> whole = device.trace(good).runs[0].events;
  const auto first = [&](const Trace& trace, size_t events) {
    ASSERT_EQ(trace.runs[0].events.size(), events);
    EXPECT_FALSE(trace.runs[0].complete);
    for (size_t i = 1; i < events; ++i) {
      EXPECT_EQ(trace.runs[0].events[i].name, whole[i].name);
      EXPECT_EQ(trace.runs[0].events[i].start, whole[i].start);
    }
  };

  pte::Status status = device.run(1);
  EXPECT_EQ(status.error, pte::Error::kStopped);
  first(device.trace(status), 2);
  expect_partial(device.trace(status), "the run did not end: the observer ended the run");

  device.npu_events = 3;
  status = device.run();
  EXPECT_EQ(status.error, pte::Error::kDelegateFailed);
  EXPECT_EQ(status.detail, static_cast<uint32_t>(npu::Status::kTimeout));
  first(device.trace(status), 6);  // run, quantize, delegate, three commands
  expect_partial(device.trace(status),
                 fmt::format("the run did not end: {}", pte::text(pte::Error::kDelegateFailed)));

  device.npu_events = UINT32_MAX;
  device.kernel_fails = true;
  status = device.run();
  EXPECT_EQ(status.error, pte::Error::kKernelArguments);
  first(device.trace(status), whole.size());
  expect_partial(device.trace(status),
                 fmt::format("the run did not end: {}", pte::text(pte::Error::kKernelArguments)));

  device.kernel_fails = false;  // and the next run is whole
  EXPECT_TRUE(device.run().ok());
  EXPECT_EQ(device.trace(good).runs[0].events, whole);
}

TEST(Records, OnlyWhatHadRoomIsTold) {
  Device device(kRoom);
  const pte::Status good = device.run();
  ASSERT_TRUE(good.ok());
  const Trace whole = device.trace(good);
  const size_t events = whole.runs[0].events.size();
  for (size_t room = 0; room < events; ++room) {
    Device small(room);
    ASSERT_TRUE(small.run().ok());
    const Trace trace = small.trace(good);
    EXPECT_EQ(trace.runs[0].lost, events - room);
    EXPECT_TRUE(
        std::ranges::equal(trace.runs[0].events, std::span(whole.runs[0].events).first(room)));
    const Profile profile = make_profile(trace, {}, "");
    EXPECT_EQ(spent(profile).total(), profile.total);
    EXPECT_NE(
        to_text(profile, {}).find(fmt::format("PARTIAL: {} events found no room", events - room)),
        std::string::npos);
  }
}

TEST(Records, RehearsingLeavesNothing) {
  for (const size_t room : {size_t{0}, size_t{1}, size_t{7}, kRoom}) {
    std::vector<ProfileRecord> records(room);
    uint64_t readings = 0;
    Profiler profiler(records,
                      {[](void* count) { return ++*static_cast<uint64_t*>(count); }, &readings});
    profiler.record_and_discard(5, 20);
    EXPECT_EQ(readings, 10u);  // start and stop of a call; commands have times
    EXPECT_EQ(profiler.records().size(), 0u);
    EXPECT_EQ(profiler.lost(), 0u);
  }
}

// On this machine: load and init are measured, the cost of recording too, and neither is part of
// the cycles.
TEST(Records, AHostsOwnTimesStandApart) {
  const auto session = Session::load(digits(), "digits.pte");
  ASSERT_TRUE(session);
  const Result<Trace> trace = record_zeros(**session);
  ASSERT_TRUE(trace);
  const Result<Trace> read = parse_etdump(to_etdump(*trace), "trace.etdump");
  ASSERT_TRUE(read);
  for (const Trace* each : {&*trace, &*read}) {
    EXPECT_EQ(each->own_unit(), "ns");
    EXPECT_GT(each->cost.event, 0);
    EXPECT_EQ(each->cost.events, trace->runs[0].events.size());
    EXPECT_GT(each->cost.run, 0);
    EXPECT_GT(each->planned_bytes, 0u);
    EXPECT_GT(each->used_bytes, 0u);
    EXPECT_LE(each->used_bytes, each->planned_bytes);
    const Profile profile = make_profile(*each, {}, "");
    EXPECT_EQ(profile.total, 82'244u);  // as in test/lit/cli/profile.test
    EXPECT_GT(profile.load.value_or(0), 0u);
    EXPECT_GT(profile.init.value_or(0), 0u);
    const std::string text = to_text(profile, {});
    EXPECT_NE(text.find("before the run: load 0."), std::string::npos) << text;
    EXPECT_NE(text.find(" ms of the computer that simulated\n  recording cost "), std::string::npos)
        << text;
    EXPECT_NE(text.find(" ns per event on the computer that simulated, "), std::string::npos)
        << text;
  }
}

std::vector<std::byte> file_of(const ProfileHeader& header,
                               std::span<const ProfileRecord> records) {
  std::vector<std::byte> bytes(sizeof header + records.size_bytes());
  std::memcpy(bytes.data(), &header, sizeof header);
  std::ranges::copy(std::as_bytes(records), bytes.begin() + sizeof header);
  return bytes;
}

class RecordsFile : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device_.run().ok());
    header_ = device_.profiler.header();
    header_.program = trace_source(pte_file_).checksum;
    header_.unit = npu::ProfileUnit::kInstructions;
    header_.cost = 280, header_.cost_events = 14, header_.planned_bytes = 5000,
    header_.used_bytes = 4000;
  }
  std::string message(std::span<const std::byte> bytes) {
    const auto blocks = parse_blocks(bytes, "profile.bin");
    return blocks ? std::string() : to_text(blocks.error());
  }
  std::string message(const ProfileHeader& header) {
    return message(file_of(header, device_.profiler.records()));
  }
  Result<Trace> read(std::span<const std::byte> bytes) {
    const std::string path = testing::TempDir() + "/records_test.bin";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return read_records(path, pte_file_);
  }

  Device device_{kRoom};
  ProfileHeader header_;
  PteFile pte_file_ = *PteFile::parse(digits(), "digits.pte");
};

TEST_F(RecordsFile, StartAndRunsOfItsProgramAreRead) {
  ProfileRecord start[2] = {};
  start[0].start.event = start[0].stop.event = ProfileEvent::kLoad,
  npu::set_time(start[0].stop, 700);
  start[1].start.event = start[1].stop.event = ProfileEvent::kInit,
  npu::set_time(start[1].start, 700), npu::set_time(start[1].stop, 950);
  ProfileHeader first = header_, other = header_;
  first.records = 2, first.cost_events = 0;
  other.program ^= 1;  // of another program of the image
  std::vector<std::byte> bytes = file_of(first, start);
  for (const ProfileHeader& header : {header_, other, header_}) {
    std::ranges::copy(file_of(header, device_.profiler.records()), std::back_inserter(bytes));
  }
  const Result<Trace> trace = read(bytes);
  ASSERT_TRUE(trace) << to_text(trace.error());
  EXPECT_EQ(trace->runs.size(), 2u);
  EXPECT_EQ(trace->own_unit(), "instructions");
  EXPECT_EQ(trace->planned_bytes, 5000u);
  EXPECT_EQ(trace->used_bytes, 4000u);
  const std::string text = to_text(make_profile(*trace, {}, ""), {});
  EXPECT_NE(text.find(", counted instructions)"), std::string::npos) << text;
  EXPECT_NE(text.find("  before the run: load 700 instructions, init 250 instructions\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  recording cost 20 instructions per event, "), std::string::npos) << text;
}

TEST_F(RecordsFile, DamageIsSaid) {
  constexpr std::string_view kFix = "\n  fix: take it from the device again, whole";
  const auto says = [&](std::string_view reason) {
    return fmt::format("error[trace-damaged]: profile.bin: at byte 0: {}{}", reason, kFix);
  };
  const auto changed = [&](auto change) {
    ProfileHeader header = header_;
    change(header);
    return message(header);
  };
  EXPECT_EQ(changed([](ProfileHeader& h) { h.magic = 7; }), says("there is no header of records"));
  EXPECT_EQ(changed([](ProfileHeader& h) { h.version = 9; }),
            says("the records have version 9, this tool reads 1"));
  EXPECT_EQ(changed([](ProfileHeader& h) { h.unit = static_cast<npu::ProfileUnit>(3); }),
            says("the header is damaged"));
  EXPECT_EQ(changed([](ProfileHeader& h) { h.error = 255; }), says("the header is damaged"));
  EXPECT_EQ(changed([](ProfileHeader& h) { h.records = UINT32_MAX; }),
            says(fmt::format("4294967295 records are announced, {} follow",
                             device_.profiler.records().size())));
  const std::vector<std::byte> whole = file_of(header_, device_.profiler.records());
  EXPECT_EQ(message(std::span(whole).first(20)), says("the file ends in a header"));
  EXPECT_EQ(message(whole), "");
}

TEST_F(RecordsFile, WithoutARunOrOfAnotherProgram) {
  EXPECT_NE(to_text(read(std::vector<std::byte>()).error())
                .find("the file has no run\n  fix: let the device finish one, then take it again"),
            std::string::npos);
  const uint32_t mine = header_.program;
  header_.program = 0x1234;
  EXPECT_NE(to_text(read(file_of(header_, device_.profiler.records())).error())
                .find(fmt::format("the records are of program 00001234, digits.pte is {:08x}\n  "
                                  "fix: give the program that is in the image",
                                  mine)),
            std::string::npos);
}

TEST_F(RecordsFile, AnyBitMayBeWrong) {
  const std::vector<std::byte> whole = file_of(header_, device_.profiler.records());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const auto blocks = parse_blocks(bytes, "profile.bin");
    if (!blocks) continue;
    Trace trace{.program = trace_source(pte_file_)};
    for (const ProfileBlock& block : *blocks)
      add_records(trace, block.header, block.records, pte_file_);
    for (const TraceRun& run : trace.runs)
      for (const TraceEvent& event : run.events) ASSERT_LE(event.start, event.end) << "bit " << bit;
    to_text(make_profile(trace, {}, ""), {});
    static_cast<void>(parse_etdump(to_etdump(trace), "trace.etdump"));
  }
}

}  // namespace
}  // namespace dtr
