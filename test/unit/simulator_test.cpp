// The simulator's core: what commands compute against loops over unpacked operands, what the
// timeline adds up to, what is refused.
#include "device/simulator/simulator.h"

#include <gtest/gtest.h>

#include "device/npu/cycles.h"
#include "device/numerics/requantize.h"
#include "device/simulator/timing.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::Simulator;
using test::AlignedBytes;
using test::kOne;
using test::kPlainAdd;
using test::kTarget;
using test::PayloadBuilder;

struct Outcome {
  Status prepared = Status::kOk;
  Report report;
  std::vector<AlignedBytes> operands;
  std::vector<Event> events;
  std::span<const int8_t> output(size_t index) {
    return {operands[index].int8(), operands[index].size()};
  }
};

// Prepares and runs on fresh memory; inputs from `inputs` in order.
Outcome run(PayloadBuilder& builder, const std::vector<std::vector<int8_t>>& inputs = {}) {
  Outcome result;
  const AlignedBytes payload = builder.build();
  Simulator::Slot slots[1];
  uint64_t arrivals[16];
  Simulator simulator(kTarget, slots, arrivals);
  const Driver driver = simulator.driver();
  uint32_t handle = 99;
  result.prepared = driver.prepare(driver.context, payload.data(), payload.size(), &handle);
  if (result.prepared != Status::kOk) return result;
  std::vector<Buffer> buffers;
  size_t next_input = 0;
  for (const Operand& operand : builder.operands()) {
    result.operands.emplace_back(operand.bytes, uint8_t{0x55});
    if (operand.kind == OperandKind::kInput)
      std::memcpy(result.operands.back().data(), inputs.at(next_input++).data(), operand.bytes);
  }
  for (AlignedBytes& operand : result.operands) buffers.push_back(operand.buffer());
  AlignedBytes scratch(builder.scratch_bytes(), 0x55);
  result.report = driver.run(
      driver.context, handle, buffers.data(), static_cast<uint32_t>(buffers.size()),
      scratch.buffer(),
      [](void* context, const Event& event) {
        static_cast<Outcome*>(context)->events.push_back(event);
      },
      &result);
  driver.unprepare(driver.context, handle);
  return result;
}

// Operand 1 of a program of one input.
std::vector<int8_t> output_of(PayloadBuilder& builder, const std::vector<int8_t>& input) {
  Outcome result = run(builder, {input});
  EXPECT_EQ(result.prepared, Status::kOk);
  EXPECT_EQ(result.report.status, Status::kOk);
  const auto values = result.output(1);
  return {values.begin(), values.end()};
}

TEST(SimulatorCore, PointwiseByHand) {
  // One pixel, channels {1, −2, 3}; weights of two outputs {1, 1, 1} and {10, −20, 30}; biases 5
  // and −7.
  PayloadBuilder builder;
  const Window w = dense({1, 1, 1, 3, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0, 0});
  const Address x = builder.input(3), y = builder.output(2);
  const Address weights =
      builder.stage(test::pack_conv2d(kTarget, w, Packing::kChannels, {1, 1, 1, 10, -20, 30}));
  const Address parameters =
      builder.stage(test::pack_parameters(kTarget, {{5, 1 << 30, 1}, {-7, 1 << 30, 0}}));
  builder.add(
      Conv2d{w, x, y, weights, parameters, 0, Packing::kChannels, {1, -128, 100, 0, {}, {}, {}}});
  Outcome result = run(builder, {{1, -2, 3}});
  ASSERT_EQ(result.prepared, Status::kOk);
  ASSERT_EQ(result.report.status, Status::kOk);
  EXPECT_EQ(result.output(1)[0], 1 - 2 + 3 + 5 + 1);
  EXPECT_EQ(result.output(1)[1], (10 + 40 + 90 - 7 + 1) / 2 + 1);  // 66.5 rounds away from zero
}

TEST(SimulatorCore, PaddingAndStrideByHand) {
  // 1×3 image {1, 2, 3}, kernel {1, 10, 30}, padding −1 by one, stride 2: (−1, 1, 2) and (2, 3,
  // −1).
  PayloadBuilder builder;
  const Window w = dense({1, 1, 3, 1, 1, 2, 1, 1, 3, 1, 2, 1, 1, 0, 1});
  const Address x = builder.input(3), y = builder.output(2);
  const Address weights = builder.stage(test::pack_depthwise(kTarget, w, {1, 10, 30}));
  const Address parameters = builder.stage(test::pack_parameters(kTarget, {{0, 1 << 30, 1}}));
  builder.add(Depthwise{w, x, y, weights, parameters, -1, {-1, -128, 127, 0, {}, {}, {}}});
  Outcome result = run(builder, {{1, 2, 3}});
  ASSERT_EQ(result.report.status, Status::kOk);
  EXPECT_EQ(result.output(1)[0], -1 + 10 + 60 - 1);
  EXPECT_EQ(result.output(1)[1], 2 + 30 - 30 - 1);
}

TEST(SimulatorCore, EpilogueAppliesTableThenAddend) {
  PayloadBuilder builder;
  const Window w = dense({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  const Address x = builder.input(1), z = builder.input(1), y = builder.output(1);
  std::vector<int8_t> table(256);
  for (int q = -128; q < 128; ++q)
    table[static_cast<size_t>(q) + 128] = static_cast<int8_t>(-q / 2);
  const Address table_at = builder.stage(table);
  const Address weights = builder.stage(test::pack_conv2d(kTarget, w, Packing::kRows, {3}));
  const Address parameters = builder.stage(test::pack_parameters(kTarget, {{0, 1 << 30, 1}}));
  builder.add(Conv2d{w,
                     x,
                     y,
                     weights,
                     parameters,
                     0,
                     Packing::kRows,
                     {0, -128, 127, kWithTable | kWithAdd, table_at, z, w.out, kPlainAdd}});
  Outcome result = run(builder, {{20}, {7}});
  ASSERT_EQ(result.report.status, Status::kOk);
  EXPECT_EQ(result.output(2)[0], -30 + 7);
}

TEST(SimulatorCore, PoolsByHand) {
  const std::vector<int8_t> image{-3, 8, 5, -10};  // 2×2
  const auto pooled = [&](PoolKind kind, Rescale rescale) {
    PayloadBuilder builder;
    const Address x = builder.input(4), y = builder.output(1);
    builder.add(Pool{dense({1, 2, 2, 1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1}), x, y, kind, 2, 2, 9,
                     rescale, -128, 127});
    Outcome result = run(builder, {image});
    EXPECT_EQ(result.report.status, Status::kOk);
    return result.report.status == Status::kOk ? result.output(1)[0] : int8_t{0};
  };
  EXPECT_EQ(pooled(PoolKind::kMax, {}), 8);
  EXPECT_EQ(pooled(PoolKind::kAverage, {}), 0);      // 0 / 4
  EXPECT_EQ(pooled(PoolKind::kMean, kOne), -8 + 9);  // sum 0 + 5 · 2 in the padding − 9 · 2
  EXPECT_EQ(pooled(PoolKind::kMean, {1 << 30, -1}), -2 + 9);
}

TEST(SimulatorCore, AverageRoundsHalfAwayFromZero) {
  PayloadBuilder builder;
  const Address x = builder.input(4), y = builder.output(2);
  builder.add(Pool{dense({1, 1, 2, 2, 1, 1, 2, 1, 2, 1, 1, 1, 1, 0, 0}),
                   x,
                   y,
                   PoolKind::kAverage,
                   0,
                   0,
                   0,
                   {},
                   -128,
                   127});
  Outcome result = run(builder, {{3, -3, 4, -4}});
  ASSERT_EQ(result.report.status, Status::kOk);
  EXPECT_EQ(result.output(1)[0], 4);
  EXPECT_EQ(result.output(1)[1], -4);
}

TEST(SimulatorCore, AddLookupFillInPlace) {
  PayloadBuilder builder;
  const Address x = builder.input(3), y = builder.output(3);
  const Address sum = builder.scratch(3);
  std::vector<int8_t> table(256);
  for (int q = -128; q < 128; ++q) table[static_cast<size_t>(q) + 128] = static_cast<int8_t>(q ^ 1);
  const Address table_at = builder.stage(table);
  builder.add(Fill{sum, 3, 100});
  builder.add(test::binary(BinaryKind::kAdd, sum, x, sum, 3, kPlainAdd));
  builder.add(test::lookup(sum, sum, table_at, 3));
  builder.add(Move{sum, y, {1, 1, 1, 1, 1, 3}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
  Outcome result = run(builder, {{27, 28, -100}});
  ASSERT_EQ(result.report.status, Status::kOk);
  EXPECT_EQ(result.output(1)[0], 126);
  EXPECT_EQ(result.output(1)[1], 126);
  EXPECT_EQ(result.output(1)[2], 1);
}

TEST(SimulatorCore, MoveTransposes) {
  PayloadBuilder builder;
  const Address x = builder.input(6), y = builder.output(6);
  builder.add(Move{x, y, {1, 1, 1, 1, 3, 2}, {0, 0, 0, 0, 1, 3}, {0, 0, 0, 0, 2, 1}});
  Outcome result = run(builder, {{1, 2, 3, 4, 5, 6}});
  ASSERT_EQ(result.report.status, Status::kOk);
  const std::vector<int8_t> expected{1, 4, 2, 5, 3, 6};
  EXPECT_TRUE(std::ranges::equal(result.output(1), expected));
}

TEST(SimulatorCore, MoveReversesAndRepeats) {
  PayloadBuilder builder;
  const Address x = builder.input(4), y = builder.output(12);
  builder.add(Move{{x.region, 3}, y, {1, 1, 1, 1, 3, 4}, {0, 0, 0, 0, 0, -1}, {0, 0, 0, 0, 4, 1}});
  EXPECT_EQ(output_of(builder, {1, 2, 3, 4}),
            (std::vector<int8_t>{4, 3, 2, 1, 4, 3, 2, 1, 4, 3, 2, 1}));
}

TEST(SimulatorCore, ReducesByHand) {
  const auto reduced = [](ReduceKind kind, Rescale rescale, int32_t low, int32_t high) {
    PayloadBuilder builder;
    const Address x = builder.input(6), y = builder.output(3);
    // Rows of a 2 × 3 matrix, backwards: the result's columns in reverse.
    builder.add(Reduce{{x.region, 2},
                       y,
                       kind,
                       {1, 1, 1, 1, 1, 3},
                       {0, 0, 0, 0, 0, -1},
                       {0, 0, 0, 0, 0, 1},
                       {1, 1, 1, 1, 1, 2},
                       {0, 0, 0, 0, 0, 3},
                       1,
                       10,
                       rescale,
                       low,
                       high,
                       0});
    return output_of(builder, {1, -2, 100, 4, 50, -6});
  };
  using Values = std::vector<int8_t>;
  EXPECT_EQ(reduced(ReduceKind::kMaximum, {}, -128, 90), (Values{90, 50, 4}));
  EXPECT_EQ(reduced(ReduceKind::kMinimum, {}, -5, 127), (Values{-5, -2, 1}));
  EXPECT_EQ(reduced(ReduceKind::kSum, {1 << 30, 1}, -128, 127),
            (Values{102, 56, 13}));  // Σ (q − 1) + 10
  EXPECT_EQ(reduced(ReduceKind::kSum, {1 << 30, 0}, -128, 127),
            (Values{56, 33, 12}));  // half of it, half away from zero
  // As bytes: 100 + 250, 254 + 50, 1 + 4.
  EXPECT_EQ(reduced(ReduceKind::kSumOfBytes, {1 << 30, 0}, 0, 255),
            (Values{static_cast<int8_t>(184), static_cast<int8_t>(161), 12}));
}

// Of columns of a 3 × 4 matrix from the last one on, as int32 and, with a gap between them, as
// int64.
TEST(SimulatorCore, FindsIndicesByHand) {
  const auto found = [](ReduceKind kind, uint32_t bytes, int32_t step) {
    PayloadBuilder builder;
    const Address x = builder.input(12),
                  y = builder.output(static_cast<uint32_t>(3 * step) + bytes);
    builder.add(Fill{y, static_cast<uint32_t>(3 * step) + bytes, 9});
    Reduce reduce{.input = {x.region, 3}, .output = y, .kind = kind, .index_bytes = bytes};
    std::fill(std::begin(reduce.extent), std::end(reduce.extent), 1u);
    std::fill(std::begin(reduce.reduced_extent), std::end(reduce.reduced_extent), 1u);
    reduce.extent[5] = 4, reduce.input_stride[5] = -1, reduce.output_stride[5] = step;
    reduce.reduced_extent[5] = 3, reduce.reduced_stride[5] = 4;
    builder.add(reduce);
    return output_of(builder, {1, 7, -128, 5, 2, 7, 127, 5, 0, 8, 127, 4});
  };
  using Values = std::vector<int8_t>;
  EXPECT_EQ(found(ReduceKind::kIndexOfMaximum, 4, 4),
            (Values{0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(found(ReduceKind::kIndexOfMinimum, 8, 9),
            (Values{2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 9,
                    0, 0, 0, 0, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0}));
}

// Rows of two matrices of 3 × 2 bytes; indices outside give zeros.
TEST(SimulatorCore, GathersByHand) {
  const auto add = [](PayloadBuilder& builder, const auto& indices) {
    const Address x = builder.input(12),
                  y = builder.output(2 * static_cast<uint32_t>(indices.size()) * 2);
    builder.add(Gather{.input = x,
                       .indices = builder.stage(indices),
                       .output = y,
                       .outer = 2,
                       .rows = 3,
                       .count = static_cast<uint32_t>(indices.size()),
                       .inner = 2,
                       .index_bytes = sizeof indices[0]});
  };
  const std::vector<int8_t> table{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
  const auto gathered = [&](const auto& indices) {
    PayloadBuilder builder;
    add(builder, indices);
    return output_of(builder, table);
  };
  using Values = std::vector<int8_t>;
  EXPECT_EQ(gathered(std::vector<int32_t>{2, 0, 2, 1}),
            (Values{5, 6, 1, 2, 5, 6, 3, 4, 15, 16, 11, 12, 15, 16, 13, 14}));
  EXPECT_EQ(gathered(std::vector<int64_t>{1, 0}), (Values{3, 4, 1, 2, 13, 14, 11, 12}));
  const auto status = [&](const auto& indices) {
    PayloadBuilder builder;
    add(builder, indices);
    return run(builder, {table}).report.status;
  };
  EXPECT_EQ(status(std::vector<int32_t>{2, 0, 2, -1}), Status::kBadIndex);
  EXPECT_EQ(status(std::vector<int32_t>{3, 0, 2, 1}), Status::kBadIndex);
  for (const int64_t outside : {INT64_MIN, int64_t{-1}, int64_t{3}, int64_t{1} << 32})
    EXPECT_EQ(status(std::vector<int64_t>{2, outside, 1}), Status::kBadIndex) << outside;
}

TEST(SimulatorCore, ResizesByHand) {
  const auto resized = [](ResizeKind kind, uint32_t step, int32_t start) {
    PayloadBuilder builder;
    const Address x = builder.input(2), y = builder.output(4);
    builder.add(Resize{x, y, kind, 1, 1, {1, 1, 0, 0, 10}, {2, 4, step, start, 10}});
    return output_of(builder, {-100, 101});
  };
  using Values = std::vector<int8_t>;
  EXPECT_EQ(resized(ResizeKind::kNearest, 512, 0), (Values{-100, -100, 101, 101}));
  EXPECT_EQ(resized(ResizeKind::kBilinear, 512, -256),
            (Values{-100, -50, 51, 101}));  // −49.75, 50.75
  EXPECT_EQ(resized(ResizeKind::kBilinear, 2048, 0),
            (Values{-100, 101, 101, 101}));  // beyond the end
}

TEST(SimulatorCore, SoftmaxOfEqualValues) {
  PayloadBuilder builder;
  const Address x = builder.input(8), y = builder.output(8);
  builder.add(test::probability(x, y, 2, 4, 23));
  Outcome result = run(builder, {{5, 5, 5, 5, -128, 127, -128, -128}});
  ASSERT_EQ(result.report.status, Status::kOk);
  const std::vector<int8_t> expected{-64, -64, -64, -64, -128, 127, -128, -128};
  EXPECT_TRUE(std::ranges::equal(result.output(1), expected));
}

// Each row takes half of its columns, by one of two rows of the mask in turn.
TEST(SimulatorCore, RowsTakeTheRowsOfAMaskInTurn) {
  PayloadBuilder builder;
  const Address x = builder.input(16), mask = builder.input(8), y = builder.output(16);
  Softmax softmax = test::probability(x, y, 4, 4, 23);
  softmax.mask = mask, softmax.mask_rows = 2;
  builder.add(softmax);
  Outcome result = run(builder, {std::vector<int8_t>(16, 5), {1, 1, 0, 0, 0, 0, 1, 1}});
  ASSERT_EQ(result.report.status, Status::kOk);
  const std::vector<int8_t> expected{0, 0, -128, -128, -128, -128, 0, 0,
                                     0, 0, -128, -128, -128, -128, 0, 0};
  EXPECT_TRUE(std::ranges::equal(result.output(2), expected));
}

// Both packings of random convolutions against loops over the unpacked weights.
TEST(SimulatorCore, ConvolutionsAgreeWithUnpackedLoops) {
  test::Random random(1);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    Window w{1 + random.upto(1), 1 + random.upto(6), 1 + random.upto(6), 1 + random.upto(18), 1, 1,
             1 + random.upto(18)};
    w.kernel_height = 1 + random.upto(3), w.kernel_width = 1 + random.upto(3);
    w.stride_height = 1 + random.upto(2), w.stride_width = 1 + random.upto(2);
    const Packing packing = random.chance(50) ? Packing::kRows : Packing::kChannels;
    w.dilation_height = 1 + random.upto(1),
    w.dilation_width = packing == Packing::kRows ? 1 : 1 + random.upto(1);
    w.pad_top = random.between(-3, 8), w.pad_left = random.between(-3, 8);
    w.out_height = 1 + random.upto(4), w.out_width = 1 + random.upto(4);
    w = dense(w);
    const uint32_t in_gap = random.upto(3),
                   out_gap = random.upto(3);  // channels and columns of a larger tensor
    w.in = dense_strides(w.in_height, w.in_width + in_gap, w.in_channels + in_gap);
    w.out = dense_strides(w.out_height, w.out_width + out_gap, w.out_channels + out_gap);
    const bool one_rounding = random.chance(50);
    const uint32_t taps = w.kernel_height * w.kernel_width;
    const std::vector<int8_t> input = random.int8(size_t{w.batch} * w.in.batch);
    const std::vector<int8_t> plain = random.int8(size_t{w.out_channels} * taps * w.in_channels);
    std::vector<test::Channel> channels;
    for (uint32_t c = 0; c < w.out_channels; ++c)
      channels.push_back({random.between(-100000, 100000), random.between(1 << 30, INT32_MAX),
                          random.between(-12, -5)});
    const int32_t pad = random.between(-128, 127), zero_point = random.between(-128, 127);

    PayloadBuilder builder;
    const Address x = builder.input(static_cast<uint32_t>(input.size()));
    const Address y = builder.output(w.batch * w.out.batch);
    const Address weights = builder.stage(test::pack_conv2d(kTarget, w, packing, plain));
    const Address parameters = builder.stage(test::pack_parameters(kTarget, channels));
    builder.add(Fill{y, w.batch * w.out.batch, 99});
    builder.add(Conv2d{w,
                       x,
                       y,
                       weights,
                       parameters,
                       pad,
                       packing,
                       {zero_point, -120, 115, one_rounding ? kOneRounding : 0u, {}, {}, {}}});
    Outcome result = run(builder, {input});
    ASSERT_EQ(result.prepared, Status::kOk);
    ASSERT_EQ(result.report.status, Status::kOk);
    int64_t untouched = std::ranges::count(result.output(1), int8_t{99});
    for (uint32_t b = 0; b < w.batch; ++b)
      for (uint32_t oy = 0; oy < w.out_height; ++oy)
        for (uint32_t ox = 0; ox < w.out_width; ++ox)
          for (uint32_t c = 0; c < w.out_channels; ++c) {
            const size_t element =
                size_t{b} * w.out.batch + size_t{oy} * w.out.row + size_t{ox} * w.out.pixel + c;
            int32_t sum = channels[c].bias;
            for (uint32_t tap = 0; tap < taps; ++tap)
              for (uint32_t i = 0; i < w.in_channels; ++i) {
                const int iy = static_cast<int>(oy * w.stride_height +
                                                tap / w.kernel_width * w.dilation_height) -
                               w.pad_top;
                const int ix = static_cast<int>(ox * w.stride_width +
                                                tap % w.kernel_width * w.dilation_width) -
                               w.pad_left;
                const bool inside = iy >= 0 && ix >= 0 && iy < static_cast<int>(w.in_height) &&
                                    ix < static_cast<int>(w.in_width);
                const size_t at = size_t{b} * w.in.batch + static_cast<size_t>(iy) * w.in.row +
                                  static_cast<size_t>(ix) * w.in.pixel + i;
                sum += (inside ? input[at] : pad) *
                       plain[(size_t{c} * taps + tap) * w.in_channels + i];
              }
            const numerics::Requantization by{channels[c].multiplier, channels[c].shift};
            const int32_t rescaled = one_rounding ? numerics::requantize_with_one_rounding(sum, by)
                                                  : numerics::requantize(sum, by);
            const int32_t expected = numerics::clamp(rescaled + zero_point, -120, 115);
            ASSERT_EQ(result.output(1)[element], expected) << "element " << element;
            untouched += expected == 99 ? 0 : 1;
          }
    ASSERT_EQ(untouched, int64_t{w.batch} * w.out.batch);
  }
}

TEST(SimulatorCore, TimelineAddsUp) {
  PayloadBuilder builder;
  const Address y = builder.output(64);
  const Address a = builder.scratch(1024), b = builder.scratch(64);
  const std::vector<int8_t> bytes(1024, 3);
  const Address constant = builder.constant(std::as_bytes(std::span(bytes)));
  builder.copy(a, constant, 1024);                                                       // 0
  builder.copy(b, constant, 64);                                                         // 1
  builder.add(Wait{1});                                                                  // 2
  builder.add(Move{a, y, {1, 1, 1, 1, 1, 64}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});  // 3
  builder.add(Wait{2});                                                                  // 4
  builder.add(test::binary(BinaryKind::kAdd, a, b, y, 64, kPlainAdd));                   // 5
  Outcome result = run(builder);
  ASSERT_EQ(result.report.status, Status::kOk);
  ASSERT_EQ(result.events.size(), 6U);
  const uint64_t first = 400 + 200 + (1024 * 16 + 9) / 10, second = 200 + (64 * 16 + 9) / 10;
  EXPECT_EQ(result.events[0].start, 400U);
  EXPECT_EQ(result.events[0].end, first);
  EXPECT_EQ(result.events[1].start, first);  // one engine
  EXPECT_EQ(result.events[1].end, first + second);
  EXPECT_EQ(result.events[2].start, 800U);
  EXPECT_EQ(result.events[2].end, first);
  EXPECT_EQ(result.events[3].busy, 64U + 8U);
  EXPECT_EQ(result.events[3].end, first + 8000 + 72);
  EXPECT_EQ(result.events[4].end, result.events[4].start);  // arrived long ago
  EXPECT_EQ(result.report.total_cycles, first + 2 * (8000 + 72));
  EXPECT_EQ(result.report.busy_cycles, 144U);
  EXPECT_EQ(result.report.host_cycles, 2U * 400 + 2 * 8000);
  EXPECT_EQ(result.report.stall_cycles, first - 800);
  EXPECT_EQ(result.report.copied_bytes, 1088U);
  EXPECT_EQ(result.report.calls, 2U);
  EXPECT_EQ(result.report.peak_scratch_bytes, 1088U);
  EXPECT_EQ(result.report.total_cycles,
            result.report.busy_cycles + result.report.host_cycles + result.report.stall_cycles);
}

// A second wait for a copy that has arrived costs nothing, though its place in the list of arrivals
// is that of a later copy by then.
TEST(SimulatorCore, WaitsForOlderCopiesAreOver) {
  const npu::Target target{
      .copy_host_cycles = 1, .copy_setup_cycles = 10, .flash_bytes_per_16_cycles = 16};
  uint64_t arrivals[1] = {};
  simulator::Timeline timeline(target, arrivals);
  timeline.copy(0, {.bytes = 5, .ticket = 1});
  EXPECT_EQ(timeline.wait(1, {1}).end, 1U + 10 + 5);
  timeline.copy(2, {.bytes = 500, .ticket = 2});
  EXPECT_EQ(timeline.wait(3, {1}).end, 16U + 1);
  EXPECT_EQ(timeline.wait(4, {2}).end, 17U + 10 + 500);
}

TEST(SimulatorDriver, RefusesParametersOutOfRange) {
  const auto run_with = [](test::Channel channel, uint32_t flags) {
    PayloadBuilder builder;
    const Window w = dense({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
    const Address x = builder.input(1), y = builder.output(1);
    const Address weights = builder.stage(std::vector<int8_t>(64, 1));
    const Address parameters = builder.stage(test::pack_parameters(kTarget, {channel}));
    builder.add(Conv2d{
        w, x, y, weights, parameters, 0, Packing::kChannels, {0, -128, 127, flags, {}, {}, {}}});
    return run(builder, {{1}}).report;
  };
  for (const test::Channel channel :
       {test::Channel{0, 1 << 30, 32}, test::Channel{0, 1 << 30, -32}, test::Channel{0, -1, 0}}) {
    EXPECT_EQ(run_with(channel, 0).status, Status::kBadArgument);
    EXPECT_EQ(run_with(channel, 0).command, 4U);
  }
  EXPECT_EQ(run_with({0, 1 << 30, 31}, 0).status, Status::kOk);
  EXPECT_EQ(run_with({0, 1 << 30, 31}, kOneRounding).status, Status::kBadArgument);
  EXPECT_EQ(run_with({0, 1 << 30, 30}, kOneRounding).status, Status::kOk);
}

}  // namespace
}  // namespace dtr
