// Minimum cut, layouts, float fallback, the portable backend.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <random>
#include <set>

#include "compiler/backends/portable/kernels.h"
#include "compiler/executors/executor.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "compiler/partitioner/float_fallback.h"
#include "compiler/partitioner/layout.h"
#include "compiler/partitioner/min_cut.h"
#include "test/unit/fake_recipe.h"

namespace dtr {
namespace {

TEST(MinCut, EqualsTheBestOfAllLabelings) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto nodes = static_cast<uint32_t>(2 + random() % 7);
    MinCut cut;
    for (uint32_t i = 2; i < nodes; ++i) cut.add_node();
    struct Edge {
      uint32_t from, to;
      int64_t cost;
    };
    std::vector<Edge> edges;
    for (uint32_t i = 0; i < nodes * 3; ++i) {
      const Edge edge{static_cast<uint32_t>(random() % nodes),
                      static_cast<uint32_t>(random() % nodes), static_cast<int64_t>(random() % 20)};
      edges.push_back(edge);
      cut.add_edge(edge.from, edge.to, edge.cost);
    }
    const auto cost_of = [&](const auto& on_sink_side) {
      int64_t cost = 0;
      for (const Edge& edge : edges)
        if (!on_sink_side(edge.from) && on_sink_side(edge.to)) cost += edge.cost;
      return cost;
    };
    int64_t best = INT64_MAX;
    for (uint32_t labels = 0; labels < 1u << nodes; ++labels)
      if ((labels & 1u) == 0 && (labels & 2u) != 0)
        best = std::min(best, cost_of([&](uint32_t node) { return (labels >> node & 1u) != 0; }));
    const std::vector<bool> side = cut.solve();
    EXPECT_EQ(cut.cost(), best);
    EXPECT_EQ(cost_of([&](uint32_t node) { return side[node]; }), best);
    EXPECT_FALSE(side[MinCut::kSource]);
    EXPECT_TRUE(side[MinCut::kSink]);
  }
}

// ExecuTorch's kernels of integer sums refuse a float `alpha` (error 0x12).
TEST(PortableKernels, GetWholeNumbersOfIntegersAsIntegers) {
  Module module = parse(R"(
graph @forward(%i: i32[4], %f: f32[4], %q: i8[4] quant<0.5>) {
  %a: i32[4] = aten.add.Tensor(%i, %i) {alpha = 3.0}
  %b: i32[4] = aten.sub.Tensor(%a, %i)
  %c: i32[4] = aten.clamp(%b) {min = -2.0}
  %d: f32[4] = aten.add.Tensor(%f, %f) {alpha = 3.0}
  %e: i8[4] quant<0.5> = aten.clamp(%q) {min = -2.0}
  return %c, %d, %e
})");
  const Graph& graph = module.forward();
  std::vector<std::string> given;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    const KernelCall call = portable::find_row(op.def)->call(module, graph, op);
    for (const KernelArgument& argument : call.arguments) {
      if (const auto* whole = std::get_if<int64_t>(&argument))
        given.push_back(fmt::format("{} int {}", op.def->name, *whole));
      if (const auto* real = std::get_if<double>(&argument))
        given.push_back(fmt::format("{} float {}", op.def->name, *real));
    }
  }
  EXPECT_EQ(given, (std::vector<std::string>{"aten.add.Tensor int 3", "aten.sub.Tensor int 1",
                                             "aten.clamp int -2", "aten.add.Tensor float 3",
                                             "aten.clamp float -2"}));
}

constexpr std::string_view kTwoConvolutions = R"(
graph @forward(%x: f32[1,3,8,9]) {
  %q: i8[1,3,8,9] quant<0.02> = quantize(%x)
  %w: i8[5,3,1,1] quant<range=-127..127, 0.01> = constant seeded<1>
  %v: i8[3,5,1,1] quant<range=-127..127, 0.01> = constant seeded<2>
  %a: i8[1,5,8,9] quant<0.03> = aten.convolution(%q, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %b: i8[1,3,8,9] quant<0.03> = aten.convolution(%a, %v) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %y: f32[1,3,8,9] = dequantize(%b)
  return %y
})";

TEST(Layout, QuantizeAndDequantizeAbsorbTheTranspositions) {
  Module module = parse(kTwoConvolutions);
  const Recipe recipe =
      recipe_with({"aten.convolution"}, {.contiguous = false, .channels_last = true});
  Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  const Result<LayoutResult> result = assign_layouts(module.forward(), recipe, placement);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->conversions.empty());
  EXPECT_EQ(result->bytes_moved, 0);
  const Graph& graph = module.forward();
  for (const OpId op : graph.ops())
    EXPECT_EQ(graph.type(graph.op(op).results[0]).layout,
              graph.op(op).def == &ops::kDequantize ? Layout::kContiguous : Layout::kChannelsLast);
  EXPECT_TRUE(verify(module));
}

// Permuting ops between an input and an output without channels: any layout costs nothing.
TEST(Layout, PreferencesDecideWhereNothingElseDoes) {
  for (const bool prefers : {false, true}) {
    Module module = parse(R"(
graph @forward(%x: f32[1,1,8,9]) {
  %a: f32[1,9,8,1] = aten.permute(%x) {dims = [0, 3, 2, 1]}
  %b: f32[1,8,9,1] = aten.permute(%a) {dims = [0, 2, 1, 3]}
  %c: f32[1,3,8,3] = aten.view(%b) {size = [1, 3, 8, 3]}
  %y: f32[1,1,8,9] = aten.view(%c) {size = [1, 1, 8, 9]}
  return %y
})");
    const Recipe recipe =
        recipe_with({"aten.permute", "aten.view"}, {.mixed = true, .prefers_contiguous = prefers});
    Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
    const Result<LayoutResult> result = assign_layouts(module.forward(), recipe, placement);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->conversions.empty());
    EXPECT_EQ(result->bytes_moved, 0);
    const Graph& graph = module.forward();
    for (const OpId op : graph.ops()) {
      const Type& type = graph.type(graph.op(op).results[0]);
      if (type.shape[1] == 1) continue;
      EXPECT_EQ(type.layout, prefers ? Layout::kContiguous : Layout::kChannelsLast);
    }
  }
}

// The result of the delegate's op has a layout of its own; whoever reads it takes any.
TEST(Layout, PreferencesAreThoseOfResultsToo) {
  Module module = parse(R"(
graph @forward(%x: f32[1,1,8,9]) {
  %a: f32[1,9,8,1] = aten.permute(%x) {dims = [0, 3, 2, 1]}
  %b: f32[1,9,8,1] = aten.relu(%a)
  %y: f32[1,1,8,9] = aten.permute(%b) {dims = [0, 3, 2, 1]}
  return %y
})");
  const LayoutChoice any{.mixed = true};
  Recipe recipe = recipe_with({"aten.permute"}, any);
  recipe.insert(recipe.begin(), std::make_unique<FakeDelegate>(
                                    std::set<std::string_view>{"aten.relu"},
                                    LayoutChoice{.mixed = true, .prefers_contiguous = true}, 0));
  Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  const Result<LayoutResult> result = assign_layouts(module.forward(), recipe, placement);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->conversions.empty());
  const Graph& graph = module.forward();
  for (const OpId op : graph.ops())
    if (const Type& type = graph.type(graph.op(op).results[0]); type.shape[1] == 9) {
      EXPECT_EQ(type.layout, Layout::kContiguous);
    }
}

// However many ops prefer the other layout, no byte is moved for that.
TEST(Layout, PreferencesAreWorthNoConversion) {
  Module module = parse(R"(
graph @forward(%x: f32[1,2,1,2] channels_last) {
  %a: f32[1,2,1,2] = aten.relu(%x)
  %b: f32[1,2,1,2] = aten.relu(%a)
  %c: f32[1,2,1,2] = aten.relu(%b)
  return %c channels_last
})");
  const Recipe recipe = recipe_with({"aten.relu"}, {.prefers_contiguous = true});
  Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  const Result<LayoutResult> result = assign_layouts(module.forward(), recipe, placement);
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->conversions.empty());
  EXPECT_EQ(result->bytes_moved, 0);
}

TEST(Layout, OneConversionServesAllReaders) {
  Module module = parse(R"(
graph @forward(%x: f32[1,3,8,9]) {
  %r: f32[1,3,8,9] = aten.relu(%x)
  %a: f32[1,3,4,4] = aten.avg_pool2d(%r) {ceil_mode = false, count_include_pad = true, kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  %b: f32[1,3,7,8] = aten.avg_pool2d(%r) {ceil_mode = false, count_include_pad = true, kernel_size = [2, 2], padding = [0, 0], stride = [1, 1]}
  %s: f32[1,216] = aten.view(%r) {size = [1, 216]}
  return %a, %b, %s
})");
  const Recipe recipe =
      recipe_with({"aten.avg_pool2d"}, {.contiguous = false, .channels_last = true});
  Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  const Result<LayoutResult> result = assign_layouts(module.forward(), recipe, placement);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->conversions.size(),
            3U);  // the relu's result once for both pools, and each pool's output back
  EXPECT_EQ(result->bytes_moved, 4 * (216 + 48 + 168));
  EXPECT_TRUE(verify(module));
}

TEST(Layout, OutputsLieAsTheGraphSays) {
  Module module = parse(R"(
graph @forward(%x: f32[1,3,8,9]) {
  %a: f32[1,3,4,4] = aten.avg_pool2d(%x) {ceil_mode = false, count_include_pad = true, kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  return %a channels_last, %a, %x channels_last
})");
  const Recipe recipe =
      recipe_with({"aten.avg_pool2d"}, {.contiguous = false, .channels_last = true});
  Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  const Result<LayoutResult> result = assign_layouts(module.forward(), recipe, placement);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->conversions.size(),
            2U);  // of the input, for the pool and an output; of the pool's result
  EXPECT_EQ(result->bytes_moved, 4 * (216 + 48));
  const Graph& graph = module.forward();
  EXPECT_EQ(graph.type(graph.outputs()[0]).layout, Layout::kChannelsLast);
  EXPECT_EQ(graph.type(graph.outputs()[1]).layout, Layout::kContiguous);
  EXPECT_EQ(graph.type(graph.outputs()[2]).layout, Layout::kChannelsLast);
  EXPECT_TRUE(verify(module));
}

TEST(Layout, OneChannelNeedsNoConversion) {
  Module module = parse(R"(
graph @forward(%x: f32[1,1,8,9]) {
  %a: f32[1,1,4,4] = aten.avg_pool2d(%x) {ceil_mode = false, count_include_pad = true, kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
  return %a
})");
  const Recipe recipe =
      recipe_with({"aten.avg_pool2d"}, {.contiguous = false, .channels_last = true});
  Placement placement = *place(module, module.forward(), recipe, {.weigh_costs = false});
  EXPECT_TRUE(assign_layouts(module.forward(), recipe, placement)->conversions.empty());
}

TEST(FloatFallback, ComputesWithinOneStepOfTheIntegerOp) {
  Module module = parse(kTwoConvolutions);
  Graph before = module.forward();
  Graph& graph = module.forward();
  std::vector<OpId> convolutions;
  for (const OpId op : graph.ops())
    if (graph.op(op).def == &ops::kConvolution) convolutions.push_back(op);
  for (const OpId op : convolutions) {
    ASSERT_TRUE(can_fall_back_to_float(graph, op));
    ASSERT_TRUE(fall_back_to_float(module, graph, op));
  }
  ASSERT_TRUE(verify(module));
  ASSERT_TRUE(place(module, graph, recipe_with({})));
  Tensor input(DType::kFloat32, {1, 3, 8, 9});
  std::mt19937 random(3);
  for (float& value : input.values<float>()) value = static_cast<float>(random() % 1000) / 250 - 2;
  const TensorView view = input.view();
  const auto integer = make_reference_executor(module, before)->run({&view, 1});
  const auto real = make_reference_executor(module, graph)->run({&view, 1});
  ASSERT_TRUE(integer && real);
  for (size_t i = 0; i < 216; ++i)
    EXPECT_NEAR(integer->front().values<float>()[i], real->front().values<float>()[i], 0.0301F);
}

// Operators that ExecuTorch has no kernel for, as compositions of those that it has.
TEST(Executorch, ComposesWhatItHasNoKernelFor) {
  for (const std::string_view op :
       {"aten.hardshrink(%x) {lambd = 1.5}", "aten.softshrink(%x) {lambd = 1.5}",
        "aten.softsign(%x)", "aten.threshold(%x) {threshold = -2.0, value = 7.5}",
        "aten.hardsigmoid(%x)", "aten.hardswish(%x)", "aten.log_sigmoid(%x)", "aten.mish(%x)",
        "aten.silu(%x)", "aten.softplus(%x) {beta = 0.5, threshold = 20.0}",
        "aten.prelu(%x, %slope)", "aten.rms_norm(%x, %last) {eps = 0.01, normalized_shape = [6]}",
        "aten.constant_pad_nd(%x) {pad = [-2, 1, 0, -1], value = 0.5}",
        "aten.softmax(%x, %mask) {dim = -1}",
        "aten.div.Tensor_mode(%x, %slope) {rounding_mode = \"floor\"}"}) {
    SCOPED_TRACE(std::string(op));
    Module module =
        parse(fmt::format(R"(
graph @forward(%x: f32[2,3,4,6]) {{
  %slope: f32[3,1,1] = constant seeded<1>
  %last: f32[6] = constant seeded<2>
  %mask: bool[4,6] = constant dense<1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1>
  %y: f32[{}] = {}
  return %y
}})",
                          op.find("pad_nd") != std::string_view::npos ? "2,3,3,5" : "2,3,4,6", op));
    const Graph before = module.forward();
    Graph& graph = module.forward();
    const auto backend = make_executorch_backend(*find_target("executorch"));
    const OpId id = graph.first_op();
    ASSERT_EQ(backend->legalize(module, graph, id), true);
    ASSERT_TRUE(verify(module));
    EXPECT_GT(graph.op_slots(), 1u);
    Tensor input(DType::kFloat32, {2, 3, 4, 6});
    for (size_t i = 0; i < 144; ++i)
      input.values<float>()[i] = (static_cast<float>(i * 37 % 144) - 72) / 9;
    const TensorView view = input.view();
    const auto expected = make_reference_executor(module, before)->run({&view, 1});
    const auto actual = make_reference_executor(module, graph)->run({&view, 1});
    ASSERT_TRUE(expected && actual);
    ASSERT_EQ(expected->front().shape(), actual->front().shape());
    for (size_t i = 0; i < expected->front().values<float>().size(); ++i)
      EXPECT_NEAR(expected->front().values<float>()[i], actual->front().values<float>()[i], 2e-6F)
          << i;
  }
}

// Its kernels of these give other numbers than PyTorch's.
TEST(Executorch, ComposesDivisionsThatDifferFromPytorch) {
  Module module = parse(R"(
graph @forward(%x: i32[7], %y: i32[7]) {
  %r: i32[7] = aten.remainder.Tensor(%x, %y)
  return %r
})");
  const auto backend = make_executorch_backend(*find_target("executorch"));
  ASSERT_EQ(backend->legalize(module, module.forward(), module.forward().first_op()), true);
  ASSERT_TRUE(verify(module));
  Tensor x(DType::kInt32, {7}), y(DType::kInt32, {7});
  std::ranges::copy(std::array{6, -6, 6, -6, 10, 0, -7}, x.values<int32_t>().begin());
  std::ranges::copy(std::array{5, 5, -5, -5, 5, 3, 2}, y.values<int32_t>().begin());
  const TensorView inputs[] = {x.view(), y.view()};
  const auto result = make_reference_executor(module, module.forward())->run(inputs);
  ASSERT_TRUE(result);
  const auto rests = result->front().values<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(rests.begin(), rests.end()),
            (std::vector<int32_t>{1, 4, -4, -1, 0, 0, 1}));

  // The quotient is rounded once, however often the pipeline asks.
  Module division = parse(R"(
graph @forward(%x: f32[4], %y: f32[4]) {
  %q: f32[4] = aten.div.Tensor_mode(%x, %y) {rounding_mode = "floor"}
  return %q
})");
  Graph& graph = division.forward();
  ASSERT_EQ(backend->legalize(division, graph, graph.first_op()), true);
  EXPECT_EQ(backend->legalize(division, graph, graph.first_op()), false);
}

// Its kernel takes a list of indices, and its result has the rank of the table.
TEST(Executorch, SelectsByAListOfIndices) {
  for (const std::string_view index : {"2,2", ""}) {
    SCOPED_TRACE(std::string(index));
    Module module = parse(fmt::format(R"(
graph @forward(%x: f32[5], %i: i64[{0}]) {{
  %y: f32[{0}] = aten.index_select(%x, %i) {{dim = 0}}
  return %y
}})",
                                      index));
    Graph& graph = module.forward();
    const auto backend = make_executorch_backend(*find_target("executorch"));
    ASSERT_EQ(backend->legalize(module, graph, graph.first_op()), true);
    ASSERT_TRUE(verify(module));
    size_t selections = 0;
    for (const OpId id : graph.ops()) {
      const Op& op = graph.op(id);
      if (op.def->name != "aten.index_select") continue;
      ++selections;
      EXPECT_EQ(graph.type(op.operands[1]).rank(), 1u);
      EXPECT_EQ(graph.type(op.results[0]).rank(), 1u);
      EXPECT_EQ(backend->legalize(module, graph, id), false);
    }
    EXPECT_EQ(selections, 1u);
    Tensor x(DType::kFloat32, {5});
    std::ranges::copy(std::array{1.0F, 2.0F, 3.0F, 4.0F, 5.0F}, x.values<float>().begin());
    constexpr std::array<int64_t, 4> kPlaces{4, 0, 1, 3};
    Tensor places(DType::kInt64, index.empty() ? Shape{} : Shape{2, 2});
    std::copy_n(kPlaces.begin(), places.elements(), places.values<int64_t>().begin());
    const TensorView inputs[] = {x.view(), places.view()};
    const auto result = make_reference_executor(module, graph)->run(inputs);
    ASSERT_TRUE(result);
    const auto taken = result->front().values<float>();
    EXPECT_EQ(std::vector<float>(taken.begin(), taken.end()),
              index.empty() ? (std::vector<float>{5}) : (std::vector<float>{5, 1, 2, 4}));
  }
}

TEST(Executorch, SaysWhatItCannotCompose) {
  const auto reason = [](std::string_view text) {
    Module module = parse(text);
    const auto refusal = make_executorch_backend(*find_target("executorch"))
                             ->refuse(module.forward(), module.forward().first_op());
    return refusal ? refusal->reason : std::string();
  };
  EXPECT_EQ(reason(R"(
graph @forward(%x: f32[1,3,8,8]) {
  %y: f32[1,3,8,8] = aten.softplus(%x) {beta = 1.0, threshold = 4.0}
  return %y
})"),
            "log(1 + exp(x)), of which ExecuTorch's softplus is composed, is the same function "
            "from a threshold of 15 on; this one is 4");
  EXPECT_EQ(reason(R"(
graph @forward(%x: f32[1,3,8,8]) {
  %y: f32[1,3,3,3] = aten.adaptive_max_pool2d(%x) {output_size = [3, 3]}
  return %y
})"),
            "ExecuTorch has no kernel for aten.adaptive_max_pool2d");
}

// The first op of the graph, rewritten for the portable backend: the names of the ops that it
// becomes. Their results are those of the op.
std::vector<std::string_view> legalized(Module& module) {
  const Graph before = module.forward();
  Graph& graph = module.forward();
  const auto backend = make_portable_backend(*find_target("imxrt700"));
  EXPECT_EQ(backend->legalize(module, graph, graph.first_op()), true);
  EXPECT_TRUE(verify(module));
  std::vector<std::string_view> names;
  for (const OpId op : graph.ops()) names.push_back(graph.op(op).def->name);
  Tensor input(DType::kFloat32, graph.type(graph.inputs()[0]).shape);
  const std::span<float> elements = input.values<float>();
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i % 17) - 8;
  const TensorView view = input.view();
  const auto expected = make_reference_executor(module, before)->run({&view, 1});
  const auto actual = make_reference_executor(module, graph)->run({&view, 1});
  if (!expected || !actual) {
    ADD_FAILURE() << "the graphs do not run";
    return names;
  }
  EXPECT_EQ(actual->front().shape(), expected->front().shape());
  const auto wanted = expected->front().values<float>(), got = actual->front().values<float>();
  EXPECT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < std::min(wanted.size(), got.size()); ++i)
    EXPECT_NEAR(wanted[i], got[i], 4e-6) << i;  // two steps of float32 at 17
  return names;
}

TEST(Portable, MakesFusedActivationsAndUnevenPaddingExplicit) {
  Module module = parse(R"(
graph @forward(%x: f32[1,3,8,9]) {
  %w: f32[5,3,3,3] = constant seeded<1>
  %a: f32[1,5,4,5] = aten.convolution(%x, %w) {activation = "relu6", dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 1], padding_end = [1, 1], stride = [2, 2], transposed = false}
  return %a
})");
  EXPECT_EQ(legalized(module), (std::vector<std::string_view>{"aten.constant_pad_nd",
                                                              "aten.convolution", "aten.clamp"}));
}

// What a transposed convolution loses at its ends: (4 − 1)·2 + 3 = 9 rows less 0 and 2, 9 columns
// less 2 and 1.
TEST(Portable, CutsTheUnevenPaddingOfATransposedConvolutionBehindIt) {
  Module module = parse(R"(
graph @forward(%x: f32[2,3,4,4]) {
  %w: f32[3,5,3,3] = constant seeded<1>
  %a: f32[2,5,7,6] = aten.convolution(%x, %w) {activation = "relu", dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 2], padding_end = [2, 1], stride = [2, 2], transposed = true}
  return %a
})");
  EXPECT_EQ(legalized(module),
            (std::vector<std::string_view>{"aten.convolution", "aten.slice.Tensor",
                                           "aten.slice.Tensor", "aten.clamp"}));
  const Graph& graph = module.forward();
  EXPECT_EQ(graph.op(graph.first_op()).attributes.get<Ints>("padding"), (Ints{0, 1}));
  EXPECT_EQ(graph.type(graph.outputs()[0]).shape, (Shape{2, 5, 7, 6}));
}

// Windows whose padding at the begin and at the end differs, whatever they are divided by.
TEST(Portable, DividesWindowsOverUnevenPaddingByTheirOwnElements) {
  for (const std::string_view rest :
       {"ceil_mode = false, count_include_pad = false",
        "ceil_mode = false, count_include_pad = true",
        "ceil_mode = true, count_include_pad = false", "ceil_mode = true, count_include_pad = true",
        "ceil_mode = false, count_include_pad = false, divisor_override = 5"}) {
    SCOPED_TRACE(rest);
    const bool ceil = rest.find("ceil_mode = true") != rest.npos;
    Module module = parse(fmt::format(R"(
graph @forward(%x: f32[2,3,8,9]) {{
  %a: f32[2,3,{},5] = aten.avg_pool2d(%x) {{{}, kernel_size = [3, 2], padding = [1, 1], padding_end = [0, 0], stride = [4, 2]}}
  return %a
}})",
                                      ceil ? 3 : 2, rest));
    std::vector<std::string_view> expected{"aten.constant_pad_nd", "aten.avg_pool2d"};
    if (rest.find("override") == rest.npos) expected.emplace_back("aten.mul.Tensor");
    EXPECT_EQ(legalized(module), expected);
  }
}

// Pixels that are placed as TFLite and ONNX do: picked along each dimension that changes.
TEST(Portable, PicksThePixelsOfOtherResizes) {
  const auto resized = [](std::string_view op, std::string_view size, std::string_view rest) {
    Module module = parse(fmt::format(R"(
graph @forward(%x: f32[2,3,4,5]) {{
  %a: f32[2,3,{0}] = aten.upsample_{1}(%x) {{{2}, output_size = [{0}]}}
  return %a
}})",
                                      size, op, rest));
    return legalized(module);
  };
  using Names = std::vector<std::string_view>;
  const Names pick{"aten.index_select"};
  const Names both{"aten.index_select", "aten.index_select"};
  for (const std::string_view rest : {"half_pixel_centers = true", "align_corners = true"})
    for (const auto& [size, names] :
         {std::pair("9,7", both), std::pair("4,3", pick), std::pair("3,5", pick)})
      EXPECT_EQ(resized("nearest2d", size, rest), names) << rest << size;
  EXPECT_EQ(resized("nearest2d", "9,7", "align_corners = true, half_pixel_centers = true"), both);
  const Names between{"aten.index_select", "aten.index_select", "aten.mul.Tensor",
                      "aten.mul.Tensor", "aten.add.Tensor"};
  Names twice = between;
  twice.insert(twice.end(), between.begin(), between.end());
  for (const std::string_view rest : {"align_corners = false, half_pixel_centers = false",
                                      "align_corners = true, half_pixel_centers = true"})
    EXPECT_EQ(resized("bilinear2d", "7,8", rest), twice) << rest;
  EXPECT_EQ(resized("bilinear2d", "2,8", "align_corners = false, half_pixel_centers = false"),
            (Names{"aten.index_select", "aten.index_select", "aten.index_select", "aten.mul.Tensor",
                   "aten.mul.Tensor", "aten.add.Tensor"}));
  // PyTorch's own.
  for (const std::string_view op :
       {"nearest2d(%x) {align_corners = false, half_pixel_centers = false",
        "bilinear2d(%x) {align_corners = true, half_pixel_centers = false"}) {
    Module module = parse(fmt::format(R"(
graph @forward(%x: f32[2,3,4,5]) {{
  %a: f32[2,3,7,8] = aten.upsample_{}, output_size = [7, 8]}}
  return %a
}})",
                                      op));
    EXPECT_EQ(make_portable_backend(*find_target("imxrt700"))
                  ->legalize(module, module.forward(), module.forward().first_op()),
              false);
  }
}

// A square costs what a product does; other powers, and those of codes, stay.
TEST(Portable, SquaresAreProducts) {
  const auto power = [](std::string_view type, double exponent) {
    return parse(fmt::format(R"(
graph @forward(%x: {0}) {{
  %y: {0} = aten.pow.Tensor_Scalar(%x) {{exponent = {1}}}
  return %y
}})",
                             type, exponent));
  };
  const auto backend = make_portable_backend(*find_target("imxrt700"));
  const auto legalizes = [&](Module& module) {
    return backend->legalize(module, module.forward(), module.forward().first_op());
  };
  Module square = power("f32[2,500]", 2), cube = power("f32[2,500]", 3),
         codes = power("i8[2,500] quant<0.5>", 2);
  const uint64_t cost = backend->cost(square.forward(), square.forward().first_op());
  EXPECT_LT(10 * cost, backend->cost(cube.forward(), cube.forward().first_op()));
  EXPECT_EQ(legalized(square), (std::vector<std::string_view>{"aten.mul.Tensor"}));
  EXPECT_EQ(backend->cost(square.forward(), square.forward().first_op()), cost);
  EXPECT_EQ(legalizes(cube), false);
  EXPECT_EQ(legalizes(codes), false);
}

}  // namespace
}  // namespace dtr
