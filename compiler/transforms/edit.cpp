#include "compiler/transforms/edit.h"

#include <algorithm>

namespace dtr {

bool is_float_constant(const Graph& graph, ValueId value) {
  return graph.is_constant(value) && is_float(graph.type(value).dtype);
}

bool same_type_and_quantization(const Graph& graph, ValueId a, ValueId b) {
  const Type &left = graph.type(a), &right = graph.type(b);
  return left.dtype == right.dtype && left.shape == right.shape &&
         left.quantization == right.quantization;
}

std::vector<double> constant_doubles(const Module& module, const Graph& graph, ValueId constant) {
  const ConstantId id = graph.value(constant).constant;
  if (graph.type(constant).dtype == DType::kFloat64) {
    const auto values = module.constants.values<double>(id);
    return {values.begin(), values.end()};
  }
  DTR_CHECK(graph.type(constant).dtype == DType::kFloat32);
  const auto values = module.constants.values<float>(id);
  return {values.begin(), values.end()};
}

ValueId add_float_constant(Module& module, Rewriter& rewriter, DType dtype, Shape shape,
                           std::span<const double> values, std::string_view name) {
  ConstantId id;
  if (dtype == DType::kFloat64) {
    id = module.constants.add_values<double>(dtype, values);
  } else {
    std::vector<float> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(),
                   [](double value) { return static_cast<float>(value); });
    id = module.constants.add_values<float>(dtype, rounded);
  }
  return rewriter.add_constant({.dtype = dtype, .shape = std::move(shape)}, id, name);
}

bool is_constant_of(const Module& module, const Graph& graph, ValueId value, double wanted) {
  if (!graph.is_constant(value)) return false;
  const Type& type = graph.type(value);
  const ConstantId id = graph.value(value).constant;
  if (type.dtype == DType::kFloat32) {
    const auto values = module.constants.values<float>(id);
    return std::all_of(values.begin(), values.end(),
                       [&](float x) { return x == static_cast<float>(wanted); });
  }
  if (type.dtype == DType::kInt8 && type.quantized() && !type.quantization->per_channel()) {
    const auto values = module.constants.values<int8_t>(id);
    const auto real = [&](int8_t q) {
      return double{type.quantization->scale()} * (q - type.quantization->zero_point());
    };
    return std::all_of(values.begin(), values.end(), [&](int8_t q) { return real(q) == wanted; });
  }
  return false;
}

double code_of(double value, const Quantization& to) {
  return std::clamp(std::nearbyint(value / static_cast<double>(to.scale())) + to.zero_point(),
                    static_cast<double>(to.qmin), static_cast<double>(to.qmax));
}

void erase_if_unused(Rewriter& rewriter, OpId op) {
  const Graph& graph = rewriter.graph();
  if (graph.value(graph.op(op).results[0]).unused()) rewriter.erase(op);
}

Result<ValueId> replace_op(Rewriter& rewriter, OpId op, OpSpec spec) {
  const Graph& graph = rewriter.graph();
  const ValueId old = graph.op(op).results[0];
  const Layout layout = graph.type(old).layout;
  const std::string name = graph.value(old).name;
  if (spec.origin.sources.empty()) spec.origin = graph.op(op).origin;
  spec.quantization = graph.type(old).quantization;
  DTR_ASSIGN(const ValueId made, rewriter.insert_value(op, std::move(spec)));
  rewriter.set_layout(made, layout);
  rewriter.replace(op, made);
  rewriter.rename(made, name);
  return made;
}

Result<ValueId> insert_view(Rewriter& rewriter, OpId before, ValueId x, const Shape& shape,
                            const Origin& origin) {
  return rewriter.insert_value(
      before,
      {.def = &ops::kView, .operands = {x}, .attributes = {{"size", shape}}, .origin = origin});
}

Result<void> replace_between_views(Rewriter& rewriter, OpId op, OpSpec spec) {
  const Graph& graph = rewriter.graph();
  const ValueId old = graph.op(op).results[0];
  const Type type = graph.type(old);
  const std::string name = graph.value(old).name;
  const Origin origin = graph.op(op).origin;
  spec.origin = origin;
  spec.name = name;
  spec.quantization = type.quantization;
  DTR_ASSIGN(const ValueId made, rewriter.insert_value(op, std::move(spec)));
  DTR_ASSIGN(const ValueId back, insert_view(rewriter, op, made, type.shape, origin));
  rewriter.set_layout(back, type.layout);
  rewriter.replace(op, back);
  rewriter.rename(made, name);
  return {};
}

Origin origin_back_to(const Graph& graph, ValueId from, OpId last) {
  std::vector<OpId> group = {last};
  const auto inside = [&](OpId id) { return std::ranges::find(group, id) != group.end(); };
  const auto only_inside = [&](OpId id) {
    return std::ranges::all_of(graph.op(id).results, [&](ValueId result) {
      const Value& value = graph.value(result);
      return value.output_uses == 0 &&
             std::ranges::all_of(value.uses, [&](const Use& use) { return inside(use.op); });
    });
  };
  for (bool grown = true; grown;) {  // an op with two readers in the group joins it after both
    grown = false;
    for (size_t i = 0; i < group.size(); ++i)
      for (const ValueId operand : graph.op(group[i]).operands) {
        const OpId id = operand == from ? OpId{} : graph.producer(operand);
        if (!id.valid() || inside(id) || !only_inside(id)) continue;
        group.push_back(id);
        grown = true;
      }
  }
  Origin origin = graph.op(last).origin;
  for (const OpId id : group) origin = merge(origin, graph.op(id).origin);
  return origin;
}

std::optional<double> uniform_value(const Module& module, const Graph& graph, ValueId value) {
  if (!value.valid() || !is_float_constant(graph, value) || graph.type(value).elements() == 0)
    return std::nullopt;
  const auto first = [&](const auto& values) -> std::optional<double> {
    const bool uniform =
        std::all_of(values.begin(), values.end(), [&](auto x) { return x == values.front(); });
    return uniform ? std::optional<double>(values.front()) : std::nullopt;
  };
  const ConstantId id = graph.value(value).constant;
  if (graph.type(value).dtype == DType::kFloat64) return first(module.constants.values<double>(id));
  return first(module.constants.values<float>(id));
}

std::optional<RealBounds> clamp_bounds(const Op& op) {
  if (op.def == &ops::kRelu) return ops::activation_bounds("relu");
  if (op.def != &ops::kClamp) return std::nullopt;
  const RealBounds none;
  const RealBounds bounds{op.attributes.get_or("min", none.low),
                          op.attributes.get_or("max", none.high)};
  return RealBounds{std::min(bounds.low, bounds.high),
                    bounds.high};  // min > max gives max everywhere
}

std::optional<std::string_view> activation_name(const RealBounds& bounds) {
  for (const std::string_view name : {"relu", "relu6", "relu_0_to_1", "relu_n1_to_1"})
    if (ops::activation_bounds(name) == bounds) return name;
  return std::nullopt;
}

std::optional<RealBounds> result_bounds(const Op& op) {
  if (op.def == &ops::kSoftmax || op.def == &ops::kSigmoid) return RealBounds{0, 1};
  if (op.def == &ops::kTanh) return RealBounds{-1, 1};
  const AttributeValue* fused = op.attributes.find("activation");
  return fused != nullptr ? ops::activation_bounds(std::get<std::string>(*fused))
                          : clamp_bounds(op);
}

bool takes_activation(const Op& op) {
  return op.attributes.find("activation") == nullptr &&
         op.def->schema.attribute("activation") != nullptr;
}

}  // namespace dtr
