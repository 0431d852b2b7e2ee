// Equalization keeps the float function; what it does to ranges and what it leaves alone.
#include "compiler/quantizer/equalize.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "compiler/ops/ops.h"
#include "compiler/quantizer/convert.h"
#include "compiler/quantizer/round_weights.h"
#include "test/unit/quantizer_kit.h"

namespace dtr {
namespace {

using test::neutron_patterns;
using test::parse;
using test::ramp;

// A pointwise convolution whose channels have the ranges 1, 64 and 1/64, `between` on %a which
// makes %z, and a convolution that reads all channels alike.
std::string chain(std::string_view between, std::string_view activation = "relu") {
  const std::string attributes =
      "dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], "
      "transposed = false";
  return "graph @forward(%x: f32[1,2,3,5]) {\n"
         "  %w: f32[3,2,1,1] = constant dense<1, -0.5, 64, 32, 0.015625, 0.0078125>\n"
         "  %b: f32[3] = constant dense<0.25, 16, 0.00390625>\n"
         "  %v: f32[2,3,1,1] = constant dense<1, 0.015625, -64, 0.5, 0.0078125, 60>\n"
         "  %a: f32[1,3,3,5] = aten.convolution(%x, %w, %b) {activation = \"" +
         std::string(activation) + "\", " + attributes + "}\n" + std::string(between) +
         "  %y: f32[1,2,3,5] = aten.convolution(%z, %v) {" + attributes + "}\n  return %y\n}\n";
}

constexpr std::string_view kPool =
    "  %z: f32[1,3,3,5] = aten.max_pool2d(%a) {ceil_mode = false, dilation = [1, 1], kernel_size = "
    "[1, 1], padding = [0, 0], stride = [1, 1]}\n";

struct Equalized : test::ChangedModel {
  explicit Equalized(const std::string& text)
      : Equalized(text, ramp("x", {8, 1, 2, 3, 5}, -1, 1)) {}
  Equalized(const std::string& text, std::vector<NamedTensor> given)
      : ChangedModel{parse(text), std::move(given)} {
    const auto samples = Samples::bind(module.forward(), arrays, "x.npz");
    const auto executor = make_reference_executor(module, module.forward());
    const Annotation annotation = annotate(module.forward(), neutron_patterns());
    auto done = equalize(module, module.forward(), annotation, *executor, *samples, 2);
    EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
    report = *done;
  }
  Equalization report;
};

// The rows of the first weight have the ranges 1, 64 and 1/64, the columns of the second the
// inverse: both become alike, to the square root of what the weights' rows still differ by.
TEST(Equalize, BringsChannelsOfUnlikeRangesTogether) {
  Equalized net(chain(kPool));
  net.expect_same_function(0x1p-20);
  EXPECT_EQ(net.report.groups, 1U);
  EXPECT_EQ(net.report.channels, 3U);
  const std::vector<float> rows = net.constant("a");
  const double ranges[] = {std::abs(rows[0]), std::abs(rows[2]), std::abs(rows[4])};
  EXPECT_LT(ranges[1] / ranges[0], 2.5);
  EXPECT_LT(ranges[0] / ranges[2], 2.5);
  EXPECT_NEAR(net.constant("a", 2)[1] / rows[2], 16.0 / 64, 1e-6);  // the bias as its row
}

// Channels 0 and 2 stay below the bound and grow; channel 1 reaches it and keeps its range.
TEST(Equalize, GrowsChannelsWithinABoundedActivation) {
  const std::string clamp = "  %z: f32[1,3,3,5] = aten.clamp(%a) {max = 6.0, min = 0.0}\n";
  for (Equalized& net : std::array{Equalized(chain(kPool, "relu6")), Equalized(chain(clamp))}) {
    net.expect_same_function(0x1p-20);
    EXPECT_EQ(net.report.groups, 1U);
    const std::vector<float> rows = net.constant("a");
    EXPECT_EQ(rows[2], 64);
    EXPECT_GT(rows[0], 1.5);
    EXPECT_GT(rows[4], 8 * 0.015625);
  }
}

// A channel that a bound of −1 or 1 cuts is not scaled; a bound above zero takes no factors.
TEST(Equalize, LeavesWhatABoundedActivationWouldChange) {
  Equalized net(chain(kPool, "relu_n1_to_1"));
  net.expect_same_function(0x1p-20);
  EXPECT_EQ(net.constant("a")[2], 64);
  Equalized above(chain("  %z: f32[1,3,3,5] = aten.clamp(%a) {max = 6.0, min = 0.5}\n"));
  EXPECT_EQ(above.report.groups, 0U);
  EXPECT_EQ(above.run(), above.before);
}

// A bound of zero from above cuts what is above zero, and a lower one what is far below: no factor
// of a channel may move elements over it. Nothing that is left between them is no range.
TEST(Equalize, KeepsTheFunctionOfEveryBound) {
  for (const char* const bounds :
       {"max = 0.0", "max = 0.0, min = -6.0", "max = 6.0, min = -0.5", "max = 0.5, min = -6.0"}) {
    SCOPED_TRACE(bounds);
    std::string text = chain(fmt::format("  %z: f32[1,3,3,5] = aten.clamp(%a) {{{}}}\n", bounds));
    constexpr std::string_view kRelu = "activation = \"relu\", ";
    text.erase(text.find(kRelu), kRelu.size());
    Equalized net(text);
    net.expect_same_function(0x1p-20);
  }
}

TEST(Equalize, LeavesWhatAFunctionWouldChange) {
  Equalized net(chain("  %z: f32[1,3,3,5] = aten.sigmoid(%a)\n"));
  EXPECT_EQ(net.report.groups, 0U);
  EXPECT_EQ(net.run(), net.before);
}

TEST(Equalize, LeavesOutputs) {
  std::string text = chain(kPool);
  text.replace(text.find("return %y"), 9, "return %y, %a");
  Equalized net(text);
  EXPECT_EQ(net.report.groups, 0U);
}

// Both branches and the sum have one factor a channel.
TEST(Equalize, SolvesAResidualGroupTogether) {
  Equalized net(
      chain("  %p: f32[1,3,3,5] = aten.leaky_relu(%a) {negative_slope = 0.25}\n"
            "  %z: f32[1,3,3,5] = aten.add.Tensor(%a, %p) {alpha = 1}\n"));
  net.expect_same_function(0x1p-20);
  EXPECT_EQ(net.report.groups, 1U);
}

// A joined value's channels are those of its parts, and of a part that is cut out again.
TEST(Equalize, FollowsChannelsThroughJoiningAndCutting) {
  Equalized net(chain(
      "  %j: f32[1,6,3,5] = aten.cat(%a, %a) {dim = 1}\n"
      "  %z: f32[1,3,3,5] = aten.slice.Tensor(%j) {dim = 1, end = 5, start = 2, step = 1}\n"));
  net.expect_same_function(0x1p-20);
  EXPECT_EQ(net.report.groups, 1U);
}

// An input, which has no factors, and fifty times the input, joined: each part has one factor, and
// their ranges become alike. The one is a product of its own, the other a smaller number.
TEST(Equalize, GivesPartsOfAConcatenationFactorsOfTheirOwn) {
  Equalized net(
      "graph @forward(%x: f32[1,2,3,5]) {\n"
      "  %fifty: f32[1] = constant dense<50>\n"
      "  %v: f32[2,4,1,1] = constant dense<1, -0.5, 0.02, 0.01, 0.75, 1, -0.01, 0.02>\n"
      "  %m: f32[1,2,3,5] = aten.mul.Tensor(%x, %fifty)\n"
      "  %j: f32[1,4,3,5] = aten.cat(%x, %m) {dim = 1}\n"
      "  %y: f32[1,2,3,5] = aten.convolution(%j, %v) {dilation = [1, 1], groups = 1, "
      "output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}\n"
      "  return %y\n}\n");
  net.expect_same_function(0x1p-20);
  EXPECT_EQ(net.report.groups, 1U);
  EXPECT_EQ(net.report.channels, 2U);
  const std::vector<float> own = net.constant("x_scaled"), product = net.constant("m");
  ASSERT_EQ(own.size(), 1U);
  ASSERT_EQ(product.size(), 1U);
  EXPECT_NEAR(product[0] / own[0], 1, 1e-5);
}

// A concatenation in time: its parts' factors lie along another axis than the layer's channels, of
// which there are more than parts are long.
TEST(Equalize, LeavesPartsOfAnotherAxis) {
  Equalized net(
      "graph @forward(%x: f32[1,2,3,5]) {\n"
      "  %f: f32[1,30] = aten.view(%x) {size = [1, 30]}\n"
      "  %t: f32[1,30] = aten.tanh(%f)\n"
      "  %j: f32[2,30] = aten.cat(%f, %t) {dim = 0}\n"
      "  %v: f32[2,30] = constant seeded<3>\n"
      "  %y: f32[2,2] = aten.linear(%j, %v)\n"
      "  return %y\n}\n");
  EXPECT_EQ(net.report.groups, 0U);
  EXPECT_EQ(net.run(), net.before);
}

// Channels of an input that differ by more than 8 are multiplied by a factor each, in float; alike
// ones are left as they are.
TEST(Equalize, ScalesChannelsOfAnInput) {
  const std::string text =
      "graph @forward(%x: f32[1,2,3,5]) {\n"
      "  %v: f32[2,2,1,1] = constant dense<1, -0.5, 0.75, 1>\n"
      "  %y: f32[1,2,3,5] = aten.convolution(%x, %v) {dilation = [1, 1], groups = 1, "
      "output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}\n"
      "  return %y\n}\n";
  for (const float by : {2.0F, 64.0F}) {
    std::vector<NamedTensor> scaled = ramp("x", {8, 1, 2, 3, 5}, 1, 2);
    const auto values = scaled[0].tensor.values<float>();
    for (size_t i = 0; i < values.size(); ++i)
      if (i / 15 % 2 == 1) values[i] *= by;
    Equalized net(text, std::move(scaled));
    net.expect_same_function(0x1p-20);
    if (by == 2.0F) {
      EXPECT_EQ(net.report.groups, 0U);
      EXPECT_TRUE(net.report.scaled_inputs.empty());
      continue;
    }
    EXPECT_EQ(net.report.groups, 1U);
    ASSERT_EQ(net.report.scaled_inputs.size(), 1U);
    const std::vector<float> factors = net.constant("x_scaled");
    ASSERT_EQ(factors.size(), 2U);
    EXPECT_GT(factors[0] / factors[1], 7);  // the root of 64, as weights take the other half
    const Annotation annotation =
        annotate(net.module.forward(), neutron_patterns(), {.scaling = net.report.scaled_inputs});
    const uint32_t product = net.report.scaled_inputs[0].index;
    EXPECT_FALSE(annotation.ops[product].has_value());
    EXPECT_EQ(annotation.reasons[product].id, "quantizer-scales-input");
  }
}

// Channels of at most 2 and 4, and one that is always zero, the last: nothing is known of it.
TEST(Equalize, AChannelOfZerosIsUnlikeNoOther) {
  std::vector<NamedTensor> given = ramp("x", {8, 1, 3, 3, 5}, 1, 2);
  const auto values = given[0].tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i / 15 % 3 == 1) values[i] *= 2;
    if (i / 15 % 3 == 2) values[i] = 0;
  }
  Equalized net(
      "graph @forward(%x: f32[1,3,3,5]) {\n"
      "  %v: f32[2,3,1,1] = constant dense<1, -0.5, 1, 0.75, 1, 1>\n"
      "  %y: f32[1,2,3,5] = aten.convolution(%x, %v) {dilation = [1, 1], groups = 1, "
      "output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}\n"
      "  return %y\n}\n",
      std::move(given));
  EXPECT_EQ(net.report.groups, 0U);
  EXPECT_TRUE(net.report.scaled_inputs.empty());
}

TEST(Equalize, ScalesDepthwiseLayersByThemselves) {
  Equalized net(chain(
      "  %u: f32[3,1,3,3] = constant dense<0.01, 0.02, -0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, "
      "1, 2, 3, 4, 5, -6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90>\n"
      "  %z: f32[1,3,3,5] = aten.convolution(%a, %u) {dilation = [1, 1], groups = 3, "
      "output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}\n"));
  net.expect_same_function(0x1p-20);
  EXPECT_EQ(net.report.groups, 2U);
  EXPECT_EQ(net.report.channels, 6U);
}

// A layer whose inputs are strongly correlated: weights of one sign round to codes whose errors
// add up, unless each takes up the error of those before.
constexpr std::string_view kLinear = R"(graph @forward(%x: f32[1,8]) {
  %w: f32[2,8] = constant dense<1, 0.004, 0.0041, 0.0043, 0.0042, 0.0039, 0.0038, 0.0044, -1, 0.012, 0.0121, 0.0125, 0.0119, 0.0117, 0.0122, 0.0124>
  %b: f32[2] = constant dense<0.5, -0.25>
  %y: f32[1,8] = aten.relu(%x)
  %z: f32[1,2] = aten.linear(%y, %w, %b)
  return %z
}
)";

std::vector<NamedTensor> correlated() {
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kFloat32, {40, 1, 8})});
  const auto values = arrays[0].tensor.values<float>();
  for (size_t s = 0; s < 40; ++s)
    for (size_t i = 0; i < 8; ++i)
      values[s * 8 + i] = i == 0 ? 0.01F * static_cast<float>(s % 5)
                                 : static_cast<float>(s) + 0.1F * static_cast<float>((s * i) % 3);
  return arrays;
}

struct Rounded {
  Module module;
  std::vector<int8_t> codes;
  RoundingReport report;
  double error = 0;  // Σ squared error of the layer's results before they are rounded, by hand
};

Rounded round_linear(bool by_error, unsigned threads = 1) {
  Rounded result{.module = parse(kLinear)};
  Graph& graph = result.module.forward();
  const std::vector<NamedTensor> arrays = correlated();
  const auto samples = Samples::bind(graph, arrays, "x.npz");
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto calibration = test::calibrate_reference(result.module, annotation, arrays);
  const auto conversion = convert(result.module, graph, annotation, *calibration);
  EXPECT_TRUE(conversion);
  if (by_error) {
    const auto report = round_weights(result.module, graph, conversion->float_graph, *samples,
                                      {.threads = threads});
    EXPECT_TRUE(report) << (report ? "" : to_text(report.error()));
    result.report = *report;
  }
  const Module exact = parse(kLinear);
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.operands.size() != 3) continue;
    const Value& weight = graph.value(op.operands[1]);
    const auto codes = result.module.constants.values<int8_t>(weight.constant);
    const auto bias = result.module.constants.values<int32_t>(graph.value(op.operands[2]).constant);
    const Quantization& bias_q = *graph.type(op.operands[2]).quantization;
    result.codes.assign(codes.begin(), codes.end());
    const Quantization& x = *graph.type(op.operands[0]).quantization;
    const double w[] = {1,  0.004, 0.0041, 0.0043, 0.0042, 0.0039, 0.0038, 0.0044,
                        -1, 0.012, 0.0121, 0.0125, 0.0119, 0.0117, 0.0122, 0.0124};
    const double b[] = {0.5, -0.25};
    for (size_t s = 0; s < 40; ++s)
      for (size_t c = 0; c < 2; ++c) {
        double real = b[c];
        double rounded = static_cast<double>(bias_q.scales[c]) * bias[c];
        for (size_t i = 0; i < 8; ++i) {
          const double value = static_cast<double>(arrays[0].tensor.values<float>()[s * 8 + i]);
          const double step = static_cast<double>(x.scale());
          const double seen = step * std::clamp(std::nearbyint(value / step), 0.0, 255.0);
          real += w[c * 8 + i] * seen;
          rounded +=
              static_cast<double>(weight.type.quantization->scales[c]) * codes[c * 8 + i] * seen;
        }
        result.error += (real - rounded) * (real - rounded);
      }
  }
  return result;
}

TEST(RoundWeights, MakesTheErrorOfResultsSmaller) {
  const Rounded nearest = round_linear(false), by_error = round_linear(true);
  EXPECT_EQ(by_error.report.layers, 1U);
  EXPECT_EQ(by_error.report.samples, 32U);
  EXPECT_TRUE(by_error.report.skipped.empty());
  EXPECT_NE(nearest.codes, by_error.codes);
  EXPECT_LT(by_error.error, nearest.error / 4);
}

// A convolution whose kernel is as wide as its input computes what the linear layer computes, and
// sees the same operands: its codes are the same, whatever the shape of the kernel.
TEST(RoundWeights, TakesTheOperandsOfAConvolution) {
  constexpr std::string_view kBody = R"(
  %b: f32[2] = constant dense<0.5, -0.25>
  %y: f32[SHAPE] = aten.relu(%x)
  %z: f32[1,2,1,1] = aten.convolution(%y, %w, %b) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  return %z
}
)";
  const std::string weights(
      "dense<1, 0.004, 0.0041, 0.0043, 0.0042, 0.0039, 0.0038, 0.0044, -1, 0.012, 0.0121, 0.0125, "
      "0.0119, 0.0117, 0.0122, 0.0124>");
  const std::vector<int8_t> wanted = round_linear(true).codes;
  for (const std::string shape : {"1,8", "2,4", "8,1"}) {
    std::string body(kBody);
    body.replace(body.find("SHAPE"), 5, "1,1," + shape);
    Module module = parse(
        fmt::format("graph @forward(%x: f32[1,1,{0}]) {{\n  %w: f32[2,1,{0}] = constant {1}{2}",
                    shape, weights, body));
    Graph& graph = module.forward();
    std::vector<NamedTensor> arrays = correlated();
    const std::vector<float> values(arrays[0].tensor.values<float>().begin(),
                                    arrays[0].tensor.values<float>().end());
    Shape shape_of_all = graph.type(graph.inputs()[0]).shape;
    shape_of_all.insert(shape_of_all.begin(), 40);
    arrays[0].tensor = Tensor(DType::kFloat32, shape_of_all);
    std::ranges::copy(values, arrays[0].tensor.values<float>().begin());
    const auto samples = Samples::bind(graph, arrays, "x.npz");
    ASSERT_TRUE(samples) << to_text(samples.error());
    const Annotation annotation = annotate(graph, neutron_patterns());
    const auto calibration = test::calibrate_reference(module, annotation, arrays);
    const auto conversion = convert(module, graph, annotation, *calibration);
    ASSERT_TRUE(conversion) << to_text(conversion.error());
    const auto report = round_weights(module, graph, conversion->float_graph, *samples, {});
    ASSERT_TRUE(report) << to_text(report.error());
    EXPECT_EQ(report->layers, 1U);
    for (const OpId id : graph.ops()) {
      if (graph.op(id).operands.size() != 3) continue;
      const auto codes =
          module.constants.values<int8_t>(graph.value(graph.op(id).operands[1]).constant);
      EXPECT_EQ(std::vector<int8_t>(codes.begin(), codes.end()), wanted) << shape;
    }
  }
}

TEST(RoundWeights, DoesNotDependOnThreads) {
  EXPECT_EQ(round_linear(true, 1).codes, round_linear(true, 3).codes);
}

// The operators before a layer may shift the mean of a channel: where the float model's is larger
// by 0.05, the bias of each row takes 0.05 times the row's weight of that channel.
TEST(RoundWeights, BiasesTakeBackTheDriftOfChannels) {
  const auto biases = [](double drift, std::vector<double>* weights, size_t left_out = 0) {
    Module module = parse(kLinear);
    Graph& graph = module.forward();
    const std::vector<NamedTensor> arrays = correlated();
    const auto samples = Samples::bind(graph, arrays, "x.npz");
    const Annotation annotation = annotate(graph, neutron_patterns());
    auto calibration = test::calibrate_reference(module, annotation, arrays);
    const auto conversion = convert(module, graph, annotation, *calibration);
    calibration->channels.at("y").mean.at(0) += drift;
    const RoundingOptions options{.samples = samples->size() - left_out,
                                  .calibration = &*calibration};
    EXPECT_TRUE(round_weights(module, graph, conversion->float_graph, *samples, options));
    std::vector<double> real;
    const Graph& original = conversion->float_graph;
    for (const OpId id : graph.ops()) {
      const Op& op = graph.op(id);
      if (op.def != &ops::kLinear) continue;
      const auto codes = module.constants.values<int32_t>(graph.value(op.operands[2]).constant);
      const std::vector<float>& scales = graph.type(op.operands[2]).quantization->scales;
      const auto floats =
          module.constants.values<float>(original.value(original.op(id).operands[1]).constant);
      for (size_t i = 0; i < codes.size(); ++i) {
        real.push_back(codes[i] * static_cast<double>(scales[i]));
        weights->push_back(static_cast<double>(floats[i * 8]));
      }
    }
    return real;
  };
  std::vector<double> weights, same;
  const std::vector<double> before = biases(0, &same), after = biases(0.05, &weights);
  ASSERT_EQ(before.size(), 2U);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(after[i] - before[i], 0.05 * weights[i], 0.05 * std::abs(weights[i]) / 50) << i;
  // The means of other samples tell nothing of what operators do to these.
  EXPECT_EQ(biases(0, &same, 1), biases(0.05, &same, 1));
}

// Channels of images: the mean of channel c is about c + 1, so that the codes of another channel,
// or codes with their zero point, would move biases by whole units. A drift of the third channel,
// the first of the second group, moves the second row alone.
TEST(RoundWeights, DriftIsThatOfTheChannelsOfAGroup) {
  const auto biases = [](double drift) {
    Module module = parse(R"(graph @forward(%x: f32[1,4,2,3]) {
  %w: f32[2,2,1,1] = constant dense<1, -0.5, 0.75, -1>
  %b: f32[2] = constant dense<0.5, -0.25>
  %y: f32[1,4,2,3] = aten.relu(%x)
  %z: f32[1,2,2,3] = aten.convolution(%y, %w, %b) {dilation = [1, 1], groups = 2, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  return %z
}
)");
    Graph& graph = module.forward();
    std::vector<NamedTensor> arrays;
    arrays.push_back({"x", Tensor(DType::kFloat32, {8, 1, 4, 2, 3})});
    const auto values = arrays[0].tensor.values<float>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i / 6 % 4 + 1) + 0.1F * std::sin(static_cast<float>(i));
    const auto samples = Samples::bind(graph, arrays, "x.npz");
    const Annotation annotation = annotate(graph, neutron_patterns());
    auto calibration = test::calibrate_reference(module, annotation, arrays);
    const auto conversion = convert(module, graph, annotation, *calibration);
    calibration->channels.at("y").mean.at(2) += drift;
    const RoundingOptions options{.samples = samples->size(), .calibration = &*calibration};
    EXPECT_TRUE(round_weights(module, graph, conversion->float_graph, *samples, options));
    std::vector<double> real;
    for (const OpId id : graph.ops()) {
      const Op& op = graph.op(id);
      if (op.def != &ops::kConvolution) continue;
      const auto codes = module.constants.values<int32_t>(graph.value(op.operands[2]).constant);
      const std::vector<float>& scales = graph.type(op.operands[2]).quantization->scales;
      for (size_t i = 0; i < codes.size(); ++i)
        real.push_back(codes[i] * static_cast<double>(scales[i]));
    }
    return real;
  };
  const std::vector<double> before = biases(0), after = biases(0.5);
  ASSERT_EQ(before.size(), 2U);
  EXPECT_NEAR(before[0], 0.5, 0.05);
  EXPECT_NEAR(before[1], -0.25, 0.05);
  EXPECT_NEAR(after[0], before[0], 1e-9);
  EXPECT_NEAR(after[1], before[1] + 0.5 * 0.75, 0.01);
}

TEST(RoundWeights, SkipsRowsThatAreTooLong) {
  Module module = parse(kLinear);
  Graph& graph = module.forward();
  const std::vector<NamedTensor> arrays = correlated();
  const auto samples = Samples::bind(graph, arrays, "x.npz");
  const Annotation annotation = annotate(graph, neutron_patterns());
  const auto calibration = test::calibrate_reference(module, annotation, arrays);
  const auto conversion = convert(module, graph, annotation, *calibration);
  const auto report =
      round_weights(module, graph, conversion->float_graph, *samples, {.most_columns = 7});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->layers, 0U);
  ASSERT_EQ(report->skipped.size(), 1U);
  EXPECT_NE(report->skipped[0].find("rows of 8 weights, at most 7 are"), std::string::npos);
}

}  // namespace
}  // namespace dtr
