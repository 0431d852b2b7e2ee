// Folds constant_pad_nd into the padding of the convolution or pool that reads it.
//
//   convolution   pads with 0. A transposed convolution keeps the pad: its padding cuts.
//   avg_pool2d    pads with 0 and counts the padding: only if the pool counts its own padding,
//                 or has none.
//   max_pool2d    pads with −infinity, which never wins. A pad of 0 folds as well if no element of
//                 the operand is below 0.
//
// Folds positive amounts of the spatial dimensions. A pool in ceil_mode stays, because its windows
// may reach beyond the padding, and so does one whose padding would exceed half of its kernel,
// which PyTorch refuses.
#include <limits>

#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class FoldPadding : public EachOpPass<FoldPadding> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op& op = graph_.op(id);
    const bool window =
        op.def == &ops::kConvolution || op.def == &ops::kAvgPool2d || op.def == &ops::kMaxPool2d;
    if (!window) return {};
    // Several pads one after the other fold one by one, innermost last.
    for (OpId pad = pad_before(id); pad.valid() && fold(id, pad); pad = pad_before(id)) continue;
    return {};
  }

 private:
  OpId pad_before(OpId id) const {
    return graph_.producer_if(graph_.op(id).operands[0], ops::kConstantPadNd);
  }

  bool fold(OpId id, OpId pad) {
    const Op& op = graph_.op(id);
    const size_t spatial = op.attributes.get<Ints>("padding").size();
    const Ints& amounts = graph_.op(pad).attributes.get<Ints>("pad");
    for (size_t i = 0; i < amounts.size(); ++i)
      if (amounts[i] < 0 || (amounts[i] != 0 && i >= 2 * spatial)) return false;
    if (!pads_alike(op, graph_.op(pad))) return false;

    Attributes attributes = op.attributes;
    Ints begin = op.attributes.get<Ints>("padding");
    Ints end = op.attributes.get_or("padding_end", begin);
    for (size_t i = 0; i < spatial; ++i) {
      const size_t from_last = 2 * (spatial - 1 - i);
      if (from_last >= amounts.size()) continue;
      begin[i] += amounts[from_last];
      end[i] += amounts[from_last + 1];
    }
    attributes.erase("padding_end");
    if (begin != end) attributes.set("padding_end", std::move(end));
    attributes.set("padding", std::move(begin));
    if (op.def == &ops::kAvgPool2d) attributes.set("count_include_pad", true);
    if (!accepts(op, attributes, graph_.op(pad).operands[0])) return false;

    for (const auto& [name, value] : attributes) rewriter_.set_attribute(id, name, value);
    if (attributes.find("padding_end") == nullptr) rewriter_.erase_attribute(id, "padding_end");
    rewriter_.set_operand(id, 0, graph_.op(pad).operands[0]);
    rewriter_.set_origin(id, merge(op.origin, graph_.op(pad).origin));
    erase_if_unused(rewriter_, pad);
    ++changes_;
    return true;
  }

  // True if the pad's value is that of the op's own padding.
  bool pads_alike(const Op& op, const Op& pad) const {
    const double value = pad.attributes.get<double>("value");
    if (op.def == &ops::kConvolution) return value == 0 && !op.attributes.get<bool>("transposed");
    if (op.attributes.get<bool>("ceil_mode")) return false;
    if (op.def == &ops::kMaxPool2d)
      return value == -std::numeric_limits<double>::infinity() ||
             (value == 0 && never_negative(pad.operands[0]));
    const Ints& own = op.attributes.get<Ints>("padding");
    const bool has_own = op.attributes.find("padding_end") != nullptr || own != Ints(own.size(), 0);
    return value == 0 && (op.attributes.get<bool>("count_include_pad") || !has_own);
  }

  bool never_negative(ValueId value) const {
    const OpId producer = graph_.producer(value);
    const auto bounds = producer.valid() ? result_bounds(graph_.op(producer)) : std::nullopt;
    return bounds && bounds->low >= 0;
  }

  // Whether the op with these attributes on `x` verifies and still makes the same shape.
  bool accepts(const Op& op, const Attributes& attributes, ValueId x) const {
    std::vector<const Type*> types;
    for (const ValueId operand : op.operands)
      types.push_back(operand.valid() ? &graph_.type(operand) : nullptr);
    types[0] = &graph_.type(x);
    const OpView view{op.def, types, &attributes, {}};
    return verify_op(view).has_value() &&
           op.def->infer(view).front().shape == graph_.type(op.results[0]).shape;
  }
};

}  // namespace

constinit const PassDef kFoldPadding{
    .name = "fold_padding",
    .summary = "fold constant_pad_nd into the padding of the convolution or pool that reads it",
    .exactness = Exactness::kExact,
    .keeps_sources = true,
    .run = run_pass<FoldPadding>};

}  // namespace dtr::passes
