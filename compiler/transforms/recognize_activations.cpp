// Replaces an activation function that a model computes step by step by its one op: silu,
// hardsigmoid, hardswish, gelu with erf or tanh, mish, softsign. A product is split into one number
// and its other factors, so that the order of the factors, and a half instead of a division by two,
// do not matter.
//
// Numbers are equal within 2^-22, the rounding of float32: x · σ(1.702 x) is not gelu.
#include <cmath>
#include <numbers>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

// Depth of the products that are taken apart, and how many factors matter.
constexpr int kMaxDepth = 4;
constexpr size_t kMaxFactors = 4;

bool near(double a, double b) { return std::abs(a - b) <= std::abs(b) * 0x1p-22; }

struct Product {
  double number = 1;
  std::vector<ValueId> factors;
};

class RecognizeActivations : public EachOpPass<RecognizeActivations> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    if ((op.def != &ops::kMulTensor && op.def != &ops::kDivTensor) ||
        !is_float(graph_.type(op.results[0]).dtype))
      return {};
    return recognize(id);
  }

 private:
  Result<void> recognize(OpId id) {
    if (graph_.op(id).def == &ops::kDivTensor) {
      const ValueId x = graph_.op(id).operands[0],
                    distance = less_number(graph_.op(id).operands[1], 1);
      if (distance.valid() && reads(distance, ops::kAbs, x)) return put(id, x, ops::kSoftsign);
    }
    const Product product = product_of(graph_.op(id).results[0]);
    if (product.factors.size() == 1 && near(product.number, 1.0 / 6))
      if (const ValueId x = shifted_relu6(product.factors[0]); x.valid())
        return put(id, x, ops::kHardsigmoid);
    if (product.factors.size() != 2) return {};
    for (const size_t i : {0, 1}) {
      const ValueId x = product.factors[i], gate = product.factors[1 - i];
      if (near(product.number, 1) && reads(gate, ops::kSigmoid, x)) return put(id, x, ops::kSilu);
      if (near(product.number, 1) && reads(gate, ops::kHardsigmoid, x))
        return put(id, x, ops::kHardswish);
      if (near(product.number, 1) && is_tanh_of_softplus(gate, x)) return put(id, x, ops::kMish);
      if (near(product.number, 1.0 / 6) && shifted_relu6(gate) == x)
        return put(id, x, ops::kHardswish);
      if (!near(product.number, 0.5)) continue;
      const ValueId bell = less_number(gate, 1);
      if (const OpId erf = graph_.producer_if(bell, ops::kErf);
          erf.valid() && is_scaled(graph_.op(erf).operands[0], std::numbers::sqrt2 / 2, x))
        return put(id, x, ops::kGelu, {{"approximate", std::string("none")}});
      if (const OpId tanh = graph_.producer_if(bell, ops::kTanh);
          tanh.valid() && is_gelu_argument(graph_.op(tanh).operands[0], x))
        return put(id, x, ops::kGelu, {{"approximate", std::string("tanh")}});
    }
    return {};
  }

  Result<void> put(OpId id, ValueId x, const OpDef& def, Attributes attributes = {}) {
    if (!same_type_and_quantization(graph_, x, graph_.op(id).results[0])) return {};  // broadcast
    Origin origin = origin_back_to(graph_, x, id);
    DTR_TRY(replace_op(rewriter_, id,
                       {.def = &def,
                        .operands = {x},
                        .attributes = std::move(attributes),
                        .origin = std::move(origin)}));
    ++changes_;
    return {};
  }

  // --- what a value is ---

  Product product_of(ValueId value) const {
    Product product;
    take_apart(value, 0, product);
    return product;
  }
  void take_apart(ValueId value, int depth, Product& product) const {
    if (const auto number = uniform_value(module_, graph_, value)) {
      product.number *= *number;
      return;
    }
    const OpId id = graph_.producer(value);
    const OpDef* def = id.valid() ? graph_.op(id).def : nullptr;
    const bool plain = id.valid() && graph_.op(id).attributes.find("activation") == nullptr;
    const bool whole = depth == kMaxDepth || product.factors.size() >= kMaxFactors || !plain;
    if (!whole && def == &ops::kMulTensor) {
      take_apart(graph_.op(id).operands[0], depth + 1, product);
      take_apart(graph_.op(id).operands[1], depth + 1, product);
    } else if (const auto divisor = def == &ops::kDivTensor
                                        ? uniform_value(module_, graph_, graph_.op(id).operands[1])
                                        : std::nullopt;
               !whole && divisor && *divisor != 0) {
      product.number /= *divisor;
      take_apart(graph_.op(id).operands[0], depth + 1, product);
    } else if (!whole && def == &ops::kPowTensorScalar &&
               graph_.op(id).attributes.get<double>("exponent") == 3) {
      product.factors.insert(product.factors.end(), 3, graph_.op(id).operands[0]);
    } else if (!whole && def == &ops::kPowTensorScalar &&
               graph_.op(id).attributes.get<double>("exponent") == 2) {
      product.factors.insert(product.factors.end(), 2, graph_.op(id).operands[0]);
    } else {
      product.factors.push_back(value);
    }
  }

  bool reads(ValueId value, const OpDef& def, ValueId x) const {
    const OpId id = graph_.producer_if(value, def);
    return id.valid() && graph_.op(id).operands[0] == x;
  }

  // What is added to the number, if the value is such a sum.
  ValueId less_number(ValueId value, double number) const {
    const OpId id = graph_.producer_if(value, ops::kAddTensor);
    if (!id.valid() || graph_.op(id).attributes.find("activation") != nullptr ||
        graph_.op(id).attributes.get_or("alpha", 1.0) != 1.0)
      return {};
    for (const size_t i : {0, 1}) {
      const auto added = uniform_value(module_, graph_, graph_.op(id).operands[i]);
      if (added && near(*added, number)) return graph_.op(id).operands[1 - i];
    }
    return {};
  }

  // x, if the value is clamp(x + 3, 0, 6).
  ValueId shifted_relu6(ValueId value) const {
    const OpId id = graph_.producer_if(value, ops::kClamp);
    if (!id.valid() || clamp_bounds(graph_.op(id)) != RealBounds{0, 6}) return {};
    return less_number(graph_.op(id).operands[0], 3);
  }

  bool is_tanh_of_softplus(ValueId value, ValueId x) const {
    const OpId id = graph_.producer_if(value, ops::kTanh);
    const OpId softplus =
        id.valid() ? graph_.producer_if(graph_.op(id).operands[0], ops::kSoftplus) : OpId{};
    return softplus.valid() && graph_.op(softplus).operands[0] == x &&
           graph_.op(softplus).attributes.get_or("beta", 1.0) == 1.0;
  }

  bool is_scaled(ValueId value, double number, ValueId x) const {
    const Product product = product_of(value);
    return near(product.number, number) && product.factors == std::vector<ValueId>{x};
  }

  // √(2/π) · (x + 0.044715 x³), or √(2/π) · x · (1 + 0.044715 x²).
  bool is_gelu_argument(ValueId value, ValueId x) const {
    const double factor = std::sqrt(2 / std::numbers::pi);
    const Product product = product_of(value);
    if (!near(product.number, factor)) return false;
    const auto is_power = [&](ValueId power, size_t exponent) {
      const Product inner = product_of(power);
      return near(inner.number, 0.044715) && inner.factors == std::vector<ValueId>(exponent, x);
    };
    if (product.factors.size() == 2)
      for (const size_t i : {0, 1})
        if (const ValueId square = less_number(product.factors[1 - i], 1);
            product.factors[i] == x && square.valid() && is_power(square, 2))
          return true;
    if (product.factors.size() != 1) return false;
    const OpId sum = graph_.producer_if(product.factors[0], ops::kAddTensor);
    if (!sum.valid() || graph_.op(sum).attributes.get_or("alpha", 1.0) != 1.0) return false;
    const ValueId a = graph_.op(sum).operands[0], b = graph_.op(sum).operands[1];
    return (a == x && is_power(b, 3)) || (b == x && is_power(a, 3));
  }
};

}  // namespace

constinit const PassDef kRecognizeActivations{
    .name = "recognize_activations",
    .summary =
        "silu, hardsigmoid, hardswish, gelu, mish and softsign that are written step by step",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<RecognizeActivations>};

}  // namespace dtr::passes
