// Removes ops that return their operand, and joins two of a kind into one: sum with 0, product with
// 1, view or permute that changes nothing, view of a view, permute of a permute, padding by 0,
// pools of one element, cat of one operand, requantize to the same, conversion to the same layout,
// clamps within the bounds that the operand keeps anyway, clamp of a clamp.
//
// The origin of a removed op is dropped, because its result is the operand's. An op that joins
// another adds its origin.
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class RemoveIdentities : public EachOpPass<RemoveIdentities> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    if (const ValueId same = identity_of(id); same.valid()) {
      rewriter_.replace(id, same);
      ++changes_;
      return {};
    }
    return join(id);
  }

 private:
  // The operand that the op's result equals, if there is one.
  ValueId identity_of(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.operands.empty() || op.results.size() != 1) return {};
    if (const auto neutral = neutral_element(op)) return operand_beside_neutral(op, *neutral);
    const ValueId x = op.operands[0];
    return x.valid() && same_type(op, x) && keeps_elements(op) ? x : ValueId{};
  }

  // A change of quantization or shape is an effect of any op; a change of layout is one only of
  // _to_dim_order_copy.
  bool same_type(const Op& op, ValueId x) const {
    const ValueId y = op.results[0];
    return same_type_and_quantization(graph_, x, y) &&
           (op.def != &ops::kToDimOrderCopy || graph_.type(x).layout == graph_.type(y).layout);
  }

  // Whether every element of the result, which has the type of the operand, is the operand's at the
  // same place.
  bool keeps_elements(const Op& op) const {
    if (op.def == &ops::kView || op.def == &ops::kRequantize || op.def == &ops::kToDimOrderCopy)
      return true;
    if (op.def == &ops::kCat) return op.operands.size() == 1;
    if (op.def == &ops::kPermute) return is_identity(op.attributes.get<Ints>("dims"));
    if (op.def == &ops::kConstantPadNd) return all_are(op.attributes.get<Ints>("pad"), 0);
    if (op.def == &ops::kMaxPool2d || op.def == &ops::kAvgPool2d)
      return all_are(op.attributes.get<Ints>("kernel_size"), 1) &&
             all_are(op.attributes.get<Ints>("stride"), 1) &&
             op.attributes.get_or<int64_t>("divisor_override", 1) == 1;
    if (op.def == &ops::kMeanDim || op.def == &ops::kSumDim || op.def == &ops::kAmax ||
        op.def == &ops::kAmin)
      return true;  // same shape: every reduced dimension has one element
    if (op.def == &ops::kSliceTensor || op.def == &ops::kExpand)
      return true;  // same shape: all of it
    if (const auto bounds = clamp_bounds(op)) {
      const OpId producer = graph_.producer(op.operands[0]);
      const auto kept = producer.valid() ? result_bounds(graph_.op(producer)) : std::nullopt;
      const RealBounds any;
      return bounds->contains(kept.value_or(any));
    }
    return false;
  }

  static std::optional<double> neutral_element(const Op& op) {
    if (op.def == &ops::kAddTensor || op.def == &ops::kSubTensor) return 0.0;
    if (op.def == &ops::kMulTensor || op.def == &ops::kDivTensor) return 1.0;
    return std::nullopt;
  }

  // The operand that is not the neutral element, which must be the second one of a difference or
  // quotient, and unscaled.
  ValueId operand_beside_neutral(const Op& op, double neutral) const {
    if (op.attributes.find("activation") != nullptr) return {};
    const bool commutes =
        (op.def == &ops::kAddTensor && op.attributes.get_or("alpha", 1.0) == 1.0) ||
        op.def == &ops::kMulTensor;
    for (const size_t other : {1, 0}) {
      if (other == 0 && !commutes) continue;
      const ValueId x = op.operands[1 - other];
      if (same_type_and_quantization(graph_, x, op.results[0]) &&
          is_constant_of(module_, graph_, op.operands[other], neutral))
        return x;
    }
    return {};
  }

  // Lets the op read what its producer reads, where the two together are one op of that kind.
  Result<void> join(OpId id) {
    const Op& op = graph_.op(id);
    if (op.operands.empty() || op.results.size() != 1) return {};
    const OpId inner = graph_.producer(op.operands[0]);
    if (!inner.valid()) return {};
    if (op.def == &ops::kView && graph_.op(inner).def == &ops::kView)
      return read_through(id, inner);
    if (op.def == &ops::kPermute && graph_.op(inner).def == &ops::kPermute) {
      // A permute of the permuted dimensions; its own dims may be negative.
      const Ints first = non_negative(graph_.op(inner).attributes.get<Ints>("dims"));
      Ints joined;
      for (const int64_t dim : non_negative(op.attributes.get<Ints>("dims")))
        joined.push_back(first[static_cast<size_t>(dim)]);
      rewriter_.set_attribute(id, "dims", std::move(joined));
      return read_through(id, inner);
    }
    const auto outer_bounds = clamp_bounds(op);
    const auto inner_bounds = clamp_bounds(graph_.op(inner));
    const bool one_type = same_type(op, graph_.op(inner).operands[0]);
    if (outer_bounds && inner_bounds && one_type)
      return join_clamps(id, inner, *outer_bounds, *inner_bounds);
    return {};
  }

  // clamp(clamp(x)) is monotone and the identity where neither bites: one clamp between its limits
  // at ±infinity.
  Result<void> join_clamps(OpId id, OpId inner, const RealBounds& outer_bounds,
                           const RealBounds& inner_bounds) {
    const RealBounds joined{outer_bounds.clamp(inner_bounds.low),
                            outer_bounds.clamp(inner_bounds.high)};
    OpSpec spec{.def = &ops::kClamp,
                .operands = {graph_.op(inner).operands[0]},
                .attributes = {{"min", joined.low}, {"max", joined.high}},
                .origin = merge(graph_.op(id).origin, graph_.op(inner).origin)};
    if (activation_name(joined) == "relu") {
      spec.def = &ops::kRelu;
      spec.attributes = {};
    }
    DTR_TRY(replace_op(rewriter_, id, std::move(spec)));
    ++changes_;
    erase_if_unused(rewriter_, inner);
    return {};
  }

  Result<void> read_through(OpId id, OpId inner) {
    rewriter_.set_operand(id, 0, graph_.op(inner).operands[0]);
    rewriter_.set_origin(id, merge(graph_.op(id).origin, graph_.op(inner).origin));
    ++changes_;
    erase_if_unused(rewriter_, inner);
    if (const ValueId same = identity_of(id); same.valid()) rewriter_.replace(id, same);
    return {};
  }

  static bool all_are(const Ints& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(),
                       [&](int64_t value) { return value == wanted; });
  }
  static Ints non_negative(Ints dims) {
    for (int64_t& dim : dims)
      if (dim < 0) dim += static_cast<int64_t>(dims.size());
    return dims;
  }
  static bool is_identity(const Ints& dims) {
    Ints in_order(dims.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    return non_negative(dims) == in_order;
  }
};

}  // namespace

constinit const PassDef kRemoveIdentities{
    .name = "remove_identities",
    .summary = "remove ops that return their operand; join views, permutes and clamps",
    .exactness = Exactness::kExact,
    .run = run_pass<RemoveIdentities>};

}  // namespace dtr::passes
