#include "compiler/transforms/channel_affine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/transforms/edit.h"

namespace dtr {
namespace {

// Ops between a function and its layer; more would make passes that look from each op quadratic.
constexpr int kMaxSteps = 16;

using Reason = tl::unexpected<std::string>;

bool is_transposed(const Op& layer) { return layer.attributes.get_or("transposed", false); }
size_t groups_of(const Op& layer) {
  return static_cast<size_t>(layer.attributes.get_or<int64_t>("groups", 1));
}

// The dimension of `from` that equals dimension `axis` of `to`, another view of the same elements;
// nullopt if none does.
std::optional<size_t> axis_through_view(const Shape& from, const Shape& to, size_t axis) {
  int64_t before = 1, reached = 1;
  for (size_t i = 0; i < axis; ++i) before *= to[i];
  for (size_t i = 0; i < from.size(); ++i) {
    if (reached == before && from[i] == to[axis]) return i;
    reached *= from[i];
  }
  return std::nullopt;
}

Ints permutation_of(const Op& permute) {
  Ints dims = permute.attributes.get<Ints>("dims");
  for (int64_t& dim : dims)
    if (dim < 0) dim += static_cast<int64_t>(dims.size());
  return dims;
}

// The dimension of a permute's or view's operand that is dimension `axis` of its result.
std::optional<size_t> axis_of_operand(const Graph& graph, const Op& op, size_t axis) {
  if (op.def == &ops::kPermute) return static_cast<size_t>(permutation_of(op)[axis]);
  return axis_through_view(graph.type(op.operands[0]).shape, graph.type(op.results[0]).shape, axis);
}
bool keeps_elements(const Op& op) { return op.def == &ops::kPermute || op.def == &ops::kView; }

std::string names_axis(const Graph& graph, const Op& layer, ValueId value, size_t axis) {
  return fmt::format("the channels of {} are dimension {} of `{}`, not {}", layer.def->name,
                     channel_axis(graph, layer, value), graph.value(value).name, axis);
}

// Calls visit(weight, input channel, output channel) for all weights of a layer.
template <class Visit>
void for_each_weight(const Graph& graph, const Op& layer, std::vector<double>& weights,
                     Visit visit) {
  const Shape& shape = graph.type(layer.operands[1]).shape;
  const auto outer = static_cast<size_t>(shape[0]), inner = static_cast<size_t>(shape[1]);
  const size_t plane = weights.size() / std::max<size_t>(outer * inner, 1);
  const size_t in_group = std::max<size_t>(outer / groups_of(layer), 1);
  const bool transposed = is_transposed(layer);
  for (size_t i = 0, at = 0; i < outer; ++i)
    for (size_t j = 0; j < inner; ++j) {
      const size_t across = i / in_group * inner + j;
      const size_t in = transposed ? i : across, out = transposed ? across : i;
      for (size_t k = 0; k < plane; ++k) visit(weights[at++], in, out);
    }
}

std::vector<double> bias_of(const Module& module, const Graph& graph, OpId layer) {
  const ValueId bias = operand_or_absent(graph.op(layer), 2);
  if (bias.valid()) return constant_doubles(module, graph, bias);
  return std::vector<double>(static_cast<size_t>(output_channels(graph, layer)));
}

// Merges the origin of `folded` into that of `op`: as part `part` of `parts`, or whole.
void join_origin(Rewriter& rewriter, OpId op, OpId folded, size_t part, size_t parts) {
  Origin origin = merge(rewriter.graph().op(op).origin, rewriter.graph().op(folded).origin);
  origin.part = parts == 1 ? 0 : static_cast<uint32_t>(part);
  origin.parts = static_cast<uint32_t>(parts);
  rewriter.set_origin(op, std::move(origin));
}

void set_weights(Module& module, Rewriter& rewriter, OpId layer, const std::vector<double>& weights,
                 const std::vector<double>& biases) {
  const Graph& graph = rewriter.graph();
  const ValueId weight = graph.op(layer).operands[1], bias = operand_or_absent(graph.op(layer), 2);
  const Type type = graph.type(weight);
  const std::string weight_name = graph.value(weight).name;
  const std::string bias_name = bias.valid()
                                    ? graph.value(bias).name
                                    : graph.value(graph.op(layer).results[0]).name + ".bias";
  const bool needs_bias =
      bias.valid() || std::any_of(biases.begin(), biases.end(), [](double b) { return b != 0; });
  rewriter.set_operand(
      layer, 1, add_float_constant(module, rewriter, type.dtype, type.shape, weights, weight_name));
  if (needs_bias)
    rewriter.set_operand(
        layer, 2,
        add_float_constant(module, rewriter, type.dtype, {static_cast<int64_t>(biases.size())},
                           biases, bias_name));
}

// layer_before within a number of steps, which all ways through products share.
tl::expected<OpId, std::string> find_before(const Graph& graph, ValueId value,
                                            std::optional<size_t> axis, bool across_products,
                                            int& steps) {
  while (steps-- > 0) {
    const std::string& name = graph.value(value).name;
    const OpId id = graph.producer(value);
    if (!id.valid())
      return Reason(fmt::format("`{}` is no result of a convolution or linear", name));
    const Op& op = graph.op(id);
    if (!is_layer(op) && !keeps_elements(op) && !(across_products && op.def == &ops::kMatmul))
      return Reason(
          fmt::format("`{}` is made by {}, not by a convolution or linear", name, op.def->name));
    if (!graph.value(value).has_one_use())
      return Reason(fmt::format("`{}` has another user", name));
    if (is_layer(op)) {
      if (!takes_activation(op))
        return Reason(fmt::format("{} has a fused activation", op.def->name));
      if (axis && *axis != channel_axis(graph, op, value))
        return Reason(names_axis(graph, op, value, *axis));
      if (const auto constant = check_weights(graph, op); !constant)
        return Reason(constant.error());
      return id;
    }
    if (op.def == &ops::kMatmul) {
      if (auto first = find_before(graph, op.operands[0], axis, true, steps)) return first;
      value = op.operands[1];
      continue;
    }
    if (axis) {
      const auto there = axis_of_operand(graph, op, *axis);
      if (!there)
        return Reason(fmt::format("dimension {} of `{}` is not a dimension of what it is a view of",
                                  *axis, name));
      axis = there;
    }
    value = op.operands[0];
  }
  return Reason("there are too many permutes, views and products before it");
}

}  // namespace

std::optional<size_t> axis_behind(const Graph& graph, const Op& op, size_t axis) {
  if (!keeps_elements(op)) return std::nullopt;
  if (op.def == &ops::kView)
    return axis_through_view(graph.type(op.results[0]).shape, graph.type(op.operands[0]).shape,
                             axis);
  const Ints dims = permutation_of(op);
  return static_cast<size_t>(std::find(dims.begin(), dims.end(), static_cast<int64_t>(axis)) -
                             dims.begin());
}

tl::expected<void, std::string> check_weights(const Graph& graph, const Op& layer) {
  const ValueId bias = operand_or_absent(layer, 2);
  for (const ValueId weight : {layer.operands[1], bias})
    if (weight.valid() && !is_float_constant(graph, weight))
      return Reason(fmt::format("`{}` of {} is computed while the model runs",
                                graph.value(weight).name, layer.def->name));
  return {};
}

bool is_layer(const Op& op) { return op.def == &ops::kConvolution || op.def == &ops::kLinear; }

size_t channel_axis(const Graph& graph, const Op& layer, ValueId value) {
  return layer.def == &ops::kLinear ? graph.type(value).rank() - 1 : 1;
}

bool ChannelAffine::shifts() const {
  return std::any_of(offset.begin(), offset.end(), [](double x) { return x != 0; });
}

tl::expected<ChannelAffine, std::string> batch_norm_affine(const Module& module, const Graph& graph,
                                                           const Op& norm) {
  std::vector<double> parameters[5];  // x has none; weight, bias, mean, var
  for (size_t i = 1; i < 5; ++i) {
    const ValueId parameter = operand_or_absent(norm, i);
    if (!parameter.valid()) continue;
    if (!is_float_constant(graph, parameter))
      return Reason(fmt::format("its parameter `{}` is computed while the model runs",
                                graph.value(parameter).name));
    parameters[i] = constant_doubles(module, graph, parameter);
  }
  const auto& [x, gamma, beta, mean, variance] = parameters;
  const auto eps = norm.attributes.get<double>("eps");
  ChannelAffine affine;
  for (size_t c = 0; c < mean.size(); ++c) {
    const double scale = (gamma.empty() ? 1.0 : gamma[c]) / std::sqrt(variance[c] + eps);
    const double offset = (beta.empty() ? 0.0 : beta[c]) - mean[c] * scale;
    if (!std::isfinite(static_cast<float>(scale)) || !std::isfinite(static_cast<float>(offset)))
      return Reason(
          fmt::format("channel {} has variance {} and eps {}, so that its scale is not finite", c,
                      variance[c], eps));
    affine.scale.push_back(scale);
    affine.offset.push_back(offset);
  }
  return affine;
}

ChannelAffine ConstantAffine::over(size_t channels) const {
  if (axis) return function;
  return {.scale = std::vector<double>(channels, function.scale.front()),
          .offset = std::vector<double>(channels, function.offset.front())};
}

std::optional<ConstantAffine> constant_affine(const Module& module, const Graph& graph,
                                              const Op& op) {
  const bool sum = op.def == &ops::kAddTensor, difference = op.def == &ops::kSubTensor;
  const bool product = op.def == &ops::kMulTensor, quotient = op.def == &ops::kDivTensor;
  if ((!sum && !difference && !product && !quotient) || op.attributes.find("activation") != nullptr)
    return std::nullopt;
  const size_t constant = is_float_constant(graph, op.operands[1]) ? 1 : 0;
  if (!is_float_constant(graph, op.operands[constant]) || (constant == 0 && quotient))
    return std::nullopt;
  ConstantAffine affine{.x = op.operands[1 - constant], .axis = std::nullopt, .function = {}};
  const Type& type = graph.type(op.results[0]);
  if (!same_type_and_quantization(graph, affine.x, op.results[0]) || type.elements() == 0)
    return std::nullopt;
  const Shape& shape = graph.type(op.operands[constant]).shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (affine.axis) return std::nullopt;
    affine.axis = type.rank() - shape.size() + i;
  }
  const double alpha = op.attributes.get_or("alpha", 1.0);
  for (const double value : constant_doubles(module, graph, op.operands[constant])) {
    double scale = 1, offset = 0;
    if (product) scale = value;
    if (quotient) scale = 1 / value;
    if (sum || difference) {
      const double sign = difference ? -alpha : alpha;
      scale = constant == 0 ? sign : 1;
      offset = constant == 0 ? value : sign * value;
    }
    if (!std::isfinite(static_cast<float>(scale)) || !std::isfinite(static_cast<float>(offset)))
      return std::nullopt;
    affine.function.scale.push_back(scale);
    affine.function.offset.push_back(offset);
  }
  return affine;
}

tl::expected<OpId, std::string> layer_before(const Graph& graph, ValueId value,
                                             std::optional<size_t> axis, bool across_products) {
  int steps = kMaxSteps;
  return find_before(graph, value, axis, across_products, steps);
}

tl::expected<OpId, std::string> layer_after(const Graph& graph, ValueId value,
                                            std::optional<size_t> axis) {
  for (int step = 0; step < kMaxSteps; ++step) {
    const std::string& name = graph.value(value).name;
    const OpId id = graph.sole_user(value);
    if (!id.valid()) return Reason(fmt::format("`{}` is not read by one op alone", name));
    const Op& op = graph.op(id);
    if (is_layer(op) && op.operands[0] == value) {
      if (axis && *axis != channel_axis(graph, op, value))
        return Reason(names_axis(graph, op, value, *axis));
      if (const auto constant = check_weights(graph, op); !constant)
        return Reason(constant.error());
      return id;
    }
    if (!keeps_elements(op))
      return Reason(
          fmt::format("`{}` is read by {}, not by a convolution or linear", name, op.def->name));
    if (axis) {
      const auto there = axis_behind(graph, op, *axis);
      if (!there)
        return Reason(
            fmt::format("dimension {} of `{}` is not a dimension of its view", *axis, name));
      axis = there;
    }
    value = op.results[0];
  }
  return Reason("there are too many permutes and views behind it");
}

bool takes_offsets(const Op& layer) {
  if (layer.def == &ops::kLinear) return true;
  const Ints& begin = layer.attributes.get<Ints>("padding");
  const Ints end = layer.attributes.get_or("padding_end", begin);
  const auto is_zero = [](const Ints& padding) {
    return std::all_of(padding.begin(), padding.end(), [](int64_t p) { return p == 0; });
  };
  return !is_transposed(layer) && is_zero(begin) && is_zero(end);
}

void apply_after(Module& module, Rewriter& rewriter, OpId layer, const ChannelAffine& affine) {
  const Graph& graph = rewriter.graph();
  std::vector<double> weights = constant_doubles(module, graph, graph.op(layer).operands[1]);
  std::vector<double> biases = bias_of(module, graph, layer);
  DTR_CHECK(affine.scale.size() == biases.size() && affine.offset.size() == biases.size());
  for_each_weight(graph, graph.op(layer), weights,
                  [&](double& weight, size_t, size_t out) { weight *= affine.scale[out]; });
  for (size_t c = 0; c < biases.size(); ++c)
    biases[c] = biases[c] * affine.scale[c] + affine.offset[c];
  set_weights(module, rewriter, layer, weights, biases);
}

void apply_before(Module& module, Rewriter& rewriter, OpId layer, const ChannelAffine& affine) {
  const Graph& graph = rewriter.graph();
  std::vector<double> weights = constant_doubles(module, graph, graph.op(layer).operands[1]);
  std::vector<double> biases = bias_of(module, graph, layer);
  for_each_weight(graph, graph.op(layer), weights, [&](double& weight, size_t in, size_t out) {
    biases[out] += weight * affine.offset[in];
    weight *= affine.scale[in];
  });
  set_weights(module, rewriter, layer, weights, biases);
}

void finish_before(Rewriter& rewriter, OpId folded, ValueId x, OpId layer) {
  const Graph& graph = rewriter.graph();
  std::vector<OpId> path;
  for (OpId op = layer; op != folded; op = graph.sole_user(graph.op(op).results[0]))
    path.push_back(op);
  for (size_t i = 0; i < path.size(); ++i)
    join_origin(rewriter, path[i], folded, i, i + 1 == path.size() ? 1 : path.size());
  rewriter.replace(folded, x);
}

void finish_after(Rewriter& rewriter, OpId folded, ValueId x, OpId layer) {
  const Graph& graph = rewriter.graph();
  std::vector<OpId> path;
  for (OpId op = folded; op != layer;)
    path.push_back(op = graph.sole_user(graph.op(op).results[0]));
  for (size_t i = 0; i < path.size(); ++i)
    join_origin(rewriter, path[i], folded, i, i + 1 == path.size() ? 1 : path.size());
  rewriter.replace(folded, x);
}

int64_t output_channels(const Graph& graph, OpId layer) {
  const Op& op = graph.op(layer);
  const Shape& weight = graph.type(op.operands[1]).shape;
  return is_transposed(op) ? weight[1] * static_cast<int64_t>(groups_of(op)) : weight[0];
}

int64_t input_channels(const Graph& graph, OpId layer) {
  const Op& op = graph.op(layer);
  return graph.type(op.operands[0]).shape[channel_axis(graph, op, op.operands[0])];
}

}  // namespace dtr
