// Folds batch_norm into the convolution or linear that makes its operand: with s = γ / √(var +
// eps), w' = w·s and b' = (b − mean)·s + β per output channel; else into the one that reads its
// result, whose input channels it scales and shifts.
//
// The normalized dimension must be that of the layer's channels: dimension 1 of a convolution, the
// last of a linear, so that a linear with a result of three dimensions only folds if a permute
// brings its features to dimension 1. Permutes and views between the two may stay where they keep
// that dimension whole. Values between the two have no other user, parameters and weights are
// constants, the layer before has no fused activation, the layer after does not pad (zeros would
// have to be shifted too) unless nothing is shifted.
#include <fmt/format.h>

#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

class FoldBatchNorm : public GraphPass {
 public:
  using GraphPass::GraphPass;

  // Forwards into layers before, then backwards into layers behind: so chains fold in one run.
  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Result<void> {
      if (graph_.op(id).def == &ops::kBatchNorm) fold_up(id);
      return {};
    }));
    for_each_op_backwards(graph_, [&](OpId id) {
      if (graph_.op(id).def == &ops::kBatchNorm) fold_down(id);
    });
    return changes_;
  }

 private:
  void fold_up(OpId norm) {
    const Op& op = graph_.op(norm);
    const auto affine = batch_norm_affine(module_, graph_, op);
    if (!affine) return;
    const auto layer = layer_before(graph_, op.operands[0], 1);
    if (!layer) return;
    apply_after(module_, rewriter_, *layer, *affine);
    finish_before(rewriter_, norm, op.operands[0], *layer);
    ++changes_;
  }

  void fold_down(OpId norm) {
    const ValueId x = graph_.op(norm).operands[0], y = graph_.op(norm).results[0];
    const auto affine = batch_norm_affine(module_, graph_, graph_.op(norm));
    if (!affine) return remarks_.add(norm, affine.error());
    const auto before = layer_before(graph_, x, 1);
    if (before) return fold_up(norm);  // what folded in between made it possible
    const auto layer = layer_after(graph_, y, 1);
    if (!layer) return remarks_.add(norm, fmt::format("{}; {}", before.error(), layer.error()));
    const Op& op = graph_.op(*layer);
    if (affine->shifts() && !takes_offsets(op))
      return remarks_.add(norm,
                          fmt::format("{}; {} behind it pads with zeros, which are not normalized",
                                      before.error(), op.def->name));
    apply_before(module_, rewriter_, *layer, *affine);
    finish_after(rewriter_, norm, x, *layer);
    ++changes_;
  }
};

}  // namespace

constinit const PassDef kFoldBatchNorm{
    .name = "fold_batch_norm",
    .summary = "fold batch_norm into the convolution or linear before or behind it",
    .exactness = Exactness::kFloatRounding,
    .keeps_sources = true,
    .run = run_pass<FoldBatchNorm>};

}  // namespace dtr::passes
