// Rewrites ops that can be written in several ways into one form:
//
//   1-D convolution                  2-D convolution of height 1 between two views
//   pool of an unbatched (C, H, W)   pool of a batch of 1 between two views
//   average pool of one window       mean
//   permute that only moves          view
//   dimensions of extent 1
//
// Attributes: dimensions count from the front, the sizes of views are explicit, an alpha of 1 is
// left out.
#include <algorithm>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class CanonicalizeShapes : public EachOpPass<CanonicalizeShapes> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    normalize_attributes(id);
    if (op.def == &ops::kConvolution && graph_.type(op.operands[0]).rank() == 3)
      return widen_convolution(id);
    if ((op.def == &ops::kMaxPool2d || op.def == &ops::kAvgPool2d) &&
        graph_.type(op.operands[0]).rank() == 3)
      return batch_pool(id);
    if (op.def == &ops::kAvgPool2d && covers_operand(op)) return mean_instead(id);
    if (op.def == &ops::kPermute && keeps_order(op)) return view_instead(id);
    return {};
  }

 private:
  Result<void> widen_convolution(OpId id) {
    const Op& op = graph_.op(id);
    const auto widened = [](Shape shape) {
      shape.insert(shape.begin() + 2, 1);
      return shape;
    };
    OpSpec spec{.def = op.def, .operands = op.operands, .attributes = op.attributes};
    const Origin origin = op.origin;
    const ValueId x = op.operands[0];
    const ValueId weight = op.operands[1];
    for (const auto& [key, value] : op.attributes)
      if (const auto* ints = std::get_if<Ints>(&value)) {
        Ints longer = *ints;
        longer.insert(longer.begin(), key == "stride" || key == "dilation" ? 1 : 0);
        spec.attributes.set(key, std::move(longer));
      }
    DTR_ASSIGN(spec.operands[0],
               insert_view(rewriter_, id, x, widened(graph_.type(x).shape), origin));
    if (graph_.is_constant(weight)) {
      Type type = graph_.type(weight);
      type.shape = widened(std::move(type.shape));
      spec.operands[1] = rewriter_.add_constant(std::move(type), graph_.value(weight).constant,
                                                graph_.value(weight).name);
    } else {
      DTR_ASSIGN(spec.operands[1],
                 insert_view(rewriter_, id, weight, widened(graph_.type(weight).shape), origin));
    }
    ++changes_;
    return replace_between_views(rewriter_, id, std::move(spec));
  }

  Result<void> batch_pool(OpId id) {
    const Op& op = graph_.op(id);
    OpSpec spec{.def = op.def, .attributes = op.attributes};
    Shape shape = graph_.type(op.operands[0]).shape;
    shape.insert(shape.begin(), 1);
    DTR_ASSIGN(const ValueId batched, insert_view(rewriter_, id, op.operands[0], shape, op.origin));
    spec.operands = {batched};
    ++changes_;
    return replace_between_views(rewriter_, id, std::move(spec));
  }

  // Whether a permute leaves the order of all dimensions that have more than one element.
  bool keeps_order(const Op& op) const {
    int64_t previous = -1;
    for (const int64_t dim : op.attributes.get<Ints>("dims")) {
      if (graph_.type(op.operands[0]).shape[static_cast<size_t>(dim)] == 1) continue;
      if (dim < previous) return false;
      previous = dim;
    }
    return true;
  }

  Result<void> view_instead(OpId id) {
    const Op& op = graph_.op(id);
    const Shape shape = graph_.type(op.results[0]).shape;
    DTR_TRY(replace_op(
        rewriter_, id,
        {.def = &ops::kView, .operands = {op.operands[0]}, .attributes = {{"size", shape}}}));
    ++changes_;
    return {};
  }

  // An average pool with one window, which is the whole operand. A quantized one keeps its
  // rounding.
  bool covers_operand(const Op& op) const {
    const Type& x = graph_.type(op.operands[0]);
    if (x.rank() != 4 || x.quantized()) return false;
    const Shape& y = graph_.type(op.results[0]).shape;
    return y[2] == 1 && y[3] == 1 &&
           op.attributes.get<Ints>("kernel_size") == Ints{x.shape[2], x.shape[3]} &&
           op.attributes.get<Ints>("padding") == Ints{0, 0} &&
           op.attributes.find("divisor_override") == nullptr;
  }

  Result<void> mean_instead(OpId id) {
    const OpSpec mean{.def = &ops::kMeanDim,
                      .operands = graph_.op(id).operands,
                      .attributes = {{"dim", Ints{2, 3}}, {"keepdim", true}}};
    DTR_TRY(replace_op(rewriter_, id, mean));
    ++changes_;
    return {};
  }

  void normalize_attributes(OpId id) {
    const Op& op = graph_.op(id);
    if (op.operands.empty() || !op.operands[0].valid()) return;
    const auto rank = static_cast<int64_t>(graph_.type(op.operands[0]).rank());
    for (const std::string_view key : {"dim", "dims"}) {
      const AttributeValue* value = op.attributes.find(key);
      if (value == nullptr) continue;
      AttributeValue wanted = *value;
      if (auto* dim = std::get_if<int64_t>(&wanted); dim != nullptr && *dim < 0) *dim += rank;
      if (auto* dims = std::get_if<Ints>(&wanted)) {
        for (int64_t& dim : *dims)
          if (dim < 0) dim += rank;
        if (op.attributes.find("keepdim") != nullptr) normalize_reduction(*dims, rank);
      }
      change_attribute(id, key, std::move(wanted));
    }
    if (op.def == &ops::kView) change_attribute(id, "size", graph_.type(op.results[0]).shape);
    if ((op.def == &ops::kAddTensor || op.def == &ops::kSubTensor) &&
        op.attributes.find("alpha") != nullptr && op.attributes.get<double>("alpha") == 1.0) {
      rewriter_.erase_attribute(id, "alpha");
      ++changes_;
    }
  }

  // The order of reduced dimensions does not matter; none means all.
  static void normalize_reduction(Ints& dims, int64_t rank) {
    if (dims.empty())
      for (int64_t dim = 0; dim < rank; ++dim) dims.push_back(dim);
    std::sort(dims.begin(), dims.end());
  }

  void change_attribute(OpId id, std::string_view key, AttributeValue wanted) {
    if (*graph_.op(id).attributes.find(key) == wanted) return;
    rewriter_.set_attribute(id, key, std::move(wanted));
    ++changes_;
  }
};

}  // namespace

constinit const PassDef kCanonicalizeShapes{
    .name = "canonicalize_shapes",
    .summary =
        "1-D convolutions and unbatched pools to 2-D with a batch, global pools to means, permutes "
        "to views, plain attributes",
    .exactness = Exactness::kExact,
    .keeps_sources = true,
    .run = run_pass<CanonicalizeShapes>};

}  // namespace dtr::passes
