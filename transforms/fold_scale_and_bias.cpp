// Folds sums, differences, products and quotients with constants into the weights and bias of the convolution or linear beside them:
// mm + add becomes a linear with bias, the 1 / √d of attention goes into the projection before it, x / 255 into the first layer.
//
// A constant with one value for each channel must lie along the channels of the layer's result; else, for what scales and shifts the
// layer's operand, along those of the operand. One with a single value may lie anywhere, and a factor may also pass through an operand of a
// matmul. The conditions on the layer are those of fold_batch_norm.
#include <fmt/format.h>

#include <cmath>

#include "transforms/channel_affine.h"
#include "transforms/edit.h"

namespace dtr::passes {
namespace {

// y = x · scale + offset with a constant, one value for all or one for each index of dimension `axis`.
struct Affine {
  ValueId x;
  std::optional<size_t> axis;
  ChannelAffine function;
};

class Pass {
 public:
  Pass(Program& program, Graph& graph, Remarks& remarks) : program_(program), graph_(graph), rewriter_(graph), remarks_(remarks) {}

  // Forwards into layers before, then backwards into layers behind: so chains fold in one run.
  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Status {
      if (auto affine = affine_of(graph_.op(id))) fold_up(id, std::move(*affine));
      return {};
    }));
    for_each_op_backwards(graph_, [&](OpId id) {
      if (auto affine = affine_of(graph_.op(id))) fold_down(id, std::move(*affine));
    });
    return changes_;
  }

 private:
  tl::expected<OpId, std::string> find_before(const Affine& affine) const {
    return layer_before(graph_, affine.x, affine.axis, !affine.axis && !affine.function.shifts());
  }

  void fold_up(OpId id, Affine affine) {
    const auto layer = find_before(affine);
    if (!layer) return;
    spread(affine, output_channels(graph_, *layer));
    apply_after(program_, rewriter_, *layer, affine.function);
    finish_before(rewriter_, id, affine.x, *layer);
    ++changes_;
  }

  void fold_down(OpId id, Affine affine) {
    const auto before = find_before(affine);
    if (before) return fold_up(id, std::move(affine));  // what folded in between made it possible
    const auto layer = layer_after(graph_, graph_.op(id).results[0], affine.axis);
    if (!layer) {
      const OpId beside[] = {graph_.producer(affine.x), graph_.sole_user(graph_.op(id).results[0])};
      for (const OpId op : beside)
        if (op.valid() && is_layer(graph_.op(op))) return remarks_.add(id, fmt::format("{}; {}", before.error(), layer.error()));
      return;
    }
    const Op& op = graph_.op(*layer);
    if (affine.function.shifts() && !takes_offsets(op))
      return remarks_.add(id, fmt::format("{}; {} behind it pads with zeros, which are not shifted", before.error(), op.def->name));
    spread(affine, input_channels(graph_, *layer));
    apply_before(program_, rewriter_, *layer, affine.function);
    finish_after(rewriter_, id, affine.x, *layer);
    ++changes_;
  }

  static void spread(Affine& affine, int64_t channels) {
    if (affine.axis) return;
    const double scale = affine.function.scale.front(), offset = affine.function.offset.front();
    affine.function.scale.assign(static_cast<size_t>(channels), scale);
    affine.function.offset.assign(static_cast<size_t>(channels), offset);
  }

  std::optional<Affine> affine_of(const Op& op) const {
    const bool sum = op.def == &ops::kAddTensor, difference = op.def == &ops::kSubTensor;
    const bool product = op.def == &ops::kMulTensor, quotient = op.def == &ops::kDivTensor;
    if ((!sum && !difference && !product && !quotient) || op.attributes.find("activation") != nullptr) return std::nullopt;
    const size_t constant = is_float_constant(graph_, op.operands[1]) ? 1 : 0;
    if (!is_float_constant(graph_, op.operands[constant]) || (constant == 0 && quotient)) return std::nullopt;
    Affine affine{.x = op.operands[1 - constant]};
    const Type& type = graph_.type(op.results[0]);
    if (!alike(graph_, affine.x, op.results[0]) || type.elements() == 0) return std::nullopt;
    const Shape& shape = graph_.type(op.operands[constant]).shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) continue;
      if (affine.axis) return std::nullopt;
      affine.axis = type.rank() - shape.size() + i;
    }
    const double alpha = op.attributes.get_or("alpha", 1.0);
    for (const double value : constant_doubles(program_, graph_, op.operands[constant])) {
      double scale = 1, offset = 0;
      if (product) scale = value;
      if (quotient) scale = 1 / value;
      if (sum || difference) {
        const double sign = difference ? -alpha : alpha;
        scale = constant == 0 ? sign : 1;
        offset = constant == 0 ? value : sign * value;
      }
      if (!std::isfinite(static_cast<float>(scale)) || !std::isfinite(static_cast<float>(offset))) return std::nullopt;
      affine.function.scale.push_back(scale);
      affine.function.offset.push_back(offset);
    }
    return affine;
  }

  Program& program_;
  Graph& graph_;
  Rewriter rewriter_;
  Remarks& remarks_;
  size_t changes_ = 0;
};

Result<size_t> run(Program& program, Graph& graph, Remarks& remarks) { return Pass(program, graph, remarks).run(); }

}  // namespace

constinit const PassDef kFoldScaleAndBias{.name = "fold_scale_and_bias",
                                          .summary = "fold sums and products with constants into the layer before or behind them",
                                          .exactness = Exactness::kFloatRounding,
                                          .run = run};

}  // namespace dtr::passes
