#include "compiler/ops/define.h"

#include <cmath>

namespace dtr::ops {

std::vector<Type> infer_like_first(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = view.operand(0).shape}};
}

tl::unexpected<Diagnostic> broken(const OpView& view, std::string_view reason) {
  return fail(DiagnosticId::kIrInvalid, fmt::format("{}: {}", view.def->name, reason));
}

bool per_tensor(const Type& type) {
  if (!type.quantized() || type.quantization->per_channel()) return false;
  const Quantization& q = *type.quantization;
  return q.scales.size() == 1 && q.zero_points.size() == 1 && q.scale() > 0 &&
         std::isfinite(q.scale()) && q.qmin <= q.zero_point() && q.zero_point() <= q.qmax;
}

Result<void> check_activation(const OpView& view, size_t index) {
  const Type& type = view.operand(index);
  const bool on_integers = view.def->has_trait(kOnIntegers) && !type.quantized();
  if (!is_float(type.dtype) && !on_integers) {
    if (type.dtype != DType::kInt8 || !per_tensor(type))
      return broken(
          view, fmt::format("operand {} is {}{}, expected float or i8 quantized per tensor", index,
                            name(type.dtype), type.quantized() ? "" : " without quantization"));
  } else if (is_float(type.dtype) && type.quantized()) {
    return broken(view,
                  fmt::format("operand {} is {} and has a quantization", index, name(type.dtype)));
  }
  if (!view.results.empty() && view.result().quantized() != type.quantized())
    return broken(view, fmt::format("operand {} is {} and the result is {}", index,
                                    type.quantized() ? "quantized" : "float",
                                    view.result().quantized() ? "quantized" : "not"));
  return {};
}

Result<void> verify_activation(const OpView& view) { return check_activation(view); }

Result<void> check_keeps_quantization(const OpView& view) {
  if (!view.results.empty() && view.operand(0).quantization != view.result().quantization)
    return broken(view, "operand 0 and the result have different quantizations");
  return {};
}

Result<void> check_weight_and_bias(const OpView& view, int channel_axis, int64_t channels) {
  const Type& x = view.operand(0);
  const Type& weight = view.operand(1);
  const Type* bias = view.has(2) ? &view.operand(2) : nullptr;
  if (bias != nullptr && bias->shape != Shape{channels})
    return broken(
        view, fmt::format("the bias has shape {}, expected {}", to_string(bias->shape), channels));
  if (!x.quantized()) {
    if (weight.dtype != x.dtype || weight.quantized())
      return broken(
          view, fmt::format("the weight is {}, expected {}", name(weight.dtype), name(x.dtype)));
    if (bias != nullptr && (bias->dtype != x.dtype || bias->quantized()))
      return broken(view,
                    fmt::format("the bias is {}, expected {}", name(bias->dtype), name(x.dtype)));
    return {};
  }

  // Groups of a transposed convolution share the entries of the weight's output channels.
  const auto per_tensor_or_channel = [&](const Quantization& q, int axis, int64_t extent) {
    const size_t entries = q.per_channel() ? static_cast<size_t>(extent) : 1;
    if ((q.per_channel() && q.axis != axis) || q.scales.size() != entries ||
        q.zero_points.size() != entries)
      return false;
    for (const int32_t zero_point : q.zero_points)
      if (zero_point != 0) return false;
    return true;
  };
  if (weight.dtype != DType::kInt8 || !weight.quantized() ||
      !per_tensor_or_channel(*weight.quantization, channel_axis,
                             weight.shape[static_cast<size_t>(channel_axis)]))
    return broken(
        view,
        fmt::format("the weight is not i8 quantized per tensor or along axis {} with zero point 0",
                    channel_axis));
  if (bias == nullptr) return {};
  if (bias->dtype != DType::kInt32 || !bias->quantized() ||
      !per_tensor_or_channel(*bias->quantization, 0, channels))
    return broken(view, "the bias is not i32 quantized with zero point 0");
  const auto scale_of = [](const Quantization& q, size_t c) {
    return static_cast<double>(q.scales[c % q.scales.size()]);
  };
  constexpr double kTolerance = 1e-6;  // float products, taken in another order or rounded twice
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const double expected =
        static_cast<double>(x.quantization->scale()) * scale_of(*weight.quantization, c);
    const double actual = scale_of(*bias->quantization, c);
    if (!(std::abs(actual - expected) <= kTolerance * expected))
      return broken(
          view, fmt::format("the scale of bias {} is {}, expected that of operand times weight, {}",
                            c, actual, expected));
  }
  return {};
}

Result<void> check_ints(const OpView& view, std::string_view attribute, size_t count, int64_t low,
                        int64_t high) {
  const Ints& values = view.attribute<Ints>(attribute);
  if (values.size() != count)
    return broken(view,
                  fmt::format("`{}` has {} entries, expected {}", attribute, values.size(), count));
  for (const int64_t value : values)
    if (value < low || value > high)
      return broken(view, fmt::format("`{}` has the entry {}, expected {} to {}", attribute, value,
                                      low, high));
  return {};
}

Result<void> check_result_shape(const OpView& view, const Shape& shape) {
  const auto elements = checked_element_count(shape);
  if (!elements || *elements > INT32_MAX)
    return broken(view, fmt::format("the result would have the shape {}", to_string(shape)));
  return {};
}

std::optional<size_t> normalize_dim(int64_t dim, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (dim < -signed_rank || dim >= signed_rank) return std::nullopt;
  return static_cast<size_t>(dim < 0 ? dim + signed_rank : dim);
}

std::optional<RealBounds> activation_bounds(std::string_view name) {
  if (name == "relu") return RealBounds{.low = 0};
  if (name == "relu6") return RealBounds{0, 6};
  if (name == "relu_0_to_1") return RealBounds{0, 1};
  if (name == "relu_n1_to_1") return RealBounds{-1, 1};
  return std::nullopt;
}

RealBounds activation_bounds(const OpView& view) {
  const AttributeValue* activation = view.attributes->find(kActivationAttribute);
  return activation == nullptr ? RealBounds{}
                               : *activation_bounds(std::get<std::string>(*activation));
}

Result<void> check_fused_activation(const OpView& view) {
  const AttributeValue* activation = view.attributes->find(kActivationAttribute);
  if (activation != nullptr && !activation_bounds(std::get<std::string>(*activation)))
    return broken(
        view,
        fmt::format("unknown activation `{}`, expected relu, relu6, relu_0_to_1 or relu_n1_to_1",
                    std::get<std::string>(*activation)));
  return {};
}

}  // namespace dtr::ops
