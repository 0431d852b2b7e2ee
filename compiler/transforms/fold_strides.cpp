// Folds a slice with steps, or a pool of one element, into the stride of the convolution with a 1×1
// kernel that reads its result. Several fold one by one.
//
// The slice stays if it begins behind the first element, if the convolution pads or is transposed,
// or if the stride would reach elements that the slice leaves out at the end.
#include <algorithm>

#include "compiler/ops/movement.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

bool all_are(const Ints& values, int64_t wanted) {
  return std::ranges::all_of(values, [&](int64_t value) { return value == wanted; });
}

class FoldStrides : public EachOpPass<FoldStrides> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    if (graph_.op(id).def == &ops::kConvolution && has_one_tap(graph_.op(id)))
      while (fold(id)) ++changes_;
    return {};
  }

 private:
  bool has_one_tap(const Op& op) const {
    const Shape& weight = graph_.type(op.operands[1]).shape;
    return !op.attributes.get<bool>("transposed") &&
           all_are({weight.begin() + 2, weight.end()}, 1) && pads_nothing(op);
  }
  static bool pads_nothing(const Op& op) {
    const Ints& begin = op.attributes.get<Ints>("padding");
    return all_are(begin, 0) && all_are(op.attributes.get_or("padding_end", begin), 0);
  }

  // How many elements apart the op takes them from its operand in each spatial dimension; empty if
  // it does something else.
  Ints steps_of(OpId id, size_t spatial) const {
    const Op& op = graph_.op(id);
    Ints steps(spatial, 1);
    if (op.def == &ops::kSliceTensor) {
      const BoundOpView view(graph_, id);
      const ops::Slice slice = ops::slice_of(view);
      if (slice.dim < 2 || slice.start != 0 || slice.step == 1) return {};
      steps[slice.dim - 2] = slice.step;
      return steps;
    }
    const bool pool = op.def == &ops::kMaxPool2d || op.def == &ops::kAvgPool2d;
    if (!pool || !all_are(op.attributes.get<Ints>("kernel_size"), 1) || !pads_nothing(op))
      return {};
    if (op.attributes.get_or<int64_t>("divisor_override", 1) != 1 ||
        op.attributes.get<bool>("ceil_mode"))
      return {};
    return op.attributes.get<Ints>("stride");
  }

  bool fold(OpId id) {
    const Op& op = graph_.op(id);
    const OpId before = graph_.producer(op.operands[0]);
    if (!before.valid() || graph_.op(before).operands.empty()) return false;
    Ints stride = op.attributes.get<Ints>("stride");
    const Ints steps = steps_of(before, stride.size());
    const ValueId x = graph_.op(before).operands[0];
    if (steps.empty() || graph_.type(x).rank() != stride.size() + 2) return false;
    if (graph_.type(x).quantization != graph_.type(op.operands[0]).quantization) return false;
    for (size_t i = 0; i < stride.size(); ++i) {
      if (__builtin_mul_overflow(stride[i], steps[i], &stride[i]) || stride[i] > INT32_MAX)
        return false;
      if ((graph_.type(x).shape[i + 2] - 1) / stride[i] + 1 !=
          graph_.type(op.results[0]).shape[i + 2])
        return false;
    }
    rewriter_.set_attribute(id, "stride", std::move(stride));
    rewriter_.set_operand(id, 0, x);
    rewriter_.set_origin(id, merge(graph_.op(id).origin, graph_.op(before).origin));
    erase_if_unused(rewriter_, before);
    return true;
  }
};

}  // namespace

constinit const PassDef kFoldStrides{
    .name = "fold_strides",
    .summary = "fold steps before a 1x1 convolution into its stride",
    .exactness = Exactness::kExact,
    .run = run_pass<FoldStrides>};

}  // namespace dtr::passes
