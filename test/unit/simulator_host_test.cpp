// The host's simulator: every kernel set of kernels gives the core's bytes and cycles for random
// commands, and the watch over memory refuses programs that read what is not there yet.
#include "host/simulator/host_simulator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "device/simulator/simulator.h"
#include "test/unit/simulator_agreement.h"
#include "test/unit/simulator_cases.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::Fault;
using simulator::HostSimulator;
using simulator::KernelSet;
using test::AlignedBytes;
using test::any_channels;
using test::Case;
using test::Generator;
using test::input_bytes;
using test::kTarget;
using test::output_bytes;
using test::Random;

using Scratch = HostSimulator::Scratch;
using test::expect_kernel_sets_agree;
using test::kernel_sets;
using test::Memory;

// Prints the digest of all programs, if it is asked for: scripts/test_aarch64 compares machines.
class PrintedDigest final : public testing::Environment {
 public:
  void TearDown() override {
    if (std::getenv("DEUTERON_DIGEST") != nullptr)
      std::printf("digest %08x\n", static_cast<unsigned>(test::digest()));
  }
};
const testing::Environment* const kDigest =
    testing::AddGlobalTestEnvironment(std::make_unique<PrintedDigest>().release());

class SimulatorKits : public testing::TestWithParam<Generator> {};

TEST_P(SimulatorKits, AgreeWithTheCore) {
  const std::vector<KernelSet> all = kernel_sets();
  ASSERT_GE(all.size(), 2U);
  for (int round = 0; round < GetParam().rounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(round));
    Random random(static_cast<uint32_t>(round));
    Case test_case;
    GetParam().add(random, test_case);
    expect_kernel_sets_agree(test_case, all);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, SimulatorKits,
                         testing::ValuesIn(test::generators().begin(), test::generators().end()),
                         [](const testing::TestParamInfo<Generator>& instance) {
                           return std::string(instance.param.name);
                         });

// Rescaling of accumulators at ties, next to them, and at the ends of 32 bits: an input of 0 leaves
// the bias alone in the accumulator.
void expect_rescaling(uint32_t flags, int32_t highest_shift) {
  std::vector<test::Channel> channels;
  for (int32_t shift = -31; shift <= highest_shift; ++shift)
    for (const int32_t multiplier : {0, 1, 1 << 30, (1 << 30) + 1, INT32_MAX}) {
      const int right = shift < 0 ? -shift : 0;
      for (const int64_t k : {0, 1, 2, 63, 64, 127})
        for (const int64_t nudge : {-1, 0, 1})
          for (const int64_t sign : {-1, 1}) {
            const int64_t tie =
                sign * (((2 * k + 1) << right) + nudge);  // multiplier 2^30 halves it
            channels.push_back(
                {static_cast<int32_t>(std::clamp<int64_t>(tie, INT32_MIN, INT32_MAX)), multiplier,
                 shift});
          }
      for (const int32_t bias : {INT32_MIN, INT32_MIN + 1, INT32_MAX, INT32_MAX - 1, 0})
        channels.push_back({bias, multiplier, shift});
    }
  const auto count = static_cast<uint32_t>(channels.size());
  for (const int32_t zero_point : {0, -128, 127}) {
    Case test_case;
    const Window w = dense({1, 1, 1, 1, 1, 1, count, 1, 1, 1, 1, 1, 1, 0, 0});
    const Address x = test_case.input({0}), y = test_case.builder.output(count),
                  z = test_case.builder.output(count);
    const Address weights = test_case.builder.stage(
        test::pack_conv2d(kTarget, w, Packing::kChannels, std::vector<int8_t>(count, 1)));
    const Address thin =
        test_case.builder.stage(test::pack_depthwise(kTarget, w, std::vector<int8_t>(count, 1)));
    const Address parameters = test_case.builder.stage(test::pack_parameters(kTarget, channels));
    test_case.builder.add(Conv2d{w,
                                 x,
                                 y,
                                 weights,
                                 parameters,
                                 0,
                                 Packing::kChannels,
                                 {zero_point, -128, 127, flags, {}, {}, {}}});
    test_case.builder.add(
        Depthwise{w, x, z, thin, parameters, 0, {zero_point, -100, 99, flags, {}, {}, {}}});
    expect_kernel_sets_agree(test_case, kernel_sets());
  }
}
TEST(SimulatorKitsRescale, TiesAndExtremes) {
  expect_rescaling(0, 31);
  expect_rescaling(kOneRounding, 30);
}

// Larger than one band, and channels that end within a vector.
TEST(SimulatorKitsLarge, BandsAndTails) {
  const std::vector<KernelSet> all = kernel_sets();
  Random random(7);
  for (const uint32_t stride : {1U, 2U}) {
    Case test_case;
    Window w = dense({1, 61, 67, 37, 0, 0, 37, 3, 3, stride, stride, 1, 1, 1, 1});
    w.out_height = (w.in_height - 1) / stride + 1, w.out_width = (w.in_width - 1) / stride + 1;
    w = dense(w);
    const Address x = test_case.input(random.int8(input_bytes(w)));
    const Address y = test_case.builder.output(output_bytes(w)),
                  z = test_case.builder.output(output_bytes(w));
    const Address weights = test_case.builder.stage(
        test::pack_conv2d(kTarget, w, Packing::kChannels, random.int8(37 * 9 * 37)));
    const Address thin =
        test_case.builder.stage(test::pack_depthwise(kTarget, w, random.int8(37 * 9)));
    const Address parameters =
        test_case.builder.stage(test::pack_parameters(kTarget, any_channels(random, 37)));
    test_case.builder.add(
        Conv2d{w, x, y, weights, parameters, 5, Packing::kChannels, {1, -128, 127, 0, {}, {}, {}}});
    test_case.builder.add(Depthwise{w, x, z, thin, parameters, 5, {1, -128, 127, 0, {}, {}, {}}});
    expect_kernel_sets_agree(test_case, all);
  }
}

// ---- The watch over memory.

// A pointwise convolution whose weights and parameters come from flash; `edit` may change the parts
// before they are put together.
struct Staged {
  Case test_case;
  Window w = dense({1, 2, 2, 8, 2, 2, 8, 1, 1, 1, 1, 1, 1, 0, 0});
  Address x, y, weights, parameters, constant;
  bool wait = true;
  Staged() {
    x = test_case.input(std::vector<int8_t>(32, 1));
    y = test_case.builder.output(32);
    weights = test_case.builder.scratch(64), parameters = test_case.builder.scratch(96);
    constant = test_case.builder.constant(std::vector<std::byte>(160));
  }
  Conv2d conv() const {
    return {w, x, y, weights, parameters, 0, Packing::kChannels, {0, -128, 127, 0, {}, {}, {}}};
  }
  void load(bool wait_for_parameters = true) {
    test_case.builder.copy(weights, constant, 64);
    test_case.builder.copy(parameters, {constant.region, constant.offset + 64}, 96);
    test_case.builder.add(Wait{wait_for_parameters ? 2U : 1U});
  }
  Report run() {
    const AlignedBytes payload = test_case.builder.build();
    HostSimulator host(kTarget);
    uint32_t handle = 0;
    const Fault fault = host.prepare(payload.bytes(), handle);
    if (fault.status != Status::kOk) return {fault.status, fault.command};
    Memory memory(test_case);
    return host.run(handle, memory.buffers(), memory.scratch.buffer());
  }
};

TEST(SimulatorWatch, AcceptsAGoodProgram) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  const Report report = program.run();
  EXPECT_EQ(report.status, Status::kOk) << text(report.status);
  EXPECT_EQ(report.peak_scratch_bytes, 160U);
}

TEST(SimulatorWatch, RefusesAMissingWait) {
  Staged program;
  program.load(false);
  program.test_case.builder.add(program.conv());
  const Report report = program.run();
  EXPECT_EQ(report.status, Status::kReadsInFlight);
  EXPECT_EQ(report.command, 3U);
}

TEST(SimulatorWatch, RefusesAShiftedAddress) {
  Staged program;
  program.load();
  Conv2d conv = program.conv();
  conv.parameters.offset += 16;  // beyond scratch
  program.test_case.builder.add(conv);
  EXPECT_EQ(program.run().status, Status::kOutOfBounds);

  Staged inside;
  inside.load();
  inside.test_case.builder.scratch(16);  // never written
  conv = inside.conv();
  conv.parameters.offset += 16;
  inside.test_case.builder.add(conv);
  const Report report = inside.run();
  EXPECT_EQ(report.status, Status::kReadsUninitialized);
  EXPECT_EQ(report.command, 3U);
}

TEST(SimulatorWatch, RefusesFlashInACall) {
  Staged program;
  Conv2d conv = program.conv();
  conv.weights = program.constant;
  program.load();
  program.test_case.builder.add(conv);
  EXPECT_EQ(program.run().status, Status::kFlashAccess);
}

// A table is 256 bytes, all of which must be there.
TEST(SimulatorWatch, RefusesTablesThatAreNotThere) {
  const auto lookup = [](const Staged& program, Address table) {
    return test::lookup(program.x, program.y, table, 32);
  };
  const auto matmul = [](const Staged& program, Address table) {  // 8×4 by 4×4
    Matmul made{.left = program.x,
                .right = program.x,
                .output = program.y,
                .batch = {1, 1, 1, 1},
                .rows = 8,
                .inner = 4,
                .columns = 4,
                .left_row_stride = 4,
                .left_inner_stride = 1,
                .right_inner_stride = 4,
                .right_column_stride = 1,
                .output_row_stride = 4,
                .output_column_stride = 1,
                .rescale = {1 << 30, 0},
                .clamp_low = -128,
                .clamp_high = 127,
                .flags = kWithTable};
    made.table = table;
    return made;
  };
  const auto run = [](const auto& make, uint32_t written) {
    Staged program;
    const Address table = program.test_case.builder.scratch(256);
    program.test_case.builder.add(Fill{table, written, 1});
    program.test_case.builder.add(make(program, table));
    return program.run();
  };
  const auto expect = [&](const auto& make) {
    EXPECT_EQ(run(make, 256).status, Status::kOk);
    for (const uint32_t written : {1U, 255U}) {
      const Report report = run(make, written);
      EXPECT_EQ(report.status, Status::kReadsUninitialized) << written;
      EXPECT_EQ(report.command, 1U) << written;
    }
  };
  expect(lookup);
  expect(matmul);
}

TEST(SimulatorWatch, RefusesWritesUnderACopy) {
  Staged program;
  program.test_case.builder.copy(program.weights, program.constant, 64);
  program.test_case.builder.add(Fill{{kScratch, 60}, 8, 0});
  const Report report = program.run();
  EXPECT_EQ(report.status, Status::kReadsInFlight);
  EXPECT_EQ(report.command, 1U);

  Staged twice;
  twice.test_case.builder.copy(twice.weights, twice.constant, 64);
  twice.test_case.builder.copy(twice.weights, twice.constant, 64);
  EXPECT_EQ(twice.run().command, 1U);
}

TEST(SimulatorWatch, RefusesUnwrittenOutputsAndLateCopies) {
  Staged unwritten;
  unwritten.test_case.builder.add(Fill{unwritten.y, 31, 0});
  Report report = unwritten.run();
  EXPECT_EQ(report.status, Status::kReadsUninitialized);
  EXPECT_EQ(report.command, 1U);

  Staged late;
  late.test_case.builder.add(Fill{late.y, 32, 0});
  late.test_case.builder.copy(late.weights, late.constant, 64);
  report = late.run();
  EXPECT_EQ(report.status, Status::kReadsInFlight);
  EXPECT_EQ(report.command, 2U);
}

TEST(SimulatorWatch, SeesGapsOfStridedMoves) {
  const auto run = [](uint32_t shift) {
    Staged program;
    Address box = program.test_case.builder.scratch(64);
    // Four rows of eight bytes, eight bytes apart.
    program.test_case.builder.add(
        Move{program.x, box, {1, 1, 1, 1, 4, 8}, {0, 0, 0, 0, 8, 1}, {0, 0, 0, 0, 16, 1}});
    box.offset += shift;
    program.test_case.builder.add(
        Move{box, program.y, {1, 1, 1, 1, 4, 8}, {0, 0, 0, 0, 16, 1}, {0, 0, 0, 0, 8, 1}});
    return program.run();
  };
  EXPECT_EQ(run(0).status, Status::kOk);
  EXPECT_EQ(run(1).status, Status::kReadsUninitialized);
  EXPECT_EQ(run(1).command, 1U);
  EXPECT_EQ(run(8).status, Status::kReadsUninitialized);
  EXPECT_EQ(run(9).status, Status::kOutOfBounds);
}

// Windows read some rows of an image: those must be written, the others need not be, however many
// there are.
TEST(SimulatorWatch, LooksAtWhatWindowsRead) {
  const auto run = [](auto change, uint32_t written) {
    Case test_case;
    const Address x = test_case.input(std::vector<int8_t>(64, 3)), y = test_case.builder.output(16);
    const Address image = test_case.builder.scratch(64);
    test_case.builder.add(Fill{y, 16, 0});
    if (written > 0)
      test_case.builder.add(
          Move{x, image, {1, 1, 1, 1, 1, written}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
    Pool pool{dense({1, 8, 2, 4, 1, 1, 4, 2, 2, 1, 1, 1, 1, 0, 0}),
              image,
              y,
              PoolKind::kMax,
              0,
              0,
              0,
              {},
              -128,
              127};
    change(pool.window);
    test_case.builder.add(pool);
    const AlignedBytes payload = test_case.builder.build();
    HostSimulator host(kTarget);
    uint32_t handle = 0;
    EXPECT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
    AlignedBytes arena(160);
    const std::vector<Buffer> operands{{arena.data(), 64}, {arena.data() + 64, 16}};
    const auto start = std::chrono::steady_clock::now();
    const Status status = host.run(handle, operands, {arena.data() + 80, 80}).status;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
    return status;
  };
  const auto as_it_is = [](Window&) {};
  EXPECT_EQ(run(as_it_is, 16), Status::kOk);  // two rows of two pixels of four channels
  EXPECT_EQ(run(as_it_is, 15), Status::kReadsUninitialized);
  const auto from_the_third = [](Window& w) { w.pad_top = -2; };
  EXPECT_EQ(run(from_the_third, 32), Status::kOk);
  EXPECT_EQ(run(from_the_third, 31), Status::kReadsUninitialized);
  const auto dilated = [](Window& w) { w.dilation_height = 7; };  // the first row and the last
  EXPECT_EQ(run(dilated, 64), Status::kOk);
  EXPECT_EQ(run(dilated, 63), Status::kReadsUninitialized);
  EXPECT_EQ(run(dilated, 0), Status::kReadsUninitialized);
  // 2^32 rows and columns that are all the same bytes: 2^64 pixels.
  const auto repeated = [](Window& w) {
    w.in_height = w.in_width = UINT32_MAX, w.in.row = w.in.pixel = w.in.batch = 0;
  };
  EXPECT_EQ(run(repeated, 4), Status::kOk);
  EXPECT_EQ(run(repeated, 3), Status::kReadsUninitialized);
  const auto overlapping = [](Window& w) { w.in_height = 50, w.in.row = 1; };
  EXPECT_EQ(run(overlapping, 9), Status::kOk);
  EXPECT_EQ(run(overlapping, 8), Status::kReadsUninitialized);
}

// Many copies in flight and many strided runs: each run looks at its own bytes.
TEST(SimulatorWatch, CopiesInFlightCostNothing) {
  Case test_case;
  const Address x = test_case.input(std::vector<int8_t>(16, 3)), y = test_case.builder.output(16);
  const std::vector<int8_t> zeros(16);
  const Address from = test_case.builder.constant(std::as_bytes(std::span(zeros)));
  const Address box = test_case.builder.scratch(400000);
  test_case.builder.add(Move{x, y, {1, 1, 1, 1, 1, 16}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
  for (int i = 0; i < 20000; ++i) test_case.builder.copy(test_case.builder.scratch(1), from, 1);
  for (int i = 0; i < 20; ++i)
    test_case.builder.add(
        Move{x, box, {1, 1, 1, 1, 200000, 1}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 2, 0}});
  test_case.builder.wait();
  const AlignedBytes payload = test_case.builder.build();
  HostSimulator host(kTarget);
  uint32_t handle = 0;
  ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
  AlignedBytes arena(1 << 20);
  const std::vector<Buffer> operands{{arena.data(), 16}, {arena.data() + 16, 16}};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(host.run(handle, operands, {arena.data() + 32, 900000}).status, Status::kOk);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

// The memory planner may give an operand's memory to scratch once the operand is dead, or the other
// way round.
TEST(SimulatorWatch, SeesOperandsThatShareMemoryWithScratch) {
  Case test_case;
  const Address x = test_case.input(std::vector<int8_t>(32, 3)), y = test_case.builder.output(32);
  const Address temporary = test_case.builder.scratch(32);
  const auto move = [&](Address from, Address to) {
    test_case.builder.add(
        Move{from, to, {1, 1, 1, 1, 1, 32}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
  };
  move(x, temporary);
  move(temporary, y);
  const AlignedBytes payload = test_case.builder.build();
  HostSimulator host(kTarget);
  uint32_t handle = 0;
  ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
  AlignedBytes arena(96);
  std::memset(arena.data(), 3, 96);
  const auto run = [&](size_t x_at, size_t y_at, size_t scratch_at) {
    const std::vector<Buffer> operands{{arena.data() + x_at, 32}, {arena.data() + y_at, 32}};
    return host.run(handle, operands, {arena.data() + scratch_at, 32});
  };
  EXPECT_EQ(run(0, 32, 64).status, Status::kOk);
  EXPECT_EQ(run(0, 0, 64).status, Status::kOk);           // the output takes the dead input's place
  EXPECT_EQ(run(0, 32, 0).status, Status::kBadArgument);  // a move onto itself
  EXPECT_EQ(run(0, 32, 16).status, Status::kBadArgument);
  EXPECT_EQ(run(0, 32, 64).status, Status::kOk);  // the layout before is no lasting verdict
}

TEST(SimulatorWatch, SeesAnOperandThatScratchHasOverwritten) {
  Case test_case;
  const Address x = test_case.input(std::vector<int8_t>(32, 3)), y = test_case.builder.output(32);
  const Address temporary = test_case.builder.scratch(32);
  test_case.builder.add(Fill{temporary, 32, 1});
  test_case.builder.add(
      test::binary(BinaryKind::kAdd, x, temporary, y, 32,
                   {0, 0, 0, {1 << 30, 0}, {1 << 30, 0}, {1 << 30, -18}, -128, 127}));
  const AlignedBytes payload = test_case.builder.build();
  HostSimulator host(kTarget);
  uint32_t handle = 0;
  ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
  AlignedBytes arena(96);
  const std::vector<Buffer> operands{{arena.data(), 32}, {arena.data() + 32, 32}};
  EXPECT_EQ(host.run(handle, operands, {arena.data() + 64, 32}).status, Status::kOk);
  const Report report = host.run(handle, operands, {arena.data(), 32});
  EXPECT_EQ(report.status, Status::kReadsUninitialized);
  EXPECT_EQ(report.command, 1U);
}

// Weights that a call has changed after their copy must not come from the packed constants.
TEST(SimulatorStaging, SeesOverwrittenWeights) {
  for (const uint32_t offset : {0U, 63U, 64U, 100U}) {
    SCOPED_TRACE(offset);
    Staged program;
    program.load();
    program.test_case.builder.add(Fill{{kScratch, offset}, 1, 1});
    program.test_case.builder.add(program.conv());
    expect_kernel_sets_agree(program.test_case, kernel_sets());
  }
}

// A copy whose bytes a call reads besides the convolution that has them packed, before or after
// another call writes next to them.
TEST(SimulatorStaging, CopiesWhatIsReadElsewhere) {
  for (const bool strided : {false, true}) {
    Staged program;
    program.load();
    Case& test_case = program.test_case;
    test_case.builder.add(program.conv());
    const Address one = test_case.builder.output(16);
    // Every second byte of the first 32; the copy's others stay.
    if (strided)
      test_case.builder.add(Move{
          program.x, {kScratch, 0}, {1, 1, 1, 1, 1, 16}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 2}});
    test_case.builder.add(Move{{kScratch, strided ? 1u : 7u},
                               one,
                               {1, 1, 1, 1, 1, 16},
                               {0, 0, 0, 0, 0, 2},
                               {0, 0, 0, 0, 0, 1}});
    expect_kernel_sets_agree(test_case, kernel_sets());
  }
}

// Weights that only a packed convolution reads do not pass through scratch.
TEST(SimulatorStaging, LeavesOutWhatNobodyReads) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  const AlignedBytes payload = program.test_case.builder.build();
  const auto touched = [&](const KernelSet& kernel_set, Scratch scratch) {
    HostSimulator host(kTarget, kernel_set, scratch);
    uint32_t handle = 0;
    EXPECT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
    Memory memory(program.test_case);
    const AlignedBytes before = memory.scratch;
    EXPECT_EQ(host.run(handle, memory.buffers(), memory.scratch.buffer()).status, Status::kOk);
    return !(memory.scratch == before);
  };
  EXPECT_FALSE(touched(simulator::highway_kernel_set(), Scratch::kWhatIsRead));
  EXPECT_TRUE(touched(simulator::highway_kernel_set(), Scratch::kEveryByte));
  EXPECT_TRUE(touched(simulator::plain_kernel_set(), Scratch::kWhatIsRead));
}

TEST(SimulatorHost, RefusesWhatTheDecoderRefuses) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  AlignedBytes payload = program.test_case.builder.build();
  HostSimulator host(kTarget);
  uint32_t handle = 0;
  for (size_t i = 0; i < payload.size(); ++i) {
    payload.data()[i] ^= std::byte{0x01};
    ASSERT_NE(host.prepare(payload.bytes(), handle).status, Status::kOk) << i;
    payload.data()[i] ^= std::byte{0x01};
  }
  EXPECT_EQ(host.run(3, {}, {}).status, Status::kBadOperand);
}

TEST(SimulatorHost, HandlesAreReused) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  const AlignedBytes payload = program.test_case.builder.build();
  HostSimulator host(kTarget);
  const Driver driver = host.driver();
  uint32_t first = 9, second = 9, third = 9;
  ASSERT_EQ(driver.prepare(driver.context, payload.data(), payload.size(), &first), Status::kOk);
  ASSERT_EQ(driver.prepare(driver.context, payload.data(), payload.size(), &second), Status::kOk);
  EXPECT_NE(first, second);
  driver.unprepare(driver.context, first);
  ASSERT_EQ(driver.prepare(driver.context, payload.data(), payload.size(), &third), Status::kOk);
  EXPECT_EQ(third, first);
}

}  // namespace
}  // namespace dtr
