// Brings masks of scores to the softmax that reads them. Between a number that excludes a score,
// −100 or less, and the softmax there may be other sums, products with positive numbers, lower
// bounds, moved, joined and padded elements: each of them is repeated on the scores without the
// mask, and what moves elements on the mask. The range of all of these values, and so their step in
// int8, is then that of the scores that take part.
//
// The result is that of mask_softmax, which reads the masks directly before a softmax: what is
// excluded is 0. A softmax stays as it is if a mask that is known leaves a row without a score.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "compiler/ir/builder.h"
#include "compiler/ops/constant_folding.h"
#include "compiler/ops/softmax.h"
#include "compiler/transforms/edit.h"
#include "compiler/transforms/softmax_masks.h"

namespace dtr::passes {
namespace {

constexpr int kMostLifted = 32;  // between masks and softmax

// How a value comes of masks.
struct Masked {
  enum class How : uint8_t {
    kFill,    // masked_fill with a number that excludes
    kKeep,    // masked_fill of such a number with 0
    kAddend,  // a sum with a constant that has such numbers, operand `side`
    kSum,     // a sum of what has masks
    kEach,    // an op of one tensor and numbers, or one that moves elements
    kBound,   // a lower bound far below
    kJoin,
    kPad
  } how;
  OpId op;
  size_t side = 0;
  double excluded = 0;                              // excluded elements are at most this
  std::vector<std::unique_ptr<Masked>> inner = {};  // by operand; null: no mask in it
};
using Tree = std::unique_ptr<Masked>;

// A value without its mask: 0 everywhere if `clean` is invalid. The mask is true where elements
// take part, and broadcasts to the value.
struct Lifted {
  ValueId clean, mask;
};

class LiftMasks : public EachOpPass<LiftMasks> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    if (graph_.op(id).def != &ops::kSoftmax) return {};
    const ValueId scores = graph_.op(id).operands[0];
    origin_ = graph_.op(id).origin;
    left_ = kMostLifted;
    const Tree tree = find(scores);
    if (tree == nullptr || tree->excluded > kExcluded) return {};
    GraphBuilder builder(module_, graph_, origin_, {}, id);
    DTR_ASSIGN(const Lifted lifted, lift(builder, *tree));
    const Shape shape = graph_.type(scores).shape;
    ValueId mask = lifted.mask;
    if (graph_.op(id).operands.size() > 1) {
      DTR_ASSIGN(mask, both(builder, graph_.op(id).operands[1], mask));
    }
    DTR_ASSIGN(const ValueId clean, solid(builder, lifted.clean, shape));
    if (is_known_to_exclude_a_row(id, mask, shape)) {
      erase_unread(clean);
      erase_unread(mask);
      return {};
    }
    rewriter_.set_operand(id, 0, clean);
    rewriter_.set_operand(id, 1, mask);
    rewriter_.set_origin(id, origin_);
    DTR_TRY(rewriter_.refresh(id));
    erase_unread(scores);
    ++changes_;
    return {};
  }

 private:
  // ---- looks for masks

  // How `value` comes of masks; null if it does not, or not by such ops alone.
  Tree find(ValueId value) {
    const OpId id = graph_.producer(value);
    if (!id.valid() || left_ == 0 || graph_.type(value).dtype != DType::kFloat32) return nullptr;
    --left_;
    const Op& op = graph_.op(id);
    Tree found = find_in(id, op);
    if (found != nullptr) origin_ = merge(origin_, op.origin);
    return found;
  }

  Tree find_in(OpId id, const Op& op) {
    if (op.attributes.find("activation") != nullptr) return nullptr;
    if (op.def == &ops::kMaskedFill) {
      const auto value = op.attributes.get<double>("value");
      if (Tree made = find_replaced(id, op.operands[1], value, 0); made != nullptr) return made;
      return find_fill(id, op);
    }
    if (op.def == &ops::kAddTensor || op.def == &ops::kSubTensor) return find_sum(id, op);
    if (op.def == &ops::kMulTensor || op.def == &ops::kDivTensor) return find_product(id, op);
    if (op.def == &ops::kMaximum || op.def == &ops::kClamp) return find_bound(id, op);
    if (op.def == &ops::kWhereSelf)
      return find_replaced(id, op.operands[0], uniform_value(module_, graph_, op.operands[1]), 2);
    if (op.def == &ops::kCat) return find_joined(id, op);
    if (op.def == &ops::kConstantPadNd) return find_padded(id, op);
    const bool moves = op.def == &ops::kView || op.def == &ops::kPermute ||
                       op.def == &ops::kExpand || op.def == &ops::kSliceTensor;
    return moves ? around(id, Masked::How::kEach, 0, find(op.operands[0])) : nullptr;
  }

  // An op around the masks of its operand `side`.
  static Tree around(OpId id, Masked::How how, size_t side, Tree inner) {
    if (inner == nullptr) return nullptr;
    auto made = std::make_unique<Masked>(Masked{.how = how, .op = id, .side = side});
    made->excluded = inner->excluded;
    made->inner.resize(side + 1);
    made->inner[side] = std::move(inner);
    return made;
  }

  Tree find_fill(OpId id, const Op& op) {
    const auto value = op.attributes.get<double>("value");
    auto made = std::make_unique<Masked>(Masked{.how = Masked::How::kFill, .op = id});
    made->excluded = value;
    if (value == 0) {
      const auto base = uniform_value(module_, graph_, op.operands[0]);
      if (!base || *base > kExcluded) return nullptr;
      made->how = Masked::How::kKeep;
      made->excluded = *base;
    } else if (value > kExcluded) {
      return nullptr;
    }
    if (made->how == Masked::How::kFill) add_inner(*made, op);
    return made;
  }

  // Masks further inside: of what is filled, or of what the constant is added to.
  void add_inner(Masked& made, const Op& op) {
    const size_t other = made.how == Masked::How::kAddend ? 1 - made.side : 0;
    made.inner.resize(other + 1);
    made.inner[other] = find(op.operands[other]);
    if (made.inner[other] != nullptr)
      made.excluded = std::max(made.excluded, made.inner[other]->excluded);
  }

  // What the constant operand `side` of a sum or difference adds.
  std::vector<double> addend_of(const Op& op, size_t side) const {
    std::vector<double> addend = constant_doubles(module_, graph_, op.operands[side]);
    if (op.def == &ops::kSubTensor)
      for (double& value : addend) value = -value;
    return addend;
  }

  Tree find_sum(OpId id, const Op& op) {
    if (op.attributes.get_or("alpha", 1.0) != 1) return nullptr;
    const bool difference = op.def == &ops::kSubTensor;
    for (size_t side = difference ? 1 : 0; side < 2; ++side) {
      if (!is_float_constant(graph_, op.operands[side]) ||
          graph_.is_constant(op.operands[1 - side]))
        continue;
      const std::vector<double> addend = addend_of(op, side);
      const double limit = exclusion_limit(addend);
      double greatest = -std::numeric_limits<double>::infinity();
      bool excludes = false;
      for (const double value : addend)
        if (value <= limit) {
          excludes = true;
          greatest = std::max(greatest, value);
        }
      if (!excludes) continue;
      auto made = std::make_unique<Masked>(
          Masked{.how = Masked::How::kAddend, .op = id, .side = side, .excluded = greatest});
      add_inner(*made, op);
      return made;
    }
    auto made = std::make_unique<Masked>(Masked{.how = Masked::How::kSum, .op = id});
    made->excluded = -std::numeric_limits<double>::infinity();
    made->inner.push_back(find(op.operands[0]));
    made->inner.push_back(difference ? nullptr : find(op.operands[1]));
    return with_any(std::move(made));
  }

  // `made`, if one of its operands has a mask.
  static Tree with_any(Tree made) {
    bool any = false;
    for (const Tree& inner : made->inner)
      if (inner != nullptr) {
        any = true;
        made->excluded = std::max(made->excluded, inner->excluded);
      }
    return any ? std::move(made) : nullptr;
  }

  Tree find_product(OpId id, const Op& op) {
    for (const size_t side : {0U, 1U}) {
      if (op.def == &ops::kDivTensor && side == 1) break;
      const auto factor = uniform_value(module_, graph_, op.operands[1 - side]);
      if (!factor || !(*factor > 0)) continue;
      Tree made = around(id, Masked::How::kEach, side, find(op.operands[side]));
      if (made != nullptr)
        made->excluded =
            op.def == &ops::kDivTensor ? made->excluded / *factor : made->excluded * *factor;
      return made;
    }
    return nullptr;
  }

  Tree find_bound(OpId id, const Op& op) {
    size_t side = 0;
    double low = -std::numeric_limits<double>::infinity();
    if (op.def == &ops::kClamp) {
      low = op.attributes.get_or("min", low);
    } else {
      side = uniform_value(module_, graph_, op.operands[0]) ? 1 : 0;
      const auto bound = uniform_value(module_, graph_, op.operands[1 - side]);
      if (!bound) return nullptr;
      low = *bound;
    }
    if (low > kExcludedByInput) return nullptr;
    Tree made = around(id, Masked::How::kBound, side, find(op.operands[side]));
    if (made != nullptr) made->excluded = std::max(made->excluded, low);
    return made;
  }

  // A number in place of NaN or infinity in operand `side`, which scores that take part are not
  // (nan_to_num). `mask`: where it is.
  Tree find_replaced(OpId id, ValueId mask, std::optional<double> number, size_t side) {
    const ValueId x = graph_.op(id).operands[side];
    const OpId compares = graph_.producer(mask);
    if (!number || !compares.valid()) return nullptr;
    const Op& comparison = graph_.op(compares);
    if (comparison.operands.size() != 2 || comparison.operands[0] != x) return nullptr;
    const auto equal = uniform_value(module_, graph_, comparison.operands[1]);
    const bool is_nan =
        comparison.def == &ops::kNeTensor && comparison.operands[1] == comparison.operands[0];
    const bool is_infinite = comparison.def == &ops::kEqTensor && equal && std::isinf(*equal);
    if (!is_nan && !is_infinite) return nullptr;
    Tree made = around(id, Masked::How::kBound, side, find(x));
    if (made != nullptr && is_infinite && *equal < 0)
      made->excluded = std::max(made->excluded, *number);
    return made;
  }

  Tree find_joined(OpId id, const Op& op) {
    auto made = std::make_unique<Masked>(Masked{.how = Masked::How::kJoin, .op = id});
    made->excluded = -std::numeric_limits<double>::infinity();
    for (const ValueId operand : op.operands) made->inner.push_back(find(operand));
    return with_any(std::move(made));
  }

  Tree find_padded(OpId id, const Op& op) {
    const Ints& pad = op.attributes.get<Ints>("pad");
    if (std::ranges::any_of(pad, [](int64_t side) { return side < 0; })) return nullptr;
    return around(id, Masked::How::kPad, 0, find(op.operands[0]));
  }

  // ---- builds

  static Result<ValueId> both(GraphBuilder& builder, ValueId a, ValueId b) {
    if (!a.valid()) return b;
    return builder.emit("aten.logical_and", {a, b});
  }
  static Result<ValueId> expanded(GraphBuilder& builder, ValueId value, const Shape& shape) {
    if (builder.type(value).shape == shape) return value;
    return builder.expand(value, shape);
  }
  static Result<ValueId> solid(GraphBuilder& builder, ValueId clean, const Shape& shape) {
    if (!clean.valid()) return builder.constant(DType::kFloat32, shape, 0, "zeros");
    return expanded(builder, clean, shape);
  }

  // Operand `side` of the op without the masks that were found in it.
  Result<Lifted> operand(GraphBuilder& builder, const Masked& masked, size_t side) {
    if (side < masked.inner.size() && masked.inner[side] != nullptr)
      return lift(builder, *masked.inner[side]);
    return Lifted{graph_.op(masked.op).operands[side], {}};
  }

  Result<Lifted> lift(GraphBuilder& builder, const Masked& masked) {
    const Op op = graph_.op(masked.op);
    const Shape shape = graph_.type(op.results[0]).shape;
    switch (masked.how) {
      case Masked::How::kFill: {
        DTR_ASSIGN(Lifted of, operand(builder, masked, 0));
        DTR_ASSIGN(const ValueId part, builder.emit("aten.logical_not", {op.operands[1]}));
        DTR_ASSIGN(of.mask, both(builder, of.mask, part));
        return of;
      }
      case Masked::How::kKeep:
        return Lifted{{}, op.operands[1]};
      case Masked::How::kAddend:
        return without_addend(builder, masked, op);
      case Masked::How::kSum: {
        DTR_ASSIGN(const Lifted first, operand(builder, masked, 0));
        DTR_ASSIGN(const Lifted second, operand(builder, masked, 1));
        Lifted sum{.clean = first.clean, .mask = first.mask};
        if (!first.clean.valid()) {
          sum.clean = second.clean;
        } else if (second.clean.valid()) {
          DTR_ASSIGN(sum.clean, builder.emit(op.def->name, {first.clean, second.clean}));
        }
        if (second.mask.valid()) {
          DTR_ASSIGN(sum.mask, both(builder, first.mask, second.mask));
        }
        if (sum.clean.valid()) {
          DTR_ASSIGN(sum.clean, expanded(builder, sum.clean, shape));
        }
        return sum;
      }
      case Masked::How::kEach:
        return each(builder, masked, op);
      case Masked::How::kBound: {
        DTR_ASSIGN(Lifted of, operand(builder, masked, masked.side));
        if (const AttributeValue* high = op.attributes.find("max"); high != nullptr) {
          DTR_ASSIGN(of.clean, solid(builder, of.clean, shape));
          DTR_ASSIGN(of.clean, builder.emit(op.def->name, {of.clean}, {{"max", *high}}));
        }
        return of;
      }
      case Masked::How::kJoin: {
        std::vector<ValueId> parts, masks;
        for (size_t i = 0; i < op.operands.size(); ++i) {
          const Shape& of_part = graph_.type(op.operands[i]).shape;
          DTR_ASSIGN(const Lifted part, operand(builder, masked, i));
          DTR_ASSIGN(parts.emplace_back(), solid(builder, part.clean, of_part));
          DTR_ASSIGN(masks.emplace_back(), full_mask(builder, part.mask, of_part));
        }
        Lifted joined;
        DTR_ASSIGN(joined.clean, builder.emit("aten.cat", parts, op.attributes));
        DTR_ASSIGN(joined.mask, builder.emit("aten.cat", masks, op.attributes));
        return joined;
      }
      case Masked::How::kPad:
        break;
    }
    return padded(builder, masked, op);
  }

  static Result<ValueId> full_mask(GraphBuilder& builder, ValueId mask, const Shape& shape) {
    if (!mask.valid()) return builder.constant(DType::kBool, shape, 1, "mask");
    return expanded(builder, mask, shape);
  }

  Result<Lifted> without_addend(GraphBuilder& builder, const Masked& masked, const Op& op) {
    const Shape of_constant = graph_.type(op.operands[masked.side]).shape;
    std::vector<double> addend = addend_of(op, masked.side);
    const double limit = exclusion_limit(addend);
    std::vector<double> part(addend.size(), 1);
    bool rest = false;
    for (size_t i = 0; i < addend.size(); ++i) {
      if (addend[i] <= limit) addend[i] = part[i] = 0;
      rest = rest || addend[i] != 0;
    }
    DTR_ASSIGN(Lifted of, operand(builder, masked, 1 - masked.side));
    of.clean = without_factor(of.clean, part, of_constant);
    if (rest && of.clean.valid()) {
      DTR_ASSIGN(const ValueId left, builder.constant(DType::kFloat32, addend, of_constant));
      DTR_ASSIGN(of.clean, builder.emit("aten.add.Tensor", {of.clean, left}));
    } else if (rest) {
      DTR_ASSIGN(of.clean, builder.constant(DType::kFloat32, addend, of_constant));
    }
    if (of.clean.valid()) {
      DTR_ASSIGN(of.clean, expanded(builder, of.clean, graph_.type(op.results[0]).shape));
    }
    DTR_ASSIGN(const ValueId takes_part, builder.constant(DType::kBool, part, of_constant));
    DTR_ASSIGN(of.mask, both(builder, of.mask, takes_part));
    return of;
  }

  // x, where value = x · factor with a factor of 1 wherever elements take part.
  ValueId without_factor(ValueId value, const std::vector<double>& part, const Shape& shape) const {
    const OpId id = value.valid() ? graph_.producer_if(value, ops::kMulTensor) : OpId{};
    if (!id.valid() || graph_.op(id).attributes.find("activation") != nullptr) return value;
    for (const size_t side : {0U, 1U}) {
      const ValueId constant = graph_.op(id).operands[side];
      if (!is_float_constant(graph_, constant) || graph_.type(constant).shape != shape) continue;
      const std::vector<double> factor = constant_doubles(module_, graph_, constant);
      for (size_t i = 0; i < factor.size(); ++i)
        if (part[i] != 0 && factor[i] != 1) return value;
      return graph_.op(id).operands[1 - side];
    }
    return value;
  }

  // The op on the scores, and on the mask if it moves elements.
  Result<Lifted> each(GraphBuilder& builder, const Masked& masked, const Op& op) {
    const Shape before = graph_.type(op.operands[masked.side]).shape;
    DTR_ASSIGN(const Lifted of, operand(builder, masked, masked.side));
    std::vector<ValueId> operands = op.operands;
    DTR_ASSIGN(operands[masked.side], solid(builder, of.clean, before));
    Lifted made{.clean = {}, .mask = of.mask};
    DTR_ASSIGN(made.clean, builder.emit(op.def->name, operands, op.attributes));
    if (op.operands.size() == 1 && op.def != &ops::kExpand) {
      DTR_ASSIGN(const ValueId mask, full_mask(builder, of.mask, before));
      DTR_ASSIGN(made.mask, builder.emit(op.def->name, {mask}, op.attributes));
    }
    return made;
  }

  Result<Lifted> padded(GraphBuilder& builder, const Masked& masked, const Op& op) {
    const Shape before = graph_.type(op.operands[0]).shape;
    const Ints& pad = op.attributes.get<Ints>("pad");
    const auto fill = op.attributes.get_or("value", 0.0);
    const bool takes_part = fill > kExcluded;
    DTR_ASSIGN(Lifted of, operand(builder, masked, 0));
    DTR_ASSIGN(of.clean, solid(builder, of.clean, before));
    DTR_ASSIGN(of.clean, builder.pad(of.clean, pad, takes_part ? fill : 0));
    DTR_ASSIGN(of.mask, full_mask(builder, of.mask, before));
    DTR_ASSIGN(of.mask, builder.pad(of.mask, pad, takes_part ? 1 : 0));
    return of;
  }

  // ---- the end

  bool is_known_to_exclude_a_row(OpId softmax, ValueId mask, const Shape& shape) const {
    if (!ops::is_static(graph_, mask)) return false;
    const OpId made = graph_.producer(mask);
    const Tensor known =
        made.valid() ? std::move(ops::evaluate_on_constants(module_, graph_, made)[0])
                     : Tensor::copy_of(DType::kBool, graph_.type(mask).shape,
                                       module_.constants.bytes(graph_.value(mask).constant));
    return leaves_empty_row(graph_, softmax, shape, ops::expand_mask(known.view(), shape));
  }

  void erase_unread(ValueId value) {
    if (graph_.value(value).erased) return;  // it was an operand twice
    const OpId id = graph_.producer(value);
    if (!id.valid() || !graph_.value(value).unused()) return;
    const std::vector<ValueId> operands = graph_.op(id).operands;
    rewriter_.erase(id);
    for (const ValueId operand : operands)
      if (operand.valid()) erase_unread(operand);
  }

  Origin origin_;
  int left_ = 0;  // ops that may still be looked at
};

}  // namespace

constinit const PassDef kLiftMasks{
    .name = "lift_masks",
    .summary = "bring masks of scores through what follows them to the softmax",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<LiftMasks>};

}  // namespace dtr::passes
