// Normalizations by statistics of the tensor itself, or stored ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/norms.h"
#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

constexpr double kEpsilon = static_cast<double>(1e-5F);

Result<Values> batch_norm(NodeImport& node) {
  DTR_ASSIGN(const double eps, node.number("epsilon", kEpsilon));
  DTR_ASSIGN(const bool training, node.flag("training_mode"));
  (void)node.has_attribute("momentum");
  if (training)
    return node.unsupported("it is in training mode",
                            "Export the model in evaluation mode (model.eval()).");
  DTR_ASSIGN(ValueId x, node.value(0));
  const Shape of = node.shape(x);
  Values operands{x};
  for (size_t i = 1; i < 5; ++i) {
    DTR_ASSIGN(operands.emplace_back(), node.value(i));
  }
  if (of.size() != 1)
    return only(node.emit("aten.batch_norm", std::move(operands), {{"eps", eps}}));
  // One channel without a name.
  DTR_ASSIGN(operands[0], node.view(x, {of[0], 1}));
  DTR_ASSIGN(x, node.emit("aten.batch_norm", std::move(operands), {{"eps", eps}}));
  return only(node.view(x, of));
}

Result<Values> instance_norm(NodeImport& node) {
  DTR_ASSIGN(const double eps, node.number("epsilon", kEpsilon));
  DTR_ASSIGN(const Values operands, node.values());
  if (node.type(operands[0]).rank() < 3) return node.invalid("its operand has no pixels");
  return only(node.emit("aten.group_norm", operands,
                        {{"num_groups", node.shape(operands[0])[1]}, {"eps", eps}}));
}

// Scale and bias are one a channel, before version 21 one a group.
Result<Values> group_norm(NodeImport& node) {
  DTR_ASSIGN(const double eps, node.number("epsilon", kEpsilon));
  DTR_ASSIGN(const int64_t groups, node.integer("num_groups"));
  (void)node.has_attribute("stash_type");
  DTR_ASSIGN(Values operands, node.values());
  const Shape of = node.shape(operands[0]);
  if (of.size() < 2 || groups < 1 || of[1] % groups != 0)
    return node.invalid(fmt::format("{} groups of {}", groups, to_string(of)));
  for (size_t i = 1; i < 3; ++i) {
    if (node.shape(operands[i]) != Shape{groups} || groups == of[1]) continue;
    DTR_ASSIGN(operands[i], node.view(operands[i], {groups, 1}));
    DTR_ASSIGN(operands[i], node.expand(operands[i], {groups, of[1] / groups}));
    DTR_ASSIGN(operands[i], node.view(operands[i], {of[1]}));
  }
  return only(node.emit("aten.group_norm", operands, {{"num_groups", groups}, {"eps", eps}}));
}

// The mean over the last dimensions and the reciprocal of the deviation, if they are read.
Result<Values> statistics(NodeImport& node, ValueId x, const Ints& dims, double eps, bool centers) {
  Values made(2);
  ValueId centred = x;
  if (centers) {
    DTR_ASSIGN(made[0], node.emit("aten.mean.dim", {x}, {{"dim", dims}, {"keepdim", true}}));
    DTR_ASSIGN(centred, node.sub(x, made[0]));
  }
  DTR_ASSIGN(ValueId squares, node.mul(centred, centred));
  DTR_ASSIGN(squares, node.emit("aten.mean.dim", {squares}, {{"dim", dims}, {"keepdim", true}}));
  DTR_ASSIGN(squares, node.plus(squares, eps));
  DTR_ASSIGN(made[1], node.emit("aten.rsqrt", {squares}));
  return made;
}

// x normalized over the dimensions from `axis` on. Scale and bias, which may be invalid, are
// operands of the op if they have the shape of these dimensions.
Result<ValueId> normalized(NodeImport& node, ValueId x, int64_t axis, double eps, ValueId scale,
                           ValueId bias, bool centers) {
  const Shape of = node.shape(x);
  const Shape last(of.begin() + axis, of.end());
  const Attributes attributes{{"normalized_shape", last}, {"eps", eps}};
  const std::string_view op = centers ? "aten.layer_norm" : "aten.rms_norm";
  const auto fits = [&](ValueId value) { return !value.valid() || node.shape(value) == last; };
  const bool both =
      fits(scale) && fits(bias) && (centers || !bias.valid()) && (scale.valid() || !bias.valid());
  Values operands{x};
  if (both && scale.valid()) operands.push_back(scale);
  if (both && bias.valid()) operands.push_back(bias);
  DTR_ASSIGN(ValueId y, node.emit(op, std::move(operands), attributes));
  if (both) return y;
  if (scale.valid()) {
    DTR_ASSIGN(y, node.mul(y, scale));
  }
  if (bias.valid()) {
    DTR_ASSIGN(y, node.add(y, bias));
  }
  return y;
}

template <bool kCenters>
Result<Values> layer_norm(NodeImport& node) {
  DTR_ASSIGN(const double eps, node.number("epsilon", kEpsilon));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{-1}));
  (void)node.has_attribute("stash_type");
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t axis, node.axis(stated, node.type(x).rank()));
  DTR_ASSIGN(const ValueId scale, node.optional_value(1));
  DTR_ASSIGN(const ValueId bias, node.optional_value(2));
  DTR_ASSIGN(const ValueId y, normalized(node, x, axis, eps, scale, bias, kCenters));
  Values results{y};
  if (!node.wants(1) && !node.wants(2)) return results;
  Ints dims;
  for (auto i = axis; i < static_cast<int64_t>(node.type(x).rank()); ++i) dims.push_back(i);
  DTR_ASSIGN(const Values more, statistics(node, x, dims, eps, kCenters));
  if (!kCenters) return Values{y, more[1]};
  results.insert(results.end(), more.begin(), more.end());
  return results;
}

// Operands: x, another that is added to it, weight, (bias,) and a bias of the sum.
template <bool kCenters>
Result<Values> skip_norm(NodeImport& node) {
  DTR_ASSIGN(const double eps, node.number("epsilon", static_cast<double>(1e-12F)));
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId skip, node.value(1));
  DTR_ASSIGN(const ValueId scale, node.value(2));
  DTR_ASSIGN(const ValueId bias, kCenters ? node.optional_value(3) : Result<ValueId>(ValueId{}));
  DTR_ASSIGN(const ValueId of_sum, node.optional_value(kCenters ? 4 : 3));
  DTR_ASSIGN(x, node.add(x, skip));
  if (of_sum.valid()) {
    DTR_ASSIGN(x, node.add(x, of_sum));
  }
  const auto axis = static_cast<int64_t>(node.type(x).rank()) - 1;
  DTR_ASSIGN(const ValueId y, normalized(node, x, axis, eps, scale, bias, kCenters));
  return Values{y, {}, {}, x};
}

// x / |x| along a dimension.
Result<Values> lp_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{-1}));
  DTR_ASSIGN(const int64_t p, node.integer("p", int64_t{2}));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  if (p != 1 && p != 2) return node.invalid(fmt::format("p is {}", p));
  DTR_ASSIGN(ValueId norm, compositions::vector_norm(node, x, static_cast<double>(p), {dim}, true));
  // Zeros stay zeros.
  DTR_ASSIGN(norm, node.emit("aten.clamp", {norm}, {{"min", 1e-38}}));
  return only(node.div(x, norm));
}

// (x − mean) / (deviation + 1e-9).
Result<Values> mean_variance_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const Ints stated, node.ints("axes", Ints{0, 2, 3}));
  DTR_ASSIGN(const Ints dims, node.axes(stated, node.type(x).rank()));
  const Attributes attributes{{"dim", dims}, {"keepdim", true}};
  DTR_ASSIGN(const ValueId mean, node.emit("aten.mean.dim", {x}, attributes));
  DTR_ASSIGN(const ValueId centred, node.sub(x, mean));
  DTR_ASSIGN(ValueId deviation, node.mul(centred, centred));
  DTR_ASSIGN(deviation, node.emit("aten.mean.dim", {deviation}, attributes));
  DTR_ASSIGN(deviation, node.emit("aten.sqrt", {deviation}));
  DTR_ASSIGN(deviation, node.plus(deviation, 1e-9));
  return only(node.div(centred, deviation));
}

// x · (bias + alpha / size · Σ x²)^−beta, summed over `size` neighbouring channels.
Result<Values> local_response_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const double alpha, node.number("alpha", static_cast<double>(1e-4F)));
  DTR_ASSIGN(const double beta, node.number("beta", 0.75));
  DTR_ASSIGN(const double bias, node.number("bias", 1));
  DTR_ASSIGN(const int64_t size, node.integer("size"));
  const Shape of = node.shape(x);
  if (of.size() < 3 || size < 1 || size > 4096)
    return node.invalid(fmt::format("{} channels of {}", size, to_string(of)));
  const int64_t pixels = element_count(Shape(of.begin() + 2, of.end()));
  DTR_ASSIGN(ValueId sum, node.mul(x, x));
  DTR_ASSIGN(sum, node.view(sum, {of[0], 1, of[1], pixels}));
  DTR_ASSIGN(sum, node.pad(sum, {0, 0, (size - 1) / 2, size / 2}, 0));
  DTR_ASSIGN(sum, node.emit("aten.avg_pool2d", {sum},
                            {{"kernel_size", Ints{size, 1}},
                             {"stride", Ints{1, 1}},
                             {"padding", Ints{0, 0}},
                             {"ceil_mode", false},
                             {"count_include_pad", true}}));
  DTR_ASSIGN(sum, node.view(sum, of));
  DTR_ASSIGN(sum, node.times(sum, alpha));
  DTR_ASSIGN(sum, node.plus(sum, bias));
  DTR_ASSIGN(const ValueId factor,
             node.emit("aten.pow.Tensor_Scalar", {sum}, {{"exponent", -beta}}));
  return only(node.mul(x, factor));
}

}  // namespace

std::vector<Operator> normalization_operators() {
  return {
      row("BatchNormalization", 5, 5, batch_norm),
      row("GroupNormalization", 3, 3, group_norm),
      row("InstanceNormalization", 3, 3, instance_norm),
      row("LayerNormalization", 2, 3, layer_norm<true>),
      row("LpNormalization", 1, 1, lp_norm),
      row("LRN", 1, 1, local_response_norm),
      row("MeanVarianceNormalization", 1, 1, mean_variance_norm),
      row("RMSNormalization", 2, 2, layer_norm<false>),
      row("SimplifiedLayerNormalization", 2, 2, layer_norm<false>),
      row("SimplifiedLayerNormalization", 2, 2, layer_norm<false>, kMicrosoft),
      row("SkipLayerNormalization", 3, 5, skip_norm<true>, kMicrosoft),
      row("SkipSimplifiedLayerNormalization", 3, 4, skip_norm<false>, kMicrosoft),
  };
}

}  // namespace dtr::onnx
