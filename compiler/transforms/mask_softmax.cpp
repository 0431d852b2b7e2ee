// Turns a softmax of scores plus a constant mask into a softmax whose mask operand selects scores.
// The constant excludes a score with −inf, or with −100 or less, as attention masks do. The
// rest of the constant is still added; factors of 0 of excluded scores are removed. The range of
// the scores, and so their step in int8, is then that of the selected scores. Views may be
// between. The softmax stays if a row would be left without a score.
//
// A computed mask is handled as well: a `where` that puts such a number into the scores, or a sum
// with zeros and such numbers. Whether a row is left without a score is not known then; such a row
// gives zeros, where PyTorch gives NaN for −inf.
#include <algorithm>
#include <cmath>

#include "compiler/ops/softmax.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

// exp(−100 + 83) is 2^-24, what float32 rounds away beside 1: so far may excluded scores be above
// the others.
constexpr double kExcluded = -100;

// Addends up to this exclude: 100 and more below the least of those that do not, because a softmax
// only knows differences.
double exclusion_limit(const std::vector<double>& addend) {
  double least = 0;
  for (const double value : addend)
    if (value > kExcluded) least = std::min(least, value);
  return least + kExcluded;
}

class Pass : public EachOpPass<Pass> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    if (op.def != &ops::kSoftmax || op.operands.size() != 1) return {};
    return take_mask(id);
  }

 private:
  // A value and the constant that an op of two operands combines it with.
  struct Combined {
    ValueId x, constant;
  };
  std::optional<Combined> combined(ValueId value, const OpDef& def) const {
    const OpId id = graph_.producer_if(value, def);
    if (!id.valid()) return std::nullopt;
    const Op& op = graph_.op(id);
    if (op.attributes.find("activation") != nullptr || op.attributes.get_or("alpha", 1.0) != 1)
      return std::nullopt;
    const size_t at = is_float_constant(graph_, op.operands[1]) ? 1 : 0;
    const ValueId x = op.operands[1 - at];
    if (!is_float_constant(graph_, op.operands[at]) || graph_.is_constant(x) ||
        graph_.type(x).shape != graph_.type(value).shape)
      return std::nullopt;
    return Combined{x, op.operands[at]};
  }

  Result<void> take_mask(OpId id) {
    std::vector<ValueId> views;
    ValueId scores = graph_.op(id).operands[0];
    while (graph_.producer_if(scores, ops::kView).valid()) {
      views.push_back(scores);
      scores = graph_.op(graph_.producer(scores)).operands[0];
    }
    const std::optional<Combined> sum = combined(scores, ops::kAddTensor);
    if (!sum) return visit_computed(id, scores, views);
    const Shape added = graph_.type(scores).shape;
    const Type constant = graph_.type(sum->constant);
    std::vector<double> addend = constant_doubles(module_, graph_, sum->constant);
    Tensor mask(DType::kBool, constant.shape);
    const double limit = exclusion_limit(addend);
    bool rest = false;
    for (size_t i = 0; i < addend.size(); ++i) {
      const bool takes_part = !(addend[i] <= limit);
      mask.values<uint8_t>()[i] = takes_part ? 1 : 0;
      if (!takes_part) addend[i] = 0;
      rest = rest || addend[i] != 0;
    }
    const Shape shape = graph_.type(graph_.op(id).operands[0]).shape;
    const std::vector<int8_t> everywhere = ops::expand_mask(mask.view(), added);
    if (std::ranges::all_of(everywhere, [](int8_t part) { return part != 0; }) ||
        leaves_empty_row(id, shape, everywhere))
      return {};

    const Origin origin = graph_.op(id).origin;
    ValueId x = without_factor(sum->x, mask, constant.shape);
    if (rest) {
      const ValueId left =
          add_float_constant(module_, rewriter_, constant.dtype, constant.shape, addend, "added");
      DTR_ASSIGN(x, rewriter_.insert_value(
                        id, {.def = &ops::kAddTensor, .operands = {x, left}, .origin = origin}));
    }
    for (size_t i = views.size(); i-- > 0;) {
      DTR_ASSIGN(x, rewriter_.insert_value(
                        id, {.def = &ops::kView,
                             .operands = {x},
                             .attributes = {{"size", Ints(graph_.type(views[i]).shape)}},
                             .origin = origin}));
    }
    const std::span<const std::byte> bytes =
        views.empty() ? mask.bytes() : std::as_bytes(std::span(everywhere));
    const ValueId parts = rewriter_.add_constant(
        {.dtype = DType::kBool, .shape = views.empty() ? constant.shape : shape},
        module_.constants.add(DType::kBool, bytes), "mask");
    return set_operands(id, x, parts);
  }

  // The softmax of x under the mask; what computed the scores before goes.
  Result<void> set_operands(OpId softmax, ValueId x, ValueId mask) {
    const ValueId before = graph_.op(softmax).operands[0];
    const Origin origin = origin_back_to(graph_, x, softmax);
    rewriter_.set_operand(softmax, 0, x);
    rewriter_.set_operand(softmax, 1, mask);
    DTR_TRY(rewriter_.refresh(softmax));
    rewriter_.set_origin(softmax, origin);
    erase_unread(before);
    ++changes_;
    return {};
  }

  // --- masks that are computed ---

  // masked_fill with a number that excludes; invalid if the value is none.
  OpId excluding_fill(ValueId value) const {
    const OpId id = graph_.producer_if(value, ops::kMaskedFill);
    return id.valid() && graph_.op(id).attributes.get<double>("value") <= kExcluded ? id : OpId{};
  }
  // The same behind ops that move it, innermost first in `moves`, of zeros.
  OpId excluding_zeros(ValueId value, std::vector<OpId>& moves) const {
    for (OpId id = graph_.producer(value); id.valid(); id = graph_.producer(value)) {
      const Op& op = graph_.op(id);
      if (op.operands.size() != 1 ||
          (op.def != &ops::kView && op.def != &ops::kExpand && op.def != &ops::kPermute))
        break;
      moves.insert(moves.begin(), id);
      value = op.operands[0];
    }
    const OpId fill = excluding_fill(value);
    return fill.valid() && uniform_value(module_, graph_, graph_.op(fill).operands[0]) == 0.0
               ? fill
               : OpId{};
  }

  // `views` are the results of views between scores and softmax, the last one first.
  Result<void> visit_computed(OpId id, ValueId scores, const std::vector<ValueId>& views) {
    OpId fill = excluding_fill(scores);
    ValueId x = fill.valid() ? graph_.op(fill).operands[0] : ValueId{};
    std::vector<OpId> moves;
    if (const OpId sum = graph_.producer_if(scores, ops::kAddTensor);
        sum.valid() && graph_.op(sum).attributes.find("activation") == nullptr &&
        graph_.op(sum).attributes.get_or("alpha", 1.0) == 1)
      for (size_t side = 0; side < 2 && !fill.valid(); ++side) {
        moves.clear();
        fill = excluding_zeros(graph_.op(sum).operands[side], moves);
        x = graph_.op(sum).operands[1 - side];
      }
    if (!fill.valid() || graph_.type(x).shape != graph_.type(scores).shape) return {};

    const Origin origin = merge(graph_.op(id).origin, graph_.op(fill).origin);
    const auto insert = [&](const OpDef& def, ValueId operand, Attributes attributes) {
      return rewriter_.insert_value(id, {.def = &def,
                                         .operands = {operand},
                                         .attributes = std::move(attributes),
                                         .origin = origin});
    };
    const auto expand = [&](ValueId mask, const Shape& shape) -> Result<ValueId> {
      return graph_.type(mask).shape == shape ? mask
                                              : insert(ops::kExpand, mask, {{"size", Ints(shape)}});
    };
    DTR_ASSIGN(ValueId mask, insert(ops::kLogicalNot, graph_.op(fill).operands[1], {}));
    if (!moves.empty()) {
      DTR_ASSIGN(mask, expand(mask, graph_.type(graph_.op(fill).results[0]).shape));
      for (const OpId move : moves) {
        DTR_ASSIGN(mask, insert(*graph_.op(move).def, mask, graph_.op(move).attributes));
      }
    }
    if (!views.empty()) {
      DTR_ASSIGN(mask, expand(mask, graph_.type(scores).shape));
      for (size_t i = views.size(); i-- > 0;) {
        const Ints size(graph_.type(views[i]).shape);
        DTR_ASSIGN(mask, insert(ops::kView, mask, {{"size", size}}));
        DTR_ASSIGN(x, insert(ops::kView, x, {{"size", size}}));
      }
    }
    return set_operands(id, x, mask);
  }

  // x, where value = x · factor with a factor of 1 wherever the mask lets elements take part.
  ValueId without_factor(ValueId value, const Tensor& mask, const Shape& shape) const {
    const std::optional<Combined> product = combined(value, ops::kMulTensor);
    if (!product || graph_.type(product->constant).shape != shape) return value;
    const std::vector<double> factor = constant_doubles(module_, graph_, product->constant);
    for (size_t i = 0; i < factor.size(); ++i)
      if (mask.values<uint8_t>()[i] != 0 && factor[i] != 1) return value;
    return product->x;
  }

  bool leaves_empty_row(OpId id, const Shape& shape, const std::vector<int8_t>& mask) const {
    if (shape.empty() || mask.empty()) return true;
    const int64_t wanted = graph_.op(id).attributes.get<int64_t>("dim");
    const auto dim =
        static_cast<size_t>(wanted < 0 ? wanted + static_cast<int64_t>(shape.size()) : wanted);
    const auto stride = static_cast<size_t>(strides(shape, Layout::kContiguous)[dim]),
               count = static_cast<size_t>(shape[dim]);
    DTR_CHECK(stride > 0 && count > 0);  // there are elements
    std::vector<bool> any(mask.size() / count);
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i] != 0) any[i / (stride * count) * stride + i % stride] = true;
    return std::ranges::find(any, false) != any.end();
  }

  // Erases the chain of first operands that have no reader left.
  void erase_unread(ValueId value) {
    while (graph_.producer(value).valid() && graph_.value(value).unused()) {
      const OpId op = graph_.producer(value);
      const std::vector<ValueId> operands = graph_.op(op).operands;
      rewriter_.erase(op);
      value = graph_.is_constant(operands[0]) && operands.size() > 1 ? operands[1] : operands[0];
    }
  }
};

}  // namespace

constinit const PassDef kMaskSoftmax{
    .name = "mask_softmax",
    .summary = "mask the scores that a constant excludes from a softmax",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<Pass>};

}  // namespace dtr::passes
