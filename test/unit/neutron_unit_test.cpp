// Parts of the NPU backend against cases computed by hand: orders of bytes, packed weights, folded
// biases, tables, refusals, schedule, payload.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "compiler/backends/neutron/encode/payload.h"
#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/backends/neutron/lowering/weights.h"
#include "device/numerics/crc32.h"
#include "host/simulator/listing.h"
#include "test/unit/machine.h"
#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using neutron::StridedLayout;

std::vector<int> as_ints(std::span<const std::byte> bytes) {
  std::vector<int> result;
  for (const std::byte byte : bytes) result.push_back(static_cast<int8_t>(byte));
  return result;
}

// ---- orders

TEST(NeutronOrder, ChannelsLastInDigits) {
  EXPECT_EQ(neutron::strided_layout({2, 3, 5, 7}, Layout::kChannelsLast),
            (StridedLayout{{2, 105, 105}, {35, 1, 3}, {3, 35, 1}}));
  EXPECT_EQ(neutron::strided_layout({2, 3, 5, 7}, Layout::kContiguous),
            (StridedLayout{{210, 1, 1}}));
  EXPECT_EQ(neutron::strided_layout({2, 1, 5, 7}, Layout::kChannelsLast),
            (StridedLayout{{70, 1, 1}}));
  EXPECT_EQ(neutron::strided_layout({1, 3, 1, 1}, Layout::kChannelsLast),
            (StridedLayout{{3, 1, 1}}));
  EXPECT_EQ(neutron::strided_layout({}, Layout::kContiguous), StridedLayout{});
}

TEST(NeutronOrder, SplitsOnlyWhereTheRadixDivides) {
  const int64_t six[] = {6};
  const int64_t four[] = {4};
  EXPECT_EQ(neutron::split_at({{12, 1, 1}}, six), (StridedLayout{{2, 6, 6}, {6, 1, 1}}));
  EXPECT_EQ(neutron::split_at({{12, 1, 1}}, four), (StridedLayout{{3, 4, 4}, {4, 1, 1}}));
  EXPECT_EQ(neutron::split_at({{6, 1, 1}}, four), std::nullopt);
  EXPECT_EQ(neutron::split_at({{6, 3, 1}}, four), std::nullopt);
}

// A dimension of 2 · 3 indices whose outer digit lies innermost.
TEST(NeutronOrder, SlicesEndWhereDigitsDo) {
  const StridedLayout layout{{3, 1, 2}, {2, 3, 1}};
  const auto slice = [&](int64_t start, int64_t count) {
    return neutron::sliced(layout, {6}, 0, start, count, 1);
  };
  for (const int64_t row : {0, 1}) {
    ASSERT_TRUE(slice(3 * row, 3));
    EXPECT_EQ(slice(3 * row, 3)->layout, (StridedLayout{{3, 1, 2}}));
    EXPECT_EQ(slice(3 * row, 3)->offset, row);
  }
  ASSERT_TRUE(slice(0, 6));
  EXPECT_EQ(slice(0, 6)->layout, layout);
  for (const int64_t count : {4, 5}) EXPECT_FALSE(slice(0, count)) << count;
  EXPECT_FALSE(slice(1, 4));
  for (const int64_t start : {1, 2}) EXPECT_FALSE(slice(start, 3)) << start;
}

// What is repeated has its place in the order of elements, not the innermost one.
TEST(NeutronOrder, ResultsOfRepeatedOperandsAreInOrder) {
  EXPECT_EQ(neutron::compacted({{3, 1, 2}, {2, 3, 1}}), (StridedLayout{{3, 1, 2}, {2, 3, 1}}));
  EXPECT_EQ(neutron::compacted({{5, 1, 1}, {4, 5, 0}}), (StridedLayout{{20, 1, 1}}));
}

TEST(NeutronOrder, CopyOfATransposition) {
  using neutron::CopyLoop;
  const auto loops =
      neutron::copy_loops(neutron::strided_layout({1, 3, 5, 7}, Layout::kContiguous),
                          neutron::strided_layout({1, 3, 5, 7}, Layout::kChannelsLast));
  EXPECT_EQ(loops, (std::vector<CopyLoop>{{35, 1, 3}, {3, 35, 1}}));
  const auto same =
      neutron::copy_loops(neutron::strided_layout({1, 3, 5, 7}, Layout::kChannelsLast),
                          neutron::strided_layout({1, 3, 5, 7}, Layout::kChannelsLast));
  EXPECT_EQ(same, (std::vector<CopyLoop>{{105, 1, 1}}));
}

TEST(NeutronOrder, PermutationsComeBack) {
  const Shape shape{2, 3, 5, 7};
  const StridedLayout layout = neutron::strided_layout(shape, Layout::kChannelsLast);
  const size_t dims[] = {2, 0, 3, 1};
  const size_t inverse[] = {1, 3, 0, 2};
  const auto there = neutron::permuted(layout, shape, dims);
  ASSERT_TRUE(there);
  EXPECT_EQ(neutron::permuted(*there, {5, 2, 7, 3}, inverse), layout);
}

// ---- constants

TEST(NeutronWeights, PackedByChannels) {
  // 3 filters of 1×2 taps over 3 channels on an array of 2 pipelines with 2 lanes. Weight =
  // 100·channel out + 10·column + channel in.
  neutron::Filters filters{.out = 3, .height = 1, .width = 2, .in = 3};
  for (int o = 0; o < 3; ++o)
    for (int x = 0; x < 2; ++x)
      for (int i = 0; i < 3; ++i)
        filters.weights.push_back(static_cast<int8_t>(40 * o + 10 * x + i + 1));
  const npu::Target target{.pipelines = 2, .macs = 2};
  EXPECT_EQ(as_ints(neutron::pack_conv2d(filters, npu::Packing::kChannels, target)),
            (std::vector<int>{
                1,  2,  41, 42, 3,  0, 43, 0, 11, 12, 51, 52, 13, 0, 53, 0,     // channels 0 and 1
                81, 82, 0,  0,  83, 0, 0,  0, 91, 92, 0,  0,  93, 0, 0,  0}));  // channel 2 alone
  EXPECT_EQ(as_ints(neutron::pack_conv2d(filters, npu::Packing::kRows, target)),
            (std::vector<int>{1,  2,  41, 42, 3,  11, 43, 51, 12, 13, 52, 53,  //
                              81, 82, 0,  0,  83, 91, 0,  0,  92, 93, 0,  0}));
}

TEST(NeutronWeights, PackedDepthwise) {
  const neutron::Filters filters{
      .out = 3, .height = 2, .width = 1, .in = 1, .weights = {1, 2, 11, 12, 21, 22}};
  EXPECT_EQ(as_ints(neutron::pack_depthwise(filters, {.pipelines = 2})),
            (std::vector<int>{1, 11, 2, 12, 21, 0, 22, 0}));
}

TEST(NeutronWeights, BiasTakesTheZeroPoint) {
  const neutron::Filters filters{
      .out = 2, .height = 1, .width = 1, .in = 3, .weights = {1, 2, 3, -4, -5, -6}};
  const int32_t bias[] = {1000, -1000};
  const numerics::Requantization by[] = {{11, -1}, {22, -2}};
  const std::vector<std::byte> bytes =
      neutron::pack_parameters(filters, bias, -10, by, {.pipelines = 4});
  const auto* words = reinterpret_cast<const int32_t*>(bytes.data());
  EXPECT_EQ(std::vector<int32_t>(words, words + bytes.size() / 4),
            (std::vector<int32_t>{1060, -1150, 0, 0, 11, 22, 0, 0, -1, -2, 0, 0}));
}

// ---- tables

TEST(NeutronTables, HoldTheOpsOwnIntegers) {
  const Module module = parse(R"(graph @forward(%x: i8[3] quant<0.03:-5>) {
    %y: i8[3] quant<0.0078125> = aten.tanh(%x)
    return %y
  })");
  const neutron::Table table =
      neutron::table_of(module, module.forward(), module.forward().first_op());
  for (int q = -128; q < 128; ++q)
    EXPECT_NEAR(table[static_cast<size_t>(q + 128)],
                std::min(127.0, 128 * std::tanh(0.03 * (q + 5))), 0.51)
        << q;
}

TEST(NeutronTables, LimitsAreRecognized) {
  neutron::Table table;
  for (size_t i = 0; i < 256; ++i)
    table[i] = static_cast<int8_t>(std::clamp(static_cast<int>(i) - 128, -7, 90));
  EXPECT_EQ(neutron::as_clamp(table, {}), (numerics::Range{-7, 90}));
  EXPECT_EQ(neutron::as_clamp(table, {0, 50}), (numerics::Range{0, 50}));
  EXPECT_EQ(neutron::as_clamp(table, {-100, -50}), (numerics::Range{-7, -7}));
  table[130] = 3;
  EXPECT_EQ(neutron::as_clamp(table, {}), std::nullopt);
  EXPECT_EQ(neutron::as_clamp(table, {10, 127}), (numerics::Range{10, 90}));
}

// ---- refusals

// The refusal of the first op of the graph, "id: reason; remedy", or "" if the NPU runs it.
std::string refusal(std::string_view text, const npu::Target& target = test::machine()) {
  const Module module = parse(text);
  if (module.graphs.empty()) return "not a graph";
  const auto refused =
      make_neutron_backend(target)->refuse(module.forward(), module.forward().first_op());
  return refused ? fmt::format("{}: {}; {}", refused->id, refused->reason, refused->remedy) : "";
}

std::string conv(std::string_view x, std::string_view w, std::string_view y,
                 std::string_view attributes, int groups = 1, bool transposed = false) {
  return fmt::format(R"(graph @forward(%x: i8[{}] quant<0.05>) {{
    %w: i8[{}] quant<0.01> = constant seeded<1>
    %y: i8[{}] quant<0.05> = aten.convolution(%x, %w, _) {{{}, groups = {}, output_padding = [0, 0], transposed = {}}}
    return %y
  }})",
                     x, w, y, attributes, groups, transposed);
}
constexpr std::string_view kPlain = "dilation = [1, 1], padding = [0, 0], stride = [1, 1]";

TEST(NeutronSupport, SaysWhyNot) {
  EXPECT_EQ(refusal("graph @forward(%x: f32[3]) {\n %y: f32[3] = aten.relu(%x)\n return %y }"),
            "npu-element-type: the NPU computes int8 with one scale and zero point a tensor; "
            "operand 0 is f32; quantize the model: compile "
            "it with calibration data");
  EXPECT_EQ(
      refusal("graph @forward(%x: f32[3]) {\n %y: i8[3] quant<0.1> = quantize(%x)\n return %y }"),
      "npu-operator: the NPU has no kernel for quantize; the CPU runs it; `deuteron ops` lists "
      "what the NPU runs");
  EXPECT_EQ(refusal("graph @forward(%x: i8[1,3,5,5] quant<0.1>, %w: i8[4,3,1,1] quant<0.1>) {\n "
                    "%y: i8[1,4,5,5] quant<0.1> = "
                    "aten.convolution(%x, %w, _) {dilation = [1, 1], padding = [0, 0], stride = "
                    "[1, 1], groups = 1, output_padding = [0, 0], "
                    "transposed = false}\n return %y }"),
            "npu-dynamic-weight: the NPU needs a constant weight; `w` is computed while the model "
            "runs; make it a parameter or a buffer of "
            "the module");
  EXPECT_EQ(refusal("graph @forward(%x: i8[1,1,1,1,1,1,3] quant<0.1>) {\n %y: i8[3] quant<0.1> = "
                    "aten.view(%x) {size = [3]}\n return %y }"),
            "npu-rank: the NPU copies tensors of up to 6 dimensions; this one has 7; merge "
            "dimensions with a view before the operator");
  EXPECT_EQ(refusal("graph @forward(%x: i8[0,3] quant<0.1>) {\n %y: i8[0,3] quant<0.1> = "
                    "aten.relu(%x)\n return %y }"),
            "npu-empty-tensor: the NPU needs at least one element; a tensor has shape 0x3; remove "
            "the operator: it computes nothing");
}

// Examples of spec/ops.md 12.4, and both sides of each limit.
TEST(NeutronSupport, LimitsOfConvolutions) {
  EXPECT_EQ(refusal(conv("1,80,35,34", "2,80,32,24", "1,2,4,11", kPlain)), "");
  EXPECT_EQ(refusal(conv("1,113,41,15", "2,113,41,15", "1,2,1,1", kPlain)), "");  // two calls
  EXPECT_EQ(refusal(conv("1,3,4096,1", "2,3,4096,1", "1,2,1,1", kPlain)), "");
  EXPECT_EQ(refusal(conv("1,3,4097,1", "2,3,4097,1", "1,2,1,1", kPlain)),
            "npu-kernel-size: the NPU takes kernels of at most 4096 per axis; this one is 4097x1; "
            "choose a kernel of at most 4096");
  EXPECT_EQ(refusal(conv("1,3,5,5", "2,3,1,1", "1,2,1,5",
                         "dilation = [1, 1], padding = [0, 0], stride = [4096, 1]")),
            "");
  EXPECT_EQ(refusal(conv("1,3,5,5", "2,3,1,1", "1,2,1,5",
                         "dilation = [1, 1], padding = [0, 0], stride = [4097, 1]")),
            "npu-stride: the NPU takes strides of at most 4096 per axis; this one is 4097x1; "
            "choose a stride of at most 4096");
  EXPECT_EQ(refusal(conv("1,3,5,5", "2,3,1,1", "1,2,5,5",
                         "dilation = [1, 4097], padding = [0, 0], stride = [1, 1]")),
            "npu-dilation: the NPU takes dilations of at most 4096 per axis; this one is 1x4097; "
            "choose a dilation of at most 4096");
  EXPECT_EQ(refusal(conv("1,3,5,5", "2,3,1,1", "1,2,1,8193",
                         "dilation = [1, 1], padding = [0, 16777216], stride = [4096, 4096]")),
            "");
  EXPECT_EQ(refusal(conv("1,3,5,5", "2,3,1,1", "1,2,1,8193",
                         "dilation = [1, 1], padding = [0, 16777217], stride = [4096, 4096]")),
            "npu-padding: the NPU takes padding of at most 16777216 per axis; this one is "
            "0x16777217; choose less padding");
}

TEST(NeutronSupport, LimitsOfCalls) {
  EXPECT_EQ(refusal(conv("1,2048,1,1", "1024,2,1,1", "1,1024,1,1", kPlain, 1024)), "");
  EXPECT_EQ(refusal(conv("1,2050,1,1", "1025,2,1,1", "1,1025,1,1", kPlain, 1025)),
            "npu-convolution-calls: a convolution takes at most 1024 calls of the NPU: one for "
            "each group, times stride x stride if it is "
            "transposed, times how often a kernel over all channels exceeds 65535 products; this "
            "one would take 1025; use fewer groups, a "
            "smaller kernel, or a smaller stride of the transposed convolution");
  EXPECT_EQ(refusal(conv("1,4,2,2", "4,6,32,32", "1,6,64,64",
                         "dilation = [1, 1], padding = [0, 0], stride = [32, 32]", 1, true)),
            "");
  EXPECT_EQ(refusal(conv("1,4,2,2", "4,6,33,32", "1,6,66,64",
                         "dilation = [1, 1], padding = [0, 0], stride = [33, 32]", 1, true)),
            "npu-convolution-calls: a convolution takes at most 1024 calls of the NPU: one for "
            "each group, times stride x stride if it is "
            "transposed, times how often a kernel over all channels exceeds 65535 products; this "
            "one would take 1056; use fewer groups, a "
            "smaller kernel, or a smaller stride of the transposed convolution");
}

// What the table of operators prints is what a refusal begins with.
TEST(NeutronSupport, TheTableAndTheRefusalAreOneSentence) {
  const Module module = parse(conv("1,3,4097,1", "2,3,4097,1", "1,2,1,1", kPlain));
  const auto backend = make_neutron_backend(test::machine());
  const auto refused = backend->refuse(module.forward(), module.forward().first_op());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->limit, "the NPU takes kernels of at most 4096 per axis");
  EXPECT_EQ(refused->value, "this one is 4097x1");
  const std::vector<std::string> conditions = backend->support(ops::kConvolution)->conditions;
  EXPECT_NE(std::find(conditions.begin(), conditions.end(), refused->limit), conditions.end());
  EXPECT_FALSE(backend->support(ops::kQuantize));
}

// Of what runs in stripes a row of the result is enough.
TEST(NeutronSupport, EverythingLiesInSramTogether) {
  const std::string text = conv("1,8,16,16", "8,8,3,3", "1,8,14,14", kPlain);
  // Three rows of 128 bytes and one of 112, 96 bytes of parameters, 576 of weights, 256 for a
  // table.
  EXPECT_EQ(refusal(text, test::machine_with_sram(1424)), "");
  EXPECT_EQ(refusal(text, test::machine_with_sram(1423)),
            "npu-sram: one row of an operator's result, what it needs of the operands, and "
            "constants share the target's SRAM; operands and results take 496 bytes and constants "
            "928 bytes, of 1,423; use smaller tensors: a lower resolution, fewer channels or a "
            "smaller batch");
}

TEST(NeutronSupport, CostIsThatOfTheCall) {
  const Module module = parse(conv("1,8,16,16", "8,8,3,3", "1,8,14,14", kPlain));
  const npu::Target target = dtr::test::machine();
  // docs/npu.md 3: 196 positions in 24 tiles of 8 and one of 4 (a step loads 8 cycles), 9 steps
  // each; 12 cycles of parameters; drain 4.
  EXPECT_EQ(make_neutron_backend(target)->cost(module.forward(), module.forward().first_op()),
            8000u + 64 + 25 * 9 * 8 + 12 + 4);
}

// ---- schedule

neutron::Call call_of(uint32_t constants, uint32_t elements) {
  return {.kernel = npu::dense_binary(npu::BinaryKind::kAdd, elements),
          .constants = neutron::ConstantBlock(std::vector<std::byte>(constants))};
}

TEST(NeutronSchedule, CopiesRunBesideCallsAsLateAsTheyMay) {
  // Calls of 8064 + 1000 cycles; copies of 200 + 1.6 · bytes.
  const neutron::Machine machine{test::machine(), {}};
  std::vector<neutron::Call> calls;
  for (const uint32_t bytes : {900u, 0u, 1800u, 18000u}) calls.push_back(call_of(bytes, 8000));
  const std::vector<uint64_t> live(calls.size(), 1000);
  const auto schedule = neutron::plan_copies(machine, calls, live);
  ASSERT_TRUE(schedule);
  // The last copy takes 29000 cycles, more than three calls: it starts first thing. The third hides
  // behind the second call.
  EXPECT_EQ(schedule->start, (std::vector<uint32_t>{0, neutron::kNoCopy, 0, 0}));
  const std::vector<neutron::Call> small{call_of(900, 8000), call_of(0, 8000), call_of(1800, 8000),
                                         call_of(0, 8000), call_of(900, 8000)};
  const auto lazy = neutron::plan_copies(machine, small, std::vector<uint64_t>(5, 1000));
  ASSERT_TRUE(lazy);
  EXPECT_EQ(lazy->start, (std::vector<uint32_t>{0, neutron::kNoCopy, 1, neutron::kNoCopy, 3}));
  const neutron::Timeline timeline = neutron::simulate(machine.target, small, *lazy);
  EXPECT_EQ(timeline.stalls, (std::vector<uint64_t>{1640, 0, 0, 0, 0}));
  EXPECT_EQ(timeline.total, 3 * 400u + 1640 + 5 * 9064u);
}

TEST(NeutronSchedule, CopiesWaitForRoom) {
  neutron::Machine machine{test::machine(), {}};
  machine.target.sram_bytes = 10000;
  std::vector<neutron::Call> calls;
  for (const uint32_t bytes : {4000u, 4000u, 4000u}) calls.push_back(call_of(bytes, 8));
  const std::vector<uint64_t> live{3000, 3000, 6000};
  const auto schedule = neutron::plan_copies(machine, calls, live);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->start, (std::vector<uint32_t>{0, 1, 2}));
  const auto impossible =
      neutron::plan_copies(machine, calls, std::vector<uint64_t>{3000, 7000, 6000});
  ASSERT_FALSE(impossible);
  EXPECT_EQ(info(impossible.error().id).name, "memory-exceeded");
}

TEST(NeutronSchedule, NeverSlowerThanCopyingRightBefore) {
  uint64_t state = 1;
  const auto random = [&](uint64_t below) {
    return static_cast<uint32_t>((state = state * 6364136223846793005u + 1442695040888963407u) >>
                                 33) %
           below;
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<neutron::Call> calls;
    for (uint32_t i = 0; i < 3 + random(20); ++i)
      calls.push_back(call_of(random(3) == 0 ? 0 : static_cast<uint32_t>(random(60000)),
                              static_cast<uint32_t>(8 + random(200000))));
    const std::vector<uint64_t> live(calls.size(), 0);
    neutron::Machine machine{test::machine(), {}};
    const auto ahead = neutron::plan_copies(machine, calls, live);
    machine.options.prefetch_calls = 0;
    const auto before = neutron::plan_copies(machine, calls, live);
    neutron::Schedule earliest = *before;
    for (uint32_t& start : earliest.start)
      if (start != neutron::kNoCopy) start = 0;
    const uint64_t total = neutron::simulate(machine.target, calls, *ahead).total;
    EXPECT_LE(total, neutron::simulate(machine.target, calls, *before).total);
    // No schedule beats all copies at once by more than what starting them costs.
    EXPECT_LE(total, neutron::simulate(machine.target, calls, earliest).total +
                         machine.target.copy_host_cycles * calls.size());
  }
}

TEST(NeutronSchedule, ConstantsInSramAreNeitherCopiedNorWaitedFor) {
  std::string text = conv("1,8,16,16", "8,8,3,3", "1,8,14,14", kPlain);
  for (const std::string_view type : {"i8[1,8,16,16]", "i8[1,8,14,14]"})
    text.insert(text.find(type) + type.size(), " channels_last");
  // The call of CostIsThatOfTheCall, and what brings its 96 + 576 bytes: 400 to start, 200 + 1076
  // to arrive.
  const Compiled flash = expect_bit_exact(text),
                 sram = expect_bit_exact(text, test::machine(), {.constants_in_sram = true});
  ASSERT_TRUE(flash.partition != nullptr && sram.partition != nullptr);
  EXPECT_EQ(flash.details().timeline().total, 400u + 1276 + 8000 + 64 + 25 * 9 * 8 + 12 + 4);
  EXPECT_EQ(sram.details().timeline().total, 8000u + 64 + 25 * 9 * 8 + 12 + 4);
  EXPECT_EQ(sram.details().timeline().host, 8000u);
  EXPECT_EQ(sram.details().timeline().stall, 0u);
  EXPECT_EQ(flash.partition->buffers.size(), 1u);  // staging
  EXPECT_EQ(sram.partition->buffers.size(), 0u);
  EXPECT_EQ(sram.partition->step_info.size(), 1u);
}

// ---- reports

// The stage of the machine (docs/npu.md 3) that each of these calls waits for most.
TEST(NeutronReports, LimitsHaveTheirWords) {
  const auto limit_of = [](std::string_view text, std::string_view kernel) {
    Module module = parse(text);
    const Result<Compiled> compiled = compile(module);
    if (!compiled) return std::string("does not compile");
    for (const StepInfo& step : compiled->partition->step_info)
      if (step.kernel == kernel) return std::string(step.limit);
    return std::string("no such call");
  };
  // 1024 positions · 9 taps · 8 steps · 8 groups, weights once for 8 positions: 8 cycles a step
  // of 8.
  EXPECT_EQ(limit_of(R"(graph @forward(%x: i8[1,64,32,32] channels_last quant<0.05>) {
    %w: i8[64,64,3,3] quant<0.01> = constant seeded<1>
    %y: i8[1,64,32,32] channels_last quant<0.05> = aten.convolution(%x, %w, _) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
    return %y
  })",
                     "Conv2d"),
            "array");
  // One row: 8 cycles load 64 weights that one position uses once.
  EXPECT_EQ(limit_of(R"(graph @forward(%x: i8[1,256] quant<0.05>) {
    %w: i8[256,256] quant<0.01> = constant seeded<1>
    %y: i8[1,256] quant<0.05> = aten.linear(%x, %w, _)
    return %y
  })",
                     "Conv2d"),
            "weight port");
  // A compare for each byte that comes in.
  EXPECT_EQ(limit_of(R"(graph @forward(%x: i8[1,64,32,32] channels_last quant<0.05>) {
    %y: i8[1,64,16,16] channels_last quant<0.05> = aten.max_pool2d(%x) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]}
    return %y
  })",
                     "Pool"),
            "activation port");
  // A copy writes each byte.
  EXPECT_EQ(limit_of(R"(graph @forward(%x: i8[1,64,32,32] quant<0.05>) {
    %y: i8[1,64,32,32] channels_last quant<0.05> = dim_order_ops._to_dim_order_copy(%x) {layout = "channels_last"}
    return %y
  })",
                     "Move"),
            "write port");
  // 8 cycles of work behind a start of 64.
  EXPECT_EQ(limit_of(R"(graph @forward(%x: i8[1,8] quant<0.05>) {
    %w: i8[8,8] quant<0.01> = constant seeded<1>
    %y: i8[1,8] quant<0.05> = aten.linear(%x, %w, _)
    return %y
  })",
                     "Conv2d"),
            "start");
}

// ---- work

// Each pool has 64·64 positions of 33·33 taps over 256/8 groups of channels: 142,737,408 cycles, of
// which seven are less than 2^30.
std::string pools(int count) {
  std::string text = "sources {\n";
  for (int i = 1; i <= count; ++i)
    text += fmt::format("  {}: \"pool_{}\" \"aten.max_pool2d.default\" \"\" \"\"\n", i - 1, i);
  text += "}\ngraph @forward(%v0: i8[1,256,64,64] channels_last quant<0.05>) {\n";
  for (int i = 1; i <= count; ++i)
    text += fmt::format(
        "  %v{}: i8[1,256,64,64] channels_last quant<0.05> = aten.max_pool2d(%v{}) {{kernel_size = "
        "[33, 33], stride = [1, 1], "
        "padding = [16, 16], dilation = [1, 1], ceil_mode = false}} loc({})\n",
        i, i - 1, i - 1);
  return text + fmt::format("  return %v{}\n}}\n", count);
}

bool is_loaded(std::span<const std::byte> payload) {
  Memory memory(payload.size());
  std::ranges::copy(payload, memory.data());
  simulator::HostSimulator simulator(test::machine(), simulator::best_kernel_set());
  const npu::Driver driver = simulator.driver();
  uint32_t handle = 0;
  return driver.prepare(driver.context, memory.data(), payload.size(), &handle) == npu::Status::kOk;
}

// 2,400 copies of 1,500 bytes each into 3,600,000 bytes: all bytes of all calls' storages would be
// 2^30 cycles of eight.
TEST(NeutronWork, IsOfTheBytesThatCallsTouch) {
  std::string operands = "%x";
  for (int i = 1; i < 2400; ++i) operands += ", %x";
  Module module = parse(
      "graph @forward(%x: i8[1,1500] quant<0.05>) {\n"
      "  %y: i8[1,3600000] quant<0.05> = aten.cat(" +
      operands + ") {dim = 1}\n  return %y\n}\n");
  const Result<Compiled> compiled = compile(module);
  ASSERT_TRUE(compiled.has_value()) << to_text(compiled.error());
  EXPECT_GE(compiled->details().calls().size(), 2400u);
  EXPECT_TRUE(is_loaded(compiled->payload));
}

TEST(NeutronWork, IsRefusedWhereNoRuntimeLoadsIt) {
  Module most = parse(pools(7)), more = parse(pools(8));
  const Result<Compiled> compiled = compile(most);
  ASSERT_TRUE(compiled.has_value()) << to_text(compiled.error());
  EXPECT_GT(compiled->details().timeline().busy, 7 * 142'737'408u);
  EXPECT_TRUE(is_loaded(compiled->payload));

  for (const NeutronOptions& options :
       {NeutronOptions{}, NeutronOptions{.constants_in_sram = true}}) {
    const Result<Compiled> refused = compile(more, test::machine(), options);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().id, DiagnosticId::kWorkExceeded);
    EXPECT_EQ(refused.error().place.node, "pool_8");
    EXPECT_TRUE(refused.error().reason.ends_with("; a runtime loads at most 1,073,741,824"))
        << refused.error().reason;
  }
}

// ---- constants

// Copies of a call share its constants, and so do equal calls of other graphs.
TEST(NeutronConstants, AreKeptOnce) {
  const auto graph = [](int first, int second) {
    neutron::LoweredGraph made;
    for (const int value : {first, second})
      made.calls.push_back(
          {.kernel = npu::dense_binary(npu::BinaryKind::kAdd, 16),
           .constants = neutron::ConstantBlock(std::vector(64, static_cast<std::byte>(value)))});
    return made;
  };
  std::vector<neutron::LoweredGraph> graphs{graph(1, 2), graph(2, 3)};
  neutron::share_equal_constants(graphs);
  std::vector<std::byte> unused;
  const auto block = [&](size_t of, size_t call) {
    return graphs[of].calls[call].constants.bytes(unused);
  };
  EXPECT_EQ(block(0, 1).data(), block(1, 0).data());
  EXPECT_NE(block(0, 0).data(), block(1, 1).data());
  EXPECT_EQ(block(1, 1)[63], std::byte{3});
  neutron::LoweredGraph copy = graphs[0];
  EXPECT_EQ(copy.calls[0].constants.bytes(unused).data(), block(0, 0).data());
  copy.calls[0].constants.release();
  EXPECT_EQ(copy.calls[0].constants.size(), 64u);
  EXPECT_EQ(block(0, 0)[0], std::byte{1});
}

TEST(NeutronConstants, HavePiecesOfOthers) {
  const auto bytes = [](std::initializer_list<int> values) {
    std::vector<std::byte> made;
    for (const int value : values) made.push_back(static_cast<std::byte>(value));
    return made;
  };
  const neutron::ConstantBlock whole(bytes({1, 2, 3, 4, 5, 6, 7, 8}));
  std::vector<std::byte> buffer(3, std::byte{9});
  const neutron::ConstantBlock middle = whole.with({{.from = 2, .bytes = 4, .at = 0}}, 4);
  EXPECT_TRUE(std::ranges::equal(middle.bytes(buffer), bytes({3, 4, 5, 6})));
  const neutron::ConstantBlock parts =
      middle.with({{.from = 1, .bytes = 2, .at = 0}, {.from = 3, .bytes = 1, .at = 4}}, 6);
  EXPECT_EQ(parts.size(), 6u);
  EXPECT_TRUE(std::ranges::equal(parts.bytes(buffer), bytes({4, 5, 0, 0, 6, 0})));
  neutron::PayloadWriter writer;
  EXPECT_EQ(writer.add_constants(parts).offset, 0u);
  EXPECT_EQ(writer.add_constants(neutron::ConstantBlock(bytes({4, 5, 0, 0, 6, 0}))).offset, 0u);
  const std::vector<std::byte> payload = writer.finish({}, 0);
  EXPECT_TRUE(std::ranges::equal(std::span(payload).last(6), bytes({4, 5, 0, 0, 6, 0})));
}

// ---- payload

TEST(NeutronPayload, ConstantsOfEqualContentAreStoredOnce) {
  neutron::PayloadWriter writer;
  const neutron::ConstantBlock a(std::vector(20, std::byte{1}));
  const neutron::ConstantBlock b(std::vector(20, std::byte{2}));
  EXPECT_EQ(writer.add_constants(a).offset, 0u);
  EXPECT_EQ(writer.add_constants(b).offset, 32u);
  EXPECT_EQ(writer.add_constants(a).offset, 0u);
  const std::vector<std::byte> payload = writer.finish({}, 0);
  npu::Header header;
  std::memcpy(&header, payload.data(), sizeof header);
  EXPECT_EQ(header.constants_bytes, 52u);
  EXPECT_EQ(header.constants_offset % 16, 0u);
  EXPECT_EQ(header.crc32, crc32_with_hole(payload, offsetof(npu::Header, crc32)));
}

constexpr std::string_view kTwoLayers = R"(graph @forward(%x: i8[1,3] quant<0.05:5>) {
  %w: i8[5,3] quant<0.011> = constant seeded<3>
  %v: i8[2,5] quant<0.012> = constant seeded<4>
  %a: i8[1,5] quant<0.0078125> = aten.linear(%x, %w, _)
  %t: i8[1,5] quant<0.0078125> = aten.tanh(%a)
  %y: i8[1,2] quant<0.01> = aten.linear(%t, %v, _)
  %s: i8[1,2] quant<0.00390625:-128> = aten.softmax(%y) {dim = 1}
  return %s
})";

TEST(NeutronPayload, IsTheSameEveryTime) {
  Module module = parse(kTwoLayers);
  EXPECT_EQ(compile(module)->payload, compile(module)->payload);
}

TEST(NeutronPayload, DescribesEveryStepAndValue) {
  Module module = parse(kTwoLayers);
  const Compiled compiled = *compile(module);
  const LoweredPartition& partition = *compiled.partition;
  EXPECT_EQ(partition.steps, 3u);
  std::vector<std::string> steps;
  for (const StepInfo& step : partition.step_info)
    steps.push_back(fmt::format("{} {} {} {} {}", step.command, step.kernel, step.macs, step.cycles,
                                step.limit));
  EXPECT_EQ(steps, (std::vector<std::string>{"0 Copy 0 0 flash", "1 Copy 0 0 flash",
                                             "3 Conv2d 15 117 start", "5 Conv2d 10 85 start",
                                             "6 Softmax 0 102 start"}));
  std::vector<std::string> values;
  for (const InteriorValue& value : partition.values)
    values.push_back(fmt::format("{} {} {}", value.name,
                                 value.buffer   ? partition.buffers[*value.buffer].name
                                 : value.output ? fmt::format("output {}", *value.output)
                                                : "-",
                                 value.after_step));
  EXPECT_EQ(values, (std::vector<std::string>{"a - 0", "t t 0", "y output 0 1", "s - 2"}));
}

}  // namespace
}  // namespace dtr::test
