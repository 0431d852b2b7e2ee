// PT2E's quantize and dequantize: the scale and zero point go into the type of the integer value.
// Fake quantization, from quantization-aware training, becomes a quantize followed by a dequantize.
// uint8 becomes int8 exactly: codes and zero points minus 128.
#include <fmt/format.h>

#include <algorithm>

#include <cmath>
#include <limits>

#include "compiler/frontends/pt2/operators.h"
#include "device/numerics/requantize.h"

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
  if (elements.size() != 1)
    return node.unsupported(fmt::format("`{}` has {} elements", name, elements.size()));
  return elements.front();
}

// The range that the node states, or all of `dtype`.
Result<Range> range_for(NodeImport& node, DType dtype) {
  const auto range = range_of(dtype);
  if (!range) return node.unsupported(fmt::format("quantized values of {}", name(dtype)));
  DTR_ASSIGN(const int64_t low, node.integer("quant_min", range->low));
  DTR_ASSIGN(const int64_t high, node.integer("quant_max", range->high));
  if (low < range->low || high > range->high || low >= high)
    return node.unsupported(
        fmt::format("the range {}…{} is not one of {}", low, high, name(dtype)));
  return Range{low, high};
}

// Checks scales and zero points and completes `quantization` with the integer range.
Result<Quantization> complete(NodeImport& node, Quantization quantization, Range range) {
  quantization.qmin = static_cast<int32_t>(range.low);
  quantization.qmax = static_cast<int32_t>(range.high);
  for (const float scale : quantization.scales)
    if (!(scale > 0) || !std::isfinite(scale))
      return node.unsupported(fmt::format("the scale {} is not positive and finite", scale),
                              "calibrate with data that reach the operator");
  for (const int32_t zero_point : quantization.zero_points)
    if (zero_point < range.low || zero_point > range.high)
      return node.unsupported(
          fmt::format("the zero point {} is outside {}…{}", zero_point, range.low, range.high),
          "quantize the model again; a zero point is a code");
  return quantization;
}

// The same real values in int8, where they were in uint8.
Quantization uint8_to_int8(Quantization quantization) {
  for (int32_t& zero_point : quantization.zero_points) zero_point -= 128;
  quantization.qmin -= 128;
  quantization.qmax -= 128;
  return quantization;
}

Result<int32_t> zero_point_of(const NodeImport& node, double value) {
  if (value != std::trunc(value))  // NaN too
    return node.unsupported(fmt::format("the zero point {} is not an integer", value),
                            "quantize the model again; a zero point is a code");
  return numerics::saturating_cast<int32_t>(value);
}

Result<Quantization> per_tensor(NodeImport& node, Range range) {
  DTR_ASSIGN(const double scale, scalar(node, "scale"));
  DTR_ASSIGN(const double stated, scalar(node, "zero_point"));
  DTR_ASSIGN(const int32_t zero_point, zero_point_of(node, stated));
  return complete(node, {.scales = {static_cast<float>(scale)}, .zero_points = {zero_point}},
                  range);
}

// The dimension of `shape` that an argument names.
Result<int64_t> channel_axis(NodeImport& node, std::string_view name, const Shape& shape) {
  DTR_ASSIGN(const int64_t axis, node.integer(name));
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank)
    return node.unsupported(
        fmt::format("quantization per channel of axis {}, of shape {}", axis, to_string(shape)),
        fmt::format("quantize the model again, along one of the axes 0…{}", rank - 1));
  return axis < 0 ? axis + rank : axis;
}

Result<Quantization> per_channel(NodeImport& node, Range range, const Shape& shape, int64_t axis,
                                 std::string_view scales_name, std::string_view zero_points_name) {
  DTR_ASSIGN(const std::vector<double> scales, node.constant_elements(scales_name));
  std::vector<double> zero_points(scales.size(), 0.0);
  if (node.has(zero_points_name)) {
    DTR_ASSIGN(zero_points, node.constant_elements(zero_points_name));
  }
  const bool matches =
      !shape.empty() && scales.size() == static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  if (!matches || zero_points.size() != scales.size())
    return node.unsupported(
        fmt::format("{} scales and {} zero points for axis {} of shape {}", scales.size(),
                    zero_points.size(), axis, to_string(shape)),
        "quantize the model again, with one scale and one zero point a channel");
  Quantization quantization{.axis = static_cast<int>(axis)};
  for (const double scale : scales) quantization.scales.push_back(static_cast<float>(scale));
  for (const double stated : zero_points) {
    DTR_ASSIGN(const int32_t zero_point, zero_point_of(node, stated));
    quantization.zero_points.push_back(zero_point);
  }
  return complete(node, std::move(quantization), range);
}

Result<Values> quantize(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  if (dtype != DType::kInt8 && dtype != DType::kUint8)
    return node.unsupported(fmt::format("quantization to {}; programs compute in int8",
                                        dtype ? name(*dtype) : "an unknown dtype"),
                            "quantize activations to int8");
  DTR_ASSIGN(const Range range, range_for(node, *dtype));
  DTR_ASSIGN(const Quantization quantization, per_tensor(node, range));
  DTR_ASSIGN(const ValueId result,
             node.emit("quantize", {x}, {},
                       dtype == DType::kUint8 ? uint8_to_int8(quantization) : quantization));
  return Values{result};
}

Result<Values> dequantize(NodeImport& node, bool by_channel) {
  DTR_ASSIGN(ValueId x, node.tensor("input"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const auto stated, node.dtype("dtype"));
  const DType dtype = stated.value_or(node.type(x).dtype);
  const bool shifted = dtype == DType::kUint8;
  const DType held = node.type(x).dtype;
  const bool is_shifted =
      held == DType::kInt8 && node.type(x).quantized();  // by the `quantize` that made it
  if (shifted ? !is_shifted && held != DType::kUint8 : held != dtype)
    return node.unsupported(fmt::format("a value of {} is read as {}", name(held), name(dtype)));
  if (shifted && !is_shifted) {
    DTR_ASSIGN(x, node.uint8_constant_to_int8(x));
  }
  DTR_ASSIGN(const auto output, node.dtype("out_dtype"));
  if (output && *output != DType::kFloat32)
    return node.unsupported(fmt::format("dequantization to {}", name(*output)));
  DTR_ASSIGN(const Range range, range_for(node, dtype));
  Quantization quantization;
  if (by_channel) {
    DTR_ASSIGN(const int64_t axis, channel_axis(node, "axis", shape));
    DTR_ASSIGN(quantization, per_channel(node, range, shape, axis, "scales", "zero_points"));
  } else {
    DTR_ASSIGN(quantization, per_tensor(node, range));
  }
  DTR_TRY(node.annotate(x, shifted ? uint8_to_int8(quantization) : quantization));
  DTR_ASSIGN(const ValueId result, node.emit("dequantize", {x}));
  return Values{result};
}

Result<Values> dequantize_per_tensor(NodeImport& node) { return dequantize(node, false); }
Result<Values> dequantize_per_channel(NodeImport& node) { return dequantize(node, true); }

// --- fake quantization ---

// Codes of `x` in int8, as PyTorch's fake_quantize computes them.
Tensor codes_of(const Tensor& x, const Quantization& quantization) {
  Tensor codes(DType::kInt8, x.shape());
  const std::span<const float> values = x.values<float>();
  const bool by_channel = quantization.per_channel();
  const auto axis = static_cast<size_t>(by_channel ? quantization.axis : 0);
  const auto run =
      static_cast<size_t>(by_channel ? strides(x.shape(), Layout::kContiguous)[axis] : 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = by_channel ? i / run % quantization.scales.size() : 0;
    const float steps = std::nearbyint(values[i] * (1.0F / quantization.scales[c]));
    const float low = static_cast<float>(quantization.qmin - quantization.zero_points[c]);
    const float high = static_cast<float>(quantization.qmax - quantization.zero_points[c]);
    const float limited = std::isnan(steps) ? 0.0F : std::clamp(steps, low, high);
    codes.values<int8_t>()[i] =
        static_cast<int8_t>(static_cast<int32_t>(limited) + quantization.zero_points[c]);
  }
  return codes;
}

// quantize and dequantize of `x` (constants right away) in a quantization whose codes lie in int8
// or uint8.
Result<Values> through_codes(NodeImport& node, ValueId x, Quantization quantization) {
  if (quantization.qmax > 127) quantization = uint8_to_int8(std::move(quantization));
  if (node.type(x).dtype != DType::kFloat32)
    return node.unsupported(fmt::format("fake quantization of {}", name(node.type(x).dtype)),
                            "quantize float32 values");
  const std::optional<Tensor> constant = node.constant_value(x);
  if (!constant && quantization.per_channel())
    return node.unsupported("an activation is quantized per channel",
                            "quantize activations per tensor");
  ValueId codes;
  if (constant) {
    codes = node.add_constant(codes_of(*constant, quantization), quantization);
  } else {
    DTR_ASSIGN(codes, node.emit("quantize", {x}, {}, quantization));
  }
  DTR_ASSIGN(const ValueId result, node.emit("dequantize", {codes}));
  return Values{result};
}

// The integer range of a fake quantization: it has no dtype, but eight bits hold it.
Result<Range> eight_bits(NodeImport& node) {
  DTR_ASSIGN(const int64_t low, node.integer("quant_min"));
  DTR_ASSIGN(const int64_t high, node.integer("quant_max"));
  const bool fits = low < high && ((low >= -128 && high <= 127) || (low >= 0 && high <= 255));
  if (!fits)
    return node.unsupported(fmt::format("codes in {}…{}", low, high),
                            "train with quantization to int8");
  return Range{low, high};
}

// 0 where a switch, a tensor of one element, is off.
Result<bool> is_on(NodeImport& node, std::string_view name) {
  if (!node.has(name)) return true;
  DTR_ASSIGN(const double value, scalar(node, name));
  return value != 0;
}

Result<Values> fake_quantize_per_tensor(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const bool on, is_on(node, "fake_quant_enabled"));
  DTR_ASSIGN(const Range range, eight_bits(node));
  DTR_ASSIGN(Quantization quantization, per_tensor(node, range));
  if (!on) return Values{x};
  return through_codes(node, x, std::move(quantization));
}

Result<Values> fake_quantize_per_channel(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const Range range, eight_bits(node));
  DTR_ASSIGN(const int64_t axis, channel_axis(node, "axis", shape));
  DTR_ASSIGN(Quantization quantization,
             per_channel(node, range, shape, axis, "scale", "zero_point"));
  return through_codes(node, x, std::move(quantization));
}

// Of a moving average the file holds the last state: that is what the trained model computes with.
// Where all elements of a channel have one sign, PyTorch's symmetric scheme leaves a zero point at
// the end of the range; the channel is quantized around zero instead, as convert_pt2e does.
Result<Values> fake_quantize_moving_average(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const bool on, is_on(node, "fake_quant_on"));
  DTR_ASSIGN([[maybe_unused]] const bool observes, is_on(node, "observer_on"));
  DTR_ASSIGN([[maybe_unused]] const double averaging, node.number("averaging_const"));
  DTR_ASSIGN(const Range range, eight_bits(node));
  DTR_ASSIGN(const bool by_channel, node.boolean("per_row_fake_quant", false));
  DTR_ASSIGN(const bool symmetric, node.boolean("symmetric_quant", false));
  DTR_ASSIGN(const int64_t axis,
             by_channel ? channel_axis(node, "ch_axis", shape) : node.integer("ch_axis"));
  DTR_ASSIGN(const std::vector<double> lows, node.constant_elements("running_min"));
  DTR_ASSIGN(const std::vector<double> highs, node.constant_elements("running_max"));
  for (size_t i = 0; i < std::max(lows.size(), highs.size()); ++i)
    if (i >= lows.size() || i >= highs.size() || !std::isfinite(lows[i]) ||
        !std::isfinite(highs[i]))
      return node.refuse(
          DiagnosticId::kPt2NotCalibrated,
          "the model is prepared for training, but this fake quantization has seen no data",
          "run the prepared model on training data before the export, with its observers on");
  Quantization quantization;
  if (by_channel) {
    DTR_ASSIGN(quantization, per_channel(node, range, shape, axis, "scale", "zero_point"));
  } else {
    DTR_ASSIGN(quantization, per_tensor(node, range));
  }
  if (!on) return Values{x};
  if (lows.size() != quantization.scales.size() || highs.size() != lows.size())
    return node.unsupported(fmt::format("{} and {} bounds for {} channels", lows.size(),
                                        highs.size(), quantization.scales.size()));
  for (size_t c = 0; by_channel && symmetric && range.low < 0 && c < quantization.scales.size();
       ++c) {
    const double largest = std::max(-lows[c], highs[c]);
    if (quantization.zero_points[c] == 0 || !(largest > 0)) continue;
    quantization.scales[c] = static_cast<float>(largest / static_cast<double>(range.high));
    quantization.zero_points[c] = 0;
  }
  DTR_ASSIGN(quantization, complete(node, std::move(quantization), range));
  return through_codes(node, x, std::move(quantization));
}

// What chooses scales from each input anew.
Result<Values> dynamic_range(NodeImport& node) {
  return node.unsupported(
      "the model is quantized dynamically, it chooses the scales of activations while it runs",
      "quantize it statically (is_dynamic=False) and run calibration data through the prepared "
      "model");
}

}  // namespace

std::vector<Operator> quantization_operators() {
  return {
      tensor_row("quantized_decomposed.choose_qparams.tensor", "", dynamic_range),
      tensor_row("quantized_decomposed.choose_qparams_symmetric.tensor", "", dynamic_range),
      tensor_row("quantized_decomposed.choose_qparams_per_token_asymmetric.default", "",
                 dynamic_range),
      tensor_row("torchao.choose_qparams_affine.default", "", dynamic_range),
      {.target = "quantized_decomposed.quantize_per_tensor.default",
       .op = "quantize",
       .build = quantize},
      {.target = "quantized_decomposed.quantize_per_tensor.tensor",
       .op = "quantize",
       .build = quantize},
      {.target = "quantized_decomposed.dequantize_per_tensor.default",
       .op = "dequantize",
       .build = dequantize_per_tensor},
      {.target = "quantized_decomposed.dequantize_per_tensor.tensor",
       .op = "dequantize",
       .build = dequantize_per_tensor},
      {.target = "quantized_decomposed.dequantize_per_channel.default",
       .op = "dequantize",
       .build = dequantize_per_channel},
      tensor_row("aten.fake_quantize_per_tensor_affine.default", "quantize",
                 fake_quantize_per_tensor),
      tensor_row("aten.fake_quantize_per_tensor_affine.tensor_qparams", "quantize",
                 fake_quantize_per_tensor),
      tensor_row("aten.fake_quantize_per_channel_affine.default", "quantize",
                 fake_quantize_per_channel),
      tensor_row("aten.fused_moving_avg_obs_fake_quant.default", "quantize",
                 fake_quantize_moving_average),
  };
}

}  // namespace dtr::pt2
