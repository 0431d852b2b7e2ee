// Elementwise operators whose arguments differ from those of our op; clamps drop infinite bounds.
#include <fmt/format.h>

#include <cmath>

#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// clamp(x, low, high); bounds that are absent or infinite are left out, a lower bound of zero alone
// is relu.
Result<Values> emit_clamp(NodeImport& node, std::optional<double> low, std::optional<double> high) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (low && *low == -INFINITY) low.reset();
  if (high && *high == INFINITY) high.reset();
  if (!low && !high) return Values{x};
  if (low && *low == 0 && !high) {
    DTR_ASSIGN(const ValueId result, node.emit("aten.relu", {x}));
    return Values{result};
  }
  Attributes attributes;
  if (low) attributes.set("min", *low);
  if (high) attributes.set("max", *high);
  DTR_ASSIGN(const ValueId result, node.emit("aten.clamp", {x}, attributes));
  return Values{result};
}

Result<std::optional<double>> bound(NodeImport& node, std::string_view name,
                                    std::optional<double> fallback) {
  if (!node.has(name)) return fallback;
  DTR_ASSIGN(const double value, node.number(name));
  return std::optional(value);
}

Result<Values> clamp(NodeImport& node) {
  DTR_ASSIGN(const auto low, bound(node, "min", {}));
  DTR_ASSIGN(const auto high, bound(node, "max", {}));
  return emit_clamp(node, low, high);
}

Result<Values> hardtanh(NodeImport& node) {
  DTR_ASSIGN(const auto low, bound(node, "min_val", -1.0));
  DTR_ASSIGN(const auto high, bound(node, "max_val", 1.0));
  return emit_clamp(node, low, high);
}

// Bounds that are tensors: the upper one wins where they cross, as in PyTorch.
Result<Values> clamp_tensor(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId low, node.optional_tensor("min"));
  DTR_ASSIGN(const ValueId high, node.optional_tensor("max"));
  if (low.valid()) {
    DTR_ASSIGN(x, node.emit("aten.maximum", {x, low}));
  }
  if (high.valid()) {
    DTR_ASSIGN(x, node.emit("aten.minimum", {x, high}));
  }
  return Values{x};
}

// The first half along a dimension, times the sigmoid of the second.
Result<Values> glu(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size(), -1));
  const int64_t extent = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  if (extent % 2 != 0) return node.unsupported(fmt::format("halves of {} elements", extent));
  DTR_ASSIGN(const ValueId value, node.slice(x, dim, 0, extent / 2));
  DTR_ASSIGN(ValueId gate, node.slice(x, dim, extent / 2, extent));
  DTR_ASSIGN(gate, node.emit("aten.sigmoid", {gate}));
  DTR_ASSIGN(const ValueId result, node.emit("aten.mul.Tensor", {value, gate}));
  return Values{result};
}

Result<Values> relu6(NodeImport& node) { return emit_clamp(node, 0.0, 6.0); }

Result<Values> celu(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1.0));
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.elu", {x}, {{"alpha", alpha}, {"input_scale", 1 / alpha}}));
  return Values{result};
}

Result<Values> selu(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(
      const ValueId result,
      node.emit("aten.elu", {x}, {{"alpha", 1.6732632423543772}, {"scale", 1.0507009873554805}}));
  return Values{result};
}

Result<Values> square(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (!is_float(node.type(x).dtype)) {
    DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {x, x}));
    return Values{product};
  }
  DTR_ASSIGN(const ValueId result, node.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", 2.0}}));
  return Values{result};
}

// Powers of integers that are integers wrap, as products do.
Result<Values> power(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double exponent, node.number("exponent"));
  const Type type = node.type(x);
  if (!is_float(type.dtype) && !type.quantized()) {
    const DType stated = node.stated_dtype().value_or(type.dtype);
    if (!is_float(stated)) {
      DTR_ASSIGN(x, node.cast(x, stated));
      return one(compositions::integer_power(node, x, static_cast<int64_t>(exponent)));
    }
    DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  }
  return one(node.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", exponent}}));
}

Result<Values> power_of_tensors(NodeImport& node) {
  DTR_ASSIGN(auto both, node.pair("self", "exponent"));
  const Type type = node.type(both.first);
  const DType stated = node.stated_dtype().value_or(type.dtype);
  if (!type.quantized() && !is_float(type.dtype)) {
    const DType dtype = is_float(stated) ? DType::kFloat32 : stated;
    DTR_ASSIGN(both.first, node.cast(both.first, dtype));
    DTR_ASSIGN(both.second, node.cast(both.second, dtype));
  }
  return one(node.emit("aten.pow.Tensor_Tensor", {both.first, both.second}));
}

// other − alpha · self.
Result<Values> rsub(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1.0));
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.sub.Tensor", {both.second, both.first}, {{"alpha", alpha}}));
  return Values{result};
}

// The greater, or the smaller, of two tensors.
template <const char* kOp>
Result<Values> extreme_of_two(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  DTR_ASSIGN(const ValueId result, node.emit(kOp, {both.first, both.second}));
  return Values{result};
}
constexpr char kMaximum[] = "aten.maximum";
constexpr char kMinimum[] = "aten.minimum";

// A quotient that is rounded, or a plain one, which is of floats.
Result<Values> divided(NodeImport& node, std::string_view mode) {
  DTR_ASSIGN(auto both, node.pair("self", "other"));
  const Type type = node.type(both.first);
  if (mode.empty() && !is_float(type.dtype) && !type.quantized()) {
    DTR_ASSIGN(both.first, node.cast(both.first, DType::kFloat32));
    DTR_ASSIGN(both.second, node.cast(both.second, DType::kFloat32));
  }
  DTR_ASSIGN(const ValueId result,
             mode.empty() ? node.emit("aten.div.Tensor", {both.first, both.second})
                          : node.emit("aten.div.Tensor_mode", {both.first, both.second},
                                      {{"rounding_mode", std::string(mode)}}));
  return Values{result};
}
Result<Values> divide(NodeImport& node) {
  std::string_view mode;
  if (node.has("rounding_mode")) {
    DTR_ASSIGN(mode, node.string("rounding_mode"));
  }
  return divided(node, mode);
}
Result<Values> floor_divide(NodeImport& node) { return divided(node, "floor"); }

// log(x / (1 − x)), of x that is limited to [eps, 1 − eps].
Result<Values> logit(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  if (node.has("eps")) {
    DTR_ASSIGN(const double eps, node.number("eps"));
    DTR_ASSIGN(x, node.emit("aten.clamp", {x}, {{"min", eps}, {"max", 1 - eps}}));
  }
  DTR_ASSIGN(const ValueId one, node.constant(node.type(x).dtype, {}, 1, "one"));
  DTR_ASSIGN(const ValueId rest, node.emit("aten.sub.Tensor", {one, x}));
  DTR_ASSIGN(const ValueId odds, node.emit("aten.div.Tensor", {x, rest}));
  DTR_ASSIGN(const ValueId result, node.emit("aten.log", {odds}));
  return Values{result};
}

// The weight is one number, or one a channel along dimension 1.
Result<Values> prelu(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId weight, node.tensor("weight"));
  if (node.type(weight).elements() != 1 && node.type(x).rank() > 2) {
    Shape shape(node.type(x).rank() - 1, 1);
    shape[0] = node.type(weight).elements();
    DTR_ASSIGN(weight, node.view(weight, shape));
  }
  DTR_ASSIGN(const ValueId result, node.emit("aten.prelu", {x, weight}));
  return Values{result};
}

}  // namespace

std::vector<Operator> elementwise_operators() {
  return {
      same_as("aten.negative.default", "aten.neg"),
      {.target = "aten.celu.default", .op = "aten.elu", .build = celu},
      {.target = "aten.selu.default", .op = "aten.elu", .build = selu},
      {.target = "aten.square.default", .op = "aten.pow.Tensor_Scalar", .build = square},
      {.target = "aten.pow.Tensor_Scalar", .op = "aten.pow.Tensor_Scalar", .build = power},
      {.target = "aten.pow.Tensor_Tensor",
       .op = "aten.pow.Tensor_Tensor",
       .build = power_of_tensors},
      {.target = "aten.prelu.default", .op = "aten.prelu", .build = prelu},
      same_as("aten._prelu_kernel.default", "aten.prelu"),

      {.target = "aten.clamp.default", .op = "aten.clamp", .build = clamp},
      {.target = "aten.clamp_min.default", .op = "aten.clamp", .build = clamp},
      {.target = "aten.clamp_max.default", .op = "aten.clamp", .build = clamp},
      {.target = "aten.clamp.Tensor", .op = "aten.maximum", .build = clamp_tensor},
      {.target = "aten.glu.default", .op = "aten.mul.Tensor", .build = glu},
      {.target = "aten.hardtanh.default", .op = "aten.clamp", .build = hardtanh},
      {.target = "aten.relu6.default", .op = "aten.clamp", .build = relu6},

      {.target = "aten.div.Scalar_mode", .op = "aten.div.Tensor_mode", .build = divide},
      {.target = "aten.div.Tensor_mode", .op = "aten.div.Tensor_mode", .build = divide},
      {.target = "aten.floor_divide.Scalar", .op = "aten.div.Tensor_mode", .build = floor_divide},
      {.target = "aten.floor_divide.default", .op = "aten.div.Tensor_mode", .build = floor_divide},
      {.target = "aten.logit.default", .op = "aten.log", .build = logit},
      {.target = "aten.max.other", .op = kMaximum, .build = extreme_of_two<kMaximum>},
      {.target = "aten.maximum.default", .op = kMaximum, .build = extreme_of_two<kMaximum>},
      {.target = "aten.min.other", .op = kMinimum, .build = extreme_of_two<kMinimum>},
      {.target = "aten.minimum.default", .op = kMinimum, .build = extreme_of_two<kMinimum>},
      {.target = "aten.rsub.Tensor", .op = "aten.sub.Tensor", .build = rsub},
      {.target = "aten.rsub.Scalar", .op = "aten.sub.Tensor", .build = rsub},
  };
}

}  // namespace dtr::pt2
