// Losses, as they are left in exports of models that compute one beside their outputs: a function
// of each element or class, then its mean or sum.
#include <fmt/format.h>

#include <numbers>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

constexpr int64_t kMean = 1;  // of PyTorch's reductions; 0: none, 2: the sum

Result<ValueId> sum_of_all(NodeImport& node, ValueId x, std::string_view op) {
  Ints all(node.type(x).rank());
  std::iota(all.begin(), all.end(), 0);
  return node.emit(op, {x}, {{"dim", std::move(all)}, {"keepdim", false}});
}

// The mean, the sum, or all of them.
Result<Values> reduced(NodeImport& node, ValueId losses) {
  DTR_ASSIGN(const int64_t reduction, node.integer("reduction", kMean));
  if (reduction == 0) return Values{losses};
  return one(
      sum_of_all(node, losses, reduction == kMean ? "aten.mean.dim" : "aten.sum.dim_IntList"));
}

Result<ValueId> weighted(NodeImport& node, ValueId losses) {
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  return weight.valid() ? node.emit("aten.mul.Tensor", {losses, weight}) : losses;
}

// ---- of distances

template <bool kSquared>
Result<Values> distance(NodeImport& node) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(ValueId result, node.emit("aten.sub.Tensor", {self, target}));
  if (kSquared) {
    DTR_ASSIGN(result, node.emit("aten.pow.Tensor_Scalar", {result}, {{"exponent", 2.0}}));
  } else {
    DTR_ASSIGN(result, node.emit("aten.abs", {result}));
  }
  return reduced(node, result);
}

// Squares of short distances and lengths of long ones: huber_loss, and smooth_l1_loss, which is
// huber_loss divided by the bound.
template <bool kDivided>
Result<Values> bounded_distance(NodeImport& node) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const double bound, node.number(kDivided ? "beta" : "delta", 1.0));
  DTR_ASSIGN(ValueId way, node.emit("aten.sub.Tensor", {self, target}));
  DTR_ASSIGN(way, node.emit("aten.abs", {way}));
  if (bound == 0) return reduced(node, way);
  const double factor = kDivided ? 1 / bound : 1;
  DTR_ASSIGN(ValueId square, node.emit("aten.mul.Tensor", {way, way}));
  DTR_ASSIGN(square, with_number(node, "aten.mul.Tensor", square, factor / 2));
  DTR_ASSIGN(ValueId length, with_number(node, "aten.sub.Tensor", way, bound / 2));
  DTR_ASSIGN(length, with_number(node, "aten.mul.Tensor", length, factor * bound));
  DTR_ASSIGN(const ValueId is_short, with_number(node, "aten.lt.Tensor", way, bound));
  DTR_ASSIGN(const ValueId losses, node.emit("aten.where.self", {is_short, square, length}));
  return reduced(node, losses);
}

// 1 − cos of the pairs whose target is 1, what cos exceeds the margin by of the others.
Result<Values> cosine_embedding(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input1"));
  DTR_ASSIGN(const ValueId y, node.tensor("input2"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const double margin, node.number("margin", 0));
  const Attributes along{{"dim", Ints{static_cast<int64_t>(node.type(x).rank()) - 1}},
                         {"keepdim", false}};
  const auto sum_of = [&](ValueId a, ValueId b) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {a, b}));
    return node.emit("aten.sum.dim_IntList", {product}, along);
  };
  DTR_ASSIGN(ValueId of_x, sum_of(x, x));
  DTR_ASSIGN(ValueId of_y, sum_of(y, y));
  DTR_ASSIGN(of_x, with_number(node, "aten.add.Tensor", of_x, 1e-12));
  DTR_ASSIGN(of_y, with_number(node, "aten.add.Tensor", of_y, 1e-12));
  DTR_ASSIGN(ValueId lengths, node.emit("aten.mul.Tensor", {of_x, of_y}));
  DTR_ASSIGN(lengths, node.emit("aten.sqrt", {lengths}));
  DTR_ASSIGN(ValueId cosine, sum_of(x, y));
  DTR_ASSIGN(cosine, node.emit("aten.div.Tensor", {cosine, lengths}));
  DTR_ASSIGN(const ValueId one_value, number_like(node, cosine, 1));
  DTR_ASSIGN(const ValueId like, node.emit("aten.sub.Tensor", {one_value, cosine}));
  DTR_ASSIGN(ValueId unlike, with_number(node, "aten.sub.Tensor", cosine, margin));
  DTR_ASSIGN(unlike, node.emit("aten.relu", {unlike}));
  DTR_ASSIGN(const ValueId is_like, with_number(node, "aten.eq.Tensor", target, 1));
  DTR_ASSIGN(const ValueId losses, node.emit("aten.where.self", {is_like, like, unlike}));
  return reduced(node, losses);
}

// How much nearer than the margin the negative is, compared with the positive.
Result<Values> triplet_margin(NodeImport& node) {
  DTR_ASSIGN(const ValueId anchor, node.tensor("anchor"));
  DTR_ASSIGN(const ValueId positive, node.tensor("positive"));
  DTR_ASSIGN(const ValueId negative, node.tensor("negative"));
  DTR_ASSIGN(const double margin, node.number("margin", 1));
  DTR_ASSIGN(const double p, node.number("p", 2));
  DTR_ASSIGN(const double eps, node.number("eps", 1e-6));
  DTR_ASSIGN(const bool swap, node.boolean("swap", false));
  DTR_ASSIGN(const ValueId near, distance_of(node, anchor, positive, p, eps, false));
  DTR_ASSIGN(ValueId far, distance_of(node, anchor, negative, p, eps, false));
  if (swap) {
    DTR_ASSIGN(const ValueId other, distance_of(node, positive, negative, p, eps, false));
    DTR_ASSIGN(far, node.emit("aten.minimum", {far, other}));
  }
  DTR_ASSIGN(ValueId losses, node.emit("aten.sub.Tensor", {near, far}));
  DTR_ASSIGN(losses, with_number(node, "aten.add.Tensor", losses, margin));
  DTR_ASSIGN(losses, node.emit("aten.relu", {losses}));
  return reduced(node, losses);
}

// By how much the margin exceeds the distance in the direction that the target says.
Result<Values> margin_ranking(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input1"));
  DTR_ASSIGN(const ValueId y, node.tensor("input2"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const double margin, node.number("margin", 0));
  DTR_ASSIGN(ValueId losses, node.emit("aten.sub.Tensor", {y, x}));
  DTR_ASSIGN(losses, node.emit("aten.mul.Tensor", {target, losses}));
  DTR_ASSIGN(losses, with_number(node, "aten.add.Tensor", losses, margin));
  DTR_ASSIGN(losses, node.emit("aten.relu", {losses}));
  return reduced(node, losses);
}

// x where the target is not −1, and what x lacks of the margin where it is not 1.
Result<Values> hinge_embedding(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const double margin, node.number("margin", 1));
  DTR_ASSIGN(const ValueId zero, number_like(node, x, 0));
  DTR_ASSIGN(const ValueId bound, number_like(node, x, margin));
  DTR_ASSIGN(ValueId lacking, node.emit("aten.sub.Tensor", {bound, x}));
  DTR_ASSIGN(lacking, node.emit("aten.relu", {lacking}));
  DTR_ASSIGN(const ValueId is_like, with_number(node, "aten.eq.Tensor", target, 1));
  DTR_ASSIGN(const ValueId is_unlike, with_number(node, "aten.eq.Tensor", target, -1));
  DTR_ASSIGN(lacking, node.emit("aten.where.self", {is_like, zero, lacking}));
  DTR_ASSIGN(const ValueId near, node.emit("aten.where.self", {is_unlike, zero, x}));
  DTR_ASSIGN(const ValueId losses, node.emit("aten.add.Tensor", {lacking, near}));
  return reduced(node, losses);
}

// ---- of probabilities

// log(1 + exp(−t · x)) = −log sigmoid(t · x), which does not overflow.
Result<Values> soft_margin(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(ValueId losses, node.emit("aten.mul.Tensor", {target, x}));
  DTR_ASSIGN(losses, node.emit("aten.log_sigmoid", {losses}));
  DTR_ASSIGN(losses, node.emit("aten.neg", {losses}));
  return reduced(node, losses);
}

// exp(x) − t · x of x in logarithms, else x − t · log(x + eps); with `full` also Stirling's
// approximation of log t! where t > 1.
Result<Values> poisson(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const bool of_logarithms, node.boolean("log_input"));
  DTR_ASSIGN(const bool full, node.boolean("full"));
  DTR_ASSIGN(const double eps, node.number("eps"));
  ValueId mean = x, logarithm = x;
  if (of_logarithms) {
    DTR_ASSIGN(mean, node.emit("aten.exp", {x}));
  } else {
    DTR_ASSIGN(logarithm, with_number(node, "aten.add.Tensor", x, eps));
    DTR_ASSIGN(logarithm, node.emit("aten.log", {logarithm}));
  }
  DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {target, logarithm}));
  DTR_ASSIGN(ValueId losses, node.emit("aten.sub.Tensor", {mean, product}));
  if (full) {
    DTR_ASSIGN(const ValueId of_target, node.emit("aten.log", {target}));
    DTR_ASSIGN(ValueId sum, node.emit("aten.mul.Tensor", {target, of_target}));
    DTR_ASSIGN(sum, node.emit("aten.sub.Tensor", {sum, target}));
    DTR_ASSIGN(ValueId half, with_number(node, "aten.mul.Tensor", target, 2 * std::numbers::pi));
    DTR_ASSIGN(half, node.emit("aten.log", {half}));
    DTR_ASSIGN(half, with_number(node, "aten.mul.Tensor", half, 0.5));
    DTR_ASSIGN(sum, node.emit("aten.add.Tensor", {sum, half}));
    DTR_ASSIGN(const ValueId none, number_like(node, sum, 0));
    DTR_ASSIGN(const ValueId is_few, with_number(node, "aten.le.Tensor", target, 1));
    DTR_ASSIGN(sum, node.emit("aten.where.self", {is_few, none, sum}));
    DTR_ASSIGN(losses, node.emit("aten.add.Tensor", {losses, sum}));
  }
  return reduced(node, losses);
}

// −(t · log x + (1 − t) · log(1 − x)), with logarithms of at least −100.
Result<Values> binary_cross_entropy(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const ValueId one_value, number_like(node, x, 1));
  const auto bounded_log = [&](ValueId of) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId logarithm, node.emit("aten.log", {of}));
    return with_number(node, "aten.maximum", logarithm, -100);
  };
  DTR_ASSIGN(const ValueId rest, node.emit("aten.sub.Tensor", {one_value, x}));
  DTR_ASSIGN(const ValueId of_x, bounded_log(x));
  DTR_ASSIGN(const ValueId of_rest, bounded_log(rest));
  DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {of_rest, of_x}));
  DTR_ASSIGN(const ValueId part, node.emit("aten.mul.Tensor", {target, way}));
  DTR_ASSIGN(ValueId losses, node.emit("aten.sub.Tensor", {part, of_rest}));
  DTR_ASSIGN(losses, weighted(node, losses));
  return reduced(node, losses);
}

// (1 − t) · x + ((p − 1) · t + 1) · log(1 + exp(−x)).
Result<Values> binary_cross_entropy_with_logits(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const ValueId positive, node.optional_tensor("pos_weight"));
  DTR_ASSIGN(const ValueId opposite, node.emit("aten.neg", {x}));
  // log(1 + exp(−x)) = −log sigmoid(x), which does not overflow.
  DTR_ASSIGN(ValueId softplus, node.emit("aten.log_sigmoid", {x}));
  DTR_ASSIGN(softplus, node.emit("aten.neg", {softplus}));
  if (positive.valid()) {
    DTR_ASSIGN(ValueId factor, with_number(node, "aten.sub.Tensor", positive, 1));
    DTR_ASSIGN(factor, node.emit("aten.mul.Tensor", {target, factor}));
    DTR_ASSIGN(factor, with_number(node, "aten.add.Tensor", factor, 1));
    DTR_ASSIGN(softplus, node.emit("aten.mul.Tensor", {factor, softplus}));
  }
  DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {target, opposite}));
  DTR_ASSIGN(const ValueId linear, node.emit("aten.add.Tensor", {product, x}));
  DTR_ASSIGN(ValueId losses, node.emit("aten.add.Tensor", {linear, softplus}));
  DTR_ASSIGN(losses, weighted(node, losses));
  return reduced(node, losses);
}

// t · (log t − x) of x in logarithms; exp(t) · (t − x) of t in logarithms too.
Result<Values> divergence(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const bool of_logarithms, node.boolean("log_target", false));
  ValueId logarithm = target, factor = target;
  if (of_logarithms) {
    DTR_ASSIGN(factor, node.emit("aten.exp", {target}));
  } else {
    DTR_ASSIGN(logarithm, node.emit("aten.log", {target}));
  }
  DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {logarithm, x}));
  DTR_ASSIGN(ValueId losses, node.emit("aten.mul.Tensor", {factor, way}));
  if (!of_logarithms) {  // 0 · log 0 is 0
    DTR_ASSIGN(const ValueId none, number_like(node, x, 0));
    DTR_ASSIGN(const ValueId is_none, node.emit("aten.eq.Tensor", {target, none}));
    DTR_ASSIGN(losses, node.emit("aten.where.self", {is_none, none, losses}));
  }
  return reduced(node, losses);
}

// ---- of classes

// What the class `target` of each row of logarithms says: −w[target] · x[target], zero where the
// target is ignored; its mean is divided by the sum of the weights. Also that sum.
Result<Values> of_classes(NodeImport& node, ValueId x, double smoothing) {
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_ASSIGN(const int64_t reduction, node.integer("reduction", kMean));
  DTR_ASSIGN(const int64_t ignored, node.integer("ignore_index", -100));
  const Shape shape = node.type(x).shape, of_target = node.type(target).shape;
  const int64_t dim = shape.size() > 1 ? 1 : 0;
  if (shape.empty() || is_float(node.type(target).dtype) || of_target.size() + 1 != shape.size())
    return node.unsupported(
        fmt::format("targets of {} for {}", to_string(of_target), to_string(shape)),
        "give the number of the class of each row");
  DTR_ASSIGN(const ValueId skip_number, number_like(node, target, static_cast<double>(ignored)));
  DTR_ASSIGN(const ValueId skip, node.emit("aten.eq.Tensor", {target, skip_number}));
  DTR_ASSIGN(const ValueId first, number_like(node, target, 0));
  DTR_ASSIGN(const ValueId chosen, node.emit("aten.where.self", {skip, first, target}));
  Shape column = of_target;
  column.insert(column.begin() + dim, 1);
  DTR_ASSIGN(const ValueId index, node.view(chosen, column));
  DTR_ASSIGN(ValueId losses, compositions::gather(node, x, dim, index));
  DTR_ASSIGN(losses, node.view(losses, of_target));
  DTR_ASSIGN(losses, node.emit("aten.neg", {losses}));
  DTR_ASSIGN(const ValueId zero, number_like(node, x, 0));
  DTR_ASSIGN(const ValueId unit, number_like(node, x, 1));
  ValueId factor = unit;
  if (weight.valid()) {
    DTR_ASSIGN(factor, node.emit("aten.index_select", {weight, chosen}, {{"dim", int64_t{0}}}));
    DTR_ASSIGN(losses, node.emit("aten.mul.Tensor", {losses, factor}));
  }
  if (smoothing != 0) {
    // The other share of the loss is the mean over all classes.
    ValueId scaled = x;
    if (weight.valid()) {
      Shape along(shape.size(), 1);
      along[static_cast<size_t>(dim)] = shape[static_cast<size_t>(dim)];
      DTR_ASSIGN(const ValueId weights, node.view(weight, along));
      DTR_ASSIGN(scaled, node.emit("aten.mul.Tensor", {x, weights}));
    }
    DTR_ASSIGN(ValueId all,
               node.emit("aten.mean.dim", {scaled}, {{"dim", Ints{dim}}, {"keepdim", false}}));
    DTR_ASSIGN(all, with_number(node, "aten.mul.Tensor", all, -smoothing));
    DTR_ASSIGN(losses, with_number(node, "aten.mul.Tensor", losses, 1 - smoothing));
    DTR_ASSIGN(losses, node.emit("aten.add.Tensor", {losses, all}));
  }
  DTR_ASSIGN(factor, node.emit("aten.where.self", {skip, zero, factor}));
  DTR_ASSIGN(losses, node.emit("aten.where.self", {skip, zero, losses}));
  DTR_ASSIGN(const ValueId weights, sum_of_all(node, factor, "aten.sum.dim_IntList"));
  if (reduction == 0) return Values{losses, weights};
  DTR_ASSIGN(ValueId sum, sum_of_all(node, losses, "aten.sum.dim_IntList"));
  if (reduction == kMean) {
    DTR_ASSIGN(sum, node.emit("aten.div.Tensor", {sum, weights}));
  }
  return Values{sum, weights};
}

Result<Values> negative_log_likelihood(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return of_classes(node, x, 0);
}
Result<Values> only_loss(NodeImport& node) {
  DTR_ASSIGN(Values both, negative_log_likelihood(node));
  both.resize(1);
  return both;
}

Result<Values> cross_entropy(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double smoothing, node.number("label_smoothing", 0));
  DTR_ASSIGN(const ValueId target, node.tensor("target"));
  const Shape shape = node.type(x).shape;
  const int64_t dim = shape.size() > 1 ? 1 : 0;
  DTR_ASSIGN(x, node.emit("aten.log_softmax", {x}, {{"dim", dim}}));
  if (!is_float(node.type(target).dtype)) {
    DTR_ASSIGN(Values both, of_classes(node, x, smoothing));
    both.resize(1);
    return both;
  }
  // Targets that are probabilities.
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_TRY(node.integer("ignore_index", -100));
  if (weight.valid() || smoothing != 0)
    return node.unsupported("weights or smoothing of targets that are probabilities",
                            "apply them to the targets");
  DTR_ASSIGN(ValueId losses, node.emit("aten.mul.Tensor", {x, target}));
  DTR_ASSIGN(losses,
             node.emit("aten.sum.dim_IntList", {losses}, {{"dim", Ints{dim}}, {"keepdim", false}}));
  DTR_ASSIGN(losses, node.emit("aten.neg", {losses}));
  return reduced(node, losses);
}

}  // namespace

std::vector<Operator> loss_operators() {
  return {
      tensor_row("aten.binary_cross_entropy.default", "aten.log", binary_cross_entropy),
      tensor_row("aten.binary_cross_entropy_with_logits.default", "aten.log_sigmoid",
                 binary_cross_entropy_with_logits),
      tensor_row("aten.cosine_embedding_loss.default", "aten.sqrt", cosine_embedding),
      tensor_row("aten.cross_entropy_loss.default", "aten.log_softmax", cross_entropy),
      tensor_row("aten.hinge_embedding_loss.default", "aten.where.self", hinge_embedding),
      tensor_row("aten.huber_loss.default", "aten.abs", bounded_distance<false>),
      tensor_row("aten.kl_div.default", "aten.mul.Tensor", divergence),
      tensor_row("aten.l1_loss.default", "aten.abs", distance<false>),
      tensor_row("aten.margin_ranking_loss.default", "aten.relu", margin_ranking),
      tensor_row("aten.mse_loss.default", "aten.pow.Tensor_Scalar", distance<true>),
      tensor_row("aten.nll_loss.default", "aten.index_select", only_loss),
      tensor_row("aten.nll_loss2d.default", "aten.index_select", only_loss),
      tensor_row("aten.nll_loss2d_forward.default", "aten.index_select", negative_log_likelihood),
      tensor_row("aten.nll_loss_forward.default", "aten.index_select", negative_log_likelihood),
      tensor_row("aten.nll_loss_nd.default", "aten.index_select", only_loss),
      tensor_row("aten.poisson_nll_loss.default", "aten.exp", poisson),
      tensor_row("aten.smooth_l1_loss.default", "aten.abs", bounded_distance<true>),
      tensor_row("aten.soft_margin_loss.default", "aten.log_sigmoid", soft_margin),
      tensor_row("aten.triplet_margin_loss.default", "aten.sqrt", triplet_margin),
  };
}

}  // namespace dtr::pt2
