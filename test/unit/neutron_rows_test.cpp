// Functions of rows, along any dimension: softmax, with masks, and normalizations.
#include <fmt/format.h>

#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using Kernels = std::vector<std::string>;

TEST(NeutronSoftmax, AnyDimensionInBothLayouts) {
  for (const std::string_view layout : {"", "channels_last "})
    for (int dim = 0; dim < 4; ++dim)
      expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {0}quant<0.05:5>) {{
        %y: i8[2,3,5,7] {0}quant<0.00390625:-128> = aten.softmax(%x) {{dim = {1}}}
        return %y
      }})",
                                   layout, dim));
}

TEST(NeutronSoftmax, OtherScalesAndLogarithm) {
  for (const std::string_view text :
       {"quant<0.0001:-128> = aten.softmax", "quant<0.02:5> = aten.softmax",
        "quant<0.06:127> = aten.log_softmax", "quant<0.0009765625:-3> = aten.log_softmax"})
    EXPECT_EQ(expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[3,67,5] quant<0.05:5>) {{
      %y: i8[3,67,5] {}(%x) {{dim = 1}}
      return %y
    }})",
                                           text))
                  .kernels(),
              Kernels{"Softmax"});
}

// A mask that is computed is read where it lies if rows read it so; else it is copied once, with
// what it repeats.
TEST(NeutronSoftmax, ComputedMasks) {
  for (const auto& [shape, dim, layout, kernels] :
       std::vector<std::tuple<std::string_view, int, std::string_view, Kernels>>{
           {"7", 3, "", {"Softmax"}},
           {"5,7", 3, "", {"Softmax"}},
           {"2,3,5,7", -1, "", {"Softmax"}},
           {"2,1,1,7", 3, "", {"Move", "Softmax"}},
           {"3,1,7", 3, "", {"Move", "Softmax"}},
           {"5,1", 3, "", {"Move", "Softmax"}},
           {"2,3,5,7", 3, "channels_last ", {"Move", "Move", "Softmax"}},
           {"3,1,1", 1, "", {"Move", "Softmax", "Move"}},
           {"1,5,7", 2, "", {"Move", "Move", "Softmax", "Move"}}}) {
    const Compiled compiled = expect_bit_exact(
        fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {2}quant<0.05:5>, %m: bool[{0}] {3}) {{
      %y: i8[2,3,5,7] quant<0.00390625:-128> = aten.softmax(%x, %m) {{dim = {1}}}
      return %y
    }})",
                    shape, dim, layout, shape == "2,3,5,7" ? layout : ""));
    EXPECT_EQ(compiled.kernels(), kernels) << shape;
  }
}

// Parts of rows, as a split of queries, keys and values makes them, are read where they lie; every
// second row too. Rows of two dimensions at two distances are copied.
TEST(NeutronLinear, ReadsRowsAtADistance) {
  for (const auto& [slice, shape, kernels] :
       std::vector<std::tuple<std::string_view, std::string_view, Kernels>>{
           {"dim = 2, start = 5, end = 16, step = 1", "3,9,11", {"Lookup", "Conv2d"}},
           {"dim = 0, start = 1, end = 3, step = 1", "2,9,24", {"Lookup", "Conv2d"}},
           {"dim = 1, start = 2, end = 3, step = 1", "3,1,24", {"Lookup", "Conv2d"}},
           {"dim = 2, start = 7, end = 8, step = 1", "3,9,1", {"Lookup", "Depthwise"}},
           {"dim = 2, start = 0, end = 24, step = 2", "3,9,12", {"Lookup", "Move", "Conv2d"}},
           {"dim = 1, start = 0, end = 8, step = 1", "3,8,24", {"Lookup", "Move", "Conv2d"}}}) {
    const std::string columns(shape.substr(shape.rfind(',') + 1)),
        rows(shape.substr(0, shape.rfind(',')));
    const Compiled compiled =
        expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[3,9,24] quant<0.05:-7>) {{
      %t: i8[3,9,24] quant<0.05:-7> = aten.neg(%x)
      %s: i8[{1},{2}] quant<0.05:-7> = aten.slice.Tensor(%t) {{{0}}}
      %w: i8[6,{2}] quant<0.011> = constant seeded<3>
      %y: i8[{1},6] quant<0.05> = aten.linear(%s, %w)
      return %y
    }})",
                                     slice, rows, columns));
    EXPECT_EQ(compiled.kernels(), kernels) << slice;
  }
}

TEST(NeutronNormalize, BoxesInBothLayouts) {
  for (const std::string_view layout : {"", "channels_last "})
    for (const std::string_view op :
         {"layer_norm(%x) {eps = 0.001, normalized_shape = [7]}",
          "layer_norm(%x) {eps = 0.001, normalized_shape = [6, 5, 7]}",
          "layer_norm(%x, %w, %b) {eps = 0.0, normalized_shape = [5, 7]}",
          "rms_norm(%x, %w) {eps = 0.00001, normalized_shape = [5, 7]}",
          "group_norm(%x, %g, %g) {eps = 0.00001, num_groups = 3}",
          "group_norm(%x, _, %g) {eps = 0.00001, num_groups = 6}",
          "group_norm(%x) {eps = 0.00001, num_groups = 1}"})
      EXPECT_EQ(expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,6,5,7] {0}quant<0.05:5>) {{
        %w: f32[5,7] = constant seeded<3>
        %b: f32[5,7] = constant seeded<4>
        %g: f32[6] = constant seeded<5>
        %y: i8[2,6,5,7] {0}quant<0.02:-11> = aten.{1}
        return %y
      }})",
                                             layout, op))
                    .kernels(),
                Kernels{"Normalize"});
}

}  // namespace
}  // namespace dtr::test
