// Operators: what they refuse, and evaluation where PyTorch or TFLite define an edge that no model
// here reaches.
#include <fmt/format.h>

#include <cmath>

#include "compiler/executors/executor.h"
#include "compiler/ir/parser.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

// The reason why a text of the IR is refused; "" if it is not.
std::string refused(const std::string& text) {
  const auto program = parse_module(text, "test.ir");
  if (!program) return program.error().reason;
  const auto result =
      make_reference_executor(*program, program->forward())->run(std::vector<TensorView>{});
  return result ? "" : result.error().reason;
}

std::string refused_op(const std::string& inputs, const std::string& op) {
  return refused("graph @forward(" + inputs + ") {\n  %y: " + op + "\n  return %y\n}\n");
}

// The only output of a graph without inputs.
template <class T>
std::vector<T> evaluate(const std::string& constants, const std::string& op,
                        Precision precision = Precision::kFloat) {
  const auto program = parse_module(
      "graph @forward() {\n  " + constants + "\n  %y: " + op + "\n  return %y\n}\n", "test.ir");
  if (!program) {
    ADD_FAILURE() << to_text(program.error());
    return {};
  }
  const auto outputs = make_reference_executor(*program, program->forward(), precision)
                           ->run(std::vector<TensorView>{});
  if (!outputs) {
    ADD_FAILURE() << to_text(outputs.error());
    return {};
  }
  const auto values = (*outputs)[0].values<T>();
  return {values.begin(), values.end()};
}

struct Case {
  const char* inputs;
  const char* op;
  const char* reason;  // a part of the message
};

TEST(Ops, RefuseWhatTheyCannotCompute) {
  constexpr const char* kX = "%x: f32[1,3,8,8]";
  constexpr const char* kConvolution = "%x: f32[1,3,8,8], %w: f32[4,3,3,3], %b: f32[4]";
  constexpr const char* kQuantized = "%x: i8[2,6] quant<0.1:3>, %w: i8[4,6] quant<0.5>";
  const Case cases[] = {
      {"%x: i32[3]", "i32[3] = aten.sigmoid(%x)", "expected float or i8 quantized per tensor"},
      {"%x: i8[3]", "i8[3] = aten.sigmoid(%x)", "i8 without quantization"},
      {"%x: i32[3]", "i32[3] = aten.add.Tensor(%x, %x) {activation = \"relu\"}",
       "an operator on integers has no activation"},
      {"%x: i32[3], %z: i64[3]", "i32[3] = aten.add.Tensor(%x, %z)",
       "operand 0 is i32 and operand 1 is i64"},
      {"%x: i32[3]", "bool[3] = aten.logical_and(%x, %x)", "operand 0 is i32, expected bool"},
      {"%x: f32[3]", "f32[3] = aten.bitwise_not(%x)", "expected a plain integer or bool"},
      {"%m: i32[3], %x: f32[3]", "f32[3] = aten.where.self(%m, %x, %x)",
       "the mask is i32, expected bool"},
      {"%m: bool[3], %x: f32[3], %z: i32[3]", "f32[3] = aten.where.self(%m, %x, %z)",
       "it chooses between f32 and i32"},
      {"%x: f32[3]", "i32[3] = convert(%x) {dtype = \"int32\"}", "unknown dtype `int32`"},
      {"%x: i8[3] quant<0.1>", "i32[3] = convert(%x) {dtype = \"i32\"}",
       "the operand or the result is quantized"},
      {"%x: f32[3]", "f32[3] = aten.cumsum(%x) {dim = 1}", "`dim` 1 is out of range for 3"},
      {"%x: f32[3]", "f32[3] = aten.div.Tensor_mode(%x, %x) {rounding_mode = \"up\"}",
       "`rounding_mode` is `up`, expected floor or trunc"},
      {"%x: i8[3] quant<axis=0, 0.1, 0.2, 0.3>", "i8[3] quant<0.1> = aten.relu(%x)",
       "quantized per tensor"},
      {kX, "f32[1,3,8,8] = aten.clamp(%x) {max = nan}", "NaN"},
      {kX, "f32[1,3,8,8] = aten.clamp(%x) {lowest = 1.0}", "unknown attribute `lowest`"},
      {"%x: f32[2,3], %z: f32[4]", "f32[2,3] = aten.add.Tensor(%x, %z)", "do not broadcast"},
      {"%x: f32[2,3], %z: i8[3] quant<0.1>", "f32[2,3] = aten.add.Tensor(%x, %z)",
       "operand 0 is f32 and operand 1 is i8"},
      {"%x: f32[2]", "f32[2] = aten.add.Tensor(%x, %x) {activation = \"gelu\"}",
       "unknown activation `gelu`"},
      {"%x: f32[4]", "f32[4] = aten.slice.Tensor(%x) {dim = 0, start = 0, end = 4, step = 0}",
       "`step` is 0, expected at least 1"},
      {"%x: f32[4]", "f32[4] = aten.slice.Tensor(%x) {dim = 0, start = 0, end = 5, step = 1}",
       "`end` 5 is outside of the extent 4"},
      {"%x: i8[2] quant<0.1>", "i8[2] quant<0.2> = aten.add.Tensor(%x, %x) {alpha = inf}",
       "`alpha` of a quantized operator is not finite"},
      {"%x: f32[2,3], %w: f32[2,1,1]", "f32[2,2,3] = aten.prelu(%x, %w)",
       "the weight of shape 2x1x1 does not broadcast to 2x3"},
      {"%x: f32[2]", "f32[2] = aten.gelu(%x) {approximate = \"erf\"}",
       "`approximate` is `erf`, expected none or tanh"},
      {"%x: i64[3]", "i64[3] = aten.div.Tensor(%x, %x)",
       "operand 0 is i64 without quantization, expected float or i8 quantized per tensor"},
      {kConvolution,
       "f32[1,4,6,6] = aten.convolution(%x, %w, %b) {stride = [1, 1], padding = [0, 0], dilation = "
       "[1, 1], output_padding = [0, 0], "
       "transposed = "
       "false, groups = 2}",
       "do not make 2 groups"},
      {kConvolution,
       "f32[1,4,6,6] = aten.convolution(%x, %w, %b) {stride = [0, 1], padding = [0, 0], dilation = "
       "[1, 1], output_padding = [0, 0], "
       "transposed = "
       "false, groups = 1}",
       "`stride` has the entry 0"},
      {kConvolution,
       "f32[1,4,6,6] = aten.convolution(%x, %w, %b) {stride = [1, 1], padding = [0, 0], dilation = "
       "[4, 1], output_padding = [0, 0], "
       "transposed = "
       "false, groups = 1}",
       "does not fit"},
      {kConvolution,
       "f32[1,4,6,6] = aten.convolution(%x, %w, %b) {stride = [1, 1], padding = [0], dilation = "
       "[1, 1], output_padding = [0, 0], "
       "transposed = "
       "false, groups = 1}",
       "`padding` has 1 entries"},
      {kConvolution,
       "f32[1,4,6,6] = aten.convolution(%x, %w, %b) {stride = [1, 1], padding = [0, 0], dilation = "
       "[1, 1], output_padding = [1, 0], "
       "transposed = "
       "false, groups = 1}",
       "`output_padding` 1"},
      {kConvolution,
       "f32[1,4,6,6] = aten.convolution(%x, %w, %b) {stride = [1, 1], padding = [1000000000, "
       "1000000000], dilation = [1, 1], "
       "output_padding = "
       "[0, 0], transposed = false, groups = 1}",
       "the result would have the shape"},
      {"%x: f32[2,6], %w: f32[4,5]", "f32[2,4] = aten.linear(%x, %w)", "do not multiply"},
      {"%x: f32[2,6], %w: f32[4,6], %b: f32[3]", "f32[2,4] = aten.linear(%x, %w, %b)",
       "the bias has shape 3, expected 4"},
      {"%x: i8[2,6] quant<0.1:3>, %w: i8[4,6] quant<0.5:1>",
       "i8[2,4] quant<1> = aten.linear(%x, %w)", "zero point 0"},
      {"%x: i8[2,6] quant<0.1:3>, %w: f32[4,6]", "i8[2,4] quant<1> = aten.linear(%x, %w)",
       "the weight is not i8"},
      {kQuantized, "f32[2,4] = aten.linear(%x, %w)", "needs a quantization for its result"},
      {"%x: f32[3,8,8]", "f32[3,4,4] = aten.batch_norm(%x) {eps = 0.1}",
       "mean or variance is missing"},
      {kX, "f32[1,3,8,8] = aten.batch_norm(%x, _, _, %x, %x) {eps = 0.1}", "operand 3"},
      {kX,
       "f32[1,3,4,4] = aten.max_pool2d(%x) {kernel_size = [2, 2], stride = [2, 2], padding = [2, "
       "0], dilation = [1, 1], ceil_mode = false}",
       "more than half of the kernel"},
      {"%x: f32[8,8]",
       "f32[4,4] = aten.max_pool2d(%x) {kernel_size = [2, 2], stride = [2, 2], padding = [0, 0], "
       "dilation = [1, 1], ceil_mode = false}",
       "expected 3 or 4 dimensions"},
      {kX,
       "f32[1,3,4,4] = aten.avg_pool2d(%x) {kernel_size = [2, 2], stride = [2, 2], padding = [0, "
       "0], ceil_mode = false, count_include_pad "
       "= "
       "true, divisor_override = 0}",
       "`divisor_override` is 0"},
      {kX, "f32[3,8,8] = aten.mean.dim(%x) {dim = [0, -4], keepdim = false}", "repeats"},
      {"%x: f32[0,3]", "f32[3] = aten.mean.dim(%x) {dim = [0], keepdim = false}", "no elements"},
      {kX, "f32[1,3,8,8] = aten.softmax(%x) {dim = 4}", "out of range"},
      {"%x: i32[3] quant<0.1>", "i64[] = aten.argmax(%x)",
       "operand 0 is quantized i32, expected a number or i8 quantized per tensor"},
      {kX, "i64[1,8,8] = aten.argmax(%x) {dim = 4}",
       "`dim` 4 is out of range for the operand 1x3x8x8"},
      {"%x: f32[3,0]", "i64[3] = aten.argmin(%x) {dim = 1}", "the operand has no elements"},
      {"%x: f32[4,3], %i: f32[2]", "f32[2,3] = aten.index_select(%x, %i) {dim = 0}",
       "the indices are f32, expected i64 or i32"},
      {"%x: f32[4,3], %i: i64[2]", "f32[2,3] = aten.index_select(%x, %i) {dim = 2}",
       "`dim` 2 is out of range for 4x3"},
      {"%x: f32[70000], %i: i64[70000,70000]",
       "f32[70000,70000] = aten.index_select(%x, %i) {dim = 0}",
       "the result would have the shape 70000x70000"},
      {"%x: i8[1,5000] quant<0.1>",
       "i8[1,5000] quant<0.00390625:-128> = aten.softmax(%x) {dim = 1}", "the sum holds 4095"},
      {"%x: i8[1,5] quant<0.1>", "i8[1,5] quant<range=-127..127, 0.1> = aten.softmax(%x) {dim = 1}",
       "range -128 to 127"},
      {"%x: i8[1,5] quant<0.1>", "i8[1,5] quant<0.0009> = aten.log_softmax(%x) {dim = 1}",
       "expected at least 0.0009765625"},
      {"%x: i8[1,5] quant<8>", "i8[1,5] quant<0.1> = aten.log_softmax(%x) {dim = 1}",
       "1/64 of the operand's"},
      {"%x: f32[2,6], %w: f32[5,4]", "f32[2,4] = aten.matmul(%x, %w)",
       "the shapes 2x6 and 5x4 do not multiply"},
      {"%x: f32[6], %w: f32[6,4]", "f32[4] = aten.matmul(%x, %w)",
       "the shapes 6 and 6x4 do not multiply"},
      {"%x: f32[3,2,6], %w: f32[2,6,4]", "f32[3,2,4] = aten.matmul(%x, %w)", "do not multiply"},
      {"%x: i8[2,40000] quant<0.1>, %w: i8[40000,2] quant<0.1>",
       "i8[2,2] quant<0.1> = aten.matmul(%x, %w)", "32 bits hold 33024"},
      {kX, "f32[3,60] = aten.view(%x) {size = [3, 60]}", "does not hold the elements"},
      {kX, "f32[3,60] = aten.view(%x) {size = [-1, -1]}", "does not hold the elements"},
      {kX, "f32[3,60] = aten.view(%x) {size = [3000000000, 3000000000, 3000000000]}",
       "does not hold the elements"},
      {kX, "f32[1,3,8,8] = aten.permute(%x) {dims = [0, 1, 2, 2]}", "not a permutation"},
      {kX, "f32[1,3,8,8] = aten.constant_pad_nd(%x) {pad = [1], value = 0.0}", "1 entries"},
      {kX, "f32[1,3,8,8] = aten.constant_pad_nd(%x) {pad = [-5, -4], value = 0.0}",
       "cut more than the extent 8"},
      {"%x: f32[1,3], %z: f32[2,2]", "f32[1,5] = aten.cat(%x, %z) {dim = 1}", "does not join"},
      {"%x: i8[1] quant<0.1>, %z: i8[1] quant<0.2>",
       "i8[2] quant<0.1> = aten.cat(%x, %z) {dim = 0}", "differ in dtype or quantization"},
      {"%x: i8[1] quant<0.1>", "i8[1] quant<0.1> = quantize(%x)", "expected float"},
      {"%x: f32[1]", "i8[1] = quantize(%x)", "not quantized per tensor"},
      {"%x: f32[1]", "f32[1] = dequantize(%x)", "expected quantized i8 or i32"},
      {"%x: f32[1]", "f32[1] = requantize(%x)", "expected quantized i8"},
  };
  for (const Case& one : cases) {
    const std::string reason = refused_op(one.inputs, one.op);
    EXPECT_NE(reason.find(one.reason), std::string::npos)
        << one.op << "\n  said: " << reason << "\n  expected: " << one.reason;
  }
}

TEST(Ops, RefuseBoxesThatDoNotFit) {
  const auto suppress = [](const std::string& inputs, const std::string& most = "3",
                           const std::string& sigma = "0.0") {
    return refused_op(inputs,
                      "i32[3], %z: f32[3], %n: i32[] = tflite.non_max_suppression(%b, %s) "
                      "{max_output_size = " +
                          most + ", iou_threshold = 0.5, score_threshold = 0.5, sigma = " + sigma +
                          "}");
  };
  const auto detect = [](const std::string& boxes, const std::string& scores,
                         const std::string& anchors, const std::string& most = "3",
                         const std::string& classes = "3", const std::string& iou = "0.5",
                         const std::string& scales = "[10.0, 10.0, 5.0, 5.0]") {
    return refused_op("%b: " + boxes + ", %s: " + scores + ", %a: " + anchors,
                      "f32[1,3,4], %c: f32[1,3], %d: f32[1,3], %n: f32[1] = "
                      "tflite.detection_postprocess(%b, %s, %a) {max_detections = " +
                          most +
                          ", max_classes_per_detection = 9, detections_per_class = 1, "
                          "use_regular_nms = false, nms_score_threshold = 0.5, "
                          "nms_iou_threshold = " +
                          iou + ", num_classes = " + classes + ", scales = " + scales + "}");
  };
  const std::pair<std::string, const char*> cases[] = {
      {suppress("%b: f32[5,4], %s: f32[4]"), "boxes 5x4 and scores 4, expected Nx4 and N"},
      {suppress("%b: f32[5,4], %s: i32[5]"), "the operands are f32 and i32, expected floats"},
      {suppress("%b: f32[5,4], %s: f32[5]", "-1"), "`max_output_size` is -1"},
      {suppress("%b: f32[5,4], %s: f32[5]", "3", "-0.5"), "`sigma` is -0.5, expected 0 or more"},
      {detect("f32[2,5,4]", "f32[2,5,3]", "f32[5,4]"),
       "the boxes are 2x5x4, expected 1xNx4, of one image"},
      {detect("f32[1,5,3]", "f32[1,5,3]", "f32[5,4]"), "the boxes are 1x5x3, expected 1xNx4"},
      {detect("f32[1,5,4]", "f32[1,5,3]", "f32[4,4]"), "the anchors are 4x4, expected 5x4"},
      {detect("f32[1,5,4]", "f32[1,5,3]", "f32[5,4]", "3", "1"),
       "the scores are 1x5x3, expected 1x5x1, or one more of the background"},
      {detect("f32[1,5,4]", "f32[1,5,3]", "f32[5,4]", "0"),
       "`max_detections` is 0, expected 1 or more"},
      {detect("f32[1,5,4]", "f32[1,5,3]", "f32[5,4]", "3", "3", "0.0"),
       "`nms_iou_threshold` is 0, expected one in (0, 1]"},
      {detect("f32[1,5,4]", "f32[1,5,3]", "f32[5,4]", "1000000000"),
       "the result would have the shape 1x9000000000x4"},
      {detect("f32[1,5,4]", "f32[1,5,3]", "f32[5,4]", "3", "3", "0.5", "[10.0]"),
       "`scales` has not four numbers"},
      {detect("f32[1,5,4]", "i32[1,5,3]", "f32[5,4]"), "an operand is i32, expected floats"}};
  for (const auto& [said, reason] : cases)
    EXPECT_NE(said.find(reason), std::string::npos)
        << "said: " << said << "\n expected: " << reason;
}

// Codes −2 … 2 stand for −1 … 1. Where a function is not defined its table has the value of the
// nearest point where it is.
TEST(Ops, TablesEndWhereFunctionsDo) {
  const std::string x = "%x: i8[5] quant<0.5> = constant dense<-2, -1, 0, 1, 2>";
  const auto text = [&](const std::string& op) {
    const std::vector<int8_t> codes = evaluate<int8_t>(x, "i8[5] quant<0.25> = " + op);
    return fmt::format("{}", fmt::join(codes, " "));
  };
  EXPECT_EQ(text("aten.log(%x)"), "-128 -128 -128 -3 0");
  EXPECT_EQ(text("aten.sqrt(%x)"), "0 0 0 3 4");
  EXPECT_EQ(text("aten.rsqrt(%x)"), "127 127 127 6 4");
  EXPECT_EQ(text("aten.reciprocal(%x)"), "-4 -8 127 8 4");
  EXPECT_EQ(text("aten.pow.Tensor_Scalar(%x) {exponent = 2.0}"), "4 1 0 1 4");
  EXPECT_EQ(text("aten.pow.Tensor_Scalar(%x) {exponent = 0.5}"), "0 0 0 3 4");
  EXPECT_EQ(text("aten.neg(%x)"), "4 2 0 -2 -4");
  EXPECT_EQ(text("aten.abs(%x)"), "4 2 0 2 4");
  EXPECT_EQ(text("aten.sign(%x)"), "-4 -4 0 4 4");
  EXPECT_EQ(text("aten.div.Tensor(%x, %x)"), "4 4 0 4 4");
}

TEST(Ops, NanAndInfinityGoWherePyTorchSendsThem) {
  const std::string x = "%x: f32[5] = constant dense<nan, -inf, inf, -2, 2>";
  const auto text = [](const std::vector<float>& values) {
    return fmt::format("{}", fmt::join(values, " "));
  };
  EXPECT_EQ(text(evaluate<float>(x, "f32[5] = aten.relu(%x)")), "nan 0 inf 0 2");
  EXPECT_EQ(text(evaluate<float>(x, "f32[5] = aten.clamp(%x) {min = -1.0, max = 1.0}")),
            "nan -1 1 -1 1");
  EXPECT_EQ(text(evaluate<float>(x, "f32[5] = aten.clamp(%x) {min = 1.0, max = -1.0}")),
            "nan -1 -1 -1 -1");
  EXPECT_EQ(text(evaluate<float>(x, "f32[5] = aten.add.Tensor(%x, %x) {activation = \"relu6\"}")),
            "nan 0 6 0 4");
  EXPECT_EQ(text(evaluate<float>("%x: f32[1,1,2,2] = constant dense<1, nan, 3, 2>",
                                 "f32[1,1,1,1] = aten.max_pool2d(%x) {kernel_size = [2, 2], stride "
                                 "= [1, 1], padding = [0, 0], dilation = [1, 1], "
                                 "ceil_mode = false}")),
            "nan");
}

// PyTorch: avg_pool2d(arange(1, 10).view(1, 3, 3), 2, 2, 1, ceil_mode, count_include_pad,
// divisor_override)
TEST(Ops, AveragePoolCountsAsPyTorchDoes) {
  const std::string x = "%x: f32[1,3,3] = constant dense<1, 2, 3, 4, 5, 6, 7, 8, 9>";
  const auto pool = [&](const std::string& size, const std::string& rest) {
    return evaluate<float>(
        x, "f32[1," + size + "] = aten.avg_pool2d(%x) {kernel_size = [2, 2], stride = [2, 2], " +
               rest + "}");
  };
  EXPECT_EQ(pool("2,2", "padding = [1, 1], ceil_mode = false, count_include_pad = true"),
            (std::vector<float>{0.25F, 1.25F, 2.75F, 7}));
  EXPECT_EQ(pool("2,2", "padding = [1, 1], ceil_mode = false, count_include_pad = false"),
            (std::vector<float>{1, 2.5F, 5.5F, 7}));
  EXPECT_EQ(pool("2,2", "padding = [0, 0], ceil_mode = true, count_include_pad = true"),
            (std::vector<float>{3, 4.5F, 7.5F, 9}));
  EXPECT_EQ(
      pool("1,1",
           "padding = [0, 0], ceil_mode = false, count_include_pad = true, divisor_override = 3"),
      (std::vector<float>{4}));
}

// 2^24 elements of 255 steps are more than an accumulator holds: the sum ends at its limit.
TEST(Ops, SumsBeyondInt32EndAtItsLimits) {
  for (const bool negative : {false, true}) {
    const auto codes = evaluate<int8_t>(
        fmt::format("%c: i8[1,1] quant<0.5:{0}> = constant dense<{1}>\n  %x: i8[1,16777216] "
                    "quant<0.5:{0}> = aten.expand(%c) {{size = [1, 16777216]}}",
                    negative ? 127 : -128, negative ? -128 : 127),
        "i8[1] quant<16777216> = aten.sum.dim_IntList(%x) {dim = [1], keepdim = false}");
    // 2^31 · 0.5 / 2^24
    EXPECT_EQ(codes, std::vector<int8_t>{static_cast<int8_t>(negative ? -64 : 64)});
  }
}

// PyTorch: one pixel is the reflection of every place on its axis.
TEST(Ops, OnePixelIsReflectedEverywhere) {
  EXPECT_EQ(evaluate<float>("%x: f32[1,1,1,3] = constant dense<1, 2, 4>\n"
                            "  %g: f32[1,1,3,2] = constant dense<-1, 0.75, 0, -3, 1, 0>",
                            "f32[1,1,1,3] = aten.grid_sampler_2d(%x, %g) {interpolation_mode = 0, "
                            "padding_mode = 2, align_corners = true}"),
            (std::vector<float>{1, 2, 4}));
}

// PyTorch: what an integer cannot hold is at the image's end, or reflected to its first pixel.
TEST(Ops, PlacesBehindEveryIntegerAreAtTheEnd) {
  for (const int mode : {0, 1, 2})
    for (const int padding : {0, 1, 2})
      EXPECT_EQ(evaluate<float>("%x: f32[1,1,1,3] = constant dense<1, 2, 4>\n"
                                "  %g: f32[1,1,3,2] = constant dense<3e38, 0, -1e12, 0, 1e12, 0>",
                                fmt::format("f32[1,1,1,3] = aten.grid_sampler_2d(%x, %g) "
                                            "{{interpolation_mode = {}, padding_mode = {}, "
                                            "align_corners = true}}",
                                            mode, padding)),
                padding == 0   ? (std::vector<float>{0, 0, 0})
                : padding == 1 ? (std::vector<float>{4, 1, 4})
                               : (std::vector<float>{1, 1, 1}));
}

// Rows that the index names outside of the tensor are written nowhere; programs refuse them.
TEST(Ops, RowsOutsideAreNotWritten) {
  constexpr std::string_view kText = R"(graph @forward(%i: i64[3]) {{
  %x: f32[2,2] = constant dense<1, 2, 3, 4>
  %r: f32[3,2] = constant dense<5, 6, 7, 8, 9, 10>
  %y: f32[2,2] = aten.index_put(%x, %i, %r) {{accumulate = {}}}
  return %y
}})";
  for (const bool accumulate : {false, true}) {
    const auto program = parse_module(fmt::format(kText, accumulate), "test.ir");
    ASSERT_TRUE(program.has_value()) << to_text(program.error());
    const Graph& graph = program->forward();
    const OpId op = *graph.ops().begin();
    std::vector<std::vector<float>> floats{{1, 2, 3, 4}, {5, 6, 7, 8, 9, 10}, {0, 0, 0, 0, -1, -1}};
    std::vector<int64_t> index{2, -1, -3};
    const auto view = [](auto& values, Shape shape, DType dtype) {
      return TensorView{dtype, std::move(shape), reinterpret_cast<std::byte*>(values.data())};
    };
    const std::vector<TensorView> operands{view(floats[0], {2, 2}, DType::kFloat32),
                                           view(index, {3}, DType::kInt64),
                                           view(floats[1], {3, 2}, DType::kFloat32)};
    const std::vector<TensorView> results{view(floats[2], {2, 2}, DType::kFloat32)};
    graph.op(op).def->evaluate_float(*BoundOpView(graph, op), operands, results);
    EXPECT_EQ(floats[2], accumulate ? (std::vector<float>{1, 2, 10, 12, -1, -1})
                                    : (std::vector<float>{1, 2, 7, 8, -1, -1}));
  }
}

// PyTorch: quantize_per_tensor rounds ties to even and keeps to the range; the zero point counts
// after rounding.
TEST(Ops, TheFirstOfEqualElementsIsTheExtreme) {
  const std::string floats = "%x: f32[2,3] = constant dense<1, 4, 4, -2, -2, 5>";
  EXPECT_EQ(evaluate<int64_t>(floats, "i64[2] = aten.argmax(%x) {dim = 1}"),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(evaluate<int64_t>(floats, "i64[2] = aten.argmin(%x) {dim = 1}"),
            (std::vector<int64_t>{0, 0}));
  const std::string codes = "%x: i8[2,3] quant<0.5:3> = constant dense<1, 4, 4, -2, -2, 5>";
  EXPECT_EQ(evaluate<int64_t>(codes, "i64[2] = aten.argmax(%x) {dim = 1}"),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(evaluate<int64_t>(codes, "i64[] = aten.argmin(%x)"), (std::vector<int64_t>{3}));
}

TEST(Ops, QuantizeRoundsTiesToEven) {
  const std::string x =
      "%x: f32[8] = constant dense<0.25, 0.75, -0.25, -0.75, 1e30, -inf, nan, 1.25>";
  const std::vector<int8_t> expected{10, 12, 10, 8, 127, -127, 10, 12};
  EXPECT_EQ(evaluate<int8_t>(x, "i8[8] quant<range=-127..127, 0.5:10> = quantize(%x)"), expected);
  EXPECT_EQ(evaluate<int8_t>(x, "i8[8] quant<range=-127..127, 0.5:10> = quantize(%x)",
                             Precision::kDouble),
            expected);
}

TEST(Ops, DequantizePerChannel) {
  const std::string x =
      "%x: i8[2,2,2] quant<axis=1, 0.5:1, 2:-1> = constant dense<-128, 127, 0, 1, 1, 2, 3, 4>";
  EXPECT_EQ(evaluate<float>(x, "f32[2,2,2] = dequantize(%x)"),
            (std::vector<float>{-64.5F, 63, 2, 4, 0, 0.5F, 8, 10}));
  EXPECT_EQ(evaluate<double>(x, "f32[2,2,2] = dequantize(%x)", Precision::kDouble),
            (std::vector<double>{-64.5, 63, 2, 4, 0, 0.5, 8, 10}));
}

// The quantized mean of a pool that counts its padding is that of the padded operand, padding being
// the zero point.
TEST(Ops, QuantizedAveragePoolCountsPaddingAsZeroPoint) {
  const std::string x =
      "%x: i8[1,1,3,3] quant<0.1:-100> = constant dense<-128, 127, 5, -7, 100, -100, 90, 33, -50>";
  const std::string pool =
      "aten.avg_pool2d(%{}) {{kernel_size = [2, 3], stride = [1, 2], padding = [{}], ceil_mode = "
      "false, count_include_pad = true}}";
  const auto direct = evaluate<int8_t>(
      x, "i8[1,1,4,2] quant<0.1:-100> = " + fmt::format(fmt::runtime(pool), "x", "1, 1"));
  const auto padded = evaluate<int8_t>(
      x + "\n  %p: i8[1,1,5,5] quant<0.1:-100> = aten.constant_pad_nd(%x) {pad = [1, 1, 1, 1], "
          "value = 0.0}",
      "i8[1,1,4,2] quant<0.1:-100> = " + fmt::format(fmt::runtime(pool), "p", "0, 0"));
  EXPECT_EQ(direct, padded);
  EXPECT_EQ(direct.size(), 8U);
}

// PyTorch: conv_transpose2d of [[1, 2], [3, 4]] with the kernel [[1, 10], [100, 1000]], stride 2,
// output_padding (1, 0)
TEST(Ops, TransposedConvolution) {
  const std::string attributes =
      "{stride = [2, 2], padding = [0, 0], dilation = [1, 1], output_padding = [1, 0], transposed "
      "= true, groups = 1}";
  const std::string constants =
      "%x: f32[1,1,2,2] = constant dense<1, 2, 3, 4>\n  %w: f32[1,1,2,2] = constant dense<1, 10, "
      "100, 1000>";
  EXPECT_EQ(evaluate<float>(constants, "f32[1,1,5,4] = aten.convolution(%x, %w) " + attributes),
            (std::vector<float>{1, 10, 2,   20,   100, 1000, 200, 2000, 3, 30,
                                4, 40, 300, 3000, 400, 4000, 0,   0,    0, 0}));
  const std::string integers =
      "%x: i8[1,1,2,2] quant<1:-1> = constant dense<0, 1, 2, 3>\n  %w: i8[1,1,2,2] quant<axis=1, "
      "0.5> = constant dense<1, -2, 3, 5>";
  EXPECT_EQ(
      evaluate<int8_t>(integers,
                       "i8[1,1,5,4] quant<0.5:7> = aten.convolution(%x, %w) " + attributes),
      (std::vector<int8_t>{8, 5, 9, 3, 10, 12, 13, 17, 10, 1, 11, -1, 16, 22, 19, 27, 7, 7, 7, 7}));
}

// A chain as wide as it is long: every tensor dies after its next op, outputs and inputs that are
// outputs stay.
TEST(Executor, ObserversSeeInputsAndEveryResult) {
  const auto program = parse_module(R"(graph @forward(%x: f32[2]) {
  %a: f32[2] = aten.relu(%x)
  %b: f32[2] = aten.add.Tensor(%a, %a)
  %unused: f32[2] = aten.tanh(%b)
  return %b, %x, %b
}
)");
  ASSERT_TRUE(program) << to_text(program.error());
  Tensor x(DType::kFloat32, {2});
  x.values<float>()[1] = 3;
  for (const Precision precision : {Precision::kFloat, Precision::kDouble}) {
    std::vector<std::string> seen;
    const auto outputs =
        make_reference_executor(*program, program->forward(), precision)
            ->run(std::vector{x.view()}, [&](ValueId id, const TensorView& view) {
              seen.push_back(program->forward().value(id).name);
              EXPECT_EQ(view.dtype,
                        precision == Precision::kDouble ? DType::kFloat64 : DType::kFloat32);
            });
    ASSERT_TRUE(outputs) << to_text(outputs.error());
    EXPECT_EQ(seen, (std::vector<std::string>{"x", "a", "b", "unused"}));
    ASSERT_EQ(outputs->size(), 3U);
    const auto second = [&](size_t i) {
      return precision == Precision::kDouble
                 ? (*outputs)[i].values<double>()[1]
                 : static_cast<double>((*outputs)[i].values<float>()[1]);
    };
    EXPECT_EQ(second(0), 6);
    EXPECT_EQ(second(1), 3);
    EXPECT_EQ(second(2), 6);
  }
}

// Products of the definition, whatever the machine pads, counted by hand: positions · outputs ·
// products of one output.
TEST(Ops, MacsAreTheProductsOfTheDefinition) {
  struct Counted {
    const char* inputs;
    const char* op;
    int64_t macs;
  };
  constexpr const char* kWindow =
      "dilation = [1, 2], output_padding = [0, 0], padding = [1, 0], stride = [2, 1]";
  const Counted cases[] = {
      // Rows (5 + 2 - 3) / 2 + 1 = 3, columns 7 - 2 = 5: 2 images · 15 positions · 4 channels · 3 ·
      // 3 · 2 products.
      {"%x: f32[2,3,5,7], %w: f32[4,3,3,2]",
       "f32[2,4,3,5] = aten.convolution(%x, %w, _) {W, groups = 1, transposed = false}",
       2 * 15 * 4 * 18},
      // Three groups of 2 channels to 3: each output channel sees 2 · 3 · 2 products.
      {"%x: f32[1,6,5,7], %w: f32[9,2,3,2]",
       "f32[1,9,3,5] = aten.convolution(%x, %w, _) {W, groups = 3, transposed = false}",
       15 * 9 * 12},
      // Depthwise: 3 · 2 products.
      {"%x: f32[1,5,5,7], %w: f32[5,1,3,2]",
       "f32[1,5,3,5] = aten.convolution(%x, %w, _) {W, groups = 5, transposed = false}",
       15 * 5 * 6},
      // Transposed: each of the 4 · 3 inputs of 5 channels is multiplied with a kernel of 3 · 3 for
      // each of 2 output channels; products
      // with what the padding cuts off are counted, as those with padded zeros are above.
      {"%x: f32[1,5,4,3], %w: f32[5,2,3,3]",
       "f32[1,2,9,7] = aten.convolution(%x, %w, _) {dilation = [1, 1], output_padding = [0, 0], "
       "padding = [0, 0], stride = [2, 2], "
       "groups = 1, transposed = true}",
       4 * 3 * 5 * 9 * 2},
      {"%x: f32[2,3,4], %w: f32[5,4]", "f32[2,3,5] = aten.linear(%x, %w, _)", 2 * 3 * 4 * 5},
      {"%x: f32[2,5,3,4], %y: f32[5,4,6]", "f32[2,5,3,6] = aten.matmul(%x, %y)", 2 * 5 * 3 * 6 * 4},
  };
  for (const Counted& counted : cases) {
    std::string op = counted.op;
    if (const size_t at = op.find('W'); at != std::string::npos && op[at - 1] == '{')
      op.replace(at, 1, kWindow);
    const auto program = parse_module(
        fmt::format("graph @forward({}) {{\n  %r: {}\n  return %r\n}}\n", counted.inputs, op),
        "test.ir");
    ASSERT_TRUE(program) << to_text(program.error());
    const Graph& graph = program->forward();
    int64_t macs = 0;
    for (const OpId id : graph.ops()) {
      const BoundOpView view(graph, id);
      if (view->def->macs != nullptr) macs += view->def->macs(view);
    }
    EXPECT_EQ(macs, counted.macs) << op;
  }
}

}  // namespace
}  // namespace dtr
