// Rotations of residual streams keep the float function, spread far channels, and leave what they
// would change.
#include "compiler/quantizer/rotate.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

using test::parse;
using test::ramp;

// Rows of 8 channels: a layer and positions, one of whose channels is far from zero, are the stream
// %s. `block` reads it and makes %t.
std::string stream(std::string_view block) {
  return "graph @forward(%x: f32[1,3,5]) {\n"
         "  %w0: f32[8,5] = constant seeded<1>\n"
         "  %b0: f32[8] = constant seeded<2>\n"
         "  %far: f32[1,1,8] = constant dense<0.1, -0.2, 50, 0.3, -0.1, 0.25, -0.3, 0.15>\n"
         "  %g: f32[8] = constant dense<1, 2, 0.5, 30, 1, -1, 0.25, 1.5>\n"
         "  %h: f32[8] = constant dense<0.5, -0.25, 1, 20, 0, 1, -1, 0.125>\n"
         "  %w1: f32[8,8] = constant seeded<3>\n"
         "  %b1: f32[8] = constant seeded<4>\n"
         "  %w2: f32[4,8] = constant seeded<5>\n"
         "  %b2: f32[4] = constant seeded<6>\n"
         "  %l: f32[1,3,8] = aten.linear(%x, %w0, %b0)\n"
         "  %s: f32[1,3,8] = aten.add.Tensor(%l, %far) {alpha = 1}\n" +
         std::string(block) +
         "  %y: f32[1,3,4] = aten.linear(%t, %w2, %b2)\n"
         "  return %y\n}\n";
}

constexpr std::string_view kNorm =
    "  %n: f32[1,3,8] = aten.layer_norm(%s, %g, %h) {eps = 1e-05, normalized_shape = [8]}\n";
constexpr std::string_view kResidual =
    "  %m: f32[1,3,8] = aten.linear(%n, %w1, %b1)\n"
    "  %t: f32[1,3,8] = aten.add.Tensor(%s, %m) {alpha = 1}\n";

struct Rotated : test::ChangedModel {
  explicit Rotated(const std::string& text)
      : ChangedModel{parse(text), ramp("x", {6, 1, 3, 5}, -2, 2)},
        report(rotate_streams(module, module.forward())) {}
  RotationReport report;
};

TEST(Rotate, SpreadsAFarChannelOfAResidualStream) {
  const Rotated net(stream(std::string(kNorm) + std::string(kResidual)));
  EXPECT_EQ(net.report.streams, 1U);
  net.expect_same_function(0x1p-18);
  const std::vector<float> far = net.constant("s", 1);
  ASSERT_EQ(far.size(), 8U);
  float largest = 0, sum = 0;
  for (const float value : far) {
    largest = std::max(largest, std::abs(value));
    sum += value;
  }
  EXPECT_LT(largest, 30);        // of 50, a half of it in each
  EXPECT_NEAR(sum, 50.2, 1e-3);  // Q keeps the row of ones
}

// Weights and biases of the normalization move into the layer behind it.
TEST(Rotate, MovesParametersOfANormalizationIntoItsReader) {
  const Rotated net(stream(std::string(kNorm) + std::string(kResidual)));
  EXPECT_EQ(net.constant("n", 1), std::vector<float>(8, 1.0F));
  EXPECT_EQ(net.constant("n", 2), std::vector<float>(8, 0.0F));
}

TEST(Rotate, RotatesARootMeanSquareNorm) {
  const Rotated net(
      stream("  %n: f32[1,3,8] = aten.rms_norm(%s, %g) {eps = 1e-05, normalized_shape = [8]}\n" +
             std::string(kResidual)));
  EXPECT_EQ(net.report.streams, 1U);
  net.expect_same_function(0x1p-18);
}

// Tokens in front, and their rows cut out again; channels moved to another axis for a convolution.
TEST(Rotate, FollowsWhatMovesWholeChannels) {
  const Rotated net(stream(
      "  %token: f32[1,1,8] = constant seeded<9>\n"
      "  %c: f32[1,4,8] = aten.cat(%token, %s) {dim = 1}\n"
      "  %n: f32[1,4,8] = aten.layer_norm(%c, %g, %h) {eps = 1e-05, normalized_shape = [8]}\n"
      "  %p: f32[1,8,4] = aten.permute(%n) {dims = [0, 2, 1]}\n"
      "  %k: f32[8,8,1] = constant seeded<10>\n"
      "  %v: f32[1,8,4] = aten.convolution(%p, %k, %b1) {dilation = [1], groups = 1, "
      "output_padding = [0], padding = [0], stride = [1], transposed = false}\n"
      "  %r: f32[1,4,8] = aten.permute(%v) {dims = [0, 2, 1]}\n"
      "  %u: f32[1,4,8] = aten.add.Tensor(%c, %r) {alpha = 1}\n"
      "  %t: f32[1,3,8] = aten.slice.Tensor(%u) {dim = 1, end = 4, start = 1, step = 1}\n"));
  EXPECT_EQ(net.report.streams, 1U);
  net.expect_same_function(0x1p-18);
}

TEST(Rotate, LeavesWhatARotationWouldChange) {
  const std::string_view blocks[] = {
      // an activation inside of the stream
      "  %r: f32[1,3,8] = aten.relu(%s)\n"
      "  %n: f32[1,3,8] = aten.layer_norm(%r, %g, %h) {eps = 1e-05, normalized_shape = [8]}\n"
      "  %t: f32[1,3,8] = aten.linear(%n, %w1, %b1)\n",
      // a normalization that no layer reads
      "  %n: f32[1,3,8] = aten.layer_norm(%s, %g, %h) {eps = 1e-05, normalized_shape = [8]}\n"
      "  %t: f32[1,3,8] = aten.sigmoid(%n)\n",
      // zeros around rows that have a bias added
      "  %n: f32[1,3,8] = aten.layer_norm(%s, %g, %h) {eps = 1e-05, normalized_shape = [8]}\n"
      "  %p: f32[1,8,3] = aten.permute(%n) {dims = [0, 2, 1]}\n"
      "  %k: f32[8,8,3] = constant seeded<10>\n"
      "  %v: f32[1,8,3] = aten.convolution(%p, %k, %b1) {dilation = [1], groups = 1, "
      "output_padding = [0], padding = [1], stride = [1], transposed = false}\n"
      "  %t: f32[1,3,8] = aten.permute(%v) {dims = [0, 2, 1]}\n",
      // a factor behind what the normalization adds
      "  %n: f32[1,3,8] = aten.layer_norm(%s, %g, %h) {eps = 1e-05, normalized_shape = [8]}\n"
      "  %half: f32[1] = constant dense<0.5>\n"
      "  %t: f32[1,3,8] = aten.mul.Tensor(%n, %half)\n"};
  for (const std::string_view block : blocks) {
    const Rotated net(stream(block));
    EXPECT_EQ(net.report.streams, 0U) << block;
    EXPECT_EQ(net.run(), net.before) << block;
  }
}

}  // namespace
}  // namespace dtr
