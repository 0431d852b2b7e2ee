// Folds the weight and the bias of a layer or RMS normalization into the layers that read it:
// linear(norm(x) · weight + bias) is another linear of norm(x). The norm's result, whose channels
// are then alike, has one scale in int8, where a few channels of a large weight would take the
// steps of all others; a layer's weights have a scale for each output.
//
// Every reader must be a linear, or a convolution over the normalized dimension, with weights that
// nobody else reads; permutes, and views that keep that dimension, may be between.
#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"

namespace dtr {
namespace {

// A layer or RMS normalization over one dimension.
bool is_norm(const Op& op) {
  return (op.def == &ops::kLayerNorm || op.def == &ops::kRmsNorm) &&
         op.attributes.get<Ints>("normalized_shape").size() == 1 &&
         op.attributes.find("activation") == nullptr;
}

// Adds the layers that read `value`, whose channels lie along `axis`; false if somebody else does.
bool find_layers(const Graph& graph, ValueId value, size_t axis, bool shifts,
                 std::vector<OpId>& layers) {
  const Value& read = graph.value(value);
  if (read.output_uses > 0 || read.uses.empty()) return false;
  for (const Use& use : read.uses) {
    const Op& op = graph.op(use.op);
    if (const auto moved = axis_behind(graph, op, axis)) {
      if (!find_layers(graph, op.results[0], *moved, shifts, layers)) return false;
      continue;
    }
    if (!is_layer(op) || use.operand != 0 || channel_axis(graph, op, value) != axis ||
        (shifts && !takes_offsets(op)) || !check_weights(graph, op) ||
        graph.value(op.operands[1]).uses.size() > 1)  // a copy would take their bytes again
      return false;
    layers.push_back(use.op);
  }
  return true;
}

}  // namespace

std::vector<OpId> layers_behind_norm(const Graph& graph, OpId norm, bool shifts) {
  std::vector<OpId> layers;
  if (!is_norm(graph.op(norm))) return layers;
  const ValueId result = graph.op(norm).results[0];
  if (!find_layers(graph, result, graph.type(result).rank() - 1, shifts, layers)) layers.clear();
  return layers;
}

namespace passes {
namespace {

class FoldNormParameters : public EachOpPass<FoldNormParameters> {
 public:
  using EachOpPass::EachOpPass;

  Result<void> visit(OpId id) {
    const Op op = graph_.op(id);
    if (!is_norm(op)) return {};
    const auto channels = static_cast<size_t>(graph_.type(op.results[0]).shape.back());
    ChannelAffine affine{.scale = std::vector<double>(channels, 1),
                         .offset = std::vector<double>(channels, 0)};
    bool any = false;
    for (const size_t i : {1U, 2U}) {
      if (op.operands.size() <= i || !op.operands[i].valid()) continue;
      if (!is_float_constant(graph_, op.operands[i])) return {};
      (i == 1 ? affine.scale : affine.offset) = constant_doubles(module_, graph_, op.operands[i]);
      any = true;
    }
    if (!any) return {};
    const std::vector<OpId> layers = layers_behind_norm(graph_, id, affine.shifts());
    if (layers.empty()) return {};
    for (const OpId layer : layers) apply_before(module_, rewriter_, layer, affine);
    DTR_TRY(replace_op(rewriter_, id,
                       {.def = op.def,
                        .operands = {op.operands[0]},
                        .attributes = op.attributes,
                        .origin = op.origin}));
    ++changes_;
    return {};
  }
};

}  // namespace

constinit const PassDef kFoldNormParameters{
    .name = "fold_norm_parameters",
    .summary = "fold the weight and bias of a normalization into the layers that read it",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<FoldNormParameters>};

}  // namespace passes
}  // namespace dtr
