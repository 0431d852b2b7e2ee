// What the simulator refuses: payloads that are cut off, changed or out of range, and calls with
// other operands than a program has.
#include "device/simulator/decoder.h"

#include <gtest/gtest.h>

#include <array>

#include "device/npu/cycles.h"
#include "device/numerics/normalize.h"
#include "device/simulator/simulator.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::decode;
using simulator::Payload;
using simulator::Simulator;
using test::AlignedBytes;
using test::decoded;
using test::kOne;
using test::kPlainAdd;
using test::kTarget;
using test::PayloadBuilder;

// A program with every command once, all of it in range.
struct Everything {
  PayloadBuilder builder;
  Address x, y, sum;
  Window w = dense({1, 2, 2, 8, 2, 2, 8, 1, 1, 1, 1, 1, 1, 0, 0});
  Address weights, parameters, table;
  Conv2d conv{};
  Depthwise depthwise{};
  Pool pool{};
  Binary add{};
  Lookup lookup{};
  Softmax softmax{};
  Move move{};
  Fill fill{};
  Reduce reduce{};
  Resize resize{};
  Matmul matmul{};
  Normalize normalize{};
  Gather gather{};
  Everything() {
    x = builder.input(32), y = builder.output(32), sum = builder.scratch(32);
    weights = builder.stage(std::vector<int8_t>(64, 1));
    parameters = builder.stage(std::vector<int32_t>(24, 1));
    table = builder.stage(std::vector<int8_t>(256, 1));
    conv = {w,
            x,
            y,
            weights,
            parameters,
            0,
            Packing::kChannels,
            {0, -128, 127, kWithTable | kWithAdd, table, sum, w.out, kPlainAdd}};
    depthwise = {w, x, sum, weights, parameters, 0, {0, -128, 127, 0, {}, {}, {}}};
    pool = {w, x, y, PoolKind::kMean, 0, 0, 0, kOne, -128, 127};
    add = test::binary(BinaryKind::kAdd, x, sum, sum, 32, kPlainAdd);
    lookup = test::lookup(sum, sum, table, 32);
    softmax = test::probability(sum, sum, 4, 8, 23);
    move = {x, y, {1, 1, 1, 2, 2, 8}, {0, 0, 0, 16, 8, 1}, {0, 0, 0, 16, 8, 1}};
    fill = {sum, 32, 0};
    reduce = {x,
              sum,
              ReduceKind::kSum,
              {1, 1, 1, 1, 2, 8},
              {0, 0, 0, 0, 16, 1},
              {0, 0, 0, 0, 8, 1},
              {1, 1, 1, 1, 1, 2},
              {0, 0, 0, 0, 0, 8},
              0,
              0,
              kOne,
              -128,
              127,
              0};
    resize = {x, sum, ResizeKind::kBilinear, 1, 8, {2, 2, 1024, 0, 10}, {2, 2, 1024, 0, 10}};
    matmul = {.left = x,
              .right = sum,
              .output = y,
              .batch = {1, 1, 1, 2},
              .left_batch_stride = {0, 0, 0, 16},
              .right_batch_stride = {0, 0, 0, 16},
              .output_batch_stride = {0, 0, 0, 16},
              .rows = 4,
              .inner = 4,
              .columns = 4,
              .left_row_stride = 4,
              .left_inner_stride = 1,
              .right_inner_stride = 4,
              .right_column_stride = 1,
              .output_row_stride = 4,
              .output_column_stride = 1,
              .zero_point_left = 0,
              .zero_point_right = 0,
              .rescale = kOne,
              .zero_point_out = 0,
              .clamp_low = -128,
              .clamp_high = 127,
              .flags = kWithTable,
              .table = table};
    normalize = {.input = sum,
                 .output = sum,
                 .parameters = parameters,
                 .extent = {2, 2, 4, 2},
                 .stride = {16, 8, 2, 1},
                 .parameter_stride = {0, 0, 2, 1},
                 .center = 1,
                 .zero_point_in = 0,
                 .zero_point_out = 0,
                 .epsilon_low = 1,
                 .epsilon_high = 0,
                 .gain_shift = 20,
                 .clamp_low = -128,
                 .clamp_high = 127};
    gather = {.input = sum,
              .indices = x,
              .output = y,
              .outer = 2,
              .rows = 4,
              .count = 4,
              .inner = 4,
              .index_bytes = 8};
  }
  AlignedBytes build(const std::function<void(Header&)>& edit = {}) {
    builder.add(depthwise), builder.add(conv), builder.add(pool), builder.add(add),
        builder.add(lookup);
    builder.add(softmax), builder.add(move), builder.add(fill), builder.add(reduce),
        builder.add(resize);
    builder.add(matmul), builder.add(normalize), builder.add(gather);
    return builder.build(edit);
  }
};

TEST(SimulatorDecoder, AcceptsEveryCommand) {
  Everything everything;
  const AlignedBytes payload = everything.build();
  EXPECT_EQ(decoded(payload).status, Status::kOk)
      << text(decoded(payload).status) << " at " << decoded(payload).command;
}

TEST(SimulatorDecoder, ChecksTheHeader) {
  const auto status = [](const std::function<void(Header&)>& edit) {
    return decoded(Everything().build(edit)).status;
  };
  EXPECT_EQ(status([](Header& h) { h.magic ^= 1; }), Status::kBadMagic);
  EXPECT_EQ(status([](Header& h) { h.version += 1; }), Status::kBadVersion);
  EXPECT_EQ(status([](Header& h) { h.version += 1u << 16; }), Status::kBadVersion);
  EXPECT_EQ(status([](Header& h) { h.version = 0; }), Status::kBadVersion);
  EXPECT_EQ(status([](Header& h) { h.target_hash ^= 1; }), Status::kWrongTarget);
  EXPECT_EQ(status([](Header& h) { h.command_count += 1; }), Status::kTruncated);
  EXPECT_EQ(status([](Header& h) { h.command_count -= 1; }), Status::kBadArgument);
  EXPECT_EQ(status([](Header& h) { h.scratch_bytes = kTarget.sram_bytes + 1; }),
            Status::kOutOfBounds);
  EXPECT_EQ(status([](Header& h) { h.scratch_bytes -= 16; }), Status::kOutOfBounds);
  EXPECT_EQ(status([](Header& h) { h.reserved[std::size(h.reserved) - 1] = 1; }),
            Status::kBadArgument);
  EXPECT_EQ(status([](Header& h) { h.flags |= kConstantsInSram << 1; }), Status::kBadArgument);
}

struct OtherMachine {
  const char* name;
  void (*change)(Target& target);
  Status status;
};
class SimulatorMachines : public testing::TestWithParam<OtherMachine> {};

// The microcode's format is what two machines must share; their boards may differ, if what the
// program needs is there.
TEST_P(SimulatorMachines, TakeOrRefuseAProgramOfAnother) {
  Target other = kTarget;
  GetParam().change(other);
  const AlignedBytes bytes = Everything().build();
  Payload result;
  EXPECT_EQ(decode(other, bytes.bytes(), result).status, GetParam().status);
}

INSTANTIATE_TEST_SUITE_P(
    All, SimulatorMachines,
    testing::Values(
        OtherMachine{"same", [](Target&) {}, Status::kOk},
        OtherMachine{"other_board",
                     [](Target& m) {
                       m.clock_hz /= 2, m.sram_bytes *= 2, m.flash_bytes_per_16_cycles = 100,
                                                           m.call_host_cycles = 1,
                                                           m.accumulators = 2, m.weight_port = 3;
                     },
                     Status::kOk},
        OtherMachine{"too_little_sram", [](Target& m) { m.sram_bytes = 16; }, Status::kOutOfBounds},
        OtherMachine{"pipelines", [](Target& m) { m.pipelines = 4; }, Status::kWrongTarget},
        OtherMachine{"macs", [](Target& m) { m.macs = 4; }, Status::kWrongTarget},
        OtherMachine{"limit", [](Target& m) { m.max_kernel /= 2; }, Status::kWrongTarget},
        // Machines that cannot be: nothing is divided by their zeros.
        OtherMachine{"none", [](Target& m) { m = {}; }, Status::kWrongTarget},
        OtherMachine{"no_port", [](Target& m) { m.weight_port = 0; }, Status::kWrongTarget},
        OtherMachine{"no_accumulators", [](Target& m) { m.accumulators = 0; },
                     Status::kWrongTarget},
        OtherMachine{"no_flash", [](Target& m) { m.flash_bytes_per_16_cycles = 0; },
                     Status::kWrongTarget},
        OtherMachine{"endless", [](Target& m) { m.call_npu_cycles = UINT32_MAX; },
                     Status::kWrongTarget}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(SimulatorDecoder, RefusesEveryTruncation) {
  const AlignedBytes payload = Everything().build();
  for (size_t bytes = 0; bytes < payload.size(); ++bytes) {
    Payload result;
    ASSERT_EQ(decode(kTarget, AlignedBytes(payload.bytes().first(bytes)).bytes(), result).status,
              Status::kTruncated)
        << bytes;
  }
}

TEST(SimulatorDecoder, RefusesEveryFlippedByte) {
  AlignedBytes payload = Everything().build();
  for (size_t i = 0; i < payload.size(); ++i) {
    payload.data()[i] ^= std::byte{0x40};
    ASSERT_NE(decoded(payload).status, Status::kOk) << i;
    payload.data()[i] ^= std::byte{0x40};
  }
}

TEST(SimulatorDecoder, RefusesMisalignedPayload) {
  const AlignedBytes payload = Everything().build();
  AlignedBytes shifted(payload.size() + 4);
  std::memcpy(shifted.data() + 4, payload.data(), payload.size());
  Payload result;
  EXPECT_EQ(decode(kTarget, shifted.bytes().subspan(4), result).status, Status::kMisaligned);
}

TEST(SimulatorDecoder, RefusesUnknownOpcodeAndLength) {
  for (const uint16_t opcode : std::initializer_list<uint16_t>{0x03, 0x0F, 0x7F, 0xFFFF}) {
    PayloadBuilder builder;
    builder.raw(opcode, {1, 2});
    EXPECT_EQ(decoded(builder.build()).status, Status::kUnknownOpcode) << opcode;
  }
  PayloadBuilder longer;
  longer.raw(static_cast<uint16_t>(Opcode::kWait), {1, 1});
  EXPECT_EQ(decoded(longer.build()).status, Status::kBadArgument);
  PayloadBuilder early_end;
  early_end.raw(0, {});
  early_end.raw(0, {});
  EXPECT_EQ(decoded(early_end.build()).status, Status::kBadArgument);
}

using Edit = std::function<void(Everything&)>;
Status edited(const Edit& edit) {
  Everything everything;
  edit(everything);
  return decoded(everything.build()).status;
}

TEST(SimulatorDecoder, ChecksAddresses) {
  EXPECT_EQ(edited([](Everything& e) { e.conv.input.offset = 1; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.conv.output.offset = UINT32_MAX; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.add.input_0.region = 9; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.add.input_0.region = UINT32_MAX; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.fill.bytes = UINT32_MAX; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.conv.epilogue.table.offset += 500; }),
            Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.conv.weights = {kConstants, 0}; }), Status::kFlashAccess);
  EXPECT_EQ(edited([](Everything& e) { e.fill.output = {kConstants, 0}; }), Status::kFlashAccess);
  EXPECT_EQ(edited([](Everything& e) {
              e.builder.copy({kConstants, 0}, {kConstants, 0}, 16);
            }),
            Status::kFlashAccess);
  EXPECT_EQ(edited([](Everything& e) { e.builder.copy(e.sum, e.weights, 16); }),
            Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) {
              e.builder.copy(e.sum, {kConstants, e.builder.constant_bytes()}, 16);
            }),
            Status::kOutOfBounds);
}

TEST(SimulatorDecoder, ChecksOverlap) {
  EXPECT_EQ(edited([](Everything& e) { e.conv.output = e.x; }), Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) { e.conv.epilogue.addend = e.y; }),
            Status::kOk);  // a sum may replace its addend
  EXPECT_EQ(edited([](Everything& e) {
              e.conv.epilogue.addend = {e.y.region, e.y.offset + 1};
            }),
            Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) {
              e.conv.epilogue.addend = e.y, e.conv.epilogue.addend_strides.row = 0;
            }),
            Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) { e.pool.output = e.x; }), Status::kBadArgument);
  // Channels of one tensor: 0 to 4 read, 4 to 8 written.
  const auto slices = [](uint32_t offset, uint32_t out_row) {
    return edited([=](Everything& e) {
      e.pool.window.in_channels = e.pool.window.out_channels = 4;
      e.pool.output = {e.pool.input.region, e.pool.input.offset + offset};
      e.pool.window.out.row = out_row;
    });
  };
  EXPECT_EQ(slices(4, 16), Status::kOk);
  EXPECT_EQ(slices(3, 16), Status::kBadArgument);
  EXPECT_EQ(slices(4, 12), Status::kBadArgument);  // pixels overlap
  EXPECT_EQ(slices(4, 20), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.move.output = e.x; }), Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) { e.move.input_stride[5] = -1; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.move.input_stride[5] = -1, e.move.input.offset = 7; }),
            Status::kOk);
  EXPECT_EQ(edited([](Everything& e) { e.move.input_stride[5] = 0; }), Status::kOk);
  EXPECT_EQ(edited([](Everything& e) { e.reduce.reduced_stride[5] = -8; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.reduce.reduced_stride[5] = INT32_MAX; }),
            Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.reduce.output = e.x; }), Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) { e.gather.rows = UINT32_MAX; }), Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.gather.count = 5; }), Status::kOutOfBounds);  // indices
  EXPECT_EQ(edited([](Everything& e) { e.gather.output = e.x; }), Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) { e.resize.height.in = 3; }), Status::kOutOfBounds);
  EXPECT_EQ(
      edited([](Everything& e) { e.conv.epilogue.flags = kFromSums, e.conv.epilogue.sums = e.y; }),
      Status::kOutOfBounds);
  EXPECT_EQ(edited([](Everything& e) { e.lookup.extent[5] = 16, e.lookup.output.offset += 8; }),
            Status::kBadArgument);
  // Every second element is written over, or the ones between them.
  const auto apart = [](Everything& e) {
    e.lookup.extent[5] = 16;
    e.lookup.input_stride[5] = e.lookup.output_stride[5] = 2;
  };
  EXPECT_EQ(edited(apart), Status::kOk);
  EXPECT_EQ(edited([&](Everything& e) { apart(e), e.lookup.output.offset += 1; }), Status::kOk);
  EXPECT_EQ(edited([&](Everything& e) { apart(e), e.lookup.output.offset += 2; }),
            Status::kBadArgument);
  EXPECT_EQ(edited([&](Everything& e) {
              apart(e), e.lookup.input.offset += 1, e.lookup.input_stride[5] = 1;
            }),
            Status::kBadArgument);
  EXPECT_EQ(edited([](Everything& e) { e.lookup.extent[5] = 16, e.lookup.output.offset += 16; }),
            Status::kOk);
}

// What writes between the elements that it reads may not reach the next ones.
TEST(SimulatorDecoder, ChecksOverlapWithTheNextPixel) {
  const auto written_at = [](uint32_t channel) {
    return edited([=](Everything& e) {
      e.pool.window.in_height = e.pool.window.out_height = 1;
      e.pool.window.in_channels = e.pool.window.out_channels = 3;
      e.pool.output = {e.pool.input.region, e.pool.input.offset + channel};
    });
  };
  EXPECT_EQ(written_at(2), Status::kBadArgument);
  EXPECT_EQ(written_at(3), Status::kOk);
  EXPECT_EQ(written_at(5), Status::kOk);
  EXPECT_EQ(written_at(6), Status::kBadArgument);  // of 8 channels 6, 7 and the next pixel's 0
}

// Bytes that commands read beside their inputs, counted by hand: an operand of one less is refused.
TEST(SimulatorDecoder, OperandsHoldAllThatACommandReads) {
  struct Case {
    const char* what;
    uint32_t bytes;
    void (*reads)(Everything&, Address);
  };
  const uint32_t channels = (8 + kTarget.pipelines - 1) / kTarget.pipelines * kTarget.pipelines;
  const Case cases[] = {
      {"weights of a 1 × 1 convolution of 8 channels",
       channels * ((8 + kTarget.macs - 1) / kTarget.macs * kTarget.macs),
       [](Everything& e, Address at) { e.conv.weights = at; }},
      {"bias, multiplier and shift of each channel", channels * 12,
       [](Everything& e, Address at) { e.conv.parameters = at; }},
      {"the same, of a depthwise one", channels * 12,
       [](Everything& e, Address at) { e.depthwise.parameters = at; }},
      {"a weight of each channel", channels,
       [](Everything& e, Address at) { e.depthwise.weights = at; }},
      {"a table of an epilogue", 256,
       [](Everything& e, Address at) { e.conv.epilogue.table = at; }},
      {"a table", 256, [](Everything& e, Address at) { e.lookup.table = at; }},
      {"two rows of a mask", 16,
       [](Everything& e, Address at) { e.softmax.mask = at, e.softmax.mask_rows = 2; }},
      {"gain and offset of 4 · 2 elements", 64,
       [](Everything& e, Address at) { e.normalize.parameters = at; }},
      {"four indices of 8 bytes", 32, [](Everything& e, Address at) { e.gather.indices = at; }},
      {"two matrices of 4 × 4", 32, [](Everything& e, Address at) { e.matmul.right = at; }},
      {"2 · 2 · 8 elements", 32, [](Everything& e, Address at) { e.resize.input = at; }},
  };
  for (const Case& each : cases)
    for (const uint32_t less : {0U, 1U})
      EXPECT_EQ(edited([&](Everything& e) { each.reads(e, e.builder.input(each.bytes - less)); }),
                less == 0 ? Status::kOk : Status::kOutOfBounds)
          << each.what;
}

TEST(SimulatorDecoder, ChecksArguments) {
  const std::vector<Edit> edits = {
      [](Everything& e) { e.conv.window.batch = 0; },
      [](Everything& e) { e.conv.window.stride_width = 0; },
      [](Everything& e) { e.conv.window.kernel_height = 5000; },
      [](Everything& e) { e.conv.window.dilation_width = 5000; },
      [](Everything& e) { e.conv.window.pad_top = kMaxPad + 1; },
      [](Everything& e) { e.conv.window.pad_left = -kMaxPad - 1; },
      [](Everything& e) { e.conv.window.out.pixel = 7; },  // pixels of the output overlap
      [](Everything& e) { e.conv.window.out.row = 15; },
      [](Everything& e) { e.conv.window.batch = 2, e.conv.window.out.batch = 31; },
      [](Everything& e) { e.conv.window.out.pixel = UINT32_MAX; },
      [](Everything& e) { e.conv.window.in_channels = UINT32_MAX; },
      [](Everything& e) { e.conv.window.in_channels = 65536; },
      [](Everything& e) { e.conv.pad_value = 128; },
      [](Everything& e) { e.conv.packing = static_cast<Packing>(2); },
      [](Everything& e) { e.conv.packing = Packing::kRows, e.conv.window.dilation_width = 2; },
      [](Everything& e) { e.conv.epilogue.flags = 32; },
      [](Everything& e) { e.conv.epilogue.flags = kToSums | kWithTable; },  // sums go as they are
      [](Everything& e) { e.conv.epilogue.clamp_low = 1, e.conv.epilogue.clamp_high = 0; },
      [](Everything& e) { e.conv.epilogue.zero_point_out = -129; },
      [](Everything& e) { e.conv.epilogue.add.output.shift = 32; },
      [](Everything& e) { e.depthwise.window.out_channels = 12; },
      [](Everything& e) { e.depthwise.epilogue.clamp_high = 128; },
      [](Everything& e) { e.pool.window.out_channels = 4; },
      [](Everything& e) { e.pool.kind = static_cast<PoolKind>(3); },
      [](Everything& e) { e.pool.rescale.multiplier = -1; },
      [](Everything& e) {
        e.pool.kind = PoolKind::kMax, e.pool.window.out_height = 3;
      },  // the last window lies outside
      [](Everything& e) { e.add.extent[0] = 0; },
      [](Everything& e) { e.add.extent[0] = UINT32_MAX, e.add.extent[1] = UINT32_MAX; },
      [](Everything& e) {
        e.add.stride_1[5] = 2, e.add.extent[5] = 16, e.add.input_1.offset += 16,
        e.add.output.offset += 16;
      },
      [](Everything& e) { e.add.kind = static_cast<BinaryKind>(6); },
      [](Everything& e) { e.add.arguments.input_0.shift = 1; },  // the sum could overflow
      [](Everything& e) { e.add.arguments.input_1.shift = 1; },
      [](Everything& e) { e.add.arguments.zero_point_1 = 1000; },
      [](Everything& e) { e.add.output_stride[5] = 0; },  // writes twice
      [](Everything& e) { e.add.output_stride[5] = -1; },
      [](Everything& e) { e.add.extent[4] = 2, e.add.output_stride[4] = 31; },  // runs overlap
      [](Everything& e) { e.lookup.extent[5] = 0; },
      [](Everything& e) { e.lookup.output_stride[5] = 0; },
      [](Everything& e) { e.softmax.columns = 5000; },
      [](Everything& e) { e.softmax.outer = 0; },
      [](Everything& e) { e.softmax.input_rescale.shift = 31; },
      [](Everything& e) { e.softmax.diff_min = 1; },
      [](Everything& e) { e.softmax.kind = static_cast<SoftmaxKind>(2); },
      [](Everything& e) {
        e.softmax.kind = SoftmaxKind::kLogarithm, e.softmax.output_rescale.shift = 2;
      },
      [](Everything& e) {
        e.softmax.kind = SoftmaxKind::kLogarithm, e.softmax.difference.shift = 24;
      },
      [](Everything& e) { e.softmax.zero_point_out = 128; },
      [](Everything& e) { e.softmax.mask = e.table, e.softmax.mask_rows = 3; },
      [](Everything& e) { e.matmul.inner = kMaxMatmulInner + 1; },
      [](Everything& e) { e.matmul.rows = 0; },
      [](Everything& e) { e.matmul.output_row_stride = 5; },       // bytes that nobody writes
      [](Everything& e) { e.matmul.output_batch_stride[3] = 4; },  // writes twice
      [](Everything& e) { e.matmul.batch[0] = e.matmul.batch[1] = UINT32_MAX; },
      [](Everything& e) { e.matmul.flags = kWithAdd; },
      [](Everything& e) { e.matmul.zero_point_right = -129; },
      [](Everything& e) { e.matmul.rescale.shift = 32; },
      [](Everything& e) { e.normalize.center = 2; },
      [](Everything& e) { e.normalize.gain_shift = 41; },
      [](Everything& e) { e.normalize.epsilon_high = UINT32_MAX; },
      [](Everything& e) { e.normalize.stride[2] = 4; },
      [](Everything& e) { e.normalize.zero_point_in = 200; },
      [](Everything& e) {  // one element more than a sum may have
        const auto elements = static_cast<uint32_t>(numerics::kMaxNormalizeElements + 1);
        e.normalize.input = e.normalize.output = e.builder.scratch(elements);
        e.normalize.parameter_stride[2] = e.normalize.parameter_stride[3] = 0;
        std::ranges::copy(std::array{1U, 1U, elements, 1U}, e.normalize.extent);
        std::ranges::copy(std::array{0U, 0U, 1U, 0U}, e.normalize.stride);
      },
      [](Everything& e) { e.move.extent[0] = 0; },
      [](Everything& e) { e.move.extent[0] = 2; },  // writes twice
      [](Everything& e) { e.move.extent[0] = UINT32_MAX, e.move.extent[1] = UINT32_MAX; },
      [](Everything& e) { e.fill.value = 128; },
      [](Everything& e) { e.reduce.kind = static_cast<ReduceKind>(6); },
      [](Everything& e) { e.reduce.kind = ReduceKind::kIndexOfMinimum; },  // of no bytes
      [](Everything& e) { e.reduce.kind = ReduceKind::kIndexOfMaximum, e.reduce.index_bytes = 2; },
      [](Everything& e) {
        e.reduce.kind = ReduceKind::kIndexOfMaximum, e.reduce.index_bytes = 4;
      },  // results overlap
      [](Everything& e) { e.reduce.index_bytes = 4; },
      [](Everything& e) { e.gather.index_bytes = 1; },
      [](Everything& e) { e.gather.rows = 0; },
      [](Everything& e) { e.gather.count = 0; },
      [](Everything& e) { e.gather.inner = 0; },
      [](Everything& e) { e.gather.outer = 0; },
      [](Everything& e) { e.reduce.extent[5] = 0; },
      [](Everything& e) { e.reduce.output_stride[5] = 0; },  // writes twice
      [](Everything& e) { e.reduce.reduced_extent[0] = kMaxReduced; },
      [](Everything& e) { e.reduce.zero_point_in = 128; },
      [](Everything& e) { e.reduce.rescale.shift = 32; },
      [](Everything& e) {
        e.reduce.kind = ReduceKind::kSumOfBytes;
      },  // a negative bound of the clamp
      [](Everything& e) { e.reduce.kind = ReduceKind::kMaximum, e.reduce.clamp_high = 128; },
      // Every kind adds up the differences, whether it needs them or not.
      [](Everything& e) { e.reduce.kind = ReduceKind::kMaximum, e.reduce.zero_point_in = 128; },
      [](Everything& e) {
        e.reduce.kind = ReduceKind::kMinimum, e.reduce.zero_point_in = INT32_MIN;
      },
      [](Everything& e) {
        e.reduce.kind = ReduceKind::kMaximum, e.reduce.zero_point_in = INT32_MAX;
      },
      [](Everything& e) {
        e.reduce.kind = ReduceKind::kSumOfBytes, e.reduce.clamp_low = 0;
        e.reduce.reduced_extent[5] = 1, e.reduce.reduced_extent[0] = INT32_MAX / (255 + 128) + 1;
      },
      [](Everything& e) { e.resize.kind = static_cast<ResizeKind>(2); },
      [](Everything& e) { e.resize.channels = 0; },
      [](Everything& e) { e.resize.height.in = 0; },
      [](Everything& e) { e.resize.width.out = 1u << 30; },
      [](Everything& e) { e.resize.width.step = UINT32_MAX; },
      [](Everything& e) { e.resize.width.fraction_bits = 9; },
      [](Everything& e) { e.resize.width.fraction_bits = 31; },
      [](Everything& e) { e.fill.bytes = 0; },
      [](Everything& e) { e.builder.add(Wait{0}); },
      [](Everything& e) { e.builder.add(Wait{4}); },
      [](Everything& e) {
        e.builder.add(Copy{e.sum, {kConstants, 0}, 16, 9});
      },
      [](Everything& e) {
        e.builder.copy(e.sum, {kConstants, 0}, 0);
      },
  };
  for (size_t i = 0; i < edits.size(); ++i)
    EXPECT_EQ(edited(edits[i]), Status::kBadArgument) << "edit " << i;
}

TEST(SimulatorDriver, ChecksOperandsAndScratch) {
  const AlignedBytes payload = Everything().build();
  Simulator::Slot slots[1];
  uint64_t arrivals[8];
  Simulator simulator(kTarget, slots, arrivals);
  uint32_t handle = 0;
  ASSERT_EQ(simulator.prepare(payload.data(), payload.size(), &handle), Status::kOk);
  uint32_t other = 0;
  EXPECT_EQ(simulator.prepare(payload.data(), payload.size(), &other), Status::kOutOfMemory);
  AlignedBytes x(48), y(48), scratch(4096);
  const auto status = [&](std::vector<Buffer> operands, Buffer memory) {
    return simulator.run(handle, operands, memory, {}).status;
  };
  const Buffer good_x{x.data(), 32}, good_y{y.data(), 32};
  EXPECT_EQ(status({good_x, good_y}, scratch.buffer()), Status::kOk);
  EXPECT_EQ(status({good_x}, scratch.buffer()), Status::kBadOperand);
  EXPECT_EQ(status({good_x, {y.data(), 31}}, scratch.buffer()), Status::kBadOperand);
  EXPECT_EQ(status({{nullptr, 32}, good_y}, scratch.buffer()), Status::kBadOperand);
  EXPECT_EQ(status({good_x, {y.data() + 8, 32}}, scratch.buffer()), Status::kMisaligned);
  EXPECT_EQ(status({good_x, good_y}, {scratch.data(), 16}), Status::kBadOperand);
  EXPECT_EQ(status({good_x, good_y}, {scratch.data() + 4, 4000}), Status::kMisaligned);
  EXPECT_EQ(simulator.run(7, {}, {}, {}).status, Status::kBadOperand);
  simulator.unprepare(handle);
  EXPECT_EQ(status({good_x, good_y}, scratch.buffer()), Status::kBadOperand);
}

}  // namespace
}  // namespace dtr
