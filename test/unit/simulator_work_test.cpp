// How much work a payload may be: the decoder's bound, at the bound and one beyond, and sums of as
// many elements as one call may add up.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/npu/cycles.h"
#include "device/simulator/decoder.h"
#include "device/simulator/functional.h"
#include "device/simulator/simulator.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using test::AlignedBytes;
using test::decoded;
using test::kTarget;
using test::PayloadBuilder;

// `reduced` elements become one of `results`; all are the same byte.
Reduce repeated(Address x, Address y, ReduceKind kind, uint32_t results, uint32_t reduced) {
  Reduce reduce{.input = x,
                .output = y,
                .kind = kind,
                .rescale = {1 << 30, 0},
                .clamp_low = 0,
                .clamp_high = 127};
  std::ranges::fill(reduce.extent, 1u);
  std::ranges::fill(reduce.reduced_extent, 1u);
  reduce.extent[5] = results, reduce.output_stride[5] = 1;
  reduce.reduced_extent[5] = reduced;
  return reduce;
}

// A byte that is read again and again: 2^22 times for each of 16 results.
TEST(SimulatorWork, OfAPayloadIsBounded) {
  const auto with = [](uint32_t reduces, uint32_t fills) {
    PayloadBuilder builder;
    const Address x = builder.input(16), y = builder.output(16),
                  space = builder.scratch(kTarget.sram_bytes / 2);
    const Reduce reduce = repeated(x, y, ReduceKind::kSum, 16, 1u << 22);
    EXPECT_EQ(cycles(kTarget, reduce).total, kTarget.call_npu_cycles + (1u << 26));
    for (uint32_t i = 0; i < reduces; ++i) builder.add(reduce);
    for (uint32_t i = 0; i < fills; ++i) builder.add(Fill{space, kTarget.sram_bytes / 2, 0});
    return decoded(builder.build()).status;
  };
  // Each a little more than a 16th of what there is.
  EXPECT_EQ(with(15, 0), Status::kOk);
  EXPECT_EQ(with(16, 0), Status::kTooMuchWork);
  // A fill takes as long as it writes, and its bytes count as well.
  const uint64_t fill = kTarget.call_npu_cycles + kTarget.sram_bytes / 2 / 8 * 2;
  const auto most = static_cast<uint32_t>(kMaxPayloadCycles / fill);
  EXPECT_EQ(with(0, most), Status::kOk);
  EXPECT_EQ(with(0, most + 1), Status::kTooMuchWork);
}

// Operands may be many: each is looked through.
TEST(SimulatorWork, OfOperandsCounts) {
  const auto with = [](uint64_t operands) {
    PayloadBuilder builder;
    for (uint64_t i = 0; i < operands; ++i) builder.input(kTarget.sram_bytes);
    return decoded(builder.build()).status;
  };
  const uint64_t most = kMaxPayloadCycles / (kTarget.sram_bytes / 8);
  EXPECT_EQ(with(most), Status::kOk);
  EXPECT_EQ(with(most + 1), Status::kTooMuchWork);
}

// What a call reads and what it writes count, each in words of kWorkBytes beside its cycles.
TEST(SimulatorWork, OfACallIsThatOfAllItTouches) {
  constexpr uint32_t kBytes = 1 << 16;
  const auto with = [](uint64_t calls) {
    PayloadBuilder builder;
    const Address x = builder.scratch(kBytes), y = builder.scratch(kBytes),
                  table = builder.stage(std::vector<int8_t>(256, 1));
    for (uint64_t i = 0; i < calls; ++i) builder.add(test::lookup(x, y, table, kBytes));
    return decoded(builder.build()).status;
  };
  const uint64_t call =
      cycles(kTarget, test::lookup({}, {}, {}, kBytes)).total + (kBytes + 256 + kBytes) / 8;
  // The table is copied once, for less than a call.
  EXPECT_EQ(with(kMaxPayloadCycles / call - 1), Status::kOk);
  EXPECT_EQ(with(kMaxPayloadCycles / call + 1), Status::kTooMuchWork);
}

// All elements as far from the zero point as can be: UBSan watches.
TEST(SimulatorWork, SumsOfTheMostElementsDoNotOverflow) {
  constexpr uint32_t kMostBytes = INT32_MAX / (255 + 128);
  for (const auto& [kind, zero_point, value, most] :
       {std::tuple{ReduceKind::kSum, 127, int8_t{-128}, kMaxReduced},
        {ReduceKind::kMaximum, 127, int8_t{-128}, kMaxReduced},
        {ReduceKind::kSumOfBytes, -128, int8_t{-1}, kMostBytes}}) {
    PayloadBuilder builder;
    const Address x = builder.input(16), y = builder.output(16);
    Reduce reduce = repeated(x, y, kind, 1, most);
    reduce.zero_point_in = zero_point;
    builder.add(reduce);
    const AlignedBytes payload = builder.build();
    simulator::Payload read;
    ASSERT_EQ(simulator::decode(kTarget, payload.bytes(), read).status, Status::kOk);
    AlignedBytes in(16, static_cast<uint8_t>(value)), out(16);
    const Buffer operands[] = {in.buffer(), out.buffer()};
    EXPECT_EQ(
        simulator::execute(kTarget, read, operands, {}, simulator::kPlainKernels, nullptr, {}, {})
            .status,
        Status::kOk);
    EXPECT_EQ(out.int8()[0], kind == ReduceKind::kSumOfBytes ? 127 : 0);
    PayloadBuilder beyond;
    beyond.input(16), beyond.output(16);
    reduce.reduced_extent[5] = most + 1;
    beyond.add(reduce);
    EXPECT_EQ(decoded(beyond.build()).status, Status::kBadArgument);
  }
}

}  // namespace
}  // namespace dtr
