// Convolutions of the shapes and with the parameters for which kernel sets have paths of their own:
// tiles and blocks in part, pixels read where they are, folded requantization.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "test/unit/simulator_agreement.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::KernelSet;
using test::Case;
using test::expect_kernel_sets_agree;
using test::input_bytes;
using test::kernel_sets;
using test::kTarget;
using test::output_bytes;
using test::Random;

// Rescaling at ties and at the ends where all channels can be folded
// (host/simulator/convolution.h): no shift to the left, and accumulators within `bound`. An input
// of 0 leaves the bias alone in the accumulator. A depthwise convolution takes the same parameters.
void expect_folded_rescaling(const Epilogue& epilogue, int32_t lowest_right, int32_t highest_right,
                             int64_t bound) {
  std::vector<test::Channel> channels;
  for (int32_t right = lowest_right; right <= highest_right; ++right)
    for (const int32_t multiplier : {0, 1, 1 << 30, (1 << 30) + 1, 1518500250, INT32_MAX}) {
      const auto add = [&](int64_t accumulator) {
        const int64_t bias = std::clamp(accumulator, -bound, bound);
        channels.push_back({static_cast<int32_t>(bias), multiplier, -right});
      };
      for (const int64_t k : {0, 1, 2, 63, 64, 127, 255})
        for (const int64_t nudge : {-2, -1, 0, 1, 2})
          for (const int64_t sign : {-1, 1}) add(sign * (((2 * k + 1) << right) + nudge));
      for (const int64_t end : {-bound, bound}) add(end);
    }
  const auto count = static_cast<uint32_t>(channels.size());
  Case test_case;
  const Window w = dense({1, 1, 1, 4, 1, 1, count, 1, 1, 1, 1, 1, 1, 0, 0});
  const Window thin = dense({1, 1, 1, count, 1, 1, count, 1, 3, 1, 1, 1, 1, 0, 1});
  const Address x = test_case.input(std::vector<int8_t>(4)),
                many = test_case.input(std::vector<int8_t>(count));
  const Address y = test_case.builder.output(count), z = test_case.builder.output(count);
  const Address weights = test_case.builder.stage(
      test::pack_conv2d(kTarget, w, Packing::kChannels, std::vector<int8_t>(size_t{count} * 4, 1)));
  const Address thin_weights = test_case.builder.stage(
      test::pack_depthwise(kTarget, thin, std::vector<int8_t>(size_t{count} * 3, 1)));
  const Address parameters = test_case.builder.stage(test::pack_parameters(kTarget, channels));
  test_case.builder.add(Conv2d{w, x, y, weights, parameters, 0, Packing::kChannels, epilogue});
  test_case.builder.add(Depthwise{thin, many, z, thin_weights, parameters, 0, epilogue});
  expect_kernel_sets_agree(test_case, kernel_sets());
}
TEST(SimulatorKitsRescale, FoldedTiesAndExtremes) {
  // The clamp takes what is negative, or values are rounded once: any accumulator may be folded.
  for (const int32_t zero_point : {-128, -7, 100})
    expect_folded_rescaling({zero_point, zero_point, 127, 0, {}, {}, {}}, 1, 22, INT32_MAX);
  for (const int32_t zero_point : {-128, 0, 127})
    expect_folded_rescaling({zero_point, -128, 127, kOneRounding, {}, {}, {}}, 1, 22, INT32_MAX);
  constexpr int64_t kLargest = (int64_t{1} << 29) - 1 - 128 * 4;  // with weights of 1
  for (const int32_t zero_point : {-128, -100, 0, 127})
    expect_folded_rescaling({zero_point, -128, 127, 0, {}, {}, {}}, 0, 21, kLargest);
  // Neither way takes a shift of 0 beside accumulators that are large.
  expect_folded_rescaling({-128, -128, 127, 0, {}, {}, {}}, 0, 22, INT32_MAX);
}

// Parameters as quantized networks have them: no shift to the left.
std::vector<test::Channel> usual_channels(Random& random, uint32_t count) {
  std::vector<test::Channel> channels(count);
  for (test::Channel& channel : channels)
    channel = {random.between(-20000, 20000), random.between(1 << 30, INT32_MAX),
               random.between(-12, -6)};
  return channels;
}
// The zero point at the clamp's low end, between, and either with one rounding.
Epilogue usual_epilogue(uint32_t round) {
  const bool activation = round % 2 == 0;
  return {activation ? -128 : 3,
          -128,
          round % 3 == 0 ? 90 : 127,
          round % 4 == 3 ? kOneRounding : 0u,
          {},
          {},
          {},
          {}};
}

// Blocks of 64 and of 32 channels, whole and in part; windows that end inside and outside.
TEST(SimulatorKitsShapes, DepthwiseBlocks) {
  const std::vector<KernelSet> all = kernel_sets();
  Random random(11);
  uint32_t round = 0;
  for (const uint32_t channels : {23, 24, 31, 32, 33, 63, 64, 65, 96, 100, 144, 160})
    for (const uint32_t stride : {1U, 2U, 3U})
      for (const uint32_t rows : {1U, 2U, 3U, 4U}) {
        SCOPED_TRACE(testing::Message() << channels << ' ' << stride << ' ' << rows);
        ++round;
        Window w{1 + round % 2, 1 + random.upto(6), 1 + random.upto(9), channels};
        w.out_channels = channels;
        w.kernel_height = rows, w.kernel_width = 3;
        w.stride_height = 1 + round % 2, w.stride_width = stride;
        w.dilation_height = 1 + (round % 5 == 0 ? 1 : 0);
        w.dilation_width = round % 7 == 0 ? 2 : 1;
        w.pad_top = random.between(0, 2), w.pad_left = random.between(-1, 3);
        w.out_height = 1 + random.upto(5), w.out_width = 1 + random.upto(7);
        w = dense(w);
        if (round % 3 == 0)
          w.in.pixel += 5, w.in.row += 5 * w.in_width, w.in.batch = w.in.row * w.in_height;
        if (round % 4 == 0)
          w.out.pixel += 3, w.out.row += 3 * w.out_width, w.out.batch = w.out.row * w.out_height;
        Case test_case;
        const Address x = test_case.input(random.int8(input_bytes(w))),
                      y = test_case.builder.output(output_bytes(w));
        test_case.builder.add(Fill{y, output_bytes(w), 77});
        const Address weights = test_case.builder.stage(
            test::pack_depthwise(kTarget, w, random.int8(size_t{channels} * rows * 3)));
        const Address parameters = test_case.builder.stage(
            test::pack_parameters(kTarget, usual_channels(random, channels)));
        test_case.builder.add(Depthwise{w, x, y, weights, parameters, random.between(-128, 127),
                                        usual_epilogue(round)});
        expect_kernel_sets_agree(test_case, all);
        if (HasFatalFailure()) return;
      }
}

// Every number of positions and of channels in a tile; pixels that are read where they are.
TEST(SimulatorKitsShapes, PointwiseTiles) {
  const std::vector<KernelSet> all = kernel_sets();
  Random random(12);
  uint32_t round = 0;
  for (const uint32_t out_channels : {1, 15, 16, 17, 24, 32, 33, 48, 50, 64, 65, 80, 130})
    for (const uint32_t columns : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17}) {
      SCOPED_TRACE(testing::Message() << out_channels << ' ' << columns);
      ++round;
      const uint32_t stride = 1 + round % 3 / 2;
      Window w{1 + round % 2, 3, columns, round % 5 == 0 ? 7 : 4 * (1 + random.upto(9))};
      w.out_channels = out_channels;
      w.kernel_height = w.kernel_width = w.dilation_height = w.dilation_width = 1;
      w.stride_height = w.stride_width = stride;
      w.out_height = (w.in_height - 1) / stride + 1;
      w.out_width = (w.in_width - 1) / stride + 1 + (round % 11 == 0 ? 1 : 0);
      w = dense(w);
      if (round % 4 == 0)
        w.in.pixel += 3, w.in.row += 3 * w.in_width, w.in.batch = w.in.row * w.in_height;
      Case test_case;
      const Address x = test_case.input(random.int8(input_bytes(w))),
                    y = test_case.builder.output(output_bytes(w));
      const Address weights = test_case.builder.stage(test::pack_conv2d(
          kTarget, w, Packing::kChannels, random.int8(size_t{out_channels} * w.in_channels)));
      const Address parameters = test_case.builder.stage(
          test::pack_parameters(kTarget, usual_channels(random, out_channels)));
      test_case.builder.add(Conv2d{w, x, y, weights, parameters, random.between(-128, 127),
                                   Packing::kChannels, usual_epilogue(round)});
      expect_kernel_sets_agree(test_case, all);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace dtr
