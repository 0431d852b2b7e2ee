// Why an operator is not on the NPU: the patterns' reasons to leave it in float and the machine's
// refusals that no other test provokes, each with its whole text. scripts/check_diagnostics.py
// demands a test for every id.
#include <fmt/format.h>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/int8_patterns.h"
#include "test/unit/neutron_fixture.h"

namespace dtr {
namespace {

using test::parse;

Module graph_of(std::string_view inputs, std::string_view ops) {
  return parse(fmt::format("graph @forward({}) {{\n  {}\n  return %y\n}}", inputs, ops));
}

// "id: reason; remedy" of the op that makes `value`, "" if it is quantized.
std::string stays_float(std::string_view inputs, std::string_view ops,
                        std::string_view value = "y") {
  const Module module = graph_of(inputs, ops);
  if (module.graphs.empty()) return "not a graph";
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  patterns.push_back(make_int8_patterns({.backend = "neutron", .machine = "the NPU"}));
  const Graph& graph = module.forward();
  const Annotation annotation = annotate(graph, patterns);
  OpId op;
  for (const OpId each : graph.ops())
    if (graph.value(graph.op(each).results[0]).name == value) op = each;
  if (annotation.ops[op.index]) return "";
  const FloatReason& reason = annotation.reasons[op.index];
  return fmt::format("{}: {}; {}", reason.id, reason.reason, reason.remedy);
}

// The same of the machine, for an op on quantized types.
std::string refused(std::string_view inputs, std::string_view ops) {
  const Module module = graph_of(inputs, ops);
  if (module.graphs.empty()) return "not a graph";
  const Graph& graph = module.forward();
  const auto refusal =
      make_neutron_backend(test::machine())->refuse(graph, graph.producer(graph.outputs()[0]));
  return refusal ? fmt::format("{}: {}; {}", refusal->id, refusal->reason, refusal->remedy) : "";
}

TEST(NeutronPatterns, SayWhatStaysInFloat) {
  EXPECT_EQ(stays_float("%x: f32[3,4], %z: f32[3,4]", "%y: f32[3,4] = aten.div.Tensor(%x, %z)"),
            "quantizer-form: the NPU divides by, or into, one constant number; both operands are "
            "tensors; multiply by a reciprocal");
  EXPECT_EQ(stays_float("%x: f32[3,33025], %z: f32[33025,4]", "%y: f32[3,4] = aten.matmul(%x, %z)"),
            "quantizer-form: the NPU adds at most 33024 products of two computed values; this one "
            "adds 33025; split the inner dimension "
            "and add the products");
  EXPECT_EQ(stays_float("%x: f32[3,33024], %z: f32[33024,4]", "%y: f32[3,4] = aten.matmul(%x, %z)"),
            "");
  EXPECT_EQ(stays_float("%x: f32[1,1048577]",
                        "%y: f32[1,1048577] = aten.layer_norm(%x, _, _) {eps = 0.1, "
                        "normalized_shape = [1048577]}"),
            "quantizer-form: the NPU normalizes at most 1048576 elements together; these are "
            "1048577; normalize over fewer dimensions");
  EXPECT_EQ(stays_float("%x: f32[2,4096]", "%y: f32[2,4096] = aten.softmax(%x) {dim = 1}"),
            "quantizer-form: the NPU's sum holds at most 4095 exponentials; this one has 4096; "
            "take the softmax of fewer elements, or "
            "outside of the model");
  EXPECT_EQ(stays_float("%x: f32[2,4095]", "%y: f32[2,4095] = aten.softmax(%x) {dim = 1}"), "");
  EXPECT_EQ(stays_float("%x: f32[2,3]",
                        "%y: f32[2,3] = aten.threshold(%x) {threshold = 0.25, value = 2.0}"),
            "quantizer-form: its result jumps from 2 to 0.25; in int8 operands on either side of "
            "the threshold share a code; give it the "
            "threshold as value");
  EXPECT_EQ(stays_float("%x: f32[2,3]",
                        "%y: f32[2,3] = aten.threshold(%x) {threshold = 0.25, value = 0.25}"),
            "");
  EXPECT_EQ(stays_float("%x: f32[2,3], %w: f32[4,3]", "%y: f32[2,4] = aten.linear(%x, %w)"),
            "quantizer-dynamic-weight: the NPU needs constant weights; these are computed while "
            "the model runs; make them parameters or "
            "buffers of the module");
  EXPECT_EQ(
      stays_float(
          "%z: f32[1]",
          "%x: f32[2,3] = constant seeded<1>\n %y: f32[3,2] = aten.permute(%x) {dims = [1, 0]}"),
      "quantizer-constant-operand: the NPU computes what depends on an input; its first operand is "
      "a constant; compute it before the "
      "export");
  EXPECT_EQ(
      stays_float("%x: f32[2,3]",
                  "%c: f32[1,3] = constant seeded<1>\n %y: f32[3,3] = aten.cat(%c, %x) {dim = 0}"),
      "");
  EXPECT_EQ(stays_float("%z: f32[1]",
                        "%x: f32[2] = constant seeded<1>\n %w: f32[2] = constant seeded<2>\n %y: "
                        "f32[2] = aten.maximum(%x, %w)"),
            "quantizer-constant-operand: the NPU computes what depends on an input; its operands "
            "are constants; compute it before the export");
  EXPECT_EQ(stays_float("%x: f32[1,2,3], %w: f32[2]",
                        "%y: f32[1,2,3] = aten.batch_norm(%x, _, _, %w, %w) {eps = 0.1}"),
            "quantizer-no-pattern: the NPU has no kernel and no quantization pattern for it; "
            "replace it; `deuteron ops` lists what there is");
  constexpr std::string_view kAlone =
      "quantizer-alone: int8 would cost accuracy for one elementwise operator; what it reads and "
      "who reads it are float; quantize what is "
      "around it, or make it the model's output";
  EXPECT_EQ(
      stays_float("%x: f32[3,4], %z: f32[3,4]",
                  "%r: f32[3,4] = aten.relu(%x)\n %y: f32[3,4] = aten.div.Tensor(%r, %z)", "r"),
      kAlone);
  EXPECT_EQ(stays_float("%x: f32[3,4], %z: f32[3,4]",
                        "%r: f32[3,4] = aten.relu(%x)\n %y: f32[3,4] = aten.div.Tensor(%r, %z)\n "
                        "%w: f32[3,4] = aten.exp(%r)",
                        "r"),
            "");
  for (const std::string_view op : {"ceil", "floor", "round", "sign", "trunc"}) {
    EXPECT_EQ(stays_float("%x: f32[3,4]", fmt::format("%y: f32[3,4] = aten.{}(%x)", op)),
              "quantizer-alone: its result jumps and its operand is float; in int8 operands on "
              "either side of a jump share a code; quantize the operator that makes its operand");
    EXPECT_EQ(stays_float("%x: f32[3,4]", fmt::format("%r: f32[3,4] = aten.exp(%x)\n %y: f32[3,4] "
                                                      "= aten.{}(%r)",
                                                      op)),
              "");
  }
  constexpr std::string_view kIndex =
      "quantizer-alone: the index of an extreme of floats would be another one in int8, where "
      "elements near it have the same code; quantize the operator that makes its operand";
  EXPECT_EQ(stays_float("%x: f32[2,3]", "%y: i64[2] = aten.argmax(%x) {dim = 1}"), kIndex);
  EXPECT_EQ(stays_float("%x: f32[2,3]", "%y: i64[2] = aten.argmin(%x) {dim = 1}"), kIndex);
  constexpr std::string_view kFlat =
      "%f: f32[6] = aten.view(%x) {size = [6]}\n %y: i64[] = aten.argmax(%f)";
  for (const std::string_view value : {"f", "y"})
    EXPECT_EQ(stays_float("%x: f32[2,3]", kFlat, value), kIndex);
  // What is int8 anyway loses nothing more.
  EXPECT_EQ(stays_float("%x: f32[2,3]",
                        "%e: f32[2,3] = aten.exp(%x)\n %y: i64[2] = aten.argmax(%e) {dim = 1}"),
            "");
  EXPECT_EQ(stays_float("%x: f32[2,3]",
                        "%y: i64[2] = aten.argmax(%x) {dim = 1}\n %e: f32[2,3] = aten.exp(%x)"),
            "");
  // A step of a factorization, and what it reads back to a product; other readers of that are int8.
  constexpr std::string_view kSteps =
      "%w: f32[4,4] = constant seeded<1>\n %p: f32[4,4] = aten.matmul(%x, %w)\n"
      "%i: f32[4,4] = constant seeded<2>\n %a: f32[4,4] = aten.add.Tensor(%p, %i)\n"
      "%t: f32[4,4] = aten.permute(%a) {dims = [1, 0]}\n"
      "%s: f32[4,4] = aten.mul.Tensor(%t, %t) loc(float)\n"
      "%e: f32[4,4] = aten.exp(%p)\n %y: f32[4,4] = aten.add.Tensor(%s, %e)";
  EXPECT_EQ(
      stays_float("%x: f32[4,4]", kSteps, "s"),
      "quantizer-exact: int8 has too few codes for it: a step of a factorization, a function or a "
      "mask; nothing, if float is fast enough; else compute it outside of the model");
  for (const std::string_view value : {"a", "t"})
    EXPECT_EQ(stays_float("%x: f32[4,4]", kSteps, value),
              "quantizer-exact: a factorization or a mask reads it, for which int8 has too few "
              "codes; nothing, if float is fast enough; else compute it outside of the model")
        << value;
  for (const std::string_view value : {"p", "e", "y"})
    EXPECT_EQ(stays_float("%x: f32[4,4]", kSteps, value), "") << value;
  constexpr std::string_view kPlaces =
      "quantizer-places: it computes places of elements; in int8 they would be those of others; "
      "compute what does not depend on the input before the export";
  // x · 9 + 4, rounded, is the number of a row.
  constexpr std::string_view kRows =
      "%n: f32[] = constant splat<9>\n %f: f32[] = constant splat<4>\n"
      "%e: f32[3,4] = aten.exp(%x)\n %m: f32[3,4] = aten.mul.Tensor(%e, %n)\n"
      "%s: f32[3,4] = aten.add.Tensor(%m, %f)\n %r: f32[3,4] = aten.round(%s)\n"
      "%v: f32[12] = aten.view(%r) {size = [12]}\n %y: i64[12] = convert(%v) {dtype = \"i64\"}";
  for (const std::string_view value : {"e", "m", "s", "r", "v"})
    EXPECT_EQ(stays_float("%x: f32[3,4]", kRows, value), kPlaces) << value;
  // What the call of a product scales stays codes, as what only moves these.
  constexpr std::string_view kOfProduct =
      "%w: f32[4,4] = constant seeded<1>\n %n: f32[] = constant splat<9>\n"
      "%c: f32[3,4] = aten.linear(%x, %w)\n %m: f32[3,4] = aten.mul.Tensor(%c, %n)\n"
      "%v: f32[4,3] = aten.permute(%m) {dims = [1, 0]}\n %s: f32[4,3] = aten.add.Tensor(%v, %b)\n"
      "%y: i64[4,3] = convert(%s) {dtype = \"i64\"}";
  for (const auto& [value, reason] :
       {std::pair{"c", ""}, std::pair{"m", ""}, std::pair{"v", ""}, std::pair{"s", kPlaces.data()}})
    EXPECT_EQ(stays_float("%x: f32[3,4], %b: f32[4,3]", kOfProduct, value), reason) << value;
  // A mask is no place, nor is the image that is sampled.
  EXPECT_EQ(stays_float("%x: f32[3,4]",
                        "%e: f32[3,4] = aten.exp(%x)\n %m: bool[3,4] = convert(%e) {dtype = "
                        "\"bool\"}\n %y: f32[3,4] = aten.tanh(%e)",
                        "e"),
            "");
  constexpr std::string_view kSampled =
      "%e: f32[1,2,3,4] = aten.exp(%x)\n %h: f32[1,5,6,2] = aten.exp(%g)\n"
      "%y: f32[1,2,5,6] = aten.grid_sampler_2d(%e, %h) {interpolation_mode = 0, padding_mode = 0, "
      "align_corners = true}";
  EXPECT_EQ(stays_float("%x: f32[1,2,3,4], %g: f32[1,5,6,2]", kSampled, "h"), kPlaces);
  EXPECT_NE(stays_float("%x: f32[1,2,3,4], %g: f32[1,5,6,2]", kSampled, "e"), kPlaces);
  constexpr std::string_view kDivisor =
      "quantizer-divisor: a float operator divides by the root that it makes; in int8 a small one "
      "would be zero; divide by a constant, or "
      "multiply by a reciprocal that the model computes";
  constexpr std::string_view kLengths =
      "%s: f32[3,4] = aten.mul.Tensor(%x, %x)\n %l: f32[3,1] = aten.sum.dim_IntList(%s) {dim = "
      "[1], keepdim = true}\n "
      "%r: f32[3,1] = aten.sqrt(%l)\n %e: f32[3,4] = aten.expand(%r) {size = [3, 4]}\n %y: "
      "f32[3,4] = aten.div.Tensor(%x, %e)";
  for (const std::string_view value : {"s", "l", "r", "e"})
    EXPECT_EQ(stays_float("%x: f32[3,4]", kLengths, value), kDivisor);
  EXPECT_EQ(stays_float("%x: f32[3,4], %z: f32[3,4]",
                        "%r: f32[3,4] = aten.sqrt(%x)\n %q: f32[3,4] = aten.div.Tensor(%z, %r)\n "
                        "%y: f32[3,4] = aten.abs(%r)",
                        "r"),
            "");
  EXPECT_EQ(stays_float("%x: f32[3,4]",
                        "%s: f32[3,4] = aten.mul.Tensor(%x, %x)\n %r: f32[3,4] = aten.exp(%s)\n "
                        "%y: f32[3,4] = aten.div.Tensor(%x, %r)",
                        "s"),
            "");
  EXPECT_EQ(stays_float("%x: i32[2,3]", "%y: i32[3,2] = aten.permute(%x) {dims = [1, 0]}"),
            "quantizer-dtype: only f32 is quantized; `x` is i32; convert the model to float32 "
            "where it need not be of another dtype");
  EXPECT_EQ(stays_float("%x: f32[0,3]", "%y: f32[0,3] = aten.relu(%x)"),
            "quantizer-empty: a range comes from elements; `x` has none, its shape is 0x3; remove "
            "the operator: it computes nothing");
}

TEST(NeutronSupport, KeepsSelectionsFloat) {
  constexpr std::string_view kSelection =
      "quantizer-selection: it is part of a selection (topk, argmax of probabilities); in int8 "
      "near elements have one code, so that others would be selected; nothing, if float is fast "
      "enough; else select by what a layer computes";
  // A router: the two greatest probabilities, divided by their sum, weigh what an expert computes.
  constexpr std::string_view kLayer =
      "%w: f32[4,8] = constant seeded<1>\n %l: f32[3,4] = aten.linear(%x, %w)\n";
  constexpr std::string_view kTurns =
      "%a: f32[3,1] = aten.amax(%p) {dim = [1], keepdim = true}\n"
      "%i: i64[3,1] = aten.argmax(%p) {dim = 1, keepdim = true}\n"
      "%n: i64[1,4] = constant dense<0, 1, 2, 3>\n %t: bool[3,4] = aten.eq.Tensor(%n, %i)\n"
      "%z: f32[] = constant splat<-1>\n %r: f32[3,4] = aten.where.self(%t, %z, %p)\n"
      "%b: f32[3,1] = aten.amax(%r) {dim = [1], keepdim = true}\n"
      "%j: i64[3,1] = aten.argmax(%r) {dim = 1, keepdim = true}\n";
  constexpr std::string_view kGates =
      "%c: f32[3,2] = aten.cat(%a, %b) {dim = 1}\n"
      "%s: f32[3,1] = aten.sum.dim_IntList(%c) {dim = [1], keepdim = true}\n"
      "%g: f32[3,2] = aten.div.Tensor(%c, %s)\n"
      "%h: f32[3,1] = aten.slice.Tensor(%g) {dim = 1, end = 1, start = 0, step = 1}\n"
      "%e: f32[3,8] = aten.exp(%x)\n %m: f32[3,8] = aten.mul.Tensor(%e, %h)\n"
      "%u: i64[3,1] = aten.add.Tensor(%i, %j)\n"
      "%y: f32[3,1,8] = aten.index_select(%m, %u) {dim = 0}";
  const auto router = [&](std::string_view gate, std::string_view more = "") {
    return fmt::format("{}{}{}{}{}", kLayer, gate, kTurns, more, kGates);
  };
  const auto expect = [&](const std::string& ops, std::string_view reason,
                          std::initializer_list<std::string_view> values) {
    for (const std::string_view value : values)
      EXPECT_EQ(stays_float("%x: f32[3,8]", ops, value), reason) << value << " of\n" << ops;
  };
  for (const std::string_view gate :
       {"%p: f32[3,4] = aten.softmax(%l) {dim = 1}\n", "%p: f32[3,4] = aten.sigmoid(%l)\n",
        "%q: f32[4] = constant seeded<2>\n %p: f32[3,4] = aten.add.Tensor(%l, %q)\n"}) {
    expect(router(gate), kSelection, {"p", "a", "i", "b", "j", "c", "s", "h"});
    expect(router(gate), "", {"l", "e", "m"});
  }
  // What int8 reads as well stays int8; its extremes are found in float.
  const std::string both =
      router("%p: f32[3,4] = aten.softmax(%l) {dim = 1}\n",
             "%o: f32[8,4] = constant seeded<3>\n %k: f32[3,8] = aten.linear(%p, %o)\n");
  expect(both, "", {"p", "k"});
  expect(both, kSelection, {"b", "j"});
  // An index that is only an output, and an extreme of what a layer computes, are those of codes.
  constexpr std::string_view kOutput =
      "%p: f32[3,4] = aten.softmax(%l) {dim = 1}\n %i: i64[3] = aten.argmax(%p) {dim = 1}\n"
      "%y: i64[3,1] = aten.view(%i) {size = [3, 1]}";
  expect(fmt::format("{}{}", kLayer, kOutput), "", {"p", "i"});
  // So is that of probabilities of which nothing but the index is read, also moved before.
  constexpr std::string_view kIndexAlone =
      "%p: f32[3,4] = aten.softmax(%l) {dim = 1}\n %v: f32[4,3] = aten.permute(%p) {dims = [1, "
      "0]}\n"
      "%i: i64[3] = aten.argmax(%v) {dim = 0}\n %y: i64[3] = aten.add.Tensor(%i, %i)";
  expect(fmt::format("{}{}", kLayer, kIndexAlone), "", {"p", "v", "i"});
  constexpr std::string_view kOfLayer =
      "%i: i64[3] = aten.argmax(%l) {dim = 1}\n %y: i64[3] = aten.add.Tensor(%i, %i)";
  expect(fmt::format("{}{}", kLayer, kOfLayer), "", {"l", "i"});
}

TEST(NeutronSupport, BoundsOfSingleOperators) {
  EXPECT_EQ(refused("%x: i8[2,3] quant<0.5>, %b: i32[4] quant<0.25>",
                    "%w: i8[4,3] quant<0.5> = constant seeded<1>\n %y: i8[2,4] quant<0.5> = "
                    "aten.linear(%x, %w, %b)"),
            "npu-dynamic-weight: the NPU needs a constant bias; `b` is computed while the model "
            "runs; make it a parameter or a buffer of "
            "the module");
  EXPECT_EQ(refused("%x: i8[2,3] quant<0.5>, %m: bool[3]",
                    "%y: i8[2,3] quant<0.00390625:-128> = aten.softmax(%x, %m) {dim = 1}"),
            "");
  EXPECT_EQ(refused("%x: i8[2,3] quant<0.5>, %i: i64[4]",
                    "%y: i8[4,3] quant<0.5> = aten.index_select(%x, %i) {dim = 0}"),
            "");
  EXPECT_EQ(refused("%x: f32[2,3]", "%y: i64[2] = aten.argmax(%x) {dim = 1}"),
            "npu-element-type: the NPU computes int8 with one scale and zero point a tensor; "
            "operand 0 is f32; quantize the model: compile it "
            "with calibration data");
  EXPECT_EQ(refused("%x: i8[2,3] quant<0.5>, %z: i8[2,3] quant<0.5>",
                    "%y: i8[2,3] quant<0.5> = aten.div.Tensor(%x, %z)"),
            "npu-division: one operand of a division is a constant of one element; `x` of shape "
            "2x3 is divided by `z` of shape 2x3; "
            "multiply by a reciprocal");
  EXPECT_EQ(refused("%x: i8[1,1,3,3] quant<0.5>",
                    "%y: i8[1,1,1,4] quant<0.5> = aten.max_pool2d(%x) {ceil_mode = false, dilation "
                    "= [4, 1], kernel_size = [2, 2], padding = "
                    "[1, 1], stride = [1, 1]}"),
            "npu-window-of-padding: the NPU needs an element of the input in every window of a "
            "pool; window 0 (kernel 2, dilation 4, padding 1) "
            "covers none of an extent of 3; choose less padding or no dilation");
  EXPECT_EQ(
      refused(
          "%x: i8[1,1,3,40] quant<0.5>",
          "%y: i8[1,1,3,1064] quant<0.5> = aten.upsample_nearest2d(%x) {output_size = [3, 1064]}"),
      "npu-resize-steps: the NPU steps through the input by one fixed-point number; no such number "
      "gives the nearest of 40 elements "
      "for each of 1064; choose another output size, or resize in two steps");
}

}  // namespace
}  // namespace dtr
