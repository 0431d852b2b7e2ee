// Convolutions in full on the NPU: groups, transposed ones, and both sides of every bound, equal to
// the integer reference byte for byte.
#include <fmt/format.h>

#include <random>

#include "compiler/ops/convolution.h"
#include "test/unit/machine.h"
#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using Kernels = std::vector<std::string>;

struct Axis {
  int64_t in = 7, kernel = 3, stride = 1, pad = 0, pad_end = 0, dilation = 1, output_padding = 0;

  int64_t out(bool transposed) const {
    const int64_t reach = dilation * (kernel - 1) + 1;
    if (transposed) return (in - 1) * stride + reach - pad - pad_end + output_padding;
    return in + pad + pad_end < reach ? 0 : (in + pad + pad_end - reach) / stride + 1;
  }
};

struct ConvCase {
  int64_t batch = 1, groups = 1, in = 3, out = 5;  // in, out: channels of one group
  Axis h, w;
  bool transposed = false, bias = true, per_channel = false;
  std::string layout = "channels_last ";
  std::string tail = "  return %y\n";  // what follows %y
};

std::string text_of(const ConvCase& c) {
  const int64_t first = c.groups * (c.transposed ? c.in : c.out),
                second = c.transposed ? c.out : c.in;
  std::string scales = "0.011";
  if (c.per_channel) {
    const int64_t entries = c.transposed ? c.out : c.groups * c.out;
    scales = fmt::format("axis={}", c.transposed ? 1 : 0);
    for (int64_t i = 0; i < entries; ++i)
      scales += fmt::format(", {}", 0.004 + 0.003 * static_cast<double>(i % 7));
  }
  return fmt::format(
      "graph @forward(%x: i8[{},{},{},{}] {}quant<0.05:-7>) {{\n"
      "  %w: i8[{},{},{},{}] quant<{}> = constant seeded<3>\n"
      "  %b: i32[{}] quant<bias> = constant seeded<4>\n"
      "  %y: i8[{},{},{},{}] {}quant<0.09:11> = aten.convolution(%x, %w, {}) {{dilation = [{}, "
      "{}], groups = {}, output_padding = [{}, "
      "{}], "
      "padding = [{}, {}], padding_end = [{}, {}], stride = [{}, {}], transposed = {}}}\n{}}}\n",
      c.batch, c.groups * c.in, c.h.in, c.w.in, c.layout, first, second, c.h.kernel, c.w.kernel,
      scales, c.groups * c.out, c.batch, c.groups * c.out, c.h.out(c.transposed),
      c.w.out(c.transposed), c.layout, c.bias ? "%b" : "_", c.h.dilation, c.w.dilation, c.groups,
      c.h.output_padding, c.w.output_padding, c.h.pad, c.w.pad, c.h.pad_end, c.w.pad_end,
      c.h.stride, c.w.stride, c.transposed, c.tail);
}

Kernels kernels_of(const ConvCase& c) { return expect_bit_exact(text_of(c)).kernels(); }

TEST(NeutronGroups, OneCallAGroupInPlace) {
  EXPECT_EQ(kernels_of({.batch = 2,
                        .groups = 3,
                        .in = 24,
                        .out = 11,
                        .h = {.in = 30, .pad = 1},
                        .w = {.in = 40, .stride = 2}}),
            (Kernels{"Conv2d", "Conv2d", "Conv2d"}));
}

// Groups that leave most of the array empty share a call.
TEST(NeutronGroups, SmallGroupsShareTheArray) {
  EXPECT_EQ(kernels_of({.groups = 4, .in = 2, .out = 2}), Kernels{"Conv2d"});
  EXPECT_EQ(kernels_of({.groups = 5, .in = 2, .out = 3, .per_channel = true}), Kernels{"Conv2d"});
}

TEST(NeutronGroups, OneChannelAGroupIsDepthwise) {
  EXPECT_EQ(kernels_of({.groups = 11, .in = 1, .out = 3}), Kernels{"Depthwise"});
  EXPECT_EQ(kernels_of({.groups = 11, .in = 1, .out = 1, .h = {.kernel = 5, .pad = 3}}),
            Kernels{"Depthwise"});
}

TEST(NeutronGroups, EpilogueOfEveryGroup) {
  const std::string shape = "1,34,28,38";
  const std::string tail = fmt::format(
      "  %t: i8[{0}] channels_last quant<0.0078125> = aten.tanh(%y)\n"
      "  %k: i8[{0}] quant<0.03:3> = constant seeded<9>\n"
      "  %z: i8[{0}] channels_last quant<0.04:-5> = aten.add.Tensor(%t, {{}}) {{{{alpha = "
      "1.0}}}}\n  return %z\n",
      shape);
  const ConvCase conv{.groups = 2, .in = 24, .out = 17, .h = {.in = 30}, .w = {.in = 40}};
  for (const std::string_view addend : {"%k", "%x2"}) {
    ConvCase c = conv;
    c.tail = fmt::format(fmt::runtime(tail), addend);
    std::string text = text_of(c);
    if (addend == "%x2")
      text.replace(text.find(") {"), 1,
                   fmt::format(", %x2: i8[{}] channels_last quant<0.03:3>)", shape));
    EXPECT_EQ(expect_bit_exact(text, test::machine(), {.prefetch_calls = 0}).kernels(),
              (Kernels{"Conv2d", "Conv2d"}))
        << addend;
  }
}

// A stride of 2 × 3 makes six convolutions, each a phase of the result.
TEST(NeutronTransposed, OneCallAPhase) {
  EXPECT_EQ(kernels_of({.in = 11,
                        .out = 13,
                        .h = {.kernel = 3, .stride = 2, .pad = 1},
                        .w = {.kernel = 4, .stride = 3},
                        .transposed = true}),
            Kernels(6, "Conv2d"));
  EXPECT_EQ(kernels_of({.in = 11, .out = 13, .transposed = true}), Kernels{"Conv2d"});
}

TEST(NeutronTransposed, OneInputChannelAndDepthwise) {
  expect_bit_exact(
      text_of({.in = 1, .out = 1, .h = {.stride = 2}, .w = {.stride = 2}, .transposed = true}));
  EXPECT_EQ(kernels_of({.groups = 9,
                        .in = 1,
                        .out = 1,
                        .h = {.kernel = 4, .stride = 2, .pad = 1},
                        .w = {.kernel = 2},
                        .transposed = true}),
            Kernels(2, "Depthwise"));
}

// With a stride beyond the kernel, or a dilation that shares a factor with the stride, no input
// reaches some phases: they are the bias.
TEST(NeutronTransposed, PhasesThatNoInputReaches) {
  expect_bit_exact(text_of({.in = 5,
                            .h = {.kernel = 2, .stride = 3},
                            .w = {.kernel = 1, .stride = 2, .output_padding = 1},
                            .transposed = true}));
  expect_bit_exact(text_of({.in = 5,
                            .h = {.stride = 2, .dilation = 2},
                            .w = {.stride = 4, .dilation = 6},
                            .transposed = true,
                            .bias = false}));
}

TEST(NeutronTransposed, OneSpatialDimension) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,6,11] channels_last quant<0.05:-7>) {
    %w: i8[6,5,3] quant<0.011> = constant seeded<3>
    %y: i8[2,10,24] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) {dilation = [1], groups = 2, output_padding = [1], padding = [0], stride = [2], transposed = true}
    return %y
  })");
}

// Every combination of what a convolution may have, drawn by a seed.
TEST(NeutronConvolutionSweep, EqualToTheReference) {
  std::mt19937 random(1);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint32_t>(high - low + 1));
  };
  int transposed = 0, grouped = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    ConvCase c{.batch = pick(1, 2),
               .groups = pick(0, 1) == 0 ? 1 : pick(2, 5),
               .in = pick(1, 11),
               .out = pick(1, 11)};
    c.transposed = pick(0, 1) == 0;
    c.bias = pick(0, 3) != 0;
    c.per_channel = pick(0, 1) == 0;
    if (pick(0, 4) == 0) c.layout = "";
    for (Axis* axis : {&c.h, &c.w}) {
      *axis = {.in = pick(1, 9),
               .kernel = pick(1, 4),
               .stride = pick(1, 4),
               .pad = pick(0, 4),
               .pad_end = 0,
               .dilation = pick(1, 4)};
      axis->pad_end = pick(0, 3) == 0 ? pick(0, 4) : axis->pad;
      if (c.transposed) axis->output_padding = pick(0, std::max(axis->stride, axis->dilation) - 1);
    }
    if (c.h.out(c.transposed) < 1 || c.w.out(c.transposed) < 1) continue;
    transposed += c.transposed ? 1 : 0;
    grouped += c.groups > 1 ? 1 : 0;
    expect_bit_exact(text_of(c));
    if (HasFailure()) return;
  }
  EXPECT_GT(transposed, 80);
  EXPECT_GT(grouped, 80);
}

// Weights that do not fit SRAM at once come in parts, of several positions too.
TEST(NeutronConvolutionLimits, WeightsBeyondSram) {
  npu::Target target = dtr::test::machine();
  target.sram_bytes = 12000;
  const ConvCase c{.in = 32,
                   .out = 48,
                   .h = {.in = 9, .pad = 1},
                   .w = {.in = 5, .pad = 1}};  // 13,824 bytes of weights
  const Compiled compiled = expect_bit_exact(text_of(c), target);
  EXPECT_GT(compiled.kernels().size(), 1u);
  EXPECT_LE(compiled.scratch_bytes, target.sram_bytes);
}

// More products than an accumulator takes: calls that hand on their sums. By rows and columns of
// the kernel, and by channels.
TEST(NeutronConvolutionLimits, AccumulationsOfSeveralCalls) {
  const auto calls = [](const ConvCase& c, const npu::Target& target = test::machine(),
                        NeutronOptions options = {}) {
    const Compiled compiled = expect_bit_exact(text_of(c), target, options);
    return std::ranges::count_if(compiled.kernels(), [](const std::string& name) {
      return name == "Conv2d" || name == "Depthwise";
    });
  };
  EXPECT_EQ(calls({.in = 8192,
                   .out = 11,
                   .h = {.in = 5, .kernel = 3, .pad = 1},
                   .w = {.in = 5, .kernel = 3, .pad = 1}},
                  test::machine(), {.prefetch_calls = 0}),
            2);
  npu::Target small = dtr::test::machine();
  small.max_reduction = 60;
  EXPECT_EQ(calls({.in = 11,
                   .out = 13,
                   .h = {.in = 7, .kernel = 3, .pad = 1},
                   .w = {.in = 5, .kernel = 3, .pad = 2, .dilation = 2}},
                  small),
            3);
  EXPECT_EQ(calls({.in = 11,
                   .out = 13,
                   .h = {.in = 7, .kernel = 3, .stride = 2},
                   .w = {.in = 9, .kernel = 5}},
                  small),
            6);
  EXPECT_EQ(
      calls({.in = 67, .out = 13, .h = {.in = 3, .kernel = 2}, .w = {.in = 5, .kernel = 2}}, small),
      8);
  EXPECT_EQ(calls({.in = 3, .out = 13, .h = {.in = 9, .kernel = 7}, .w = {.in = 9, .kernel = 7}},
                  small, {.row_packing = true}),
            7);
  EXPECT_EQ(calls({.groups = 12,
                   .in = 1,
                   .out = 1,
                   .h = {.in = 9, .kernel = 9, .pad = 4},
                   .w = {.in = 9, .kernel = 9, .pad = 4}},
                  small),
            2);
  small.sram_bytes = 4000;  // sums go with their part of the channels
  EXPECT_GT(
      calls({.in = 53, .out = 48, .h = {.in = 3, .kernel = 3}, .w = {.in = 5, .kernel = 3}}, small),
      9);
}

// Inside of the bound, computed.
TEST(NeutronConvolutionLimits, LargestKernelAndReduction) {
  expect_bit_exact(
      text_of({.in = 3, .out = 2, .h = {.in = 4097, .kernel = 4096}, .w = {.in = 1, .kernel = 1}}));
  expect_bit_exact(text_of({.in = 8184,
                            .out = 2,
                            .h = {.in = 3, .kernel = 2},
                            .w = {.in = 4, .kernel = 4}}));  // 65,472 products
  expect_bit_exact(text_of({.in = 3,
                            .out = 2,
                            .h = {.in = 5, .kernel = 1, .stride = 4096},
                            .w = {.in = 5000, .kernel = 1, .stride = 4096}}));
  expect_bit_exact(text_of({.in = 3,
                            .out = 2,
                            .h = {.in = 1, .kernel = 1},
                            .w = {.in = 4099, .kernel = 2, .dilation = 4096}}));
}

}  // namespace
}  // namespace dtr::test
