// Gives a value between two float ops a quantization of its own, so that both run in int8: the
// result of a convolution, linear or matmul that is quantized only behind a function of it, as PT2E
// annotates layers with their activation (dequantize → conv → sigmoid → quantize).
//
// The range is the one in which the function is not constant in codes of its result: 6.2 on either
// side for a sigmoid in steps of 1/256. Both ops stay float if the function changes by more than
// four codes between two steps of that range, because int8 before it would cost more than two
// codes. Bounds such as those of relu need no such range: `fold_quantization` quantizes before
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/transforms/edit.h"
#include "device/numerics/requantize.h"

namespace dtr::passes {
namespace {

constexpr double kMostCodes = 4;
constexpr double kFarthest = 65536;  // a function that changes beyond has no range here

// A function of one tensor, in codes of its quantized result.
class Codes {
 public:
  Codes(const Op& op, const Quantization& to) : op_(op), to_(to) {}

  std::vector<double> operator()(std::vector<double> x) const {
    const Type type{.dtype = DType::kFloat64, .shape = {static_cast<int64_t>(x.size())}};
    const Type* types[] = {&type};
    std::vector<double> y(x.size());
    const TensorView from{DType::kFloat64, type.shape, reinterpret_cast<std::byte*>(x.data())};
    const TensorView result{DType::kFloat64, type.shape, reinterpret_cast<std::byte*>(y.data())};
    op_.def->evaluate_double({op_.def, types, &op_.attributes, types}, {&from, 1}, {&result, 1});
    for (double& value : y) value = code_of(value, to_);
    return y;
  }
  double at(double x) const { return (*this)({x})[0]; }

  // Where the code is another than that of everything beyond: the outermost such x on this side of
  // 0, which `sign` says. kFarthest if there is none so near.
  double reach(double sign) const {
    const double beyond = at(sign * kFarthest);
    double outside = kFarthest;
    constexpr int kHalvings = 40;  // to 2^-24
    int halvings = 0;
    for (; halvings < kHalvings && at(sign * outside / 2) == beyond &&
           at(sign * outside * 0.75) == beyond;
         ++halvings)
      outside /= 2;
    if (halvings == kHalvings) return 0;
    double inside = outside / 2;
    for (int step = 0; step < 24; ++step) {
      const double middle = (inside + outside) / 2;
      (at(sign * middle) == beyond ? outside : inside) = middle;
    }
    return sign * outside;
  }

 private:
  const Op& op_;
  const Quantization& to_;
};

class QuantizeBetween : public EachOpPass<QuantizeBetween> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    return graph_.op(id).def == &ops::kQuantize ? quantize_operands(id) : Result<void>{};
  }

 private:
  bool dequantized(ValueId value) const {
    return graph_.producer_if(value, ops::kDequantize).valid();
  }

  // A layer that could run in int8 if its result were quantized.
  bool is_layer(OpId id) const {
    if (!id.valid()) return false;
    const Op& op = graph_.op(id);
    const bool multiplies =
        op.def == &ops::kConvolution || op.def == &ops::kLinear || op.def == &ops::kMatmul;
    return multiplies && dequantized(op.operands[0]) && dequantized(op.operands[1]);
  }

  Result<void> quantize_operands(OpId quantize) {
    const ValueId y = graph_.op(quantize).operands[0];
    const OpId id = graph_.producer(y);
    if (!id.valid() || graph_.sole_user(y) != quantize) return {};
    const Op& op = graph_.op(id);
    const bool function = op.operands.size() == 1 && op.def->has_trait(kElementwise) &&
                          op.def->evaluate_integer != nullptr &&
                          op.def->evaluate_double != nullptr && op.def != &ops::kQuantize &&
                          op.def != &ops::kDequantize;
    if (!function || clamp_bounds(op)) return {};
    const ValueId x = op.operands[0];
    if (graph_.sole_user(x) != id || !is_layer(graph_.producer(x))) return {};
    const Quantization to = *graph_.type(graph_.op(quantize).results[0]).quantization;
    const Codes codes(op, to);
    const double low = std::min(codes.reach(-1), 0.0), high = std::max(codes.reach(1), 0.0);
    const double step = (high - low) / 255;
    if (low <= -kFarthest || high >= kFarthest || step <= 0) {
      remarks_.add(
          id, "what it reads has no quantization, and no range follows from that of its result");
      return {};
    }
    std::vector<double> grid;
    for (int i = 0; i <= 255; ++i) grid.push_back(low + i * step);
    const std::vector<double> values = codes(grid);
    double change = 0;
    for (size_t i = 1; i < values.size(); ++i)
      change = std::max(change, std::abs(values[i] - values[i - 1]));
    if (!(change <= kMostCodes)) {
      remarks_.add(id, fmt::format("what it reads has no quantization; in int8 its result would "
                                   "change by {} codes a step, {} are bearable",
                                   change, kMostCodes));
      return {};
    }
    const auto scale = static_cast<float>(step);
    const auto zero_point =
        numerics::nearest_code(-low, static_cast<double>(scale), -128, {-128, 127});
    const Origin origin = graph_.op(id).origin;
    DTR_ASSIGN(const ValueId between,
               rewriter_.insert_value(
                   id, {.def = &ops::kQuantize,
                        .operands = {x},
                        .origin = origin,
                        .quantization = Quantization{{scale}, {zero_point}, -1, -128, 127}}));
    DTR_ASSIGN(const ValueId real,
               rewriter_.insert_value(
                   id, {.def = &ops::kDequantize, .operands = {between}, .origin = origin}));
    rewriter_.set_operand(id, 0, real);
    ++changes_;
    return {};
  }
};

}  // namespace

constinit const PassDef kQuantizeBetween{
    .name = "quantize_between",
    .summary =
        "a layer and its activation that are quantized together get a quantization between them",
    .exactness = Exactness::kQuantization,
    .run = run_pass<QuantizeBetween>};

}  // namespace dtr::passes
