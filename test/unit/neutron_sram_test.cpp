// Partitions within a limit of SRAM: chains of stripes, blocks of constants, against cases computed
// by hand, and equality with the plan without a limit.
#include <fmt/format.h>

#include <cstring>

#include "compiler/backends/neutron/memory/trails.h"
#include "compiler/backends/neutron/schedule/stripes.h"
#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

// ---- chains

std::string conv_line(int index, std::string_view from, std::string_view in, std::string_view out,
                      int stride) {
  return fmt::format(
      "  %w{0}: i8[{3},{2},3,3] quant<0.01> = constant seeded<{0}>\n"
      "  %y{0}: {4} = aten.convolution(%{1}, %w{0}, _) {{dilation = [1, 1], padding = [1, 1], "
      "stride = [{5}, {5}], groups = 1, output_padding = [0, 0], transposed = false}}\n",
      index, from, in.substr(0, in.find(' ')), out.substr(0, out.find(' ')),
      out.substr(out.find(' ') + 1), stride);
}

// 8 → 32 → 8 channels of 16 × 16: 2,048, 8,192 and 2,048 bytes.
std::string two_convolutions() {
  return "graph @forward(%x: i8[1,8,16,16] channels_last quant<0.05>) {\n" +
         conv_line(1, "x", "8 ", "32 i8[1,32,16,16] channels_last quant<0.2>", 1) +
         conv_line(2, "y1", "32 ", "8 i8[1,8,16,16] channels_last quant<0.9>", 1) +
         "  return %y2\n}\n";
}

// A residual branch over two resolutions.
std::string residual() {
  return "graph @forward(%x: i8[1,3,33,29] channels_last quant<0.05:3>) {\n" +
         conv_line(1, "x", "3 ", "16 i8[1,16,33,29] channels_last quant<0.1:-7>", 1) +
         conv_line(2, "y1", "16 ", "16 i8[1,16,33,29] channels_last quant<0.2:5>", 1) +
         "  %s: i8[1,16,33,29] channels_last quant<0.25:-3> = aten.add.Tensor(%y1, %y2) {alpha = "
         "1.0}\n" +
         conv_line(4, "s", "16 ", "24 i8[1,24,17,15] channels_last quant<0.3:1>", 2) +
         "  %t: i8[1,24,17,15] channels_last quant<0.3:1> = aten.tanh(%y4)\n" +
         conv_line(6, "t", "24 ", "8 i8[1,8,9,8] channels_last quant<0.4:2>", 2) +
         "  return %y6\n}\n";
}

// Each layer reads all channels so far and writes its own into the same tensor: with stripes a
// layer has come to another row of it than the next one.
std::string dense_block() {
  return "graph @forward(%x: i8[1,3,24,20] channels_last quant<0.05>) {\n" +
         conv_line(1, "x", "3 ", "16 i8[1,16,24,20] channels_last quant<0.2>", 1) +
         conv_line(2, "y1", "16 ", "8 i8[1,8,24,20] channels_last quant<0.2>", 1) +
         "  %c: i8[1,24,24,20] channels_last quant<0.2> = aten.cat(%y1, %y2) {dim = 1}\n" +
         conv_line(3, "c", "24 ", "8 i8[1,8,24,20] channels_last quant<0.2>", 1) +
         "  %d: i8[1,32,24,20] channels_last quant<0.2> = aten.cat(%c, %y3) {dim = 1}\n" +
         conv_line(4, "d", "32 ", "8 i8[1,8,12,10] channels_last quant<0.9>", 2) +
         "  return %y4\n}\n";
}

// Input and output have the order of an export, resized twice, and transposed convolution.
std::string up_and_down() {
  return "graph @forward(%x: i8[1,3,24,20] quant<0.05>) {\n"
         "  %l: i8[1,3,24,20] channels_last quant<0.05> = dim_order_ops._to_dim_order_copy(%x) "
         "{layout = \"channels_last\"}\n" +
         conv_line(1, "l", "3 ", "16 i8[1,16,12,10] channels_last quant<0.2:3>", 2) +
         "  %n: i8[1,16,24,20] channels_last quant<0.2:3> = aten.upsample_nearest2d(%y1) "
         "{output_size = [24, 20]}\n" +
         conv_line(2, "n", "16 ", "8 i8[1,8,24,20] channels_last quant<0.3>", 1) +
         "  %b: i8[1,8,41,33] channels_last quant<0.3> = aten.upsample_bilinear2d(%y2) "
         "{output_size = [41, 33], align_corners = false}\n" +
         conv_line(3, "b", "8 ", "8 i8[1,8,21,17] channels_last quant<0.7>", 2) +
         "  %t: i8[8,8,2,2] quant<0.01> = constant seeded<9>\n"
         "  %u: i8[1,8,42,34] channels_last quant<0.4> = aten.convolution(%y3, %t, _) {dilation = "
         "[1, 1], padding = [0, 0], stride = [2, 2], groups = 1, output_padding = [0, 0], "
         "transposed = true}\n" +
         conv_line(4, "u", "8 ", "4 i8[1,4,42,34] channels_last quant<0.9>", 1) +
         "  %o: i8[1,4,42,34] quant<0.9> = dim_order_ops._to_dim_order_copy(%y4) "
         "{layout = \"contiguous\"}\n  return %o\n}\n";
}

// Most bytes of operands and buffers that are live at one step, less what may overlap.
uint64_t peak_of(const LoweredPartition& partition) {
  std::vector<uint64_t> live(partition.steps, 0);
  const auto add = [&](const auto& use) {
    for (uint32_t step = use.first_step; step <= use.last_step; ++step) live[step] += use.bytes;
  };
  std::ranges::for_each(partition.inputs, add);
  std::ranges::for_each(partition.outputs, add);
  std::ranges::for_each(partition.buffers, add);
  const auto with = [&](MemoryRef ref, auto body) {
    if (ref.kind == MemoryRef::Kind::kBuffer) return body(partition.buffers[ref.index]);
    body((ref.kind == MemoryRef::Kind::kInput ? partition.inputs : partition.outputs)[ref.index]);
  };
  for (const Trail& trail : partition.trails)
    with(trail.operand, [&](const auto& operand) {
      with(trail.result, [&](const auto& result) {
        const int64_t both =
            std::max(std::max<int64_t>(trail.lag, 0) + operand.bytes, int64_t{result.bytes});
        for (uint32_t step = result.first_step; step <= operand.last_step; ++step)
          live[step] -= uint64_t{operand.bytes} + result.bytes - static_cast<uint64_t>(both);
      });
    });
  return *std::ranges::max_element(live);
}

TEST(NeutronChains, HaveTheFewestStripesThatFit) {
  Module module = parse(two_convolutions());
  const NeutronOptions options{.constants_in_sram = true};
  const auto stripes = [&](uint64_t limit) {
    Result<Compiled> compiled = compile(module, test::machine(), options);
    EXPECT_TRUE(compiled);
    EXPECT_TRUE(compiled->partition->plan_within(module, limit, {Overlaps::kOfChains})) << limit;
    EXPECT_LE(peak_of(*compiled->partition), limit);
    return compiled->details().calls().size() / 2;
  };
  // Row r of the result is written before row r − 1 of the operand is read for the last time: they
  // take 2,048 bytes and two rows of 128. Two stripes need 9 rows of 512 bytes between them, three
  // 7, sixteen 3.
  constexpr uint64_t kBoth = 2048 + 2 * 128;
  EXPECT_EQ(stripes(2048 + 8192), 1u);
  EXPECT_EQ(stripes(2048 + 8192 - 1), 2u);
  EXPECT_EQ(stripes(kBoth + 9 * 512), 2u);
  EXPECT_EQ(stripes(kBoth + 9 * 512 - 1), 3u);
  EXPECT_EQ(stripes(kBoth + 3 * 512), 16u);
  Result<Compiled> compiled = compile(module, test::machine(), options);
  ASSERT_TRUE(compiled);
  const Result<void> impossible =
      compiled->partition->plan_within(module, kBoth + 3 * 512 - 1, {Overlaps::kOfChains});
  ASSERT_FALSE(impossible);
  EXPECT_EQ(info(impossible.error().id).name, "memory-exceeded");
  EXPECT_EQ(compiled->details().calls().size(), 2u);  // as it was
}

// The same outputs as the reference, in no more bytes than the limit, in the cycles of the plan.
void expect_equal_within(Module& module, Compiled& compiled, uint64_t limit,
                         const NeutronOptions& options, Overlaps overlaps) {
  const Result<void> planned = compiled.partition->plan_within(module, limit, {overlaps});
  ASSERT_TRUE(planned) << to_text(planned.error());
  EXPECT_LE(peak_of(*compiled.partition), limit);
  place_together(compiled);
  if (overlaps == Overlaps::kOfChains) {
    EXPECT_LE(compiled.scratch_bytes, limit + limit / 5);  // gaps
  }
  Result<std::vector<std::byte>> payload =
      compiled.partition->encode(compiled.offsets, compiled.scratch_bytes);
  ASSERT_TRUE(payload);
  compiled.payload = *std::move(payload);
  const std::vector<Tensor> inputs = random_inputs(module, limit);
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  const auto expected = make_reference_executor(module, module.forward())->run(views);
  ASSERT_TRUE(expected);
  const Outcome outcome = simulate(module, compiled, inputs);
  ASSERT_EQ(outcome.report.status, npu::Status::kOk)
      << npu::text(outcome.report.status) << " at command " << outcome.report.command;
  for (size_t i = 0; i < expected->size(); ++i)
    EXPECT_TRUE(std::ranges::equal((*expected)[i].bytes(), outcome.outputs[i].bytes())) << limit;
  EXPECT_EQ(outcome.report.total_cycles, compiled.partition->planned_cycles())
      << options.constants_in_sram;
}

// Plans and runs the network at limits from its whole size downwards; expects at least so many of
// them to be kept, and in so many of these stripes.
void expect_equal_at_every_limit(const std::string& text, NeutronOptions options, size_t least_kept,
                                 size_t least_striped) {
  SCOPED_TRACE(text);
  Module module = parse(text);
  Result<Compiled> compiled = compile(module, test::machine(), options);
  ASSERT_TRUE(compiled);
  const uint64_t whole = peak_of(*compiled->partition);
  const size_t calls = compiled->details().calls().size();
  size_t kept = 0, striped = 0;
  for (const Overlaps overlaps : {Overlaps::kOfChains, Overlaps::kOfSingleOperatorsToo})
    for (uint64_t limit = whole; limit > whole / 16; limit -= whole / 16) {
      if (!compiled->partition->plan_within(module, limit, {overlaps})) break;
      expect_equal_within(module, *compiled, limit, options, overlaps);
      ++kept;
      striped += compiled->details().calls().size() > calls ? 1 : 0;
    }
  EXPECT_GE(kept, least_kept);
  EXPECT_GE(striped, least_striped);
  // Back to where it began.
  ASSERT_TRUE(compiled->partition->plan_within(module, UINT64_MAX, {Overlaps::kOfChains}));
  EXPECT_EQ(peak_of(*compiled->partition), whole);
  EXPECT_EQ(compiled->details().calls().size(), calls);
}

TEST(NeutronChains, EqualTheReferenceAtEveryLimit) {
  for (const std::string& text : {two_convolutions(), residual(), dense_block(), up_and_down()})
    for (const bool in_sram : {false, true})
      expect_equal_at_every_limit(text, {.constants_in_sram = in_sram}, 10, 6);
}

// Columns are the rows of images that are one row high. The windows of the pools reach over both
// borders; the convolution packs its weights by rows if it may.
TEST(NeutronChains, OfOneDimensionEqualTheReference) {
  const std::string text = R"(graph @forward(%x: i8[1,3,1,121] channels_last quant<0.05:3>) {
    %w1: i8[16,3,1,5] quant<0.01> = constant seeded<1>
    %a: i8[1,16,1,121] channels_last quant<0.1:-7> = aten.convolution(%x, %w1, _) {dilation = [1, 1], padding = [0, 2], stride = [1, 1], groups = 1, output_padding = [0, 0], transposed = false}
    %p: i8[1,16,1,121] channels_last quant<0.1:-7> = aten.avg_pool2d(%a) {ceil_mode = false, count_include_pad = false, kernel_size = [1, 5], padding = [0, 2], stride = [1, 1]}
    %w2: i8[24,16,3,3] quant<0.01> = constant seeded<2>
    %b: i8[1,24,1,61] channels_last quant<0.3:5> = aten.convolution(%p, %w2, _) {dilation = [1, 2], padding = [1, 2], stride = [1, 2], groups = 1, output_padding = [0, 0], transposed = false}
    %m: i8[1,24,1,31] channels_last quant<0.3:5> = aten.max_pool2d(%b) {ceil_mode = false, dilation = [1, 1], kernel_size = [1, 3], padding = [0, 1], stride = [1, 2]}
    %w3: i8[24,1,1,3] quant<0.01> = constant seeded<3>
    %c: i8[1,24,1,31] channels_last quant<0.02:5> = aten.convolution(%m, %w3, _) {dilation = [1, 1], padding = [0, 1], stride = [1, 1], groups = 24, output_padding = [0, 0], transposed = false}
    return %c
  })";
  for (const bool row_packing : {false, true})
    expect_equal_at_every_limit(text, {.row_packing = row_packing, .constants_in_sram = true}, 10,
                                8);
}

// Pixels of an image as tokens, as a vision transformer has them; one row of them is one of the
// image. Linear layers of many rows, normalization of each, a product of all with all.
TEST(NeutronChains, OfTokensEqualTheReference) {
  const std::string text = R"(graph @forward(%x: i8[1,30,16] quant<0.05:3>) {
    %g: i32[16] quant<0.001:0> = constant seeded<1>
    %n: i8[1,30,16] quant<0.02:5> = aten.layer_norm(%x, _, _) {eps = 0.001, normalized_shape = [16]}
    %w1: i8[64,16] quant<0.01> = constant seeded<2>
    %a: i8[1,30,64] quant<0.1:-7> = aten.linear(%n, %w1, _)
    %t: i8[1,30,64] quant<0.1:-7> = aten.tanh(%a)
    %w2: i8[16,64] quant<0.01> = constant seeded<3>
    %b: i8[1,30,16] quant<0.1:4> = aten.linear(%t, %w2, _)
    %s: i8[1,30,16] quant<0.2:1> = aten.add.Tensor(%b, %x) {alpha = 1.0}
    %k: i8[1,16,30] quant<0.2:1> = aten.permute(%s) {dims = [0, 2, 1]}
    %q: i8[1,30,30] quant<0.5:3> = aten.matmul(%s, %k)
    %p: i8[1,30,30] quant<0.00390625:-128> = aten.softmax(%q) {dim = 2}
    %o: i8[1,30,16] quant<0.1:2> = aten.matmul(%p, %s)
    %w3: i8[8,16] quant<0.01> = constant seeded<4>
    %y: i8[1,30,8] quant<0.1:4> = aten.linear(%o, %w3, _)
    return %y
  })";
  expect_equal_at_every_limit(text, {.constants_in_sram = true}, 8, 4);
}

// Layers over tokens and over channels by turns.
TEST(NeutronChains, OfAMixerEqualTheReference) {
  const std::string text = R"(graph @forward(%x: i8[1,20,12] quant<0.05:3>) {
    %r: i8[1,12,20] quant<0.05:3> = aten.permute(%x) {dims = [0, 2, 1]}
    %w1: i8[64,20] quant<0.01> = constant seeded<2>
    %a: i8[1,12,64] quant<0.1:-7> = aten.linear(%r, %w1, _)
    %w2: i8[20,64] quant<0.01> = constant seeded<3>
    %b: i8[1,12,20] quant<0.1:4> = aten.linear(%a, %w2, _)
    %c: i8[1,20,12] quant<0.1:4> = aten.permute(%b) {dims = [0, 2, 1]}
    %s: i8[1,20,12] quant<0.2:1> = aten.add.Tensor(%c, %x) {alpha = 1.0}
    %w3: i8[64,12] quant<0.01> = constant seeded<4>
    %d: i8[1,20,64] quant<0.1:-7> = aten.linear(%s, %w3, _)
    %w4: i8[12,64] quant<0.01> = constant seeded<5>
    %e: i8[1,20,12] quant<0.1:4> = aten.linear(%d, %w4, _)
    return %e
  })";
  expect_equal_at_every_limit(text, {.constants_in_sram = true}, 8, 4);
}

// The first convolution reads the input as rows of 10 bytes, the second as rows of 15, so that any
// of its bytes may be read for any row of the result: also where that row is padding alone.
TEST(NeutronChains, WithMorePaddingThanKernelEqualTheReference) {
  const std::string text = R"(graph @forward(%x: i8[1,1,12,10] channels_last quant<0.05:3>) {
    %w0: i8[2,1,3,3] quant<0.01> = constant seeded<1>
    %z: i8[1,2,5,4] channels_last quant<0.1:-7> = aten.convolution(%x, %w0, _) {dilation = [1, 1], padding = [0, 0], stride = [2, 2], groups = 1, output_padding = [0, 0], transposed = false}
    %v: i8[1,1,8,15] channels_last quant<0.05:3> = aten.view(%x) {size = [1, 1, 8, 15]}
    %w1: i8[16,1,1,1] quant<0.01> = constant seeded<2>
    %a: i8[1,16,14,21] channels_last quant<0.1:-7> = aten.convolution(%v, %w1, _) {dilation = [1, 1], padding = [3, 3], stride = [1, 1], groups = 1, output_padding = [0, 0], transposed = false}
    %w2: i8[4,16,3,3] quant<0.01> = constant seeded<3>
    %y: i8[1,4,6,10] channels_last quant<0.3:5> = aten.convolution(%a, %w2, _) {dilation = [1, 1], padding = [0, 0], stride = [2, 2], groups = 1, output_padding = [0, 0], transposed = false}
    return %z, %y
  })";
  expect_equal_at_every_limit(text, {.constants_in_sram = true}, 8, 6);
}

// By hand: a write that ends at 25 goes before a read from 5 on; the last one has no read behind
// it.
TEST(NeutronTrails, LagIsTheFurthestWriteBeforeARead) {
  neutron::TrailLag lag;
  lag.add_call({0, 8}, {0, 10});
  EXPECT_EQ(lag.lag(), 10);
  lag.add_call({8, 30}, {});
  lag.add_call({}, {10, 25});
  EXPECT_EQ(lag.lag(), 10);
  lag.add_call({5, 30}, {20, 21});
  EXPECT_EQ(lag.lag(), 20);
  lag.add_call({28, 40}, {21, 30});
  lag.add_call({}, {30, 99});
  EXPECT_EQ(lag.lag(), 20);
}

// With a byte less between operand and result the outputs would be wrong: the lag is exact.
TEST(NeutronTrails, OneRowLessWouldBeWrong) {
  Module module = parse(two_convolutions());
  const NeutronOptions options{.constants_in_sram = true};
  Result<Compiled> compiled = compile(module, test::machine(), options);
  ASSERT_TRUE(compiled);
  ASSERT_TRUE(
      compiled->partition->plan_within(module, 2048 + 2 * 128 + 3 * 512, {Overlaps::kOfChains}));
  // Rows of stripes overlap with operand and result, too; here only these do with each other.
  std::vector<Trail>& trails = compiled->partition->trails;
  std::erase_if(trails, [](const Trail& trail) {
    return trail.operand.kind != MemoryRef::Kind::kInput ||
           trail.result.kind != MemoryRef::Kind::kOutput;
  });
  ASSERT_EQ(trails.size(), 1u);
  EXPECT_EQ(trails[0].lag, 256);
  const std::vector<Tensor> inputs = random_inputs(module, 1);
  const std::vector<TensorView> views{inputs[0].view()};
  const auto expected = make_reference_executor(module, module.forward())->run(views);
  ASSERT_TRUE(expected);
  for (const int64_t lag : {256, 240}) {
    trails[0].lag = lag;
    place_together(*compiled);
    Result<std::vector<std::byte>> payload =
        compiled->partition->encode(compiled->offsets, compiled->scratch_bytes);
    ASSERT_TRUE(payload);
    compiled->payload = *std::move(payload);
    EXPECT_EQ(compiled->operand_offsets[0], compiled->operand_offsets[1] + lag);
    const Outcome outcome = simulate(module, *compiled, inputs);
    // The operands are two regions to the simulator, which sees who wrote a byte last.
    EXPECT_EQ(outcome.report.status,
              lag == 256 ? npu::Status::kOk : npu::Status::kReadsUninitialized);
    if (lag == 256) {
      EXPECT_TRUE(std::ranges::equal((*expected)[0].bytes(), outcome.outputs[0].bytes()));
    }
  }
}

// ---- constants

TEST(NeutronBlocks, ArriveInPartsThatFit) {
  // 96 parameters of 12 bytes and 96 · 64 weights; a part is 8 channels: 96 + 512 bytes.
  Module module = parse(R"(graph @forward(%x: i8[1,64] quant<0.05>) {
    %w: i8[96,64] quant<0.01> = constant seeded<1>
    %y: i8[1,96] quant<0.5> = aten.linear(%x, %w, _)
    return %y
  })");
  Result<Compiled> compiled = compile(module);
  ASSERT_TRUE(compiled);
  const neutron::Call& whole = compiled->details().calls().front();
  EXPECT_EQ(whole.constants.size(), 96u * 12 + 96 * 64);
  EXPECT_EQ(neutron::most_slices(test::machine(), whole), 12u);
  EXPECT_EQ(neutron::slice_bytes(test::machine(), whole, 12), 608u);
  EXPECT_EQ(neutron::slice_bytes(test::machine(), whole, 5), 3u * 608);  // 12 groups in 5 parts
  for (const uint64_t limit : {160u + 608, 160u + 3 * 608, 160u + 7296})
    expect_equal_within(module, *compiled, limit, {}, Overlaps::kOfChains);
  EXPECT_FALSE(compiled->partition->plan_within(module, 160 + 607, {Overlaps::kOfChains}));
}

TEST(NeutronBlocks, OfAChainStayUntilItsLastStripe) {
  npu::Binary add = npu::dense_binary(npu::BinaryKind::kAdd, 8000);
  const auto call = [&](uint32_t constants, uint32_t block_of) {
    return neutron::Call{.kernel = add,
                         .constants = neutron::ConstantBlock(std::vector<std::byte>(constants)),
                         .block_of = block_of};
  };
  const std::vector<neutron::Call> calls{call(1000, neutron::kNoCall), call(500, neutron::kNoCall),
                                         call(0, 0), call(0, 1)};
  EXPECT_EQ(neutron::last_readers(calls), (std::vector<uint32_t>{2, 3, 2, 3}));
  neutron::Machine machine{test::machine(), {}};
  machine.target.sram_bytes = 4500;
  const std::vector<uint64_t> fits{3000, 3000, 3000, 4000}, does_not{3000, 3000, 3001, 4000};
  const auto schedule = neutron::plan_copies(machine, calls, fits);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->start, (std::vector<uint32_t>{0, 0, neutron::kNoCopy, neutron::kNoCopy}));
  EXPECT_FALSE(neutron::plan_copies(machine, calls, does_not));
}

// Five steps of a recurrence: 64 · 64 weights, and for each step, as its scales are its own, 64
// parameters of 12 bytes and a table of 256.
std::string recurrence() {
  std::string text =
      "graph @forward(%h0: i8[1,64] quant<0.05>) {\n"
      "  %w: i8[64,64] quant<0.01> = constant seeded<1>\n";
  for (int step = 1; step <= 5; ++step)
    text += fmt::format(
        "  %a{1}: i8[1,64] quant<0.0{1}:{1}> = aten.linear(%h{0}, %w, _)\n"
        "  %h{1}: i8[1,64] quant<0.00{1}:-{1}> = aten.tanh(%a{1})\n",
        step - 1, step);
  return text + "  return %h5\n}";
}

uint32_t constants_bytes(const Compiled& compiled) {
  npu::Header header;
  std::memcpy(&header, compiled.payload.data(), sizeof header);
  return header.constants_bytes;
}

std::vector<uint64_t> copied_bytes(const Compiled& compiled) {
  std::vector<uint64_t> bytes;
  for (const StepInfo& step : compiled.partition->step_info)
    if (step.kernel == "Copy") bytes.push_back(step.bytes);
  return bytes;
}

TEST(NeutronSharedWeights, OfARecurrenceAreStoredOnce) {
  Module module = parse(recurrence());
  constexpr uint32_t kWeights = 64 * 64, kOther = 64 * 12 + 256;
  for (const bool in_sram : {false, true}) {
    const Result<Compiled> compiled =
        compile(module, test::machine(), {.constants_in_sram = in_sram});
    ASSERT_TRUE(compiled);
    EXPECT_EQ(constants_bytes(*compiled), kWeights + 5 * kOther);
    EXPECT_EQ(copied_bytes(*compiled),
              in_sram ? std::vector<uint64_t>{}
                      : (std::vector<uint64_t>{kWeights + kOther, kOther, kOther, kOther, kOther}));
  }
}

// With room for the weights and the rest of one call, but not of two, the weights are copied from
// their one place to behind what each call has of its own.
TEST(NeutronSharedWeights, AreCopiedAgainWhereTheyCannotStay) {
  Module module = parse(recurrence());
  Result<Compiled> compiled = compile(module);
  ASSERT_TRUE(compiled);
  constexpr uint64_t kWeights = 64 * 64, kOther = 64 * 12 + 256;
  constexpr uint64_t kTensors = 2 * 64 + 64;
  expect_equal_within(module, *compiled, kTensors + kWeights + kOther, {}, Overlaps::kOfChains);
  EXPECT_EQ(constants_bytes(*compiled), kWeights + 5 * kOther);
  EXPECT_EQ(copied_bytes(*compiled),
            (std::vector<uint64_t>{kWeights + kOther, kOther, kWeights, kOther, kWeights, kOther,
                                   kWeights, kOther, kWeights}));
}

// One head over two sizes of an image, one of whose layers has the same scales for both, and a
// layer of its own between them.
TEST(NeutronSharedWeights, EqualTheReferenceAtEveryLimit) {
  const auto head = [](std::string_view from, int size, int number) {
    return fmt::format(
        R"(
    %a{2}: i8[1,16,{1},{1}] channels_last quant<0.1:{2}> = aten.convolution(%{0}, %w, _) {{dilation = [1, 1], padding = [1, 1], stride = [1, 1], groups = 1, output_padding = [0, 0], transposed = false}}
    %b{2}: i8[1,16,{1},{1}] channels_last quant<0.2> = aten.convolution(%a{2}, %v, _) {{dilation = [1, 1], padding = [1, 1], stride = [1, 1], groups = 1, output_padding = [0, 0], transposed = false}}
    %c{2}: i8[1,16,{1},{1}] channels_last quant<0.3> = aten.convolution(%b{2}, %v, _) {{dilation = [1, 1], padding = [1, 1], stride = [1, 1], groups = 1, output_padding = [0, 0], transposed = false}}
    %d{2}: i8[1,16,{1},{1}] channels_last quant<0.3> = aten.convolution(%c{2}, %u, _) {{dilation = [1, 1], padding = [5, 5], stride = [1, 1], groups = 16, output_padding = [0, 0], transposed = false}})",
        from, size, number);
  };
  const std::string text =
      R"(graph @forward(%x: i8[1,16,19,19] channels_last quant<0.05:3>) {
    %w: i8[16,16,3,3] quant<0.01> = constant seeded<1>
    %v: i8[16,16,3,3] quant<0.01> = constant seeded<2>
    %u: i8[16,1,11,11] quant<0.01> = constant seeded<3>)" +
      head("x", 19, 1) + R"(
    %p: i8[1,16,9,9] channels_last quant<0.05:3> = aten.max_pool2d(%x) {ceil_mode = false, dilation = [1, 1], kernel_size = [2, 2], padding = [0, 0], stride = [2, 2]})" +
      head("p", 9, 2) + R"(
    return %d1, %d2
  })";
  for (const bool in_sram : {false, true})
    expect_equal_at_every_limit(text, {.constants_in_sram = in_sram}, 8, 4);
  Module module = parse(text);
  const Result<Compiled> compiled = compile(module);
  ASSERT_TRUE(compiled);
  // Weights of 2,304, 2,304 and 1,936 bytes, 16 parameters of 12 bytes for each of eight calls.
  EXPECT_LE(constants_bytes(*compiled), 2 * 2304u + 1936 + 8 * 192);
}

}  // namespace
}  // namespace dtr::test
