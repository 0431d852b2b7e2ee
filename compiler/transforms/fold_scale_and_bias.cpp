// Folds sums, differences, products and quotients with constants into the weights and bias of the
// convolution or linear beside them: mm + add becomes a linear with bias, the 1 / √d of attention
// goes into the projection before it, x / 255 into the first layer.
//
// A constant with one value per channel must vary along the channels of the layer's result, or, if
// it changes the layer's operand, along those of the operand. A single value may be anywhere, and a
// factor may also pass through an operand of a matmul. The layer must meet fold_batch_norm's
// conditions.
#include <fmt/format.h>

#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class FoldScaleAndBias : public GraphPass {
 public:
  using GraphPass::GraphPass;

  // Forwards into layers before, then backwards into layers behind: so chains fold in one run.
  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Result<void> {
      if (auto affine = constant_affine(module_, graph_, graph_.op(id))) fold_up(id, *affine);
      return {};
    }));
    for_each_op_backwards(graph_, [&](OpId id) {
      if (auto affine = constant_affine(module_, graph_, graph_.op(id))) fold_down(id, *affine);
    });
    return changes_;
  }

 private:
  tl::expected<OpId, std::string> find_before(const ConstantAffine& affine) const {
    return layer_before(graph_, affine.x, affine.axis, !affine.axis && !affine.function.shifts());
  }

  void fold_up(OpId id, const ConstantAffine& affine) {
    const auto layer = find_before(affine);
    if (!layer) return;
    apply_after(module_, rewriter_, *layer,
                affine.over(static_cast<size_t>(output_channels(graph_, *layer))));
    finish_before(rewriter_, id, affine.x, *layer);
    ++changes_;
  }

  void fold_down(OpId id, const ConstantAffine& affine) {
    const auto before = find_before(affine);
    if (before) return fold_up(id, affine);  // what folded in between made it possible
    const auto layer = layer_after(graph_, graph_.op(id).results[0], affine.axis);
    if (!layer) {
      const OpId beside[] = {graph_.producer(affine.x), graph_.sole_user(graph_.op(id).results[0])};
      for (const OpId op : beside)
        if (op.valid() && is_layer(graph_.op(op)))
          return remarks_.add(id, fmt::format("{}; {}", before.error(), layer.error()));
      return;
    }
    const Op& op = graph_.op(*layer);
    if (affine.function.shifts() && !takes_offsets(op))
      return remarks_.add(id, fmt::format("{}; {} behind it pads with zeros, which are not shifted",
                                          before.error(), op.def->name));
    apply_before(module_, rewriter_, *layer,
                 affine.over(static_cast<size_t>(input_channels(graph_, *layer))));
    finish_after(rewriter_, id, affine.x, *layer);
    ++changes_;
  }
};

}  // namespace

constinit const PassDef kFoldScaleAndBias{
    .name = "fold_scale_and_bias",
    .summary = "fold sums and products with constants into the layer before or behind them",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<FoldScaleAndBias>};

}  // namespace dtr::passes
