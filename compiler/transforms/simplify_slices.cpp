// Simplifies slices and concatenations that undo or repeat each other:
//
//   slice of a slice along one dimension      one slice
//   slice within one operand of a cat         a slice of that operand, or the operand
//   cat of all parts of a value, in order     the value, or one slice of it
//   cat that only a cat along the same        one cat
//   dimension reads
//
// A slice across operands, and a slice with steps of a cat, stay.
#include <algorithm>
#include <unordered_map>

#include "compiler/ops/movement.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

// Operands of a concatenation that takes in others, so that a long chain of them does not cost
// quadratic time.
constexpr size_t kMaxJoined = 256;

class SimplifySlices : public EachOpPass<SimplifySlices> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    if (graph_.op(id).def == &ops::kCat) return simplify_cat(id);
    if (graph_.op(id).def != &ops::kSliceTensor) return {};
    if (const OpId inner = graph_.producer_if(graph_.op(id).operands[0], ops::kSliceTensor);
        inner.valid())
      return join(id, inner);
    if (const OpId cat = graph_.producer_if(graph_.op(id).operands[0], ops::kCat); cat.valid())
      return reach_through(id, cat);
    return {};
  }

 private:
  ops::Slice slice_of(OpId slice) const {
    const BoundOpView view(graph_, slice);
    return ops::slice_of(view);
  }
  size_t dim_of(const Op& cat) const {
    const auto dim = cat.attributes.get<int64_t>("dim");
    return static_cast<size_t>(
        dim < 0 ? dim + static_cast<int64_t>(graph_.type(cat.results[0]).rank()) : dim);
  }
  int64_t extent(ValueId value, size_t dim) const { return graph_.type(value).shape[dim]; }
  // Makes `op` a slice of `x`, or `x` where that is all of it.
  Result<void> make_slice(OpId op, ValueId x, const ops::Slice& slice, const Origin& origin) {
    ++changes_;
    if (same_type_and_quantization(graph_, x, graph_.op(op).results[0])) {
      rewriter_.replace(op, x);
      return {};
    }
    DTR_TRY(replace_op(rewriter_, op,
                       {.def = &ops::kSliceTensor,
                        .operands = {x},
                        .attributes = {{"dim", static_cast<int64_t>(slice.dim)},
                                       {"start", slice.start},
                                       {"end", slice.start + (slice.count - 1) * slice.step + 1},
                                       {"step", slice.step}},
                        .origin = origin}));
    return {};
  }

  Result<void> join(OpId id, OpId inner) {
    const ops::Slice outer = slice_of(id), first = slice_of(inner);
    if (outer.dim != first.dim || outer.count == 0) return {};
    int64_t step = 1;  // of one element: any
    if (outer.count > 1 && __builtin_mul_overflow(outer.step, first.step, &step)) return {};
    const ops::Slice joined{outer.dim, first.start + outer.start * first.step, outer.count, step};
    DTR_TRY(make_slice(id, graph_.op(inner).operands[0], joined,
                       merge(graph_.op(id).origin, graph_.op(inner).origin)));
    erase_if_unused(rewriter_, inner);
    return {};
  }

  Result<void> reach_through(OpId id, OpId cat) {
    ops::Slice slice = slice_of(id);
    if (slice.dim != dim_of(graph_.op(cat)) || slice.count == 0) return {};
    const std::vector<int64_t>& ends = ends_of(cat, slice.dim);
    const auto end = std::upper_bound(ends.begin(), ends.end(), slice.start);
    if (slice.start + (slice.count - 1) * slice.step >= *end) return {};
    const ValueId part = graph_.op(cat).operands[static_cast<size_t>(end - ends.begin())];
    slice.start -= *end - extent(part, slice.dim);
    const Origin origin = graph_.op(id).origin;
    DTR_TRY(make_slice(id, part, slice, origin));
    erase_if_unused(rewriter_, cat);
    return {};
  }

  // Where the operands of a concatenation end in its result.
  const std::vector<int64_t>& ends_of(OpId cat, size_t dim) {
    std::vector<int64_t>& ends = ends_[cat.index];
    if (!ends.empty()) return ends;
    int64_t end = 0;
    for (const ValueId part : graph_.op(cat).operands) ends.push_back(end += extent(part, dim));
    return ends;
  }

  Result<void> simplify_cat(OpId id) {
    const ValueId whole = whole_of_parts(graph_.op(id));
    if (whole.valid()) {
      const size_t dim = dim_of(graph_.op(id));
      const ops::Slice first = slice_of(graph_.producer(graph_.op(id).operands[0]));
      const Origin origin = graph_.op(id).origin;
      return make_slice(id, whole, {dim, first.start, extent(graph_.op(id).results[0], dim), 1},
                        origin);
    }
    return flatten(id);
  }

  // The value that all operands of a concatenation are consecutive slices of.
  ValueId whole_of_parts(const Op& cat) const {
    const size_t dim = dim_of(cat);
    ValueId whole;
    int64_t next = 0;
    for (const ValueId part : cat.operands) {
      const OpId id = graph_.producer_if(part, ops::kSliceTensor);
      if (!id.valid()) return {};
      const ops::Slice slice = slice_of(id);
      const ValueId source = graph_.op(id).operands[0];
      if (slice.dim != dim || slice.step != 1 || slice.count == 0) return {};
      if (whole.valid() && (source != whole || slice.start != next)) return {};
      whole = source;
      next = slice.start + slice.count;
    }
    return whole;
  }

  Result<void> flatten(OpId id) {
    const Op& op = graph_.op(id);
    std::vector<ValueId> operands;
    Origin origin = op.origin;
    std::vector<OpId> joined;
    for (const ValueId operand : op.operands) {
      const OpId inner = graph_.producer_if(operand, ops::kCat);
      const bool joins = inner.valid() && graph_.value(operand).has_one_use() &&
                         dim_of(graph_.op(inner)) == dim_of(op);
      if (!joins) {
        operands.push_back(operand);
        continue;
      }
      operands.insert(operands.end(), graph_.op(inner).operands.begin(),
                      graph_.op(inner).operands.end());
      origin = merge(origin, graph_.op(inner).origin);
      joined.push_back(inner);
    }
    if (joined.empty() || operands.size() > kMaxJoined) return {};
    DTR_TRY(replace_op(
        rewriter_, id,
        {.def = &ops::kCat, .operands = operands, .attributes = op.attributes, .origin = origin}));
    for (const OpId inner : joined) erase_if_unused(rewriter_, inner);
    ++changes_;
    return {};
  }

  std::unordered_map<uint32_t, std::vector<int64_t>>
      ends_;  // by concatenation, which no rewrite of this pass changes
};

}  // namespace

constinit const PassDef kSimplifySlices{
    .name = "simplify_slices",
    .summary = "join slices of slices, of concatenations and concatenations of slices",
    .exactness = Exactness::kExact,
    .run = run_pass<SimplifySlices>};

}  // namespace dtr::passes
