// Turns a softmax of scores plus a constant mask into a softmax whose mask operand selects scores.
// The constant excludes a score with −inf, or with −100 or less, as attention masks do. The
// rest of the constant is still added; factors of 0 of excluded scores are removed. The range of
// the scores, and so their step in int8, is then that of the selected scores. Views may be
// between. The softmax stays if a row would be left without a score.
//
// A computed mask is handled as well: a `where` that puts such a number into the scores, or a sum
// with a tensor and such numbers, perhaps inside of other sums; and a sum or difference with a mask
// of floats that is made of inputs, whose elements of −9,999 or less exclude, or of −999 or less
// where it is a product with ±1,000, as (1 − mask) · −1000. Whether a row is left without a score
// is not known then; such a row gives zeros, where PyTorch gives NaN for −inf. Several masks, such
// as a causal one and one of padding, are joined. Ops that make zeros of such rows behind the
// softmax go.
//
// The exponential of a sum with a constant that excludes with −inf, or −1e9 or less, becomes
// exp(x · part) · part, with part 0 for excluded elements and 1 for others. What is excluded is
// zero as before, and no int8 range has to hold it. Either operand may be broadcast. From −10,000
// a large x may come back, so that such numbers are added.
#include <algorithm>
#include <cmath>

#include "compiler/ops/constant_folding.h"
#include "compiler/ops/softmax.h"
#include "compiler/transforms/edit.h"
#include "compiler/transforms/softmax_masks.h"

namespace dtr::passes {
namespace {

// Beside 1e9 float32 has steps of 64: its exponential is zero, 1 or infinite, whatever is added.
constexpr double kExcludedFromExponential = -1e9;

constexpr int kMostMasks = 4;  // of one softmax

}  // namespace

double exclusion_limit(std::span<const double> addend) {
  double least = 0;
  for (const double value : addend)
    if (value > kExcluded) least = std::min(least, value);
  return least + kExcluded;
}

bool leaves_empty_row(const Graph& graph, OpId softmax, const Shape& shape,
                      std::span<const int8_t> mask) {
  if (shape.empty() || mask.empty()) return true;
  const int64_t wanted = graph.op(softmax).attributes.get<int64_t>("dim");
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

namespace {

class MaskSoftmax : public EachOpPass<MaskSoftmax> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    if (op.def == &ops::kExp) return mask_exponential(id);
    if (op.def != &ops::kSoftmax) return {};
    const std::vector<OpId> guard = guard_of(id);
    const auto unchanged = changes_;
    for (int masks = 0; masks < kMostMasks; ++masks) {
      const auto before = changes_;
      DTR_TRY(take_mask(id));
      if (changes_ == before) break;
    }
    if (changes_ != unchanged && !guard.empty()) erase_guard(id, guard);
    return {};
  }

 private:
  // The ops that put zeros where a row of scores is -inf everywhere, as PyTorch decomposes
  // attention: masked_fill(softmax, not any(not (scores == -inf)), 0), the last one first. Empty:
  // no such ops.
  std::vector<OpId> guard_of(OpId softmax) const {
    const Op& op = graph_.op(softmax);
    const ValueId scores = op.operands[0];
    const std::vector<Use>& uses = graph_.value(op.results[0]).uses;
    if (uses.size() != 1 || graph_.value(op.results[0]).output_uses > 0) return {};
    std::vector<OpId> guard{uses[0].op};
    const Op& fill = graph_.op(guard[0]);
    if (fill.def != &ops::kMaskedFill || uses[0].operand != 0 ||
        fill.attributes.get<double>("value") != 0 ||
        graph_.type(fill.results[0]).shape != graph_.type(op.results[0]).shape)
      return {};
    ValueId mask = fill.operands[1];
    for (const OpDef* def : {&ops::kLogicalNot, &ops::kAmax, &ops::kLogicalNot, &ops::kEqTensor}) {
      const OpId id = graph_.producer_if(mask, *def);
      if (!id.valid()) return {};
      guard.push_back(id);
      mask = graph_.op(id).operands[0];
    }
    const Op& any = graph_.op(guard[2]);
    const Op& equal = graph_.op(guard[4]);
    const bool of_rows =
        any.attributes.get<Ints>("dim") == Ints{op.attributes.get<int64_t>("dim")} &&
        any.attributes.get<bool>("keepdim");
    return of_rows && equal.operands[0] == scores &&
                   uniform_value(module_, graph_, equal.operands[1]) == -INFINITY
               ? guard
               : std::vector<OpId>();
  }

  // A softmax with a mask makes zeros of such rows itself.
  void erase_guard(OpId softmax, const std::vector<OpId>& guard) {
    const ValueId scores = graph_.op(guard.back()).operands[0];
    rewriter_.set_origin(softmax, merge(graph_.op(softmax).origin, graph_.op(guard[0]).origin));
    rewriter_.replace(guard[0], graph_.op(softmax).results[0]);
    for (size_t i = 1; i < guard.size(); ++i) {
      if (!graph_.value(graph_.op(guard[i]).results[0]).unused()) return;
      rewriter_.erase(guard[i]);
    }
    erase_unread(scores);
  }

  // A value and the constant that an op of two operands combines it with.
  struct Combined {
    ValueId x, constant;
  };
  std::optional<Combined> combined(ValueId value, const OpDef& def, bool broadcasts = false) const {
    const OpId id = graph_.producer_if(value, def);
    if (!id.valid()) return std::nullopt;
    const Op& op = graph_.op(id);
    if (op.attributes.find("activation") != nullptr || op.attributes.get_or("alpha", 1.0) != 1)
      return std::nullopt;
    const size_t at = is_float_constant(graph_, op.operands[1]) ? 1 : 0;
    const ValueId x = op.operands[1 - at];
    if (!is_float_constant(graph_, op.operands[at]) || graph_.is_constant(x) ||
        (!broadcasts && graph_.type(x).shape != graph_.type(value).shape))
      return std::nullopt;
    return Combined{x, op.operands[at]};
  }

  Result<void> mask_exponential(OpId id) {
    const std::optional<Combined> sum = combined(graph_.op(id).operands[0], ops::kAddTensor, true);
    if (!sum) return {};
    const Type constant = graph_.type(sum->constant);
    std::vector<double> addend = constant_doubles(module_, graph_, sum->constant);
    std::vector<double> part(addend.size(), 1);
    for (size_t i = 0; i < addend.size(); ++i)
      if (addend[i] <= kExcludedFromExponential) addend[i] = part[i] = 0;
    if (std::ranges::find(part, 0.0) == part.end()) return {};

    const ValueId scores = graph_.op(id).operands[0];
    const Origin origin = origin_back_to(graph_, sum->x, id);
    ValueId x = sum->x;
    if (std::ranges::any_of(addend, [](double value) { return value != 0; })) {
      const ValueId left =
          add_float_constant(module_, rewriter_, constant.dtype, constant.shape, addend, "added");
      DTR_ASSIGN(x, insert(id, origin, ops::kAddTensor, {x, left}));
    }
    const ValueId parts =
        add_float_constant(module_, rewriter_, constant.dtype, constant.shape, part, "part");
    DTR_ASSIGN(x, insert(id, origin, ops::kMulTensor, {x, parts}));
    DTR_ASSIGN(x, insert(id, origin, ops::kExp, {x}));
    DTR_ASSIGN(x, insert(id, origin, ops::kMulTensor, {x, parts}));
    rewriter_.replace(id, x);
    erase_unread(scores);
    ++changes_;
    return {};
  }

  // What views make the value of; their results go to `views`, the last one first.
  ValueId before_views(ValueId value, std::vector<ValueId>* views = nullptr) const {
    while (graph_.producer_if(value, ops::kView).valid()) {
      if (views != nullptr) views->push_back(value);
      value = graph_.op(graph_.producer(value)).operands[0];
    }
    return value;
  }

  // 1 where the elements of an addend take part.
  static Tensor parts_of(std::span<const double> addend, const Shape& shape) {
    Tensor mask(DType::kBool, shape);
    const double limit = exclusion_limit(addend);
    for (size_t i = 0; i < addend.size(); ++i)
      mask.values<uint8_t>()[i] = addend[i] <= limit ? 0 : 1;
    return mask;
  }

  // `everywhere`, which elements take part, without those that constants exclude inside of `x`.
  std::vector<int8_t> with_masks_inside(ValueId x, std::vector<int8_t> everywhere) const {
    for (int masks = 1; masks < kMostMasks; ++masks) {
      const ValueId scores = before_views(x);
      const std::optional<Combined> sum = combined(scores, ops::kAddTensor);
      if (!sum) break;
      const Tensor mask = parts_of(constant_doubles(module_, graph_, sum->constant),
                                   graph_.type(sum->constant).shape);
      const std::vector<int8_t> parts = ops::expand_mask(mask.view(), graph_.type(scores).shape);
      for (size_t i = 0; i < everywhere.size(); ++i)
        if (parts[i] == 0) everywhere[i] = 0;
      x = sum->x;
    }
    return everywhere;
  }

  Result<void> take_mask(OpId id) {
    std::vector<ValueId> views;
    const ValueId scores = before_views(graph_.op(id).operands[0], &views);
    const std::optional<Combined> sum = combined(scores, ops::kAddTensor);
    if (!sum) return visit_computed(id, scores, views);
    const Shape added = graph_.type(scores).shape;
    const Type constant = graph_.type(sum->constant);
    std::vector<double> addend = constant_doubles(module_, graph_, sum->constant);
    const Tensor mask = parts_of(addend, constant.shape);
    bool rest = false;
    for (size_t i = 0; i < addend.size(); ++i) {
      if (mask.values<uint8_t>()[i] == 0) addend[i] = 0;
      rest = rest || addend[i] != 0;
    }
    const Shape shape = graph_.type(graph_.op(id).operands[0]).shape;
    std::vector<int8_t> everywhere = ops::expand_mask(mask.view(), added);
    if (std::ranges::all_of(everywhere, [](int8_t part) { return part != 0; })) return {};
    // Several constant masks are one, which may leave an empty row where none of them does.
    if (leaves_empty_row(graph_, id, shape, with_masks_inside(sum->x, everywhere))) return {};
    const bool has_constant =
        graph_.op(id).operands.size() > 1 && graph_.is_constant(graph_.op(id).operands[1]);
    if (has_constant) {
      const Value& other = graph_.value(graph_.op(id).operands[1]);
      const Tensor known =
          Tensor::copy_of(DType::kBool, other.type.shape, module_.constants.bytes(other.constant));
      const std::vector<int8_t> before = ops::expand_mask(known.view(), shape);
      for (size_t i = 0; i < everywhere.size(); ++i)
        if (before[i] == 0) everywhere[i] = 0;
    }
    if (leaves_empty_row(graph_, id, shape, everywhere)) return {};

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
    const bool in_full = has_constant || !views.empty();
    const std::span<const std::byte> bytes =
        in_full ? std::as_bytes(std::span(everywhere)) : mask.bytes();
    const ValueId parts =
        rewriter_.add_constant({.dtype = DType::kBool, .shape = in_full ? shape : constant.shape},
                               module_.constants.add(DType::kBool, bytes), "mask");
    return set_operands(id, x, parts, has_constant);
  }

  // The softmax of x under the mask, and under the one that it has unless the mask `holds` it; what
  // computed the scores before goes.
  Result<void> set_operands(OpId softmax, ValueId x, ValueId mask, bool holds = false) {
    const ValueId before = graph_.op(softmax).operands[0];
    const Origin origin = origin_back_to(graph_, x, softmax);
    if (graph_.op(softmax).operands.size() > 1 && !holds) {
      DTR_ASSIGN(
          mask, rewriter_.insert_value(softmax, {.def = &ops::kLogicalAnd,
                                                 .operands = {graph_.op(softmax).operands[1], mask},
                                                 .origin = origin}));
    }
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
  bool moves_only(const Op& op) const {
    return op.operands.size() == 1 &&
           (op.def == &ops::kView || op.def == &ops::kExpand || op.def == &ops::kPermute);
  }
  // The same behind ops that move it, innermost first in `moves`, of zeros.
  OpId excluding_zeros(ValueId value, std::vector<OpId>& moves) const {
    for (OpId id = graph_.producer(value); id.valid(); id = graph_.producer(value)) {
      const Op& op = graph_.op(id);
      if (!moves_only(op)) break;
      moves.insert(moves.begin(), id);
      value = op.operands[0];
    }
    const OpId fill = graph_.producer_if(value, ops::kMaskedFill);
    if (!fill.valid()) return {};
    const auto base = uniform_value(module_, graph_, graph_.op(fill).operands[0]);
    return (excluding_fill(value).valid() && base == 0.0) || (keeps(fill) && *base <= kExcluded)
               ? fill
               : OpId{};
  }
  // Whether it puts zeros where elements take part.
  bool keeps(OpId fill) const {
    return uniform_value(module_, graph_, graph_.op(fill).operands[0]).has_value() &&
           graph_.op(fill).attributes.get<double>("value") == 0;
  }
  bool plain_sum(OpId id) const {
    return id.valid() && graph_.op(id).attributes.find("activation") == nullptr &&
           graph_.op(id).attributes.get_or("alpha", 1.0) == 1;
  }

  bool makes_masks(const Op& op) const {
    static constexpr const OpDef* kDefs[] = {
        &ops::kMulTensor,   &ops::kSubTensor, &ops::kAddTensor, &ops::kConvert,  &ops::kNeg,
        &ops::kSliceTensor, &ops::kEqTensor,  &ops::kNeTensor,  &ops::kLtTensor, &ops::kLeTensor,
        &ops::kGtTensor,    &ops::kGeTensor,  &ops::kLogicalNot};
    return moves_only(op) || std::ranges::find(kDefs, op.def) != std::end(kDefs);
  }
  // Whether a float is made of inputs and constants by ops that compute element by element or move:
  // no scores, but a mask that the application gives. Up to `budget` ops are looked at.
  bool is_made_of_inputs(ValueId value, int& budget) const {
    const OpId id = graph_.producer(value);
    if (!id.valid()) return true;
    const Op& op = graph_.op(id);
    if (--budget < 0 || !makes_masks(op)) return false;
    return std::ranges::all_of(op.operands,
                               [&](ValueId operand) { return is_made_of_inputs(operand, budget); });
  }
  // Masks are the same for all heads: they have fewer elements than the scores.
  bool is_mask_of_floats(ValueId value, const Shape& scores) const {
    constexpr int kMostOps = 16;
    constexpr size_t kRank = 3;
    int budget = kMostOps;
    if (graph_.type(value).dtype != DType::kFloat32 || scores.size() < kRank ||
        ops::is_static(graph_, value) || !is_made_of_inputs(value, budget))
      return false;
    while (graph_.producer(value).valid() && moves_only(graph_.op(graph_.producer(value))))
      value = graph_.op(graph_.producer(value)).operands[0];
    return graph_.type(value).elements() < element_count(scores) && !adds_mask(value);
  }
  // What its elements exclude with: a product of zeros and ones and a number that excludes tells,
  // else numbers are taken that are no scores.
  double limit_of(ValueId mask) const {
    constexpr double kLeastFactor = 1000;
    constexpr double kRounded = .999;
    while (graph_.producer(mask).valid()) {
      const Op& op = graph_.op(graph_.producer(mask));
      if (op.def == &ops::kMulTensor) {
        for (const ValueId operand : op.operands) {
          const double factor = std::abs(uniform_value(module_, graph_, operand).value_or(0));
          if (factor >= kLeastFactor) return std::max(-kRounded * factor, kExcludedByInput);
        }
        break;
      }
      if (!moves_only(op) && op.def != &ops::kNeg) break;
      mask = op.operands[0];
    }
    return kExcludedByInput;
  }
  // A sum with a constant that excludes, which lift_masks takes apart.
  bool adds_mask(ValueId value) const {
    const std::optional<Combined> sum = combined(value, ops::kAddTensor, true);
    if (!sum) return false;
    const std::vector<double> addend = constant_doubles(module_, graph_, sum->constant);
    return std::ranges::any_of(addend, [](double each) { return each <= kExcludedByInput; });
  }
  // A mask that was found in a sum: where it is true, elements are excluded, unless it `keeps`.
  struct Found {
    ValueId mask;             // of the shape of `source`, before `moves`
    std::vector<OpId> moves;  // from there to the sum
    Shape source;
    ValueId rest;  // the sum without it
    Origin origin;
    bool keeps = false;  // where it is true, elements take part
  };

  Result<ValueId> insert(OpId before, const Origin& origin, const OpDef& def,
                         std::vector<ValueId> operands, Attributes attributes = {}) {
    return rewriter_.insert_value(before, {.def = &def,
                                           .operands = std::move(operands),
                                           .attributes = std::move(attributes),
                                           .origin = origin});
  }
  ValueId number(double value) {
    return add_float_constant(module_, rewriter_, DType::kFloat32, {}, std::vector{value}, "bound");
  }

  // Finds a computed mask in a value that is added to scores, or is the scores. std::nullopt: none.
  Result<std::optional<Found>> find_mask(OpId softmax, ValueId value, int depth) {
    if (const OpId fill = excluding_fill(value); fill.valid())
      return std::optional(Found{graph_.op(fill).operands[1],
                                 {},
                                 graph_.type(value).shape,
                                 graph_.op(fill).operands[0],
                                 graph_.op(fill).origin});
    const OpId sum = graph_.producer_if(value, ops::kAddTensor);
    if (!plain_sum(sum) || depth == 0) return std::optional<Found>();
    const Origin origin = graph_.op(sum).origin;
    const ValueId operands[] = {graph_.op(sum).operands[0], graph_.op(sum).operands[1]};
    for (size_t side = 0; side < 2; ++side) {
      std::vector<OpId> moves;
      const OpId fill = excluding_zeros(operands[side], moves);
      if (!fill.valid()) continue;
      const Shape source = graph_.type(graph_.op(fill).results[0]).shape;
      return std::optional(Found{graph_.op(fill).operands[1], moves, source, operands[1 - side],
                                 merge(origin, graph_.op(fill).origin), keeps(fill)});
    }
    for (size_t side = 0; side < 2; ++side) {
      DTR_ASSIGN(std::optional<Found> found, find_mask(softmax, operands[side], depth - 1));
      if (!found) continue;
      DTR_ASSIGN(found->rest,
                 insert(softmax, origin, ops::kAddTensor, {operands[1 - side], found->rest}));
      found->origin = merge(found->origin, origin);
      return found;
    }
    return std::optional<Found>();
  }

  // The same for a mask of floats among the operands of a sum. Its elements that exclude nothing
  // are still added.
  Result<std::optional<Found>> find_mask_of_floats(OpId softmax, ValueId scores) {
    const OpId difference = graph_.producer_if(scores, ops::kSubTensor);
    const OpId sum = difference.valid() ? difference : graph_.producer_if(scores, ops::kAddTensor);
    if (!plain_sum(sum)) return std::optional<Found>();
    const Origin origin = graph_.op(sum).origin;
    for (size_t side = difference.valid() ? 1 : 0; side < 2; ++side) {
      ValueId mask = graph_.op(sum).operands[side];
      const ValueId other = graph_.op(sum).operands[1 - side];
      const Shape shape = graph_.type(scores).shape;
      if (!is_mask_of_floats(mask, shape) || is_mask_of_floats(other, shape) ||
          graph_.type(other).shape != shape)
        continue;
      // In int8 the step of a mask is that of its greatest number: what excludes with a smaller
      // one, or is added beside it, would be nothing.
      Origin exact = origin;
      exact.keeps_float = true;
      if (difference.valid()) {
        DTR_ASSIGN(mask, insert(softmax, exact, ops::kNeg, {mask}));
      }
      DTR_ASSIGN(const ValueId excludes,
                 insert(softmax, exact, ops::kLeTensor, {mask, number(limit_of(mask))}));
      DTR_ASSIGN(const ValueId left,
                 insert(softmax, exact, ops::kMaskedFill, {mask, excludes}, {{"value", 0.0}}));
      DTR_ASSIGN(const ValueId rest, insert(softmax, origin, ops::kAddTensor, {other, left}));
      return std::optional(Found{excludes, {}, graph_.type(excludes).shape, rest, origin});
    }
    return std::optional<Found>();
  }

  // `views` are the results of views between scores and softmax, the last one first.
  Result<void> visit_computed(OpId id, ValueId scores, const std::vector<ValueId>& views) {
    constexpr int kDepth = 3;
    DTR_ASSIGN(std::optional<Found> found, find_mask(id, scores, kDepth));
    if (!found) {
      DTR_ASSIGN(found, find_mask_of_floats(id, scores));
    }
    if (!found || graph_.type(found->rest).shape != graph_.type(scores).shape) return {};

    const Origin origin = merge(graph_.op(id).origin, found->origin);
    const auto expand = [&](ValueId mask, const Shape& shape) -> Result<ValueId> {
      if (graph_.type(mask).shape == shape) return mask;
      return insert(id, origin, ops::kExpand, {mask}, {{"size", Ints(shape)}});
    };
    ValueId x = found->rest;
    ValueId mask = found->mask;
    if (!found->keeps) {
      DTR_ASSIGN(mask, insert(id, origin, ops::kLogicalNot, {mask}));
    }
    if (!found->moves.empty()) {
      DTR_ASSIGN(mask, expand(mask, found->source));
      for (const OpId move : found->moves) {
        DTR_ASSIGN(mask,
                   insert(id, origin, *graph_.op(move).def, {mask}, graph_.op(move).attributes));
      }
    }
    if (!views.empty()) {
      DTR_ASSIGN(mask, expand(mask, graph_.type(scores).shape));
      for (size_t i = views.size(); i-- > 0;) {
        const Ints size(graph_.type(views[i]).shape);
        DTR_ASSIGN(mask, insert(id, origin, ops::kView, {mask}, {{"size", size}}));
        DTR_ASSIGN(x, insert(id, origin, ops::kView, {x}, {{"size", size}}));
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
    .summary = "mask the scores that a constant excludes from a softmax or an exponential",
    .exactness = Exactness::kFloatRounding,
    .keeps_sources = true,  // of the masks that qat-prepare writes: fills directly before a softmax
    .run = run_pass<MaskSoftmax>};

}  // namespace dtr::passes
