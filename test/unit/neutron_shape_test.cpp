// Slices, repetitions, reversals, reductions, pools of all sizes and resizing on the simulated NPU,
// against the integer reference.
#include <fmt/format.h>

#include <tuple>

#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using Kernels = std::vector<std::string>;

// %x: i8[2,3,5,7], one op, its result and perhaps a table behind it (which needs a dense tensor).
Compiled run(std::string_view layout, std::string_view shape, std::string_view op,
             std::string_view quantization = "0.05:5") {
  return expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {}quant<0.05:5>) {{
    %y: i8[{}] quant<{}> = {}
    return %y
  }})",
                                      layout, shape, quantization, op));
}

// The sentence with which the NPU refuses the only op of a graph.
std::string refusal(std::string_view inputs, std::string_view op) {
  Module module =
      parse(fmt::format("graph @forward({}) {{\n  %y: {}\n  return %y\n}}", inputs, op));
  if (module.graphs.empty()) return {};
  const auto refused =
      make_neutron_backend(test::machine())->refuse(module.forward(), module.forward().first_op());
  return refused ? fmt::format("{}: {} | {}", refused->id, refused->reason, refused->remedy) : "";
}

constexpr std::string_view kLayouts[] = {"", "channels_last "};

TEST(NeutronSlice, AnyDimensionStepAndLayout) {
  for (const std::string_view layout : kLayouts)
    for (const auto& [arguments, shape] :
         std::vector<std::pair<std::string_view, std::string_view>>{
             {"dim = 0, start = 1, end = 2, step = 1", "1,3,5,7"},
             {"dim = 1, start = 1, end = 3, step = 1", "2,2,5,7"},
             {"dim = -2, start = 0, end = 5, step = 2", "2,3,3,7"},
             {"dim = 3, start = -6, end = -1, step = 3", "2,3,5,2"}}) {
      const Compiled compiled =
          run(layout, shape, fmt::format("aten.slice.Tensor(%x) {{{}}}", arguments));
      EXPECT_EQ(compiled.kernels(), Kernels{"Move"}) << arguments;  // to the output only
    }
}

// The slice itself is free: the readers take the bytes where they lie.
TEST(NeutronSlice, OfOuterDimensionsIsFree) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[4,3,5,7] quant<0.05:5>) {
    %s: i8[2,3,5,7] quant<0.05:5> = aten.slice.Tensor(%x) {dim = 0, start = 1, end = 3, step = 1}
    %y: i8[2,3,5,7] quant<0.0078125> = aten.tanh(%s)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
}

TEST(NeutronSlice, OfInnerDimensionsIsFree) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[4,6] quant<0.05:5>) {
    %s: i8[4,3] quant<0.05:5> = aten.slice.Tensor(%x) {dim = 1, start = 1, end = 6, step = 2}
    %a: i8[4,3] quant<0.0078125> = aten.tanh(%s)
    %b: i8[4,3] quant<0.04:-128> = aten.relu(%s)
    return %a, %b
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Lookup", "Lookup"}));
}

TEST(NeutronSlice, OfViewsAndPermutations) {
  for (const std::string_view layout : kLayouts)
    for (const auto& [start, end] :
         {std::pair{0, 2}, std::pair{2, 4}, std::pair{1, 4}, std::pair{3, 4}})
      expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,6,5,7] {}quant<0.05:5>) {{
        %a: i8[2,2,3,5,7] quant<0.05:5> = aten.view(%x) {{size = [2, 2, 3, 5, 7]}}
        %b: i8[2,3,2,5,7] quant<0.05:5> = aten.permute(%a) {{dims = [0, 2, 1, 3, 4]}}
        %c: i8[2,6,5,7] quant<0.05:5> = aten.view(%b) {{size = [2, 6, 5, 7]}}
        %s: i8[2,{},5,7] quant<0.05:5> = aten.slice.Tensor(%c) {{dim = 1, start = {}, end = {}, step = 1}}
        %y: i8[2,{},5,7] quant<0.0078125> = aten.tanh(%s)
        return %y
      }})",
                                   layout, end - start, start, end, end - start));
}

TEST(NeutronFlip, AnyDimensions) {
  for (const std::string_view layout : kLayouts)
    for (const std::string_view dims : {"0", "1", "-1", "2, 3", "0, 1, 2, 3"})
      expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {}quant<0.05:5>) {{
        %f: i8[2,3,5,7] quant<0.05:5> = aten.flip(%x) {{dims = [{}]}}
        %y: i8[2,3,5,7] quant<0.0078125> = aten.tanh(%f)
        return %y, %f
      }})",
                                   layout, dims));
}

// Kernels that read by strides take slices, reversals and repetitions as they lie.
TEST(NeutronFlip, IsFreeForAnAddition) {
  const Compiled compiled = expect_bit_exact(
      R"(graph @forward(%x: i8[4,5,7] quant<0.05:5>, %z: i8[3,1,7] quant<0.02:-9>) {
    %s: i8[3,5,7] quant<0.05:5> = aten.slice.Tensor(%x) {dim = 0, start = 1, end = 4, step = 1}
    %f: i8[3,5,7] quant<0.05:5> = aten.flip(%s) {dims = [0, 2]}
    %e: i8[3,5,7] quant<0.02:-9> = aten.expand(%z) {size = [3, 5, 7]}
    %y: i8[3,5,7] quant<0.06:3> = aten.add.Tensor(%f, %e)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), Kernels{"Binary"});
}

TEST(NeutronExpand, RepeatsWithStrideZero) {
  for (const auto& [from, size] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"1,3,1,7", "2,3,5,7"}, {"3,1,1", "2,3,5,7"}, {"1", "4,6"}, {"2,1", "2,9"}}) {
    const Compiled compiled =
        expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[{}] quant<0.05:5>) {{
      %e: i8[{}] quant<0.05:5> = aten.expand(%x) {{size = [{}]}}
      %y: i8[{}] quant<0.0078125> = aten.tanh(%e)
      return %y
    }})",
                                     from, size, size, size));
    EXPECT_EQ(compiled.kernels(), Kernels{"Lookup"});
  }
}

// Every element twice: view, expand, view.
TEST(NeutronExpand, OfViews) {
  expect_bit_exact(R"(graph @forward(%x: i8[3,5] quant<0.05:5>) {
    %a: i8[3,5,1] quant<0.05:5> = aten.view(%x) {size = [3, 5, 1]}
    %b: i8[3,5,2] quant<0.05:5> = aten.expand(%a) {size = [3, 5, 2]}
    %c: i8[3,10] quant<0.05:5> = aten.view(%b) {size = [3, 10]}
    %s: i8[3,4] quant<0.05:5> = aten.slice.Tensor(%c) {dim = 1, start = 2, end = 6, step = 1}
    %f: i8[3,4] quant<0.05:5> = aten.flip(%s) {dims = [1]}
    return %c, %f
  })");
}

TEST(NeutronSlice, OfConstants) {
  expect_bit_exact(R"(graph @forward(%x: i8[3,2] quant<0.05:5>) {
    %c: i8[3,4] quant<0.05:5> = constant seeded<9>
    %s: i8[3,2] quant<0.05:5> = aten.slice.Tensor(%c) {dim = 1, start = 1, end = 3, step = 1}
    %f: i8[3,2] quant<0.05:5> = aten.flip(%s) {dims = [0]}
    %y: i8[3,2] quant<0.06:5> = aten.add.Tensor(%x, %f)
    return %y
  })");
}

TEST(NeutronReduce, AnyDimensionsOfBothLayouts) {
  for (const std::string_view op :
       {"aten.amax", "aten.amin", "aten.sum.dim_IntList", "aten.mean.dim"})
    for (const std::string_view layout : kLayouts)
      for (const auto& [dim, keep, shape] :
           std::vector<std::tuple<std::string_view, bool, std::string_view>>{
               {"2, 3", false, "2,3"},
               {"-1, -2", true, "2,3,1,1"},
               {"1", true, "2,1,5,7"},
               {"0", false, "3,5,7"},
               {"0, 2", false, "3,7"},
               {"", false, ""}}) {
        const bool extreme = op.substr(0, 7) == "aten.am";
        const Compiled compiled =
            run(layout, shape, fmt::format("{}(%x) {{dim = [{}], keepdim = {}}}", op, dim, keep),
                extreme ? "0.05:5" : "0.31:-7");
        EXPECT_EQ(compiled.kernels().front(), "Reduce");
      }
}

TEST(NeutronReduce, OfWhatLiesStrided) {
  for (const std::string_view op : {"aten.amax", "aten.sum.dim_IntList"})
    expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,6,5,7] channels_last quant<0.05:5>) {{
      %s: i8[2,4,5,7] quant<0.05:5> = aten.slice.Tensor(%x) {{dim = 1, start = 1, end = 5, step = 1}}
      %f: i8[2,4,5,7] quant<0.05:5> = aten.flip(%s) {{dims = [3, 1]}}
      %v: i8[2,4,35] quant<0.05:5> = aten.view(%f) {{size = [2, 4, 35]}}
      %y: i8[2,35] quant<0.05:5> = {}(%v) {{dim = [1], keepdim = false}}
      return %y
    }})",
                                 op));
}

TEST(NeutronReduce, OfRepeatedElements) {
  expect_bit_exact(R"(graph @forward(%x: i8[3,1,7] quant<0.05:5>) {
    %e: i8[3,4,7] quant<0.05:5> = aten.expand(%x) {size = [3, 4, 7]}
    %y: i8[3,4] quant<0.31:5> = aten.sum.dim_IntList(%e) {dim = [2], keepdim = false}
    %z: i8[3,7] quant<0.31:5> = aten.sum.dim_IntList(%e) {dim = [1], keepdim = false}
    return %y, %z
  })");
}

// More than a window of the Pool command holds, and a prime number.
TEST(NeutronReduce, ManyElements) {
  expect_bit_exact(R"(graph @forward(%x: i8[1,2,8209,1] quant<0.1>) {
    %y: i8[1,2] quant<0.1> = aten.mean.dim(%x) {dim = [2, 3], keepdim = false}
    return %y
  })");
}

// As LiteRT's SUM: bytes are unsigned.
TEST(NeutronReduce, SumOfBytes) {
  run("", "2,3,5", "aten.sum.dim_IntList(%x) {dim = [3], keepdim = false, of_bytes = true}",
      "0.31:-7");
}

// The limits of int8 are no limits of bytes.
TEST(NeutronReduce, SumOfBytesTakesNoClamp) {
  const Compiled compiled =
      expect_bit_exact(R"(graph @forward(%x: i8[1,13,6,1] quant<0.99913377:-36>) {
    %s: i8[13,1] quant<0.3710819> = aten.sum.dim_IntList(%x) {dim = [0, 2], keepdim = false, of_bytes = true}
    %y: i8[13,1] quant<0.3710819> = aten.relu(%s)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), (std::vector<std::string>{"Reduce", "Lookup"}));
}

TEST(NeutronPool, KernelsLargerThanThePoolCommand) {
  const Compiled compiled =
      expect_bit_exact(R"(graph @forward(%x: i8[1,3,5003,2] channels_last quant<0.05:5>) {
    %y: i8[1,3,4,2] channels_last quant<0.05:5> = aten.max_pool2d(%x) {ceil_mode = false, dilation = [1, 1], kernel_size = [5000, 1], padding = [0, 0], stride = [1, 1]}
    %z: i8[1,3,4,2] channels_last quant<0.004:5> = aten.avg_pool2d(%x) {ceil_mode = false, count_include_pad = true, kernel_size = [5000, 1], padding = [0, 0], stride = [1, 1]}
    return %y, %z
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Reduce", "Reduce"}));
}

TEST(NeutronPool, AveragesWithARangeOfTheirOwn) {
  for (const std::string_view more :
       {"count_include_pad = true", "count_include_pad = false, divisor_override = 5",
        "count_include_pad = true, divisor_override = 7"}) {
    const Compiled compiled = expect_bit_exact(
        fmt::format(R"(graph @forward(%x: i8[2,3,11,8] channels_last quant<0.05:-17>) {{
      %y: i8[2,3,6,3] channels_last quant<0.03:9> = aten.avg_pool2d(%x) {{ceil_mode = false, kernel_size = [3, 4], padding = [1, 2], stride = [2, 3], {}}}
      return %y
    }})",
                    more));
    EXPECT_EQ(compiled.kernels(), Kernels{"Pool"})
        << more;  // the zero point outside: no padding in memory
  }
}

TEST(NeutronPool, AdaptiveWindowsOfDifferentSizes) {
  for (const auto& [h, w] : {std::pair{2, 3}, std::pair{5, 4}, std::pair{3, 7}, std::pair{5, 9}})
    for (const std::string_view op : {"avg", "max"})
      run("channels_last ", fmt::format("2,3,{},{}", h, w),
          fmt::format("aten.adaptive_{}_pool2d(%x) {{output_size = [{}, {}]}}", op, h, w));
}

TEST(NeutronPool, Refusals) {
  EXPECT_EQ(refusal("%x: i8[1,1,5000,4] quant<0.05>",
                    "i8[1,1,3,2] quant<0.05> = aten.max_pool2d(%x) {ceil_mode = false, dilation = "
                    "[1, 1], kernel_size = [5000, 2], "
                    "padding = [1, 0], stride = [1, 2]}"),
            "npu-kernel-size: the NPU takes kernels of at most 4096 per axis; this one is 5000x2 | "
            "choose a kernel of at most 4096");
  EXPECT_EQ(refusal("%x: i8[1,1,5,5] quant<0.05>",
                    "i8[1,1,3,3] quant<0.02> = aten.avg_pool2d(%x) {ceil_mode = false, "
                    "count_include_pad = false, kernel_size = [3, 3], "
                    "padding = [1, 1], stride = [2, 2]}"),
            "npu-average-divisor: the NPU divides the windows of an average with a range of its "
            "own by one number; windows at the border "
            "of this one count "
            "fewer elements | count the padding (`count_include_pad`), or leave out padding and "
            "`ceil_mode`");
  EXPECT_EQ(
      refusal("%x: i8[1,1,13,13] quant<0.05>",
              "i8[1,1,9,8] quant<0.05> = aten.adaptive_avg_pool2d(%x) {output_size = [9, 8]}"),
      "npu-adaptive-windows: the NPU pools to a given size with at most 64 calls, one for each "
      "position of a window that repeats; "
      "this pool would take "
      "72 | choose an output size that divides the input size");
}

TEST(NeutronResize, AnySize) {
  for (const auto& [h, w] : {std::pair{5, 7}, std::pair{10, 14}, std::pair{9, 4}, std::pair{1, 1},
                             std::pair{13, 40}, std::pair{3, 21}}) {
    run("channels_last ", fmt::format("2,3,{},{}", h, w),
        fmt::format("aten.upsample_nearest2d(%x) {{output_size = [{}, {}]}}", h, w));
    for (const std::string_view more :
         {"align_corners = false", "align_corners = true",
          "align_corners = false, fraction_bits = 10, half_pixel_centers = false"}) {
      const Compiled compiled = run(
          "channels_last ", fmt::format("2,3,{},{}", h, w),
          fmt::format("aten.upsample_bilinear2d(%x) {{output_size = [{}, {}], {}}}", h, w, more));
      EXPECT_EQ(compiled.kernels().front(), "Resize");
    }
  }
}

TEST(NeutronResize, FactorsAndAlignments) {
  run("channels_last ", "2,3,8,9",
      "aten.upsample_nearest2d(%x) {output_size = [8, 9], scales = [1.7, 1.3]}");
  run("", "2,3,8,9",
      "aten.upsample_bilinear2d(%x) {align_corners = false, output_size = [8, 9], scales = [1.7, "
      "1.3]}");
  for (const std::string_view more : {"align_corners = true", "half_pixel_centers = true",
                                      "align_corners = true, half_pixel_centers = true"})
    run("channels_last ", "2,3,8,20",
        fmt::format("aten.upsample_nearest2d(%x) {{output_size = [8, 20], {}}}", more));
}

TEST(NeutronShapes, OneElementAndNoDimension) {
  expect_bit_exact(R"(graph @forward(%x: i8[] quant<0.05:5>) {
    %e: i8[1,3] quant<0.05:5> = aten.expand(%x) {size = [1, 3]}
    %s: i8[1,1] quant<0.05:5> = aten.slice.Tensor(%e) {dim = 1, start = 2, end = 3, step = 1}
    %m: i8[] quant<0.1:5> = aten.sum.dim_IntList(%s) {dim = [], keepdim = false}
    %a: i8[] quant<0.05:5> = aten.amax(%x) {dim = [], keepdim = false}
    return %e, %m, %a
  })");
}

TEST(NeutronShapes, Refusals) {
  EXPECT_EQ(refusal("%x: i8[1,1,1,2,1,2,3] quant<0.05>",
                    "i8[1,1,1,2,1,2] quant<0.05> = aten.amax(%x) {dim = [6], keepdim = false}"),
            "npu-rank: the NPU copies tensors of up to 6 dimensions; this one has 7 | merge "
            "dimensions with a view before the operator");
  EXPECT_EQ(
      refusal(
          "%x: i8[4,3] quant<0.05>",
          "i8[0,3] quant<0.05> = aten.slice.Tensor(%x) {dim = 0, start = 2, end = 2, step = 1}"),
      "npu-empty-tensor: the NPU needs at least one element; a tensor has shape 0x3 | remove the "
      "operator: it computes nothing");
  // A row alone is too large; many rows are not, of which stripes have a few.
  EXPECT_EQ(refusal("%x: i8[2,1] quant<0.05>",
                    "i8[2,8000000] quant<0.05> = aten.expand(%x) {size = [2, 8000000]}"),
            "npu-sram: one row of an operator's result, what it needs of the operands, and "
            "constants share the target's SRAM; operands and results take 8,000,001 bytes and "
            "constants 0 bytes, of 7,340,032 | use smaller tensors: a lower resolution, fewer "
            "channels or a smaller batch");
}

}  // namespace
}  // namespace dtr::test
