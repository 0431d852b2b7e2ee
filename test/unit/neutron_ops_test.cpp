// Every operator of the NPU backend alone and in small chains: compiled, encoded, simulated, equal
// to the integer reference byte for byte. Shapes are odd: channels ≠ height ≠ width ≠ batch, none a
// multiple of 8.
#include <fmt/format.h>

#include "test/unit/machine.h"
#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using Kernels = std::vector<std::string>;

struct Conv {
  int batch = 1, in = 3, out = 5, height = 7, width = 9, kernel_h = 3, kernel_w = 2;
  std::string attributes =
      "dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], "
      "transposed = false";
  int groups = 1, out_h = 5, out_w = 8;
  bool bias = true;
  std::string layout = "channels_last ";
};

std::string conv_text(const Conv& c) {
  return fmt::format(
      "graph @forward(%x: i8[{},{},{},{}] {}quant<0.05:-7>) {{\n"
      "  %w: i8[{},{},{},{}] quant<0.011> = constant seeded<3>\n"
      "  %b: i32[{}] quant<bias> = constant seeded<4>\n"
      "  %y: i8[{},{},{},{}] {}quant<0.09:11> = aten.convolution(%x, %w, {}) {{{}}}\n"
      "  return %y\n}}\n",
      c.batch, c.in, c.height, c.width, c.layout, c.out, c.in / c.groups, c.kernel_h, c.kernel_w,
      c.out, c.batch, c.out, c.out_h, c.out_w, c.layout, c.bias ? "%b" : "_", c.attributes);
}

std::string attributes(std::string_view dilation, int groups, std::string_view padding,
                       std::string_view stride, std::string_view more = "") {
  return fmt::format(
      "dilation = [{}], groups = {}, output_padding = [0, 0], padding = [{}], stride = [{}], "
      "transposed = false{}",
      dilation, groups, padding, stride, more);
}

TEST(NeutronConvolution, Plain) {
  EXPECT_EQ(expect_bit_exact(conv_text({})).kernels(), Kernels{"Conv2d"});
}

TEST(NeutronConvolution, WithoutBias) { expect_bit_exact(conv_text({.bias = false})); }

TEST(NeutronConvolution, BatchStridePaddingDilation) {
  expect_bit_exact(conv_text({.batch = 2,
                              .in = 11,
                              .out = 13,
                              .attributes = attributes("2, 1", 1, "1, 2", "2, 3"),
                              .out_h = 3,
                              .out_w = 4}));
}

TEST(NeutronConvolution, PaddingOfItsOwnSizeAtTheEnd) {
  expect_bit_exact(
      conv_text({.attributes = attributes("1, 1", 1, "1, 0", "2, 2", ", padding_end = [2, 3]"),
                 .out_h = 4,
                 .out_w = 6}));
}

TEST(NeutronConvolution, FusedActivationIsTheClampOfTheCall) {
  for (const std::string_view activation : {"relu", "relu6", "relu_0_to_1", "relu_n1_to_1"})
    expect_bit_exact(
        conv_text({.attributes = attributes("1, 1", 1, "0, 0", "1, 1",
                                            fmt::format(", activation = \"{}\"", activation))}));
}

TEST(NeutronConvolution, Depthwise) {
  const Compiled compiled =
      expect_bit_exact(conv_text({.batch = 2,
                                  .in = 11,
                                  .out = 11,
                                  .attributes = attributes("1, 2", 11, "1, 1", "2, 1"),
                                  .groups = 11,
                                  .out_h = 4,
                                  .out_w = 9}));
  EXPECT_EQ(compiled.kernels(), Kernels{"Depthwise"});
}

TEST(NeutronConvolution, DepthwiseWithMultiplier) {
  const Compiled compiled = expect_bit_exact(conv_text(
      {.in = 5, .out = 15, .attributes = attributes("1, 1", 5, "0, 0", "1, 1"), .groups = 5}));
  EXPECT_EQ(compiled.kernels(), Kernels{"Depthwise"});
}

// With one input channel the pipelines' lanes would be idle either way; the depthwise kernel needs
// an eighth of the weights.
TEST(NeutronConvolution, OneInputChannelIsDepthwise) {
  EXPECT_EQ(expect_bit_exact(conv_text({.in = 1, .out = 13})).kernels(), Kernels{"Depthwise"});
}

TEST(NeutronConvolution, RowPackingOnlyWhenAllowed) {
  const std::string text = conv_text({.in = 3, .out = 9});
  const uint64_t by_channels = expect_bit_exact(text).details().timeline().busy;
  const Compiled rows = expect_bit_exact(text, test::machine(), {.row_packing = true});
  EXPECT_EQ(std::get<npu::Conv2d>(rows.details().calls()[0].kernel).packing, npu::Packing::kRows);
  EXPECT_LT(rows.details().timeline().busy, by_channels);
}

TEST(NeutronConvolution, OneSpatialDimension) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,5,11] channels_last quant<0.05:-7>) {
    %w: i8[7,5,3] quant<0.011> = constant seeded<3>
    %y: i8[2,7,11] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) {dilation = [1], groups = 1, output_padding = [0], padding = [1], stride = [1], transposed = false}
    return %y
  })");
}

TEST(NeutronConvolution, PerChannelScales) {
  expect_bit_exact(R"(graph @forward(%x: i8[1,3,5,7] channels_last quant<0.05:-7>) {
    %w: i8[3,3,2,2] quant<axis=0, 0.011, 0.3, 0.00001> = constant seeded<3>
    %b: i32[3] quant<bias> = constant seeded<4>
    %y: i8[1,3,4,6] channels_last quant<0.09:11> = aten.convolution(%x, %w, %b) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
    return %y
  })");
}

// The convolution of an operand in the other layout gets its copy; so does a result that the graph
// promises otherwise.
TEST(NeutronConvolution, ContiguousOperandIsMovedFirst) {
  EXPECT_EQ(expect_bit_exact(conv_text({.layout = ""})).kernels(),
            (Kernels{"Move", "Conv2d", "Move"}));
}

TEST(NeutronConvolution, OtherMachines) {
  for (const uint32_t size : {4u, 16u}) {
    npu::Target target = dtr::test::machine();
    target.pipelines = target.macs = size;
    target.activation_port = target.weight_port = target.write_port = size;
    expect_bit_exact(conv_text({.in = 11, .out = 13}), target);
    expect_bit_exact(
        conv_text(
            {.in = 5, .out = 15, .attributes = attributes("1, 1", 5, "0, 0", "1, 1"), .groups = 5}),
        target);
  }
}

TEST(NeutronLinear, RowsOfAnyRank) {
  for (const std::string_view rows : {"1,", "3,", "2,3,", "2,3,5,", ""})
    expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[{0}13] quant<0.05:-7>) {{
      %w: i8[11,13] quant<axis=0, 0.011, 0.3, 0.001, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09> = constant seeded<3>
      %b: i32[11] quant<bias> = constant seeded<4>
      %y: i8[{0}11] quant<0.19:11> = aten.linear(%x, %w, %b) {{activation = "relu"}}
      return %y
    }})",
                                 rows));
}

TEST(NeutronBinary, SameShapeAndActivation) {
  const Compiled compiled = expect_bit_exact(
      R"(graph @forward(%a: i8[1,3,5,7] quant<0.05:-7>, %b: i8[1,3,5,7] quant<0.02:9>) {
    %y: i8[1,3,5,7] quant<0.06:-3> = aten.add.Tensor(%a, %b) {activation = "relu"}
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Binary"});
}

TEST(NeutronBinary, ValueWithItselfIsATable) {
  for (const std::string_view op :
       {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor"}) {
    const Compiled compiled =
        expect_bit_exact(fmt::format(R"(graph @forward(%a: i8[3,5] quant<0.05:-7>) {{
      %y: i8[3,5] quant<0.06:-3> = {}(%a, %a)
      return %y
    }})",
                                     op));
    EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
  }
}

TEST(NeutronBinary, OperandsInOtherLayoutsAreReadAsTheyLie) {
  const Compiled compiled = expect_bit_exact(
      R"(graph @forward(%a: i8[2,3,5,7] channels_last quant<0.05:-7>, %b: i8[2,3,5,7] quant<0.02:9>) {
    %y: i8[2,3,5,7] channels_last quant<0.06:-3> = aten.add.Tensor(%a, %b)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Binary"});
}

// What the outputs of the graph, or a convolution, want in another order is written so.
TEST(NeutronElementwise, WritesWhereReadersWantIt) {
  for (const std::string_view made :
       {"aten.tanh(%a)", "aten.mul.Tensor(%a, %a1)", "aten.maximum(%a1, %a)"}) {
    const auto program = [&](std::string_view body) {
      return fmt::format(
          R"(graph @forward(%a: i8[2,3,5,7] quant<0.05:-7>, %a1: i8[3,1,1] quant<0.02:9>) {{
        %y: i8[2,3,5,7] quant<0.0078125> = {}
        {}
      }})",
          made, body);
    };
    const std::string kernel = made.starts_with("aten.tanh") ? "Lookup" : "Binary";
    EXPECT_EQ(
        expect_bit_exact(
            program(R"(%z: i8[2,5,7,3] quant<0.0078125> = aten.permute(%y) {dims = [0, 2, 3, 1]}
        return %z)"))
            .kernels(),
        Kernels{kernel});
    EXPECT_EQ(
        expect_bit_exact(
            program(
                R"(%l: i8[2,3,5,7] channels_last quant<0.0078125> = dim_order_ops._to_dim_order_copy(%y) {layout = "channels_last"}
        %z: i8[2,3,5,7] channels_last quant<0.0078125> = aten.max_pool2d(%l) {kernel_size = [3, 3], stride = [1, 1], padding = [1, 1], dilation = [1, 1], ceil_mode = false}
        return %z)"))
            .kernels(),
        (Kernels{kernel, "Pool"}));
  }
}

// The sum of a dense value and of a part, repeated or reversed, of the same value is not written
// over either.
TEST(NeutronBinary, PartOfItsOtherOperandIsNotOverwritten) {
  for (const std::string_view other :
       {"aten.slice.Tensor(%x) {dim = 1, start = 2, end = 3, step = 1}",
        "aten.flip(%x) {dims = [1]}"}) {
    const bool part = other.find("slice") != std::string_view::npos;
    expect_bit_exact(fmt::format(R"(graph @forward(%a: i8[5,3] quant<0.05:-7>) {{
      %x: i8[5,3] quant<0.01:-128> = aten.sigmoid(%a)
      %o: i8[5,{}] quant<0.01:-128> = {}
      %y: i8[5,3] quant<0.02:-3> = aten.sub.Tensor(%x, %o)
      return %y
    }})",
                                 part ? 1 : 3, other));
  }
}

// Every operator with one operand broadcast, from either side; none is repeated in memory first.
TEST(NeutronBinary, BroadcastIsReadInPlace) {
  for (const std::string_view op : {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum"})
    for (const std::string_view shape : {"3,1,1", "7", "1,3,1,7", "2,1,5,1", "1", ""})
      for (const std::string_view layout : {"", "channels_last "}) {
        const Compiled compiled = expect_bit_exact(fmt::format(
            R"(graph @forward(%a: i8[2,3,5,7] {1}quant<0.05:-7>, %b: i8[{0}] quant<0.02:9>) {{
          %y: i8[2,3,5,7] {1}quant<0.06:-3> = aten.{2}(%b, %a)
          return %y
        }})",
            shape, layout, op));
        EXPECT_EQ(compiled.kernels(), Kernels{"Binary"});
      }
}

TEST(NeutronBinary, BothOperandsBroadcast) {
  const std::array<std::string_view, 3> shapes[] = {{"4,1", "1,6", "4,6"},
                                                    {"3,1,5,1", "1,2,1,7", "3,2,5,7"},
                                                    {"2,1,3,4", "5,1,1,3,1", "5,2,1,3,4"}};
  for (const auto& [a, b, y] : shapes)
    for (const std::string_view op : {"sub.Tensor", "minimum"})
      expect_bit_exact(
          fmt::format(R"(graph @forward(%a: i8[{}] quant<0.05:-7>, %b: i8[{}] quant<0.02:9>) {{
        %y: i8[{}] quant<0.06:-3> = aten.{}(%a, %b)
        return %y
      }})",
                      a, b, y, op));
}

TEST(NeutronBinary, Constants) {
  for (const std::string_view op :
       {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum", "prelu"})
    for (const std::string_view shape : {"2,3,5,7", "3,1,1"}) {
      const Compiled compiled = expect_bit_exact(
          fmt::format(R"(graph @forward(%a: i8[2,3,5,7] channels_last quant<0.05:-7>) {{
        %b: i8[{}] quant<0.02:9> = constant seeded<5>
        %y: i8[2,3,5,7] channels_last quant<0.06:-3> = aten.{}(%a, %b)
        return %y
      }})",
                      shape, op));
      EXPECT_EQ(compiled.kernels(), Kernels{"Binary"});
    }
}

TEST(NeutronBinary, AConstantNumberMakesATable) {
  for (const std::string_view op :
       {"add.Tensor(%a, %b) {alpha = -2.5}", "sub.Tensor(%b, %a)", "mul.Tensor(%a, %b)",
        "div.Tensor(%a, %b)", "div.Tensor(%b, %a)", "maximum(%b, %a)", "minimum(%a, %b)",
        "prelu(%a, %b)"})
    for (const std::string_view shape : {"", "1", "1,1,1,1"}) {
      const Compiled compiled = expect_bit_exact(
          fmt::format(R"(graph @forward(%a: i8[2,3,5,7] channels_last quant<0.05:-7>) {{
        %b: i8[{}] quant<0.02:9> = constant dense<-60>
        %y: i8[2,3,5,7] channels_last quant<0.06:-3> = aten.{}
        return %y
      }})",
                      shape, op));
      EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
    }
}

TEST(NeutronBinary, AlphaScalesTheSecondOperand) {
  for (const std::string_view op : {"add.Tensor", "sub.Tensor"})
    for (const double alpha : {2.0, -1.0, 0.0, 0.3, -100.0})
      expect_bit_exact(fmt::format(
          R"(graph @forward(%a: i8[2,3,5,7] quant<0.05:-7>, %b: i8[2,3,5,7] quant<0.02:9>) {{
        %y: i8[2,3,5,7] quant<0.06:-3> = aten.{}(%a, %b) {{alpha = {:.1f}}}
        return %y
      }})",
          op, alpha));
}

TEST(NeutronElementwise, EveryFunctionOfOneValue) {
  const std::pair<std::string_view, std::string_view> ops[] = {
      {"aten.relu(%x)", "0.04:-128"},
      {"aten.clamp(%x) {max = 1.5, min = -0.7}", "0.05:5"},
      {"aten.hardswish(%x)", "0.03:-9"},
      {"aten.sigmoid(%x)", "0.00390625:-128"},
      {"aten.abs(%x)", "0.05:-90"},
      {"aten.ceil(%x)", "0.05:0"},
      {"aten.cos(%x)", "0.0078125:0"},
      {"aten.elu(%x) {alpha = 1.5}", "0.03:-60"},
      {"aten.erf(%x)", "0.0078125:0"},
      {"aten.exp(%x)", "0.5:-128"},
      {"aten.floor(%x)", "0.05:0"},
      {"aten.gelu(%x)", "0.03:-100"},
      {"aten.gelu(%x) {approximate = \"tanh\"}", "0.03:-100"},
      {"aten.hardshrink(%x) {lambd = 0.75}", "0.05:5"},
      {"aten.hardsigmoid(%x)", "0.00390625:-128"},
      {"aten.leaky_relu(%x) {negative_slope = 0.3}", "0.03:-60"},
      {"aten.leaky_relu(%x) {negative_slope = -2.0, two_roundings = true}", "0.06:-60"},
      {"aten.log(%x)", "0.02:20"},
      {"aten.log_sigmoid(%x)", "0.03:127"},
      {"aten.mish(%x)", "0.03:-100"},
      {"aten.neg(%x)", "0.05:5"},
      {"aten.pow.Tensor_Scalar(%x) {exponent = 3.0}", "0.4:0"},
      {"aten.reciprocal(%x)", "0.1:0"},
      {"aten.round(%x)", "0.05:0"},
      {"aten.rsqrt(%x)", "0.03:-128"},
      {"aten.sign(%x)", "0.01:0"},
      {"aten.silu(%x)", "0.03:-100"},
      {"aten.sin(%x)", "0.0078125:0"},
      {"aten.softplus(%x)", "0.03:-128"},
      {"aten.softshrink(%x)", "0.04:0"},
      {"aten.softsign(%x)", "0.0078125:0"},
      {"aten.sqrt(%x)", "0.01:-128"},
      {"aten.tanh(%x)", "0.0078125:0"},
      {"aten.threshold(%x) {threshold = 1.0, value = -2.5}", "0.05:5"},
      {"requantize(%x)", "0.02:7"}};
  for (const auto& [op, quantization] : ops) {
    const Compiled compiled = expect_bit_exact(
        fmt::format(R"(graph @forward(%x: i8[2,3,5,7] channels_last quant<0.05:5>) {{
      %y: i8[2,3,5,7] channels_last quant<{}> = {}
      return %y
    }})",
                    quantization, op));
    EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"}) << op;
  }
}

TEST(NeutronElementwise, ChainIsOneTable) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[3,7] quant<0.05:5>) {
    %a: i8[3,7] quant<0.03:-9> = aten.hardswish(%x)
    %b: i8[3,7] quant<0.0078125> = aten.tanh(%a)
    %c: i8[3,7] quant<0.01:-128> = aten.relu(%b)
    return %c
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
}

// An elementwise op that changes nothing has no call of its own; as a result of the delegate it is
// a copy.
TEST(NeutronElementwise, IdentityIsFree) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[3,7] quant<0.05:-128>) {
    %a: i8[3,7] quant<0.05:-128> = aten.relu(%x)
    return %a
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Move"});
}

TEST(NeutronPool, Max) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,3,11,9] channels_last quant<0.05:5>) {
    %y: i8[2,3,5,8] channels_last quant<0.05:5> = aten.max_pool2d(%x) {ceil_mode = false, dilation = [1, 1], kernel_size = [3, 2], padding = [0, 0], stride = [2, 1]}
    return %y
  })");
}

TEST(NeutronPool, MaxPaddingDilationCeil) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,3,11,9] channels_last quant<0.05:5>) {
    %y: i8[2,3,5,4] channels_last quant<0.05:5> = aten.max_pool2d(%x) {ceil_mode = true, dilation = [2, 1], kernel_size = [3, 3], padding = [1, 0], stride = [2, 2]}
    return %y
  })");
}

TEST(NeutronPool, ImplicitBatch) {
  expect_bit_exact(R"(graph @forward(%x: i8[3,11,9] quant<0.05:5>) {
    %y: i8[3,5,4] quant<0.05:5> = aten.max_pool2d(%x) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
    return %y
  })");
}

TEST(NeutronPool, Average) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,3,11,9] channels_last quant<0.05:5>) {
    %y: i8[2,3,6,8] channels_last quant<0.05:5> = aten.avg_pool2d(%x) {ceil_mode = false, count_include_pad = false, kernel_size = [3, 2], padding = [1, 0], stride = [2, 1]}
    return %y
  })");
}

TEST(NeutronPool, AverageOfThePaddedTensor) {
  for (const bool ceil : {false, true}) {
    const Compiled compiled = expect_bit_exact(
        fmt::format(R"(graph @forward(%x: i8[2,3,11,8] channels_last quant<0.05:-17>) {{
      %y: i8[2,3,{},{}] channels_last quant<0.05:-17> = aten.avg_pool2d(%x) {{ceil_mode = {}, count_include_pad = true, kernel_size = [3, 4], padding = [1, 2], stride = [2, 3]}}
      return %y
    }})",
                    6, ceil ? 4 : 3, ceil));
    EXPECT_EQ(compiled.kernels(), (Kernels{"Fill", "Move", "Pool"}));
  }
}

TEST(NeutronMean, DimensionsInBothLayouts) {
  for (const std::string_view layout : {"", "channels_last "})
    for (const auto& [dim, keep, shape] :
         std::vector<std::tuple<std::string_view, bool, std::string_view>>{
             {"2, 3", false, "2,3"},
             {"-1, -2", true, "2,3,1,1"},
             {"1", true, "2,1,11,9"},
             {"2", false, "2,3,9"},
             {"3", false, "2,3,11"},
             {"1, 3", false, "2,11"},
             {"", false, ""}})
      expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,11,9] {}quant<0.05:5>) {{
        %y: i8[{}] quant<0.05:5> = aten.mean.dim(%x) {{dim = [{}], keepdim = {}}}
        return %y
      }})",
                                   layout, shape, dim, keep));
}

// 67 · 71 elements exceed the kernel limit of one axis.
TEST(NeutronMean, ManyElements) {
  expect_bit_exact(R"(graph @forward(%x: i8[1,3,67,71] channels_last quant<0.05:5>) {
    %y: i8[1,3] quant<0.05:5> = aten.mean.dim(%x) {dim = [2, 3], keepdim = false}
    return %y
  })");
}

std::string matmul_text(std::string_view left, std::string_view right, std::string_view result) {
  return fmt::format(R"(graph @forward(%x: i8[{}] quant<0.05:-7>, %y: i8[{}] quant<0.03:11>) {{
    %z: i8[{}] quant<0.09:5> = aten.matmul(%x, %y)
    return %z
  }})",
                     left, right, result);
}

TEST(NeutronMatmul, AnyRankAndBroadcast) {
  constexpr std::array<std::array<std::string_view, 3>, 9> kShapes{
      {{"5,7", "7,11", "5,11"},
       {"3,5,7", "3,7,11", "3,5,11"},
       {"3,5,7", "7,11", "3,5,11"},
       {"5,7", "3,7,11", "3,5,11"},
       {"2,1,5,7", "3,7,11", "2,3,5,11"},
       {"2,3,5,1", "1,3,1,11", "2,3,5,11"},
       {"2,3,2,3,1,7", "3,7,1", "2,3,2,3,1,1"},
       {"1,9", "9,100", "1,100"},
       {"100,9", "9,1", "100,1"}}};
  for (const auto& [left, right, result] : kShapes)
    EXPECT_EQ(expect_bit_exact(matmul_text(left, right, result)).kernels(), Kernels{"Matmul"});
}

TEST(NeutronMatmul, OtherMachines) {
  for (const uint32_t size : {4u, 16u}) {
    npu::Target target = dtr::test::machine();
    target.pipelines = target.macs = size;
    target.activation_port = target.weight_port = target.write_port = size;
    expect_bit_exact(matmul_text("3,5,7", "3,7,11", "3,5,11"), target);
  }
}

TEST(NeutronMatmul, ConstantOperandOnEitherSide) {
  for (const std::string_view operands : {"%c, %x", "%x, %c", "%x, %x"})
    EXPECT_EQ(expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,13,13] quant<0.05:-7>) {{
      %c: i8[2,13,13] quant<0.02:3> = constant seeded<3>
      %z: i8[2,13,13] quant<0.09:5> = aten.matmul({})
      return %z
    }})",
                                           operands))
                  .kernels(),
              Kernels{"Matmul"});
}

// Attention: heads are split off and joined again, keys transposed, all by strides; what follows
// the product is its table.
TEST(NeutronMatmul, PermutationsAreStrides) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[11,15] quant<0.05:-7>) {
    %w: i8[15,15] quant<0.011> = constant seeded<3>
    %q: i8[11,15] quant<0.05:3> = aten.linear(%x, %w, _)
    %qv: i8[11,3,5] quant<0.05:3> = aten.view(%q) {size = [11, 3, 5]}
    %qp: i8[3,11,5] quant<0.05:3> = aten.permute(%qv) {dims = [1, 0, 2]}
    %k: i8[3,5,11] quant<0.05:3> = aten.permute(%qv) {dims = [1, 2, 0]}
    %s: i8[3,11,11] quant<0.09:5> = aten.matmul(%qp, %k)
    %t: i8[3,11,11] quant<0.0078125:0> = aten.tanh(%s)
    %a: i8[3,11,11] quant<0.00390625:-128> = aten.softmax(%t) {dim = 2}
    %o: i8[3,11,5] quant<0.02:5> = aten.matmul(%a, %qp)
    %p: i8[11,3,5] quant<0.02:5> = aten.permute(%o) {dims = [1, 0, 2]}
    %v: i8[11,15] quant<0.02:5> = aten.view(%p) {size = [11, 15]}
    %y: i8[11,15] quant<0.05:3> = aten.linear(%v, %w, _)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d", "Matmul", "Softmax", "Matmul", "Conv2d"}));
}

// A convolution's result lies channels-last: the product reads it as it lies.
TEST(NeutronMatmul, BehindAConvolution) {
  const Compiled compiled =
      expect_bit_exact(R"(graph @forward(%x: i8[1,3,5,7] channels_last quant<0.05:-7>) {
    %w: i8[11,3,1,1] quant<0.011> = constant seeded<3>
    %c: i8[1,11,5,7] channels_last quant<0.09:11> = aten.convolution(%x, %w, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
    %m: i8[1,11,5,7] channels_last quant<0.09:11> = aten.relu(%c)
    %a: i8[1,11,35] quant<0.09:11> = aten.view(%m) {size = [1, 11, 35]}
    %b: i8[1,35,11] quant<0.09:11> = aten.permute(%a) {dims = [0, 2, 1]}
    %y: i8[1,11,11] quant<0.2:-3> = aten.matmul(%a, %b)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d", "Matmul"}));
}

TEST(NeutronMovement, ViewOfContiguousIsFree) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[2,3,5,7] quant<0.05:5>) {
    %v: i8[6,35] quant<0.05:5> = aten.view(%x) {size = [6, 35]}
    %y: i8[6,35] quant<0.0078125> = aten.tanh(%v)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
}

TEST(NeutronMovement, ViewsOfChannelsLast) {
  for (const auto& [size, layout] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"2,105", ""},
                                                                  {"6,35", ""},
                                                                  {"2,3,35", ""},
                                                                  {"7,5,3,2", ""},
                                                                  {"7,5,3,2", "channels_last "},
                                                                  {"10,21", ""},
                                                                  {"210", ""},
                                                                  {"2,15,7", "channels_last "}})
    expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] channels_last quant<0.05:5>) {{
      %v: i8[{0}] {1}quant<0.05:5> = aten.view(%x) {{size = [{0}]}}
      return %v
    }})",
                                 size, layout));
}

TEST(NeutronMovement, LinearAbsorbsTheViewOfChannelsLast) {
  const Compiled compiled =
      expect_bit_exact(R"(graph @forward(%x: i8[2,3,5,7] channels_last quant<0.05:5>) {
    %v: i8[2,105] quant<0.05:5> = aten.view(%x) {size = [2, -1]}
    %w: i8[11,105] quant<0.011> = constant seeded<3>
    %y: i8[2,11] quant<0.3:5> = aten.linear(%v, %w, _)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Conv2d"});
}

TEST(NeutronMovement, PermutationToWhatLiesThereIsFree) {
  const Compiled compiled =
      expect_bit_exact(R"(graph @forward(%x: i8[2,3,5,7] channels_last quant<0.05:5>) {
    %p: i8[2,5,7,3] quant<0.05:5> = aten.permute(%x) {dims = [0, 2, 3, 1]}
    %y: i8[2,5,7,3] quant<0.0078125> = aten.tanh(%p)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
}

TEST(NeutronMovement, Permutations) {
  for (const std::string_view layout : {"", "channels_last "})
    for (const auto& [dims, shape] :
         std::vector<std::pair<std::string_view, std::string_view>>{{"0, 1, 2, 3", "2,3,5,7"},
                                                                    {"3, 2, 1, 0", "7,5,3,2"},
                                                                    {"1, 0, 3, 2", "3,2,7,5"},
                                                                    {"-1, 0, 1, 2", "7,2,3,5"}})
      expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {0}quant<0.05:5>) {{
        %p: i8[{2}] quant<0.05:5> = aten.permute(%x) {{dims = [{1}]}}
        return %p
      }})",
                                   layout, dims, shape));
}

// Views and permutations in a row, none of which is a permutation of whole dimensions of the first
// tensor.
TEST(NeutronMovement, ShuffleOfChannels) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,6,5,7] channels_last quant<0.05:5>) {
    %a: i8[2,2,3,5,7] quant<0.05:5> = aten.view(%x) {size = [2, 2, 3, 5, 7]}
    %b: i8[2,3,2,5,7] quant<0.05:5> = aten.permute(%a) {dims = [0, 2, 1, 3, 4]}
    %c: i8[2,6,5,7] channels_last quant<0.05:5> = aten.view(%b) {size = [2, 6, 5, 7]}
    %w: i8[3,6,1,1] quant<0.011> = constant seeded<3>
    %y: i8[2,3,5,7] channels_last quant<0.3:5> = aten.convolution(%c, %w, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
    return %y
  })");
}

TEST(NeutronMovement, LayoutConversion) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[2,3,5,7] quant<0.05:5>) {
    %y: i8[2,3,5,7] channels_last quant<0.05:5> = dim_order_ops._to_dim_order_copy(%x) {layout = "channels_last"}
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Move"});
}

TEST(NeutronMovement, Pad) {
  for (const std::string_view layout : {"", "channels_last "})
    for (const auto& [pad, value, shape] :
         std::vector<std::tuple<std::string_view, double, std::string_view>>{
             {"1, 2", 0.0, "2,3,5,10"},
             {"1, 2, 0, 3, 2, 0", 0.7, "2,5,8,10"},
             {"-1, 2, 0, -3", -100.0, "2,3,2,8"},
             {"-1, -2, -1, 0", 0.0, "2,3,4,4"},
             {"0, 0, 0, 0, -3, 2", 0.3, "2,2,5,7"},
             {"0, 0, 0, 0, 0, 0, 1, 1", 0.0, "4,3,5,7"}})
      expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {0}quant<0.05:5>) {{
        %y: i8[{1}] {0}quant<0.05:5> = aten.constant_pad_nd(%x) {{pad = [{2}], value = {3:.1f}}}
        return %y
      }})",
                                   layout, shape, pad, value));
}

TEST(NeutronMovement, Cat) {
  for (const std::string_view layout : {"", "channels_last "})
    for (int dim = 0; dim < 4; ++dim) {
      int shape[] = {2, 3, 5, 7};
      int result[] = {2, 3, 5, 7};
      shape[dim] = 4;
      result[dim] += 4 + 2;
      int constant[] = {2, 3, 5, 7};
      constant[dim] = 2;
      expect_bit_exact(fmt::format(
          R"(graph @forward(%x: i8[2,3,5,7] {0}quant<0.05:5>, %z: i8[{2}] quant<0.05:5>) {{
        %c: i8[{3}] quant<0.05:5> = constant seeded<9>
        %y: i8[{4}] {0}quant<0.05:5> = aten.cat(%x, %c, %z) {{dim = {1}}}
        return %y
      }})",
          layout, dim, fmt::join(shape, ","), fmt::join(constant, ","), fmt::join(result, ",")));
    }
}

TEST(NeutronOutputs, InputsConstantsAndRepeatedValues) {
  const Compiled compiled =
      expect_bit_exact(R"(graph @forward(%x: i8[3,7] quant<0.05:5>, %z: i8[2] quant<0.05:5>) {
    %c: i8[5] quant<0.05:5> = constant seeded<9>
    %y: i8[3,7] quant<0.0078125> = aten.tanh(%x)
    %v: i8[21] quant<0.0078125> = aten.view(%y) {size = [21]}
    return %y, %v, %x, %c, %y
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Lookup", "Move", "Move", "Move", "Move"}));
}

}  // namespace
}  // namespace dtr::test
