// Concatenations whose operands are computed where they belong: no copy, equal to the integer
// reference byte for byte.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

#include "compiler/backends/neutron/lowering/concatenation.h"
#include "test/unit/machine.h"
#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using Kernels = std::vector<std::string>;

// A graph over %x: i8[n,6,7,9] with weights %k (3×3, 6 → 5 channels) and %p (1×1, 6 → 4).
std::string graph(std::string_view body, int n = 1, std::string_view inputs = "") {
  return fmt::format(
      "graph @forward(%x: i8[{0},6,7,9] channels_last quant<0.05:-7>{1}) {{\n"
      "  %k: i8[5,6,3,3] quant<0.011> = constant seeded<3>\n"
      "  %p: i8[4,6,1,1] quant<0.02> = constant seeded<4>\n{2}}}\n",
      n, inputs, body);
}
std::string conv_line(std::string_view result, std::string_view type, std::string_view x,
                      std::string_view weight, int pad = 0) {
  return fmt::format(
      "  {0}: i8[{1}] channels_last quant<0.09:11> = aten.convolution({2}, {3}, _) {{dilation = "
      "[1, 1], groups = 1, output_padding = [0, "
      "0], "
      "padding = [{4}, {4}], stride = [1, 1], transposed = false}}\n",
      result, type, x, weight, pad);
}

TEST(NeutronJoin, ChannelsOfConvolutionsAndPools) {
  for (const int n : {1, 2}) {
    const std::string text =
        graph(conv_line("%a", fmt::format("{},5,7,9", n), "%x", "%k", 1) +
                  conv_line("%b", fmt::format("{},4,7,9", n), "%x", "%p") +
                  fmt::format("  %c: i8[{0},4,7,9] channels_last quant<0.09:11> = "
                              "aten.max_pool2d(%b) {{ceil_mode = false, dilation = [1, 1], "
                              "kernel_size = [3, 3], padding = [1, 1], stride = [1, 1]}}\n"
                              "  %y: i8[{0},13,7,9] channels_last quant<0.09:11> = aten.cat(%a, "
                              "%b, %c) {{dim = 1}}\n  return %y\n",
                              n),
              n);
    EXPECT_EQ(expect_bit_exact(text).kernels(), (Kernels{"Conv2d", "Conv2d", "Pool"}));
  }
}

TEST(NeutronJoin, AnyDimension) {
  for (const auto& [dim, shape] : {std::pair{0, "4,5,7,9"}, {2, "2,5,14,9"}, {3, "2,5,7,18"}}) {
    const std::string text = graph(
        conv_line("%a", "2,5,7,9", "%x", "%k", 1) + conv_line("%b", "2,5,7,9", "%x", "%k", 1) +
            fmt::format(
                "  %r: i8[2,5,7,9] channels_last quant<0.09:11> = aten.relu(%b)\n"
                "  %y: i8[{}] channels_last quant<0.09:11> = aten.cat(%a, %r) {{dim = {}}}\n"
                "  return %y\n",
                shape, dim),
        2);
    EXPECT_EQ(expect_bit_exact(text).kernels(), (Kernels{"Conv2d", "Conv2d"})) << dim;
  }
}

// Each layer reads all channels so far and writes its own behind them.
TEST(NeutronJoin, DenseBlock) {
  std::string text =
      graph(conv_line("%a", "2,5,7,9", "%x", "%k", 1) +
                "  %v: i8[3,5,3,3] quant<0.011> = constant seeded<5>\n"
                "  %b: i8[2,3,7,9] channels_last quant<0.09:11> = aten.convolution(%a, %v, _) "
                "{dilation = [1, 1], groups = "
                "1, output_padding = [0, "
                "0], padding = [1, 1], stride = [1, 1], transposed = false}\n"
                "  %j: i8[2,8,7,9] channels_last quant<0.09:11> = aten.cat(%a, %b) {dim = 1}\n"
                "  %w: i8[2,8,3,3] quant<0.011> = constant seeded<6>\n"
                "  %c: i8[2,2,7,9] channels_last quant<0.09:11> = aten.convolution(%j, %w, _) "
                "{dilation = [1, 1], groups = "
                "1, output_padding = [0, "
                "0], padding = [1, 1], stride = [1, 1], transposed = false}\n"
                "  %y: i8[2,10,7,9] channels_last quant<0.09:11> = aten.cat(%j, %c) {dim = 1}\n  "
                "return %y\n",
            2);
  EXPECT_EQ(expect_bit_exact(text).kernels(), (Kernels{"Conv2d", "Conv2d", "Conv2d"}));
}

TEST(NeutronJoin, GroupsAndPhasesWriteTheirPart) {
  const std::string text = graph(
      "  %g: i8[10,3,1,1] quant<0.02> = constant seeded<7>\n"
      "  %a: i8[1,10,7,9] channels_last quant<0.09:11> = aten.convolution(%x, %g, _) {dilation = "
      "[1, 1], groups = 2, output_padding = [0, "
      "0], "
      "padding = [0, 0], stride = [1, 1], transposed = false}\n"
      "  %s: i8[1,10,4,5] channels_last quant<0.09:11> = aten.max_pool2d(%a) {ceil_mode = false, "
      "dilation = [1, 1], kernel_size = [2, 2], "
      "padding = [1, 1], stride = [2, 2]}\n"
      "  %u: i8[10,3,1,1] quant<0.02> = constant seeded<8>\n"
      "  %b: i8[1,3,7,9] channels_last quant<0.09:11> = aten.convolution(%s, %u, _) {dilation = "
      "[1, 1], groups = 1, output_padding = [0, "
      "0], "
      "padding = [0, 0], stride = [2, 2], transposed = true}\n"
      "  %y: i8[1,13,7,9] channels_last quant<0.09:11> = aten.cat(%a, %b) {dim = 1}\n  return "
      "%y\n");
  const std::vector<std::string> kernels = expect_bit_exact(text).kernels();
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "Move"), 0);
}

TEST(NeutronJoin, ResidualSumsReadAndWriteAtTheirStrides) {
  const std::string text = graph(
      conv_line("%a", "1,4,7,9", "%x", "%p") + conv_line("%b", "1,4,7,9", "%x", "%p") +
      "  %s: i8[1,4,7,9] channels_last quant<0.09:11> = aten.add.Tensor(%a, %b) {alpha = 1.0}\n" +
      conv_line("%c", "1,4,7,9", "%x", "%p") +
      "  %y: i8[1,8,7,9] channels_last quant<0.09:11> = aten.cat(%s, %c) {dim = 1}\n" +
      "  %q: i8[4,8,1,1] quant<0.02> = constant seeded<9>\n" +
      conv_line("%d", "1,4,7,9", "%y", "%q") +
      "  %e: i8[1,4,7,9] channels_last quant<0.09:11> = aten.add.Tensor(%d, %c) {alpha = 1.0}\n  "
      "return %e\n");
  expect_bit_exact(text);
}

// The addend lies in the other order of rows and columns: the sum cannot be written over it.
TEST(NeutronJoin, AnAddendInAnotherOrderStaysWhole) {
  expect_bit_exact(
      R"(graph @forward(%x: i8[1,8,4,4] quant<0.02:-3>, %u: i8[1,8,4,4] quant<0.02:-3>) {
  %w: i8[8,8,1,1] quant<range=-127..127, 0.01> = constant seeded<1>
  %v: i8[8,8,1,1] quant<range=-127..127, 0.01> = constant seeded<2>
  %a: i8[1,8,4,4] quant<0.05:4> = aten.convolution(%u, %v) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %p: i8[1,8,4,4] quant<0.05:4> = aten.permute(%a) {dims = [0, 1, 3, 2]}
  %y: i8[1,8,4,4] quant<0.05:4> = aten.convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %s: i8[1,8,4,4] quant<0.1:0> = aten.add.Tensor(%y, %p) {alpha = 1}
  return %s
})");
}

// An input is in its memory before the first call, whichever reads it.
TEST(NeutronJoin, InputsOfLaterCallsAreNotOverwritten) {
  const test::Compiled compiled = expect_bit_exact(
      R"(graph @forward(%x: i8[1,64] quant<0.02:-3>, %z: i8[1,64] quant<0.02:-3>) {
  %b: i8[1,64] quant<0.00390625:-128> = aten.softmax(%x) {dim = 1}
  %c: i8[1,64] quant<0.0078125> = aten.tanh(%b)
  %y: i8[1,64] quant<0.05> = aten.add.Tensor(%c, %z) {alpha = 1}
  return %y
})");
  ASSERT_EQ(compiled.partition->inputs.size(), 2U);
  EXPECT_EQ(compiled.partition->inputs[1].first_step, 0);
  EXPECT_EQ(compiled.partition->inputs[1].last_step, 2);
}

// Tables and functions of two tensors write their channels; they read neighbours of what they
// write.
TEST(NeutronJoin, ElementwiseResultsAreWrittenInPlace) {
  const std::string text = graph(
      "  %a: i8[2,6,7,9] channels_last quant<0.09:11> = aten.tanh(%x)\n"
      "  %b: i8[2,6,7,9] channels_last quant<0.09:11> = aten.mul.Tensor(%a, %x)\n"
      "  %s: i8[2,6,7,9] channels_last quant<0.09:11> = aten.maximum(%a, %b)\n"
      "  %r: i8[2,6,7,9] channels_last quant<0.09:11> = aten.neg(%s)\n"
      "  %y: i8[2,24,7,9] channels_last quant<0.09:11> = aten.cat(%a, %b, %s, %r) {dim = 1}\n  "
      "return %y\n",
      2);
  EXPECT_EQ(expect_bit_exact(text).kernels(), (Kernels{"Lookup", "Binary", "Binary", "Lookup"}));
}

// A matrix product reads a part before the rest of the concatenation is there.
TEST(NeutronJoin, ProductsReadParts) {
  expect_bit_exact(R"(graph @forward(%x: i8[1,7,5,5] quant<0.05:-7>) {
    %t: i8[1,7,5,5] quant<0.05:-7> = aten.tanh(%x)
    %m: i8[1,7,5,5] quant<0.5:-7> = aten.matmul(%t, %t)
    %s: i8[1,7,5,5] quant<0.05:-7> = aten.neg(%m)
    %y: i8[1,7,10,5] channels_last quant<0.05:-7> = aten.cat(%t, %s) {dim = 2}
    return %m, %y
  })");
}

// Padding is made in its part.
TEST(NeutronJoin, PaddingIsAPart) {
  expect_bit_exact(R"(graph @forward(%x: i8[3] quant<0.02:42>) {
    %p: i8[5] quant<0.02:42> = aten.constant_pad_nd(%x) {pad = [1, 1], value = 0.125}
    %y: i8[8] quant<0.02:42> = aten.cat(%x, %p) {dim = 0}
    return %y
  })");
}

// Where columns come before rows, a pool cannot write.
TEST(NeutronJoin, RowsInsideOfColumns) {
  expect_bit_exact(
      R"(graph @forward(%x: i8[1,6,11] quant<0.02:42>, %z: i8[4,2,4] channels_last quant<0.02:42>) {
    %p: i8[1,2,4] quant<0.02:42> = aten.max_pool2d(%x) {ceil_mode = true, dilation = [1, 1], kernel_size = [3, 3], padding = [0, 1], stride = [3, 3]}
    %y: i8[5,2,4] channels_last quant<0.02:42> = aten.cat(%p, %z) {dim = 0}
    return %y
  })");
}

// What cannot lie in place is copied: inputs, constants, an operand that is there twice, or in two
// concatenations.
TEST(NeutronJoin, CopiesWhatBelongsElsewhere) {
  expect_bit_exact(graph(conv_line("%a", "1,4,7,9", "%x", "%p") +
                         "  %z: i8[1,6,7,9] quant<0.05:-7> = constant seeded<11>\n"
                         "  %r: i8[1,4,7,9] channels_last quant<0.05:-7> = requantize(%a)\n"
                         "  %y: i8[1,16,7,9] channels_last quant<0.05:-7> = aten.cat(%x, %r, %z) "
                         "{dim = 1}\n  return %y\n"));
  expect_bit_exact(
      graph(conv_line("%a", "1,4,7,9", "%x", "%p") + conv_line("%b", "1,5,7,9", "%x", "%k", 1) +
            "  %y: i8[1,13,7,9] channels_last quant<0.09:11> = aten.cat(%a, %b, %a) {dim = 1}\n"
            "  %z: i8[1,9,7,9] channels_last quant<0.09:11> = aten.cat(%b, %a) {dim = 1}\n  return "
            "%y, %z\n"));
  expect_bit_exact(graph(
      conv_line("%a", "1,4,7,9", "%x", "%p") + conv_line("%b", "1,5,7,9", "%x", "%k", 1) +
      "  %y: i8[1,9,7,9] channels_last quant<0.09:11> = aten.cat(%a, %b) {dim = 1}\n"
      "  %t: i8[1,4,7,9] channels_last quant<0.0078125> = aten.tanh(%a)\n  return %y, %t, %b\n"));
}

// All of a concatenation is in memory from its first part on. Where that is too much, parts are
// copied.
TEST(NeutronJoin, CopiesWhereSramHasNoRoom) {
  const std::string text =
      graph(conv_line("%a", "1,4,7,9", "%x", "%p") +                                          //
            "  %g: i8[80,4,1,1] quant<0.02> = constant seeded<7>\n" +                         //
            conv_line("%b", "1,80,7,9", "%a", "%g") +                                         //
            "  %h: i8[1,80,1,1] quant<0.02> = constant seeded<8>\n" +                         //
            conv_line("%c", "1,1,7,9", "%b", "%h") +                                          //
            "  %i: i8[40,1,1,1] quant<0.02> = constant seeded<9>\n" +                         //
            conv_line("%d", "1,40,7,9", "%c", "%i") +                                         //
            "  %y: i8[1,44,7,9] channels_last quant<0.09:11> = aten.cat(%a, %d) {dim = 1}\n"  //
            "  return %y\n");
  EXPECT_EQ(expect_bit_exact(text).kernels(), (Kernels{"Conv2d", "Conv2d", "Conv2d", "Depthwise"}));
  npu::Target target = dtr::test::machine();
  target.sram_bytes = 6600;
  const std::vector<std::string> kernels = expect_bit_exact(text, target).kernels();
  EXPECT_EQ(std::count(kernels.begin(), kernels.end(), "Move"), 2);
}

// Seeded graphs of convolutions, pools, tables and sums that keep height and width, joined and
// joined again.
TEST(NeutronJoin, AnyGraph) {
  int in_place = 0;
  for (uint32_t seed = 0; seed < 250; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](size_t below) { return static_cast<int>(random() % below); };
    struct Value {
      std::string name;
      std::array<int, 4> shape;
      bool used = false;
    };
    std::vector<Value> values{{"%x", {1 + pick(2), 1 + pick(9), 2 + pick(4), 2 + pick(4)}}};
    const auto type = [](const std::array<int, 4>& s) {
      return fmt::format("i8[{}] channels_last quant<0.05:-7>", fmt::join(s, ","));
    };
    const auto window = [](int kernel) { return fmt::format("padding = [{0}, {0}]", kernel / 2); };
    std::string body = fmt::format("graph @forward(%x: {}) {{\n", type(values[0].shape));
    const int ops = 3 + pick(9);
    for (int i = 0; i < ops; ++i) {
      const size_t at =
          values.size() - 1 - static_cast<size_t>(pick(std::min<size_t>(3, values.size())));
      const std::array<int, 4> shape = values[at].shape;
      Value made{fmt::format("%v{}", i), shape};
      std::string op;
      const int kernel = 1 + 2 * pick(2);
      switch (pick(8)) {
        case 0:
        case 1:
        case 2: {
          std::vector<int> divisors;
          for (int g = 1; g <= shape[1]; ++g)
            if (shape[1] % g == 0) divisors.push_back(g);
          const int groups = divisors[static_cast<size_t>(pick(divisors.size()))];
          const bool transposed = pick(3) == 0;
          const int out = 1 + pick(3), in = shape[1] / groups;
          made.shape[1] = groups * out;
          body += fmt::format("  %w{}: i8[{},{},{},{}] quant<0.02> = constant seeded<{}>\n", i,
                              transposed ? groups * in : groups * out, transposed ? out : in,
                              kernel, kernel, seed + 7u);
          op = fmt::format(
              "aten.convolution({}, %w{}, _) {{dilation = [1, 1], groups = {}, output_padding = "
              "[0, 0], {}, stride = [1, 1], "
              "transposed = {}}}",
              values[at].name, i, groups, window(kernel), transposed);
          break;
        }
        case 3:
          op = fmt::format(
              "aten.max_pool2d({0}) {{ceil_mode = false, dilation = [1, 1], kernel_size = [{1}, "
              "{1}], {2}, stride = [1, 1]}}",
              values[at].name, kernel, window(kernel));
          break;
        case 4:
          op = fmt::format("aten.relu({})", values[at].name);
          break;
        case 5: {
          std::vector<size_t> same;
          for (size_t v = 0; v < values.size(); ++v)
            if (values[v].shape == shape) same.push_back(v);
          Value& other = values[same[static_cast<size_t>(pick(same.size()))]];
          other.used = true;
          op = fmt::format("aten.add.Tensor({}, {}) {{alpha = 1.0}}", values[at].name, other.name);
          break;
        }
        default: {
          const size_t dim = pick(2) == 0 ? 1 : static_cast<size_t>(pick(4));
          op = fmt::format("aten.cat({}", values[at].name);
          for (Value& other : values) {
            std::array<int, 4> fits = other.shape;
            fits[dim] = shape[dim];
            if (fits != shape || other.name == values[at].name || pick(3) == 0) continue;
            other.used = true;
            made.shape[dim] += other.shape[dim];
            op += ", " + other.name;
          }
          op += fmt::format(") {{dim = {}}}", dim);
        }
      }
      if (made.shape[0] * made.shape[1] * made.shape[2] * made.shape[3] > 20000) continue;
      values[at].used = true;
      body += fmt::format("  {}: {} = {}\n", made.name, type(made.shape), op);
      values.push_back(made);
    }
    std::string outputs;
    for (const Value& value : values)
      if (!value.used || (value.name != "%x" && pick(9) == 0))
        outputs += (outputs.empty() ? "" : ", ") + value.name;
    const std::string text = fmt::format("{}  return {}\n}}\n", body, outputs);
    const Module module = parse(text);
    in_place += static_cast<int>(neutron::plan_subviews(module.forward()).size());
    expect_bit_exact(text);
    if (HasFailure()) return;
  }
  EXPECT_GT(in_place, 150);
}

TEST(NeutronJoin, OrdersThatInterleaveAreApart) {
  using neutron::StridedLayout;
  const StridedLayout dense{{60, 1, 1}};
  const StridedLayout channels{{20, 3, 8}, {3, 1, 1}};  // 3 of 8 channels of 20 pixels
  EXPECT_TRUE(neutron::disjoint(dense, dense, 60));
  EXPECT_TRUE(neutron::disjoint(dense, dense, -60));
  EXPECT_FALSE(neutron::disjoint(dense, dense, 59));
  EXPECT_TRUE(neutron::disjoint(channels, channels, 3));
  EXPECT_TRUE(neutron::disjoint(channels, channels, 5));
  EXPECT_TRUE(neutron::disjoint(channels, channels, -3));
  EXPECT_FALSE(neutron::disjoint(channels, channels, 2));
  EXPECT_FALSE(neutron::disjoint(channels, channels, 6));
  EXPECT_FALSE(neutron::disjoint(channels, dense, 3));
  EXPECT_FALSE(neutron::disjoint({{60, 1, -1}}, dense, 60));
}

}  // namespace
}  // namespace dtr::test
