// Folds batch_norm into the convolution or linear that makes its operand: with s = γ / √(var + eps), w' = w·s and b' = (b − mean)·s + β per
// output channel, computed in double and rounded once.
//
// Not where the operand has other users or a fused activation, where a parameter is not constant, or where a linear's features are not the
// dimension that batch_norm normalizes (its result has more than two dimensions). The constants are new: other users keep the old ones.
#include "transforms/edit.h"

namespace dtr::passes {
namespace {

class Pass {
 public:
  Pass(Program& program, Graph& graph) : program_(program), graph_(graph), rewriter_(graph) {}

  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Status {
      if (graph_.op(id).def == &ops::kBatchNorm) fold(id);
      return {};
    }));
    return changes_;
  }

 private:
  void fold(OpId norm) {
    const OpId linear = graph_.producer(graph_.op(norm).operands[0]);
    if (!linear.valid() || !takes_batch_norm(linear, norm)) return;
    const auto affine = batch_norm_affine(program_, graph_, graph_.op(norm));
    if (!affine) return;

    const Op& op = graph_.op(linear);
    const ValueId weight = op.operands[1];
    const ValueId bias = operand_or_absent(op, 2);
    const Type weight_type = graph_.type(weight);
    const std::string weight_name = graph_.value(weight).name;
    const std::string bias_name = bias.valid() ? graph_.value(bias).name : graph_.value(op.results[0]).name + ".bias";

    std::vector<double> weights = constant_doubles(program_, graph_, weight);
    scale_channels(op, weight_type.shape, affine->scale, weights);
    std::vector<double> biases = bias.valid() ? constant_doubles(program_, graph_, bias) : std::vector<double>(affine->scale.size(), 0.0);
    for (size_t c = 0; c < biases.size(); ++c) biases[c] = biases[c] * affine->scale[c] + affine->offset[c];

    const Shape bias_shape{static_cast<int64_t>(biases.size())};
    rewriter_.set_operand(linear, 1, add_float_constant(program_, rewriter_, weight_type.dtype, weight_type.shape, weights, weight_name));
    rewriter_.set_operand(linear, 2, add_float_constant(program_, rewriter_, weight_type.dtype, bias_shape, biases, bias_name));
    rewriter_.set_origin(linear, merge(graph_.op(linear).origin, graph_.op(norm).origin));
    rewriter_.replace(norm, graph_.op(linear).results[0]);
    ++changes_;
  }

  bool takes_batch_norm(OpId linear, OpId norm) const {
    const Op& op = graph_.op(linear);
    const bool per_feature = op.def == &ops::kConvolution || (op.def == &ops::kLinear && graph_.type(op.results[0]).rank() == 2);
    const ValueId bias = operand_or_absent(op, 2);
    return per_feature && takes_activation(op) && graph_.sole_user(op.results[0]) == norm && is_float_constant(graph_, op.operands[1]) &&
           (!bias.valid() || is_float_constant(graph_, bias)) && graph_.type(op.results[0]) == graph_.type(graph_.op(norm).results[0]);
  }

  // Output channels lie along dimension 0 of the weight; of a transposed convolution along dimension 1, once a group.
  static void scale_channels(const Op& op, const Shape& shape, const std::vector<double>& scale, std::vector<double>& weights) {
    const bool transposed = op.attributes.get_or("transposed", false);
    const auto outer = static_cast<size_t>(shape[0]);
    const auto inner = transposed ? static_cast<size_t>(shape[1]) : size_t{1};
    const size_t plane = weights.size() / std::max<size_t>(outer * inner, 1);
    const size_t in_group = transposed ? outer / static_cast<size_t>(op.attributes.get<int64_t>("groups")) : 1;
    for (size_t i = 0; i < outer; ++i)
      for (size_t j = 0; j < inner; ++j) {
        const double factor = scale[transposed ? i / in_group * inner + j : i];
        double* const first = weights.data() + (i * inner + j) * plane;
        for (size_t k = 0; k < plane; ++k) first[k] *= factor;
      }
  }

  Program& program_;
  Graph& graph_;
  Rewriter rewriter_;
  size_t changes_ = 0;
};

Result<size_t> run(Program& program, Graph& graph) { return Pass(program, graph).run(); }

}  // namespace

constinit const PassDef kFoldBatchNorm{.name = "fold_batch_norm",
                                       .summary = "fold batch_norm into the convolution or linear before it",
                                       .exactness = Exactness::kFloatRounding,
                                       .run = run};

}  // namespace dtr::passes
