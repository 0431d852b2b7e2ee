// Indices on the NPU: those of extremes, and what is read by index.
#include <fmt/format.h>

#include "test/unit/neutron_fixture.h"

namespace dtr {
namespace {

using test::Compiled;
using test::expect_bit_exact;
using Kernels = std::vector<std::string>;

constexpr std::string_view kLayouts[] = {"", "channels_last "};

// The elements come in 256 codes: many are equal, and the first of them counts.
TEST(NeutronArgmax, AnyDimensionOfBothLayouts) {
  for (const std::string_view op : {"aten.argmax", "aten.argmin"})
    for (const std::string_view layout : kLayouts)
      for (const auto& [attributes, result] :
           std::vector<std::pair<std::string_view, std::string_view>>{
               {"dim = 1", "i64[2,5,70]"},
               {"dim = 0, keepdim = true", "i64[1,30,5,70]"},
               {"dim = -1, keepdim = true, as_int32 = true", "i32[2,30,5,1]"},
               {"dim = 2", "i64[2,30,70]"},
               {"as_int32 = true", "i32[]"},
               {"keepdim = true", "i64[1,1,1,1]"}}) {
        const Compiled compiled =
            expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,30,5,70] {}quant<0.05:5>) {{
          %y: {} = {}(%x) {{{}}}
          return %y
        }})",
                                         layout, result, op, attributes));
        EXPECT_EQ(compiled.kernels(), Kernels{"Reduce"});
      }
}

// Indices count logical elements, whatever the order in memory; the result is asked for in another
// order than it is made in.
TEST(NeutronArgmax, OfViewsAndOrders) {
  expect_bit_exact(R"(graph @forward(%x: i8[2,6,5,7] channels_last quant<0.05:5>) {
    %v: i8[12,35] quant<0.05:5> = aten.view(%x) {size = [12, 35]}
    %y: i64[12] = aten.argmax(%v) {dim = 1}
    %f: i8[2,6,5,7] quant<0.05:5> = aten.flip(%x) {dims = [1, 3]}
    %z: i64[] = aten.argmin(%f)
    return %y, %z
  })");
  for (const std::string_view layout : kLayouts)
    expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[2,3,5,7] quant<0.05:5>) {{
      %y: i64[2,3,1,7] {}= aten.argmax(%x) {{dim = 2, keepdim = true}}
      return %y
    }})",
                                 layout));
  expect_bit_exact(
      "graph @forward(%x: i8[] quant<0.05:5>) {\n %y: i64[] = aten.argmax(%x)\n return %y\n}");
}

// What a classifier ends with is one program with it.
TEST(NeutronArgmax, BehindALinearLayer) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[3,20] quant<0.05:5>) {
    %w: i8[11,20] quant<axis=0, range=-127..127, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01> = constant seeded<2>
    %l: i8[3,11] quant<0.1> = aten.linear(%x, %w)
    %y: i64[3] = aten.argmax(%l) {dim = -1}
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Conv2d", "Reduce"}));
}

TEST(NeutronGather, ComputedIndices) {
  for (const std::string_view index : {"i64", "i32"})
    for (const std::string_view layout : kLayouts)
      for (const auto& [dim, of_index, result] :
           std::vector<std::tuple<int, std::string_view, std::string_view>>{
               {0, "4", "4,3,5,7"},
               {1, "9", "2,9,5,7"},
               {2, "1", "2,3,1,7"},
               {-1, "3", "2,3,5,3"},
               {2, "", "2,3,7"},
               {1, "2,2", "2,2,2,5,7"}}) {
        const Compiled compiled = expect_bit_exact(
            fmt::format(R"(graph @forward(%x: i8[2,3,5,7] {}quant<0.05:5>, %i: {}[{}]) {{
          %y: i8[{}] quant<0.05:5> = aten.index_select(%x, %i) {{dim = {}}}
          return %y
        }})",
                        layout, index, of_index, result, dim));
        EXPECT_EQ(compiled.kernels().front(), "Gather");
      }
}

TEST(NeutronGather, OfATable) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%i: i64[2,3]) {
    %t: i8[5,13] quant<0.05:5> = constant seeded<3>
    %e: i8[2,3,13] quant<0.05:5> = aten.index_select(%t, %i) {dim = 0}
    %y: i8[2,3,13] quant<0.0078125> = aten.tanh(%e)
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Gather", "Lookup"}));
}

// An index that the NPU has found selects a row.
TEST(NeutronGather, ByAFoundIndex) {
  const Compiled compiled = expect_bit_exact(R"(graph @forward(%x: i8[4,9] quant<0.05:5>) {
    %t: i8[9,6] quant<0.02> = constant seeded<3>
    %i: i64[4] = aten.argmax(%x) {dim = 1}
    %y: i8[4,6] quant<0.02> = aten.index_select(%t, %i) {dim = 0}
    return %y
  })");
  EXPECT_EQ(compiled.kernels(), (Kernels{"Reduce", "Gather"}));
}

std::string select_by(std::string_view indices, int64_t count, int64_t rows, int64_t columns) {
  return fmt::format(R"(graph @forward(%x: i8[{2},{3}] quant<0.05:5>) {{
    %i: i64[{1}] = constant {0}
    %y: i8[{1},{3}] quant<0.05:5> = aten.index_select(%x, %i) {{dim = 0}}
    return %y
  }})",
                     indices, count, rows, columns);
}

TEST(NeutronGather, KnownIndicesAreCopiesOrOneGather) {
  EXPECT_EQ(expect_bit_exact(select_by("dense<1, 2, 3, 4>", 4, 6, 5)).kernels(), Kernels{"Move"});
  EXPECT_EQ(expect_bit_exact(select_by("dense<1, 3, 5>", 3, 6, 5)).kernels(), Kernels{"Move"});
  EXPECT_EQ(expect_bit_exact(select_by("dense<5, 1, 2>", 3, 6, 5)).kernels(), Kernels{"Gather"});
  // Two long runs of single bytes: copying eight a cycle pays for the second call.
  std::string list = "1000";
  for (int i = 1001; i < 2000; ++i) list += fmt::format(", {}", i);
  for (int i = 0; i < 1000; ++i) list += fmt::format(", {}", i);
  EXPECT_EQ(expect_bit_exact(fmt::format(R"(graph @forward(%x: i8[200,3000] quant<0.05:5>) {{
    %i: i64[2000] = constant dense<{}>
    %y: i8[200,2000] quant<0.05:5> = aten.index_select(%x, %i) {{dim = 1}}
    return %y
  }})",
                                         list))
                .kernels(),
            (Kernels{"Move", "Move"}));
}

// How a run on these inputs ends, with both sets of kernels.
npu::Status status_of(const std::string& text, std::span<const Tensor> inputs) {
  Module module = test::parse(text);
  const Result<Compiled> compiled = test::compile(module);
  if (!compiled) {
    ADD_FAILURE() << to_text(compiled.error());
    return npu::Status::kOk;
  }
  EXPECT_EQ(compiled->kernels(), Kernels{"Gather"});
  const npu::Status status =
      test::simulate(module, *compiled, inputs, test::machine(), simulator::plain_kernel_set())
          .report.status;
  EXPECT_EQ(test::simulate(module, *compiled, inputs, test::machine(), simulator::best_kernel_set())
                .report.status,
            status);
  return status;
}

// Such a run ends, and there is no arithmetic on such numbers.
TEST(NeutronGather, KnownIndicesThatNameNothing) {
  const Tensor x(DType::kInt8, {6, 5});
  for (const std::string_view hostile :
       {"dense<0, -1, 2>", "dense<-9223372036854775808, 9223372036854775807, 1>",
        "dense<-5, 9223372036854775807, 9223372036854775807>", "dense<4294967297, 4294967296, 6>"})
    EXPECT_EQ(status_of(select_by(hostile, 3, 6, 5), {&x, 1}), npu::Status::kBadIndex) << hostile;
}

template <class Index>
void expect_bounds(std::string_view name, const std::vector<Index>& outside) {
  const std::string text = fmt::format(R"(graph @forward(%x: i8[4,6] quant<0.05:5>, %i: {}[3]) {{
    %y: i8[4,3] quant<0.05:5> = aten.index_select(%x, %i) {{dim = 1}}
    return %y
  }})",
                                       name);
  std::vector<Tensor> inputs;
  inputs.emplace_back(DType::kInt8, Shape{4, 6});
  inputs.emplace_back(name == "i64" ? DType::kInt64 : DType::kInt32, Shape{3});
  const std::span<Index> index = inputs[1].values<Index>();
  for (size_t at = 0; at < 3; ++at) {
    index[at] = 5;
    EXPECT_EQ(status_of(text, inputs), npu::Status::kOk);
    for (const Index each : outside) {
      index[at] = each;
      EXPECT_EQ(status_of(text, inputs), npu::Status::kBadIndex) << each << " at " << at;
    }
    index[at] = 0;
  }
}

// PyTorch refuses the same ones.
TEST(NeutronGather, RefusesIndicesOutside) {
  expect_bounds<int32_t>("i32", {-1, 6, INT32_MIN, INT32_MAX});
  expect_bounds<int64_t>("i64",
                         {-1, 6, INT64_MIN, INT64_MAX, int64_t{1} << 32, -(int64_t{1} << 32)});
}

// One call, however the rows of a table are mixed: 4,000 rows were 2,523 copies.
TEST(NeutronGather, ManyKnownIndices) {
  std::string list = "7";
  uint32_t at = 7;
  for (int i = 1; i < 4000; ++i)
    list += fmt::format(", {}", at = (at * 1103515245U + 12345U) % 4000U);
  const Compiled compiled =
      expect_bit_exact(select_by(fmt::format("dense<{}>", list), 4000, 4000, 16));
  EXPECT_EQ(compiled.kernels(), Kernels{"Gather"});
  const neutron::Timeline timeline = compiled.details().timeline();
  EXPECT_EQ(timeline.busy, 64U + 4000 * 2 + 4000 * 4 / 8);
}

}  // namespace
}  // namespace dtr
