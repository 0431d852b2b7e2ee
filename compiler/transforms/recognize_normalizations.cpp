// Replaces a layer or RMS normalization that a model computes step by step by its one op:
//
//   layer_norm   d · rsqrt(mean(d²) + eps) with d = x − mean(x)
//   rms_norm     x · rsqrt(mean(x²) + eps)
//                x / max(√Σx², eps), where eps is so small that it only keeps zeros zero: of n
//                elements with the weight 1/√n (F.normalize)
//
// and a softmax, exp(x − max(x)) / Σ exp(x − max(x)), likewise.
//
// Division by the square root is recognized as well. Dimensions other than the last ones, such as
// the channels of an image, are permuted there and back. A product with a constant of the
// normalized shape becomes the weight, a sum with one behind a layer_norm its bias, unless the norm
// has another user.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class RecognizeNormalizations : public EachOpPass<RecognizeNormalizations> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    const bool takes_two =
        op.def == &ops::kMulTensor || op.def == &ops::kDivTensor || op.def == &ops::kAddTensor;
    if (!takes_two || !is_float(graph_.type(op.results[0]).dtype) ||
        op.attributes.find("activation") != nullptr)
      return {};
    if (op.def == &ops::kDivTensor && recognize_softmax(id)) return {};
    if (const auto length = divides_by_length(op)) {
      ++changes_;
      return normalize_length(id, *length);
    }
    const bool took_parameter = take_parameter(id);
    return took_parameter ? Result<void>{} : recognize(id);
  }

 private:
  struct Square {  // mean(of²) over `dims`
    ValueId of;
    Ints dims;
  };
  struct Length {  // max(√Σof², eps) over `dims`
    ValueId of;
    Ints dims;
    double eps;
  };

  // The dimension over which `value` is a sum or a maximum of `of` that keeps it.
  std::optional<int64_t> reduced(ValueId value, const OpDef& def, ValueId of) const {
    const OpId id = graph_.producer_if(value, def);
    if (!id.valid() || graph_.op(id).operands[0] != of) return std::nullopt;
    const Attributes& attributes = graph_.op(id).attributes;
    const Ints& dims = attributes.get<Ints>("dim");
    if (dims.size() != 1 || !attributes.get<bool>("keepdim")) return std::nullopt;
    return dims[0] < 0 ? dims[0] + static_cast<int64_t>(graph_.type(of).rank()) : dims[0];
  }

  bool recognize_softmax(OpId id) {
    const ValueId powers = graph_.op(id).operands[0];
    const OpId exp = graph_.producer_if(powers, ops::kExp);
    const auto dim = reduced(graph_.op(id).operands[1], ops::kSumDim, powers);
    if (!exp.valid() || !dim) return false;
    const OpId difference = graph_.producer_if(graph_.op(exp).operands[0], ops::kSubTensor);
    if (!difference.valid() || graph_.op(difference).attributes.get_or("alpha", 1.0) != 1 ||
        graph_.op(difference).attributes.find("activation") != nullptr)
      return false;
    const ValueId x = graph_.op(difference).operands[0];
    if (reduced(graph_.op(difference).operands[1], ops::kAmax, x) != dim ||
        !same_type_and_quantization(graph_, x, graph_.op(id).results[0]))
      return false;
    if (!replace_op(rewriter_, id,
                    {.def = &ops::kSoftmax,
                     .operands = {x},
                     .attributes = {{"dim", *dim}},
                     .origin = origin_back_to(graph_, x, id)}))
      return false;
    ++changes_;
    return true;
  }

  Result<void> recognize(OpId id) {
    const Op& op = graph_.op(id);
    for (const size_t i : {0, 1}) {
      const ValueId x = op.operands[i];
      const auto variance = under_root(op, op.operands[1 - i], i);
      if (!variance) continue;
      const auto& [mean_plus_eps, eps] = *variance;
      const auto square = mean_square(mean_plus_eps);
      if (!square || square->of != x || !same_type_and_quantization(graph_, x, op.results[0]))
        continue;
      const ValueId centered = without_mean(x, square->dims);
      DTR_TRY(normalize(id, centered.valid() ? ops::kLayerNorm : ops::kRmsNorm,
                        centered.valid() ? centered : x, square->dims, eps));
      ++changes_;
      return {};
    }
    return {};
  }

  std::optional<Length> divides_by_length(const Op& op) const {
    constexpr double kMostEps = 1e-8;  // lengths near it would be others
    if (op.def != &ops::kDivTensor) return std::nullopt;
    ValueId divisor = op.operands[1];
    if (const OpId expand = graph_.producer_if(divisor, ops::kExpand); expand.valid())
      divisor = graph_.op(expand).operands[0];
    const OpId clamp = graph_.producer_if(divisor, ops::kClamp);
    if (!clamp.valid() || graph_.op(clamp).attributes.find("max") != nullptr) return std::nullopt;
    const auto eps = graph_.op(clamp).attributes.get_or("min", 0.0);
    const OpId root = graph_.producer_if(graph_.op(clamp).operands[0], ops::kSqrt);
    if (!root.valid() || eps <= 0 || eps > kMostEps) return std::nullopt;
    const ValueId sum = graph_.op(root).operands[0];
    const auto dims = reduced_dims(sum, ops::kSumDim);
    const auto of = dims ? squared(graph_.op(graph_.producer(sum)).operands[0]) : ValueId{};
    if (of != op.operands[0] || !same_type_and_quantization(graph_, of, op.results[0]))
      return std::nullopt;
    return Length{of, *dims, eps};
  }

  // x / √(Σx² + eps²), which is max(√Σx², eps) but for lengths near eps.
  Result<void> normalize_length(OpId id, const Length& length) {
    const Shape& shape = graph_.type(length.of).shape;
    Shape normalized;
    for (const int64_t dim : length.dims) normalized.push_back(shape[static_cast<size_t>(dim)]);
    Type type = graph_.type(length.of);
    type.shape = normalized;
    type.layout = Layout::kContiguous;
    const auto count = static_cast<double>(type.elements());
    const std::vector<float> weight(static_cast<size_t>(type.elements()),
                                    static_cast<float>(1 / std::sqrt(count)));
    const ConstantId constant =
        module_.constants.add_values<float>(DType::kFloat32, std::span(weight));
    return normalize(
        id, ops::kRmsNorm, length.of, length.dims, length.eps * length.eps / count,
        rewriter_.add_constant(type, constant, graph_.value(length.of).name + ".unit"));
  }

  // Puts the norm of x over `dims` in the place of `id`.
  Result<void> normalize(OpId id, const OpDef& norm, ValueId x, const Ints& dims, double eps,
                         ValueId weight = {}) {
    const Origin origin = origin_back_to(graph_, x, id);
    const Shape& shape = graph_.type(x).shape;
    Ints order;  // the normalized dimensions last
    for (size_t i = 0; i < shape.size(); ++i)
      if (std::ranges::find(dims, static_cast<int64_t>(i)) == dims.end())
        order.push_back(static_cast<int64_t>(i));
    order.insert(order.end(), dims.begin(), dims.end());
    Shape normalized;
    for (const int64_t dim : dims) normalized.push_back(shape[static_cast<size_t>(dim)]);
    const Attributes attributes{{"normalized_shape", normalized}, {"eps", eps}};
    const auto operands = [&](ValueId of) {
      return weight.valid() ? std::vector<ValueId>{of, weight} : std::vector<ValueId>{of};
    };
    if (std::ranges::is_sorted(order))
      return replaced(
          id, {.def = &norm, .operands = operands(x), .attributes = attributes, .origin = origin});
    Ints back(order.size());
    for (size_t i = 0; i < order.size(); ++i)
      back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    DTR_ASSIGN(const ValueId turned, rewriter_.insert_value(id, {.def = &ops::kPermute,
                                                                 .operands = {x},
                                                                 .attributes = {{"dims", order}},
                                                                 .origin = origin}));
    DTR_ASSIGN(const ValueId y, rewriter_.insert_value(id, {.def = &norm,
                                                            .operands = operands(turned),
                                                            .attributes = attributes,
                                                            .origin = origin}));
    return replaced(
        id,
        {.def = &ops::kPermute, .operands = {y}, .attributes = {{"dims", back}}, .origin = origin});
  }
  Result<void> replaced(OpId id, OpSpec spec) {
    DTR_TRY(replace_op(rewriter_, id, std::move(spec)));
    return {};
  }

  // v and eps, if `op` multiplies with rsqrt(v + eps) or divides by √(v + eps).
  std::optional<std::pair<ValueId, double>> under_root(const Op& op, ValueId root,
                                                       size_t other) const {
    const bool divides = op.def == &ops::kDivTensor;
    if (op.def == &ops::kAddTensor || (divides && other == 1)) return std::nullopt;
    const OpId id = graph_.producer_if(root, divides ? ops::kSqrt : ops::kRsqrt);
    const OpId sum =
        id.valid() ? graph_.producer_if(graph_.op(id).operands[0], ops::kAddTensor) : OpId{};
    if (!sum.valid() || !plain_sum(graph_.op(sum))) return std::nullopt;
    for (const size_t i : {0, 1})
      if (const auto eps = uniform_value(module_, graph_, graph_.op(sum).operands[i]);
          eps && *eps >= 0)
        return std::pair(graph_.op(sum).operands[1 - i], *eps);
    return std::nullopt;
  }
  static bool plain_sum(const Op& op) {
    return op.attributes.find("activation") == nullptr && op.attributes.get_or("alpha", 1.0) == 1.0;
  }

  std::optional<Square> mean_square(ValueId value) const {
    const auto dims = mean_dims(value);
    if (!dims) return std::nullopt;
    const ValueId of = squared(graph_.op(graph_.producer(value)).operands[0]);
    return of.valid() ? std::optional(Square{of, *dims}) : std::nullopt;
  }

  // x, if the value is x².
  ValueId squared(ValueId value) const {
    const OpId square = graph_.producer(value);
    if (!square.valid()) return {};
    const Op& op = graph_.op(square);
    const bool power =
        op.def == &ops::kPowTensorScalar && op.attributes.get<double>("exponent") == 2;
    const bool product = op.def == &ops::kMulTensor && op.operands[0] == op.operands[1] &&
                         op.attributes.find("activation") == nullptr;
    return power || product ? op.operands[0] : ValueId{};
  }

  std::optional<Ints> mean_dims(ValueId value) const { return reduced_dims(value, ops::kMeanDim); }
  // The dimensions over which `value` is a mean or sum that keeps them, in order.
  std::optional<Ints> reduced_dims(ValueId value, const OpDef& def) const {
    const OpId id = graph_.producer_if(value, def);
    if (!id.valid() || !graph_.op(id).attributes.get<bool>("keepdim")) return std::nullopt;
    Ints dims = graph_.op(id).attributes.get<Ints>("dim");
    for (int64_t& dim : dims)
      if (dim < 0) dim += static_cast<int64_t>(graph_.type(value).rank());
    std::ranges::sort(dims);
    return dims.empty() ? std::nullopt : std::optional(dims);
  }

  // x, if the value is x − mean(x) over the same dimensions.
  ValueId without_mean(ValueId value, const Ints& dims) const {
    const OpId id = graph_.producer_if(value, ops::kSubTensor);
    if (!id.valid() || !plain_sum(graph_.op(id))) return {};
    const ValueId x = graph_.op(id).operands[0], mean = graph_.op(id).operands[1];
    const bool fits = mean_dims(mean) == dims && graph_.op(graph_.producer(mean)).operands[0] == x;
    return fits && same_type_and_quantization(graph_, x, value) ? x : ValueId{};
  }

  // Makes a constant factor the weight of the norm before it, a constant summand its bias.
  bool take_parameter(OpId id) {
    const Op& op = graph_.op(id);
    const bool product = op.def == &ops::kMulTensor;
    if (!product && (op.def != &ops::kAddTensor || !plain_sum(op))) return false;
    for (const size_t i : {0, 1}) {
      const ValueId y = op.operands[i];
      ValueId parameter = op.operands[1 - i];
      if (graph_.sole_user(y) != id || !is_float_constant(graph_, parameter) ||
          !same_type_and_quantization(graph_, y, op.results[0]))
        continue;
      const OpId turn =
          graph_.producer_if(y, ops::kPermute);  // back from where `normalize` put the dimensions
      const OpId norm =
          turn.valid() ? graph_.producer(graph_.op(turn).operands[0]) : graph_.producer(y);
      if (!norm.valid() || (turn.valid() && graph_.sole_user(graph_.op(turn).operands[0]) != turn))
        continue;
      const Op& before = graph_.op(norm);
      const bool layer = before.def == &ops::kLayerNorm;
      if (!layer && (before.def != &ops::kRmsNorm || !product)) continue;
      const Ints& normalized = before.attributes.get<Ints>("normalized_shape");
      if (turn.valid()) {
        parameter =
            turned_parameter(parameter, graph_.op(turn).attributes.get<Ints>("dims"), normalized);
        if (!parameter.valid()) continue;
      } else if (graph_.type(parameter).shape != normalized) {
        continue;
      }
      // A bias that is there already would have to be multiplied.
      if (operand_or_absent(before, 2).valid() || (product && operand_or_absent(before, 1).valid()))
        continue;
      rewriter_.set_operand(norm, product ? 1 : 2, parameter);
      rewriter_.set_origin(norm, merge(graph_.op(norm).origin, graph_.op(id).origin));
      rewriter_.replace(id, y);
      ++changes_;
      return true;
    }
    return false;
  }

  // A parameter that varies along the normalized dimensions alone, where `order` tells from which
  // of the norm's each dimension comes, in the shape that the norm takes; invalid for another.
  ValueId turned_parameter(ValueId parameter, const Ints& order, const Shape& normalized) {
    Shape shape = graph_.type(parameter).shape;
    if (shape.size() > order.size()) return {};
    shape.insert(shape.begin(), order.size() - shape.size(), 1);
    const auto first = static_cast<int64_t>(order.size() - normalized.size());
    Shape varies;
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i] >= first) varies.push_back(shape[i]);
      if (order[i] < first && shape[i] != 1) return {};
    }
    if (varies != normalized) return {};
    Type type = graph_.type(parameter);
    type.shape = normalized;
    type.layout = Layout::kContiguous;
    return rewriter_.add_constant(type, graph_.value(parameter).constant,
                                  graph_.value(parameter).name);
  }
};

}  // namespace

constinit const PassDef kRecognizeNormalizations{
    .name = "recognize_normalizations",
    .summary = "replace layer, RMS and length normalizations that are computed step by step",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<RecognizeNormalizations>};

}  // namespace dtr::passes
