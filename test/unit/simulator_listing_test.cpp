#include "host/simulator/listing.h"

#include <gtest/gtest.h>

#include "test/unit/machine.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

TEST(SimulatorListing, OneLineACommand) {
  const Target target = dtr::test::machine();
  test::PayloadBuilder builder;
  const Address x = builder.input(12), y = builder.output(12), sum = builder.scratch(16);
  const Address table = builder.stage(std::vector<int8_t>(256));
  const Window w = dense({1, 2, 2, 3, 2, 2, 3, 3, 3, 1, 1, 1, 1, 1, 1});
  const Address weights =
      builder.stage(test::pack_depthwise(target, w, std::vector<int8_t>(27)), false);
  const Address parameters =
      builder.stage(test::pack_parameters(target, std::vector<test::Channel>(3)));
  const Rescale one{1 << 30, 0};
  builder.add(
      Depthwise{w, x, sum, weights, parameters, -5, {1, -128, 127, kWithTable, table, {}, {}}});
  builder.add(Conv2d{dense({1, 2, 2, 3, 2, 2, 3, 1, 1, 1, 1, 1, 1, 0, 0}),
                     x,
                     y,
                     weights,
                     parameters,
                     0,
                     Packing::kRows,
                     {1, -128, 127, 0, {}, {}, {}}});
  builder.add(Pool{w, x, sum, PoolKind::kMean, 0, 4, 5, one, -128, 127});
  builder.add(test::binary(BinaryKind::kAdd, sum, x, sum, 12, {1, 2, 3, one, one, one, -128, 127}));
  builder.add(test::lookup(sum, sum, table, 12));
  builder.add(test::probability(sum, sum, 4, 3, 20));
  builder.add(Move{sum, y, {1, 1, 1, 1, 3, 4}, {0, 0, 0, 0, 1, 3}, {0, 0, 0, 0, 4, 1}});
  builder.add(Fill{{kScratch, 0}, 4, -1});
  builder.add(Reduce{{x.region, 3},
                     sum,
                     ReduceKind::kSum,
                     {1, 1, 1, 1, 1, 3},
                     {0, 0, 0, 0, 0, 4},
                     {0, 0, 0, 0, 0, 1},
                     {1, 1, 1, 1, 1, 4},
                     {0, 0, 0, 0, 0, -1},
                     7,
                     -7,
                     one,
                     -128,
                     127,
                     0});
  builder.add(
      Resize{x, sum, ResizeKind::kBilinear, 1, 3, {2, 2, 1024, 0, 10}, {2, 2, 1024, -5, 10}});
  builder.add(Reduce{.input = x,
                     .output = sum,
                     .kind = ReduceKind::kIndexOfMinimum,
                     .extent = {1, 1, 1, 1, 1, 2},
                     .input_stride = {0, 0, 0, 0, 0, 4},
                     .output_stride = {0, 0, 0, 0, 0, 8},
                     .reduced_extent = {1, 1, 1, 1, 1, 4},
                     .reduced_stride = {0, 0, 0, 0, 0, 1},
                     .index_bytes = 8});
  builder.add(Gather{x, sum, y, 1, 4, 4, 3, 4});
  const test::AlignedBytes payload = builder.build();
  const std::string expected = R"(; microcode 2.0 target=)" + [&] {
    char text[16];
    std::snprintf(text, sizeof text, "%08x", format_hash(target));
    return std::string(text);
  }() + R"( commands=18 constants=432 bytes scratch=448 bytes, 448 used
; operand0 input bytes=12
; operand1 output bytes=12
   0  copy      scratch+16 <- constants+0 bytes=256 ticket=1  ; 610 copy cycles
   1  wait      ticket=1
   2  copy      scratch+272 <- constants+256 bytes=72 ticket=2  ; 316 copy cycles
   3  copy      scratch+352 <- constants+336 bytes=96 ticket=3  ; 354 copy cycles
   4  wait      ticket=3
   5  depthwise 1x2x2x3 -> 1x2x2x3 kernel=3x3 pad=1,1 scratch+0 <- operand0+0 weights=scratch+272 parameters=scratch+352 pad_value=-5 zero_point=1 clamp=[-128,127] table=scratch+16  ; 148 cycles, array
)";
  const std::string text = simulator::list_payload(target, payload.bytes());
  EXPECT_EQ(text.substr(0, expected.size()), expected);
  for (const char* line :
       {"\n   6  conv2d    1x2x2x3 -> 1x2x2x3 kernel=1x1 operand1+0 <- operand0+0 ",
        " packing=rows ", "\n   7  pool      ",
        " kind=mean clamp=[-128,127] pad_value=0 zero_points=4,5 rescale=1073741824*2^-31",
        "\n   8  binary    scratch+0 <- scratch+0, operand0+0 kind=add extent=1,1,1,1,1,12 "
        "strides=0,0,0,0,0,1;0,0,0,0,0,1;0,0,0,0,0,1 "
        "zero_points=1,2,3 ",
        "\n   9  lookup    scratch+0 <- scratch+0 table=scratch+16 extent=1,1,1,1,1,12 "
        "input_stride=0,0,0,0,0,1 output_stride=0,0,0,0,0,1  "
        "; 98 "
        "cycles, start\n",
        "\n  10  softmax   scratch+0 <- scratch+0 outer=4 columns=3 inner=1 kind=probability ",
        "\n  11  move      operand1+0 <- scratch+0 extent=1,1,1,1,3,4 input_stride=0,0,0,0,1,3 "
        "output_stride=0,0,0,0,4,1  ;",
        "\n  12  fill      scratch+0 bytes=4 value=-1  ; 65 cycles, start\n",
        "\n  13  reduce    scratch+0 <- operand0+3 kind=sum extent=1,1,1,1,1,3 "
        "input_stride=0,0,0,0,0,4 output_stride=0,0,0,0,0,1 "
        "reduced=1,1,1,1,1,4 reduced_stride=0,0,0,0,0,-1 clamp=[-128,127] zero_points=7,-7 "
        "rescale=1073741824*2^-31  ;",
        "\n  14  resize    1x2x2x3 -> 1x2x2x3 scratch+0 <- operand0+0 kind=bilinear "
        "rows=(1024*o+0)/2^10 columns=(1024*o+-5)/2^10  ;",
        "\n  15  reduce    scratch+0 <- operand0+0 kind=index-of-minimum extent=1,1,1,1,1,2 "
        "input_stride=0,0,0,0,0,4 "
        "output_stride=0,0,0,0,0,8 reduced=1,1,1,1,1,4 reduced_stride=0,0,0,0,0,1 clamp=[0,0] "
        "index_bytes=8  ; 66 cycles, start\n",
        "\n  16  gather    1x4x3 -> 1x4x3 operand1+0 <- operand0+0 indices=scratch+0 index_bytes=4 "
        " ; 70 cycles, start\n",
        "\n  17  end\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis missing in\n" << text;
}

TEST(SimulatorListing, SaysWhyAPayloadIsRefused) {
  test::PayloadBuilder builder;
  builder.raw(static_cast<uint16_t>(Opcode::kWait), {1});
  EXPECT_EQ(simulator::list_payload(dtr::test::machine(), builder.build().bytes()),
            "; refused at command 0: a command of the NPU program has an argument out of range\n");
  EXPECT_EQ(simulator::list_payload({}, {}),
            "; refused at command 0: the NPU program is shorter than its header says\n");
}

}  // namespace
}  // namespace dtr
