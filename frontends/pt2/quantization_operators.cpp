// PT2E's quantize and dequantize: the scale and zero point go into the type of the integer value.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

struct Range {
  int64_t low;
  int64_t high;
};

std::optional<Range> range_of(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return Range{-128, 127};
    case DType::kUint8:
      return Range{0, 255};
    case DType::kInt16:
      return Range{INT16_MIN, INT16_MAX};
    case DType::kInt32:
      return Range{INT32_MIN, INT32_MAX};
    default:
      return std::nullopt;
  }
}

// A scalar argument, or a constant tensor of one element (overload .tensor).
Result<double> scalar(NodeImport& node, std::string_view name) {
  if (const auto value = node.number(name)) return *value;
  DTR_ASSIGN(const std::vector<double> elements, node.constant_elements(name));
  if (elements.size() != 1) return node.unsupported(fmt::format("`{}` has {} elements", name, elements.size()));
  return elements.front();
}

// Checks scales and zero points and completes `quantization` with the integer range.
Result<Quantization> complete(NodeImport& node, Quantization quantization, DType dtype) {
  const auto range = range_of(dtype);
  if (!range) return node.unsupported(fmt::format("quantized values of {}", name(dtype)));
  DTR_ASSIGN(const int64_t low, node.integer("quant_min", range->low));
  DTR_ASSIGN(const int64_t high, node.integer("quant_max", range->high));
  if (low < range->low || high > range->high || low >= high)
    return node.unsupported(fmt::format("the range {}…{} is not one of {}", low, high, name(dtype)));
  quantization.qmin = static_cast<int32_t>(low);
  quantization.qmax = static_cast<int32_t>(high);
  for (const float scale : quantization.scales)
    if (!(scale > 0) || !std::isfinite(scale))
      return node.unsupported(fmt::format("the scale {} is not positive and finite", scale), "calibrate with data that reach the operator");
  for (const int32_t zero_point : quantization.zero_points)
    if (zero_point < low || zero_point > high)
      return node.unsupported(fmt::format("the zero point {} is outside {}…{}", zero_point, low, high));
  return quantization;
}

int32_t zero_point_of(double value) { return static_cast<int32_t>(std::clamp(value, -2147483648.0, 2147483647.0)); }

Result<Quantization> per_tensor(NodeImport& node, DType dtype) {
  DTR_ASSIGN(const double scale, scalar(node, "scale"));
  DTR_ASSIGN(const double zero_point, scalar(node, "zero_point"));
  return complete(node, {.scales = {static_cast<float>(scale)}, .zero_points = {zero_point_of(zero_point)}}, dtype);
}

Result<Quantization> per_channel(NodeImport& node, DType dtype, const Shape& shape) {
  DTR_ASSIGN(const int64_t axis, node.dim("axis", shape.size()));
  DTR_ASSIGN(const std::vector<double> scales, node.constant_elements("scales"));
  std::vector<double> zero_points(scales.size(), 0.0);
  if (node.has("zero_points")) {
    DTR_ASSIGN(zero_points, node.constant_elements("zero_points"));
  }
  const bool matches = !shape.empty() && scales.size() == static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  if (!matches || zero_points.size() != scales.size())
    return node.unsupported(
        fmt::format("{} scales and {} zero points for axis {} of shape {}", scales.size(), zero_points.size(), axis, to_string(shape)));
  Quantization quantization{.axis = static_cast<int>(axis)};
  for (const double scale : scales) quantization.scales.push_back(static_cast<float>(scale));
  for (const double zero_point : zero_points) quantization.zero_points.push_back(zero_point_of(zero_point));
  return complete(node, std::move(quantization), dtype);
}

Result<Values> quantize(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  if (dtype != DType::kInt8)
    return node.unsupported(fmt::format("quantization to {}", dtype ? name(*dtype) : "an unknown dtype"), "quantize activations to int8");
  DTR_ASSIGN(const Quantization quantization, per_tensor(node, *dtype));
  DTR_ASSIGN(const ValueId result, node.emit("quantize", {x}, {}, quantization));
  return Values{result};
}

Result<Values> dequantize(NodeImport& node, bool by_channel) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  const Shape shape = node.type(x).shape;
  const DType dtype = node.type(x).dtype;
  DTR_ASSIGN(const auto stated, node.dtype("dtype"));
  if (stated && *stated != dtype) return node.unsupported(fmt::format("a value of {} is read as {}", name(dtype), name(*stated)));
  DTR_ASSIGN(const auto output, node.dtype("out_dtype"));
  if (output && *output != DType::kFloat32) return node.unsupported(fmt::format("dequantization to {}", name(*output)));
  DTR_ASSIGN(const Quantization quantization, by_channel ? per_channel(node, dtype, shape) : per_tensor(node, dtype));
  DTR_TRY(node.annotate(x, quantization));
  DTR_ASSIGN(const ValueId result, node.emit("dequantize", {x}));
  return Values{result};
}

Result<Values> dequantize_per_tensor(NodeImport& node) { return dequantize(node, false); }
Result<Values> dequantize_per_channel(NodeImport& node) { return dequantize(node, true); }

}  // namespace

std::vector<Operator> quantization_operators() {
  return {
      {.target = "quantized_decomposed.quantize_per_tensor.default", .op = "quantize", .build = quantize},
      {.target = "quantized_decomposed.quantize_per_tensor.tensor", .op = "quantize", .build = quantize},
      {.target = "quantized_decomposed.dequantize_per_tensor.default", .op = "dequantize", .build = dequantize_per_tensor},
      {.target = "quantized_decomposed.dequantize_per_tensor.tensor", .op = "dequantize", .build = dequantize_per_tensor},
      {.target = "quantized_decomposed.dequantize_per_channel.default", .op = "dequantize", .build = dequantize_per_channel},
  };
}

}  // namespace dtr::pt2
