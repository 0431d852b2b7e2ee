// Folds batch_norm into the convolution or linear that makes its operand: with s = γ / √(var + eps), w' = w·s and b' = (b − mean)·s + β per
// output channel; else into the one that reads its result, whose input channels it scales and shifts.
//
// The normalized dimension must be that of the layer's channels: dimension 1 of a convolution, the last of a linear, so that a linear with
// a result of three dimensions only folds if a permute brings its features to dimension 1. Permutes and views between the two may stay
// where they keep that dimension whole. Values between the two have no other user, parameters and weights are constants, the layer before
// has no fused activation, the layer after does not pad (zeros would have to be shifted too) unless nothing is shifted.
#include <fmt/format.h>

#include "transforms/channel_affine.h"
#include "transforms/edit.h"

namespace dtr::passes {
namespace {

class Pass {
 public:
  Pass(Program& program, Graph& graph, Remarks& remarks) : program_(program), graph_(graph), rewriter_(graph), remarks_(remarks) {}

  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Status {
      if (graph_.op(id).def == &ops::kBatchNorm) fold(id);
      return {};
    }));
    return changes_;
  }

 private:
  void fold(OpId norm) {
    const ValueId x = graph_.op(norm).operands[0], y = graph_.op(norm).results[0];
    const auto affine = batch_norm_affine(program_, graph_, graph_.op(norm));
    if (!affine) return remarks_.add(norm, affine.error());
    if (graph_.type(x) != graph_.type(y)) return remarks_.add(norm, "its result has another layout than its operand");
    const auto before = layer_before(graph_, x, 1);
    if (before) {
      apply_after(program_, rewriter_, *before, *affine);
      return finish(norm, *before);
    }
    const auto after = layer_after(graph_, y, 1);
    if (!after) return remarks_.add(norm, fmt::format("{}; {}", before.error(), after.error()));
    if (affine->shifts() && !takes_offsets(graph_.op(*after)))
      return remarks_.add(
          norm, fmt::format("{}; {} behind it pads with zeros, which are not normalized", before.error(), graph_.op(*after).def->name));
    apply_before(program_, rewriter_, *after, *affine);
    finish(norm, *after);
  }

  void finish(OpId norm, OpId layer) {
    rewriter_.set_origin(layer, merge(graph_.op(layer).origin, graph_.op(norm).origin));
    rewriter_.replace(norm, graph_.op(norm).operands[0]);
    ++changes_;
  }

  Program& program_;
  Graph& graph_;
  Rewriter rewriter_;
  Remarks& remarks_;
  size_t changes_ = 0;
};

Result<size_t> run(Program& program, Graph& graph, Remarks& remarks) { return Pass(program, graph, remarks).run(); }

}  // namespace

constinit const PassDef kFoldBatchNorm{.name = "fold_batch_norm",
                                       .summary = "fold batch_norm into the convolution or linear before or behind it",
                                       .exactness = Exactness::kFloatRounding,
                                       .run = run};

}  // namespace dtr::passes
