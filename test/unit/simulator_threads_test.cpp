// The host's simulator with several threads: equal bytes and cycles. And with checks in every run.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <vector>

#include "host/simulator/crew.h"
#include "host/simulator/host_simulator.h"
#include "test/unit/simulator_agreement.h"
#include "test/unit/simulator_cases.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::Crew;
using simulator::HostSimulator;
using test::AlignedBytes;
using test::any_channels;
using test::Case;
using test::expect_same;
using test::input_bytes;
using test::kernel_sets;
using test::kTarget;
using test::Memory;
using test::output_bytes;
using test::Random;

TEST(SimulatorCrew, TakesEachPartOnce) {
  for (const unsigned members : {1U, 2U, 5U}) {
    Crew crew(members);
    ASSERT_EQ(crew.members(), members);
    for (uint32_t round = 0; round < 2000; ++round) {
      const uint32_t parts = round % 7;
      std::vector<std::atomic<int>> taken(parts);
      std::vector<std::atomic<int>> inside(members);
      std::atomic<bool> twice{false};
      crew.run(parts, [&](size_t member, uint32_t part) {
        if (inside[member].fetch_add(1) != 0) twice = true;
        taken[part].fetch_add(1);
        inside[member].fetch_sub(1);
      });
      EXPECT_FALSE(twice) << "a member has two parts at a time";
      for (const std::atomic<int>& times : taken) ASSERT_EQ(times, 1) << "round " << round;
    }
  }
}

TEST(SimulatorCrew, PassesAnExceptionOn) {
  Crew crew(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(crew.run(9,
                          [](size_t, uint32_t part) {
                            if (part == 4) throw std::bad_alloc();
                          }),
                 std::bad_alloc);
    std::atomic<int> taken{0};
    crew.run(9, [&](size_t, uint32_t) { ++taken; });
    EXPECT_EQ(taken, 9);
  }
}

// Calls that are large enough to be shared, one with a table and an addend, which another context
// completes, and one with several images.
Case large_calls() {
  Random random(11);
  Case result;
  Window w = dense({2, 23, 29, 24, 12, 15, 40, 3, 3, 2, 2, 1, 1, 1, 1});
  const Address x = result.input(random.int8(input_bytes(w)));
  const Address addend = result.input(random.int8(output_bytes(w)));
  const Address table = result.builder.stage(random.int8(256));
  const auto parameters = [&](uint32_t channels) {
    return result.builder.stage(test::pack_parameters(kTarget, any_channels(random, channels)));
  };
  Epilogue epilogue{1, -128, 127, 0, {}, {}, {}, {}, {}};
  const auto convolve = [&](Address output) {
    const Address weights = result.builder.stage(
        test::pack_conv2d(kTarget, w, Packing::kChannels, random.int8(40 * 9 * 24)));
    result.builder.add(
        Conv2d{w, x, output, weights, parameters(40), 5, Packing::kChannels, epilogue});
  };
  convolve(result.builder.output(output_bytes(w)));
  epilogue.flags = kWithTable | kWithAdd;
  epilogue.table = table;
  epilogue.addend = addend;
  epilogue.addend_strides = w.out;
  epilogue.add = {0, 0, 0, {1 << 30, 0}, {1 << 30, 0}, {1 << 30, -18}, -128, 127};
  convolve(result.builder.output(output_bytes(w)));
  epilogue.flags = 0;

  Window thin = dense({2, 40, 31, 40, 40, 31, 40, 3, 3, 1, 1, 1, 1, 1, 1});
  const Address image = result.input(random.int8(input_bytes(thin)));
  const Address by_channel =
      result.builder.stage(test::pack_depthwise(kTarget, thin, random.int8(40 * 9)));
  result.builder.add(Depthwise{thin, image, result.builder.output(output_bytes(thin)), by_channel,
                               parameters(40), 5, epilogue});

  Matmul product{};
  product.left = result.input(random.int8(2 * 70 * 65));
  product.right = result.input(random.int8(2 * 65 * 50));
  product.output = result.builder.output(2 * 70 * 50);
  for (uint32_t d = 0; d < kMatmulBatchRank; ++d) product.batch[d] = 1;
  product.batch[kMatmulBatchRank - 1] = 2;
  product.left_batch_stride[kMatmulBatchRank - 1] = 70 * 65;
  product.right_batch_stride[kMatmulBatchRank - 1] = 65 * 50;
  product.output_batch_stride[kMatmulBatchRank - 1] = 70 * 50;
  product.rows = 70, product.inner = 65, product.columns = 50;
  product.left_row_stride = 65, product.left_inner_stride = 1;
  product.right_inner_stride = 50, product.right_column_stride = 1;
  product.output_row_stride = 50, product.output_column_stride = 1;
  product.rescale = {1 << 30, -8};
  product.clamp_low = -128, product.clamp_high = 127;
  result.builder.add(product);
  return result;
}

TEST(SimulatorThreads, ComputeWhatOneComputes) {
  Case calls = large_calls();
  const AlignedBytes payload = calls.builder.build();
  for (const simulator::KernelSet& kernel_set : kernel_sets()) {
    SCOPED_TRACE(kernel_set.name);
    HostSimulator alone(kTarget, kernel_set);
    uint32_t handle = 0;
    ASSERT_EQ(alone.prepare(payload.bytes(), handle).status, Status::kOk);
    Memory right(calls);
    const Report report = alone.run(handle, right.buffers(), right.scratch.buffer());
    ASSERT_EQ(report.status, Status::kOk) << text(report.status) << " at " << report.command;
    for (const bool first : {false, true})
      for (const unsigned threads : {2U, 7U}) {
        HostSimulator shared(kTarget, kernel_set);
        if (first) shared.use_threads(threads);
        ASSERT_EQ(shared.prepare(payload.bytes(), handle).status, Status::kOk);
        if (!first) shared.use_threads(threads);
        for (int run = 0; run < 4; ++run) {
          Memory memory(calls);
          expect_same(shared.run(handle, memory.buffers(), memory.scratch.buffer()), report);
          ASSERT_TRUE(memory.operands == right.operands) << threads << " threads";
        }
      }
  }
}

// What only a check in every run can see: a program that changed after it was prepared.
TEST(SimulatorChecks, LookAtEveryRunIfTold) {
  Random random(3);
  Case test_case;
  const Window w = dense({1, 2, 2, 8, 2, 2, 8, 1, 1, 1, 1, 1, 1, 0, 0});
  const Address x = test_case.input(random.int8(32)), y = test_case.builder.output(32);
  const Address weights = test_case.builder.scratch(64), parameters = test_case.builder.scratch(96);
  std::vector<std::byte> constants(160);
  const auto list =
      test::pack_parameters(kTarget, std::vector<test::Channel>(8, test::Channel{0, 1 << 30, 0}));
  std::memcpy(constants.data() + 64, list.data(), list.size() * sizeof list[0]);
  const Address constant = test_case.builder.constant(constants);
  test_case.builder.copy(weights, constant, 64);
  test_case.builder.copy(parameters, {constant.region, constant.offset + 64}, 96);
  test_case.builder.add(Wait{2});
  test_case.builder.add(Conv2d{
      w, x, y, weights, parameters, 0, Packing::kChannels, {0, -128, 127, 0, {}, {}, {}, {}, {}}});
  const AlignedBytes built = test_case.builder.build();
  using Checks = HostSimulator::Checks;
  for (const Checks checks : {Checks::kOnce, Checks::kEveryRun}) {
    const bool every_run = checks == Checks::kEveryRun;
    AlignedBytes payload = built;
    simulator::Payload decoded;
    ASSERT_EQ(simulator::decode(kTarget, payload.bytes(), decoded).status, Status::kOk);
    HostSimulator host(kTarget, simulator::best_kernel_set(), HostSimulator::Scratch::kWhatIsRead,
                       checks);
    uint32_t handle = 0;
    ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
    Memory memory(test_case);
    const auto run = [&] {
      return host.run(handle, memory.buffers(), memory.scratch.buffer()).status;
    };
    EXPECT_EQ(run(), Status::kOk);
    const AlignedBytes before = memory.operands[1];
    const auto at = [&](const std::byte* byte) {
      return payload.data() + (byte - payload.bytes().data());
    };
    std::memset(at(decoded.constants().data()), 1, 64);  // the weights
    EXPECT_EQ(run(), Status::kOk);
    EXPECT_EQ(memory.operands[1] == before, !every_run);
    std::byte* command = at(decoded.commands());
    const auto head = [&] { return simulator::internal::word_at(command); };
    while (head() % 65536 != static_cast<uint32_t>(Opcode::kWait)) command += head() / 65536 * 4;
    const uint32_t first_copy_only = 1;
    std::memcpy(command + 4, &first_copy_only, sizeof first_copy_only);
    EXPECT_EQ(run(), every_run ? Status::kReadsInFlight : Status::kOk);
  }
}

}  // namespace
}  // namespace dtr
