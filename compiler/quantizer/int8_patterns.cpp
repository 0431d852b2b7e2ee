#include "compiler/quantizer/int8_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/normalize.h"
#include "compiler/ops/window.h"
#include "compiler/quantizer/elementwise_patterns.h"
#include "device/numerics/softmax.h"

namespace dtr {
namespace {

using Specs = tl::expected<OpAnnotation, FloatReason>;
tl::unexpected<FloatReason> stays_float(std::string reason, std::string remedy,
                                        std::string_view id = "quantizer-form") {
  return tl::unexpected(FloatReason{id, std::move(reason), std::move(remedy)});
}

constexpr float kUnitScale = 1.0F / 256;    // [0, 1) in 256 codes from zero point −128
constexpr float kSignedScale = 1.0F / 128;  // [−1, 1) around zero point 0

// "{machine}" in the reasons below is replaced by Int8PatternOptions::machine.

// Operand and result have ranges of their own. So have means and sums (ExecuTorch: shared): means
// spread less than what they average, and in the operand's steps would lose most of their bits;
// sums do not fit the operand's range.
Specs independent(const OpView&) {
  return OpAnnotation{{QuantSpec::affine()}, {QuantSpec::affine()}};
}

// The result takes the quantization of the operand, whose elements it moves, selects or
// interpolates.
Specs shared(const OpView&) {
  return OpAnnotation{{QuantSpec::affine()}, {QuantSpec::shared_with(0)}};
}

Specs selecting(Specs specs) {
  specs->selects = true;
  return specs;
}
Specs selected(const OpView& view) { return selecting(shared(view)); }

// As a mean, unless windows at the border divide by less than others: then a mean of codes. The
// mean of one element is that element.
Specs average(const OpView& view) {
  const std::optional<int64_t> divisor = ops::average_divisor(view);
  if (divisor == 1) return selected(view);
  return divisor ? independent(view) : shared(view);
}

// Indices are integers and are not quantized.
Specs index(const OpView&) { return OpAnnotation{{QuantSpec::affine()}, {QuantSpec::none()}}; }
Specs gather(const OpView&) {
  return OpAnnotation{{QuantSpec::affine(), QuantSpec::none()}, {QuantSpec::shared_with(0)}};
}

// ExecuTorch's scale, which holds all results, unless those that were observed need less than half
// of it: tanh of small elements (a limit of scores as cap · tanh(x / cap)) would be zero.
Specs unit_interval(const OpView&) {
  return OpAnnotation{{QuantSpec::affine()}, {QuantSpec::at_most(kUnitScale, -128)}};
}

Specs signed_unit_interval(const OpView&) {
  return OpAnnotation{{QuantSpec::affine()}, {QuantSpec::at_most(kSignedScale, 0)}};
}

// A padding value other than zero may lie outside of the operand's range.
Specs pad(const OpView& view) {
  return OpAnnotation{{QuantSpec::affine()},
                      {QuantSpec::shared_with(0, view.attribute_or("value", 0.0) != 0.0)}};
}

// The bounds of a ReLU become part of the requantization; others are minimum and maximum over
// codes, in one quantization.
Specs clamp(const OpView& view) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<std::array<double, 2>, 4> kReluBounds{
      {{-1, 1}, {0, 1}, {0, 6}, {0, kInfinity}}};
  const std::array<double, 2> bounds{view.attribute_or("min", -kInfinity),
                                     view.attribute_or("max", kInfinity)};
  for (const auto& relu : kReluBounds)
    if (bounds == relu) return selecting(independent(view));
  return selecting(OpAnnotation{{QuantSpec::affine()}, {QuantSpec::shared_with(0, true)}});
}

Specs relu(const OpView& view) { return selecting(independent(view)); }

// All operands and the result share one quantization, so that joining is copying.
Specs concat(const OpView& view) {
  OpAnnotation specs{{QuantSpec::affine()}, {QuantSpec::shared_with(0)}};
  specs.operands.resize(view.operands.size(), QuantSpec::shared_with(0));
  return specs;
}

// Weights per output channel, for linear too (ExecuTorch: per tensor), because the requantization
// of both is per channel anyway.
Specs weighted(const OpView& view, int channel_axis) {
  OpAnnotation specs{{QuantSpec::affine(), QuantSpec::channelwise(channel_axis)},
                     {QuantSpec::affine()}};
  if (view.operands.size() > 2) specs.operands.push_back(QuantSpec::bias());
  return specs;
}
Specs convolution(const OpView& view) {
  return weighted(view, view.attribute<bool>("transposed") ? 1 : 0);
}
Specs linear(const OpView& view) { return weighted(view, 0); }

// Both operands have ranges of their own, with a zero point (ExecuTorch: symmetric), which costs
// the machine nothing.
Specs product(const OpView& view) {
  if (const int64_t inner = view.operand(0).shape.back(); inner > ops::kMaxQuantizedInner)
    return stays_float(
        fmt::format("{{machine}} adds at most {} products of two computed values; this one adds {}",
                    ops::kMaxQuantizedInner, inner),
        "split the inner dimension and add the products");
  return OpAnnotation{{QuantSpec::affine(), QuantSpec::affine()}, {QuantSpec::affine()}};
}

// Weight and bias become fixed-point numbers of their own.
Specs normalization(const OpView& view) {
  if (const int64_t count = ops::normalize_shape(view).count();
      count > numerics::kMaxNormalizeElements)
    return stays_float(
        fmt::format("{{machine}} normalizes at most {} elements together; these are {}",
                    numerics::kMaxNormalizeElements, count),
        "normalize over fewer dimensions");
  OpAnnotation specs{{QuantSpec::affine()}, {QuantSpec::affine()}};
  specs.operands.resize(view.operands.size(), QuantSpec::none());
  return specs;
}

// Probabilities of a few classes keep [0, 1]; of many classes, each is so small that ExecuTorch's
// fixed 1/256 would lose it.
Specs softmax(const OpView& view) {
  constexpr int64_t kFewClasses = 16;
  const Type& x = view.operand(0);
  const int64_t columns =
      x.rank() == 0 ? 1 : x.shape[*ops::normalize_dim(view.attribute<int64_t>("dim"), x.rank())];
  if (columns > numerics::kMaxSoftmaxColumns)
    return stays_float(
        fmt::format("{{machine}}'s sum holds at most {} exponentials; this one has {}",
                    numerics::kMaxSoftmaxColumns, columns),
        "take the softmax of fewer elements, or outside of the model");
  if (view.def == &ops::kLogSoftmax)
    return OpAnnotation{{QuantSpec::affine()},
                        {QuantSpec::affine().at_least(numerics::kMinLogSoftmaxScale)}};
  constexpr float kLeastProbability =
      0x1p-24F;  // of 4,095 equal probabilities each is a code in [0, 255] at 2^-20
  OpAnnotation specs{{QuantSpec::affine()}, {QuantSpec::affine().at_least(kLeastProbability)}};
  if (columns <= kFewClasses) specs.results[0] = QuantSpec::fixed(kUnitScale, -128);
  specs.operands.resize(view.operands.size(), QuantSpec::none());  // the mask
  return specs;
}

// In int8, all operands that share a code would step together.
Specs threshold(const OpView& view) {
  const auto at = view.attribute<double>("threshold"), value = view.attribute<double>("value");
  if (at != value)
    return stays_float(fmt::format("its result jumps from {} to {}; in int8 operands on either "
                                   "side of the threshold share a code",
                                   value, at),
                       "give it the threshold as value");
  return selecting(independent(view));
}

// Elements that a function takes to the end of its codes whatever they are.
std::optional<ReadWindow> window_of(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  // e^-8 of the greatest element is a sixth of an int8 step.
  constexpr float kTail = 8;
  // x · e^x and x · erfc(x) are as small beside the whole result
  constexpr float kLinearTail = 12, kGaussTail = 5;
  constexpr float kTanhEnd = 5, kSigmoidEnd = 8;
  struct Row {
    const OpDef* op;
    ReadWindow window;
  };
  static constexpr Row kRows[] = {
      {&ops::kExp, {.below = kTail}},
      {&ops::kSigmoid, {.below = kTail, .top = 0, .high = kSigmoidEnd}},
      {&ops::kTanh, {.below = kTanhEnd, .top = 0, .high = kTanhEnd}},
      {&ops::kHardswish, {.below = 3, .top = 0}},
      {&ops::kGelu, {.below = kGaussTail, .top = 0}},
      {&ops::kSilu, {.below = kLinearTail, .top = 0}},
      {&ops::kMish, {.below = kLinearTail, .top = 0}},
  };
  if (op.def == &ops::kSoftmax && op.operands.size() == 1) {
    const int64_t dim = op.attributes.get<int64_t>("dim");
    const Shape& shape = graph.type(op.operands[0]).shape;
    if (shape.empty()) return std::nullopt;
    // All elements of a row at the bound add e^-8 of the greatest.
    const auto columns = static_cast<float>(shape[*ops::normalize_dim(dim, shape.size())]);
    return ReadWindow{.below = kTail + std::log(std::max(columns, 1.0F)), .dim = dim};
  }
  if (op.def == &ops::kSoftplus) {  // log(1 + e^(beta x)) / beta
    const auto beta = static_cast<float>(BoundOpView(graph, id)->argument<double>("beta"));
    if (!(beta > 0)) return std::nullopt;
    return ReadWindow{.below = kTail / beta, .top = 0};
  }
  const auto* row = std::ranges::find(kRows, op.def, &Row::op);
  return row == std::end(kRows) ? std::nullopt : std::optional(row->window);
}

struct Pattern {
  const OpDef* op;
  Specs (*specs)(const OpView&);
  bool constant_weights = false;  // operands after the first
  bool constant_first = false;    // the first operand may be a constant
};

constexpr std::array kPatterns{
    Pattern{&ops::kAdaptiveAvgPool2d, independent},
    Pattern{&ops::kAdaptiveMaxPool2d, selected},
    Pattern{&ops::kAmax, selected},
    Pattern{&ops::kAmin, selected},
    Pattern{&ops::kArgmax, index},
    Pattern{&ops::kArgmin, index},
    Pattern{&ops::kAvgPool2d, average},
    Pattern{.op = &ops::kCat, .specs = concat, .constant_first = true},
    Pattern{&ops::kClamp, clamp},
    Pattern{&ops::kConstantPadNd, pad},
    Pattern{&ops::kConvolution, convolution, true},
    Pattern{&ops::kExpand, shared},
    Pattern{&ops::kFlip, shared},
    Pattern{&ops::kHardswish, independent},
    Pattern{&ops::kGroupNorm, normalization, true},
    Pattern{&ops::kLayerNorm, normalization, true},
    Pattern{&ops::kRmsNorm, normalization, true},
    Pattern{&ops::kLinear, linear, true},
    Pattern{.op = &ops::kIndexSelect, .specs = gather, .constant_first = true},
    Pattern{&ops::kMaxPool2d, selected},
    Pattern{&ops::kMeanDim, independent},
    Pattern{&ops::kPermute, shared},
    Pattern{&ops::kRelu, relu},
    Pattern{&ops::kSigmoid, unit_interval},
    Pattern{&ops::kLogSoftmax, softmax},
    Pattern{.op = &ops::kMatmul, .specs = product, .constant_first = true},
    Pattern{&ops::kSoftmax, softmax},
    Pattern{&ops::kSliceTensor, selected},
    Pattern{&ops::kSumDim, independent},
    Pattern{&ops::kTanh, signed_unit_interval},
    Pattern{&ops::kThreshold, threshold},
    Pattern{&ops::kUpsampleBilinear2d, shared},
    Pattern{&ops::kUpsampleNearest2d, shared},
    Pattern{&ops::kView, shared},
};

class Int8Patterns final : public QuantizationPatterns {
 public:
  explicit Int8Patterns(const Int8PatternOptions& options) : options_(options) {}

  std::string_view name() const override { return options_.backend; }
  tl::expected<OpAnnotation, FloatReason> annotate(const Graph& graph, OpId id) const override {
    auto specs = find(graph, id);
    if (specs) {
      specs->window = window_of(graph, id);
      if (options_.fixed_tables)
        for (QuantSpec& result : specs->results) result.narrows = false;
      return specs;
    }
    FloatReason reason = std::move(specs).error();
    constexpr std::string_view kMachine = "{machine}";
    for (size_t at = 0; (at = reason.reason.find(kMachine, at)) != std::string::npos;)
      reason.reason.replace(at, kMachine.size(), options_.machine);
    return tl::unexpected(std::move(reason));
  }

 private:
  Specs find(const Graph& graph, OpId id) const {
    const Op& op = graph.op(id);
    if (auto specs = annotate_binary(graph, id, options_.divides_tensors)) return std::move(*specs);
    for (const Pattern& pattern : kPatterns) {
      if (pattern.op != op.def) continue;
      if (graph.is_constant(op.operands[0]) && !pattern.constant_first)
        return stays_float(
            "{machine} computes what depends on an input; its first operand is a constant",
            "compute it before the export", "quantizer-constant-operand");
      for (size_t i = 1; pattern.constant_weights && i < op.operands.size(); ++i)
        if (op.operands[i].valid() && !graph.is_constant(op.operands[i]))
          return stays_float(
              "{machine} needs constant weights; these are computed while the model runs",
              "make them parameters or buffers of the module", "quantizer-dynamic-weight");
      const BoundOpView view(graph, id);
      return pattern.specs(view);
    }
    if (auto specs = annotate_unary(graph, id)) return std::move(*specs);
    return stays_float("{machine} has no kernel and no quantization pattern for it",
                       "replace it; `deuteron ops` lists what there is", "quantizer-no-pattern");
  }

  Int8PatternOptions options_;
};

}  // namespace

std::unique_ptr<QuantizationPatterns> make_int8_patterns(const Int8PatternOptions& options) {
  return std::make_unique<Int8Patterns>(options);
}

}  // namespace dtr
