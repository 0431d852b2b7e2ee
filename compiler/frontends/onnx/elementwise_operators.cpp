// Operators that compute element by element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/masks.h"
#include "compiler/compositions/norms.h"
#include "compiler/compositions/shifts.h"
#include "compiler/frontends/onnx/importer.h"

namespace dtr::onnx {
namespace {

Operator unary(std::string_view name, std::string_view op,
               std::vector<AttributeRule> attributes = {}, std::string_view domain = {}) {
  return {.domain = domain,
          .name = name,
          .min_inputs = 1,
          .max_inputs = 1,
          .op = op,
          .attributes = std::move(attributes)};
}
Operator binary(std::string_view name, std::string_view op) {
  return {.name = name, .min_inputs = 2, .max_inputs = 2, .op = op};
}

// ---- functions of one operand that PyTorch does not have, or whose operands are numbers

Result<Values> identity(NodeImport& node) {
  DTR_ASSIGN(const Binding found, node.binding(0));
  if (found.is_sequence) {
    node.return_sequence(0, found.sequence);
    return Values{};
  }
  return only(node.held(0));
}

Result<Values> dropout(NodeImport& node) {
  (void)node.has_attribute("seed");
  (void)node.has_attribute("ratio");
  if (node.has(2)) {
    DTR_ASSIGN(const double training, node.number(2));
    double ratio = 0.5;
    if (node.has(1)) {
      DTR_ASSIGN(ratio, node.number(1));
    }
    if (training != 0 && ratio != 0)
      return node.unsupported("it is in training mode",
                              "Export the model in evaluation mode (model.eval()).");
  }
  DTR_ASSIGN(const ValueId x, node.held(0));
  if (!node.wants(1)) return Values{x};
  DTR_ASSIGN(const ValueId kept, node.constant(DType::kBool, node.shape(x), 1, "mask"));
  return Values{x, kept};
}

Result<Values> negate(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(is_float(node.dtype(x)) ? node.emit("aten.neg", {x}) : node.times(x, -1));
}

Result<Values> sign(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  if (is_float(node.dtype(x))) return only(node.emit("aten.sign", {x}));
  DTR_ASSIGN(const ValueId made, node.emit("aten.clamp", {x}, {{"min", -1.0}, {"max", 1.0}}));
  return Values{made};
}

Result<Values> is_nan(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.emit("aten.ne.Tensor", {x, x}));
}

Result<Values> is_inf(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const bool negative, node.flag("detect_negative", true));
  DTR_ASSIGN(const bool positive, node.flag("detect_positive", true));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!negative && !positive) return only(node.constant(DType::kBool, node.shape(x), 0, "never"));
  ValueId of = x;
  if (negative && positive) {
    DTR_ASSIGN(of, node.emit("aten.abs", {x}));
  }
  DTR_ASSIGN(const ValueId infinity, node.scalar(positive ? kInfinity : -kInfinity, x));
  return only(node.emit("aten.eq.Tensor", {of, infinity}));
}

Result<Values> hard_sigmoid(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", static_cast<double>(0.2F)));
  DTR_ASSIGN(const double beta, node.number("beta", 0.5));
  DTR_ASSIGN(ValueId x, node.value(0));
  // PyTorch's export of its own function.
  if (alpha == static_cast<double>(1.0F / 6.0F) && beta == 0.5)
    return only(node.emit("aten.hardsigmoid", {x}));
  DTR_ASSIGN(x, node.times(x, alpha));
  DTR_ASSIGN(x, node.plus(x, beta));
  return only(node.emit("aten.clamp", {x}, {{"min", 0.0}, {"max", 1.0}}));
}

Result<Values> celu(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const ValueId x, node.value(0));
  if (alpha == 0) return node.invalid("alpha is 0");
  return only(
      node.emit("aten.elu", {x}, {{"alpha", alpha}, {"scale", 1.0}, {"input_scale", 1 / alpha}}));
}

Result<Values> selu(NodeImport& node) {
  DTR_ASSIGN(const double alpha,
             node.number("alpha", static_cast<double>(1.67326319217681884765625F)));
  DTR_ASSIGN(const double gamma,
             node.number("gamma", static_cast<double>(1.05070102214813232421875F)));
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(
      node.emit("aten.elu", {x}, {{"alpha", alpha}, {"scale", gamma}, {"input_scale", 1.0}}));
}

Result<Values> thresholded_relu(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.emit("aten.threshold", {x}, {{"threshold", alpha}, {"value", 0.0}}));
}

// x − bias above lambd, x + bias below −lambd, 0 between.
Result<Values> shrink(NodeImport& node) {
  DTR_ASSIGN(const double lambd, node.number("lambd", 0.5));
  DTR_ASSIGN(const double bias, node.number("bias", 0));
  DTR_ASSIGN(const ValueId given, node.value(0));
  const DType dtype = node.dtype(given);
  DTR_ASSIGN(const ValueId x, node.cast(given, DType::kFloat32));
  ValueId y;
  if (lambd >= 0 && (bias == 0 || bias == lambd)) {
    DTR_ASSIGN(
        y, node.emit(bias == 0 ? "aten.hardshrink" : "aten.softshrink", {x}, {{"lambd", lambd}}));
  } else {
    DTR_ASSIGN(const ValueId high, node.scalar(lambd, x));
    DTR_ASSIGN(const ValueId low, node.scalar(-lambd, x));
    DTR_ASSIGN(const ValueId zero, node.scalar(0, x));
    DTR_ASSIGN(const ValueId above, node.emit("aten.gt.Tensor", {x, high}));
    DTR_ASSIGN(const ValueId below, node.emit("aten.lt.Tensor", {x, low}));
    DTR_ASSIGN(const ValueId less, node.plus(x, -bias));
    DTR_ASSIGN(const ValueId more, node.plus(x, bias));
    DTR_ASSIGN(y, node.emit("aten.where.self", {below, more, zero}));
    DTR_ASSIGN(y, node.emit("aten.where.self", {above, less, y}));
  }
  return only(node.cast(y, dtype));
}

Result<Values> gelu(NodeImport& node) {
  DTR_ASSIGN(const std::string mode, node.word("approximate", "none", {"none", "tanh"}));
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.emit("aten.gelu", {x}, {{"approximate", mode}}));
}

// x · sigmoid(alpha · x).
Result<Values> swish(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const ValueId x, node.value(0));
  if (alpha == 1) return only(node.emit("aten.silu", {x}));
  DTR_ASSIGN(ValueId y, node.times(x, alpha));
  DTR_ASSIGN(y, node.emit("aten.sigmoid", {y}));
  return only(node.mul(x, y));
}
Result<Values> quick_gelu(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", static_cast<double>(1.702F)));
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(ValueId y, node.times(x, alpha));
  DTR_ASSIGN(y, node.emit("aten.sigmoid", {y}));
  return only(node.mul(x, y));
}

// Operands: x, and a bias that is added before.
template <bool kApproximate>
Result<Values> bias_gelu(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  if (node.has(1)) {
    DTR_ASSIGN(const ValueId bias, node.value(1));
    DTR_ASSIGN(x, node.add(x, bias));
  }
  return only(
      node.emit("aten.gelu", {x}, {{"approximate", std::string(kApproximate ? "tanh" : "none")}}));
}

Result<Values> softplus(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.emit("aten.softplus", {x}, {{"beta", 1.0}, {"threshold", 20.0}}));
}

// Operands: x, least, greatest; attributes before version 11.
Result<Values> clip(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  Attributes attributes;
  for (size_t i = 1; i < 3; ++i) {
    const std::string old = i == 1 ? "min" : "max";
    if (node.has_attribute(old)) {
      DTR_ASSIGN(const double number, node.number(old));
      attributes.set(old, number);
    }
    if (!node.has(i)) continue;
    DTR_ASSIGN(const ValueId bound, node.value(i));
    if (node.constant_elements(bound)) {
      DTR_ASSIGN(const double number, node.number(i));
      attributes.set(i == 1 ? "min" : "max", number);
    } else {
      DTR_ASSIGN(const ValueId one, node.view(bound, {}));
      DTR_ASSIGN(const ValueId beyond,
                 node.emit(i == 1 ? "aten.lt.Tensor" : "aten.gt.Tensor", {x, one}));
      DTR_ASSIGN(x, node.emit("aten.where.self", {beyond, one, x}));
    }
  }
  if (attributes.empty()) return Values{x};
  return only(node.emit("aten.clamp", {x}, attributes));
}

Result<Values> prelu(NodeImport& node) {
  DTR_ASSIGN(const ValueId given, node.value(0));
  DTR_ASSIGN(const ValueId slope, node.value(1));
  if (is_float(node.dtype(given))) return only(node.emit("aten.prelu", {given, slope}));
  DTR_ASSIGN(const ValueId zero, node.scalar(0, given));
  DTR_ASSIGN(const ValueId below, node.emit("aten.lt.Tensor", {given, zero}));
  DTR_ASSIGN(const ValueId product, node.mul(given, slope));
  return only(node.emit("aten.where.self", {below, product, given}));
}

Result<Values> reciprocal_root(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.emit("aten.rsqrt", {x}));
}

// ---- two operands and more

Result<Values> divide(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.value(0));
  DTR_ASSIGN(const ValueId b, node.value(1));
  if (is_float(node.dtype(a))) return only(node.div(a, b));
  return only(node.emit("aten.div.Tensor_mode", {a, b}, {{"rounding_mode", std::string("trunc")}}));
}

Result<Values> modulo(NodeImport& node) {
  DTR_ASSIGN(const bool of_c, node.flag("fmod"));
  DTR_ASSIGN(const ValueId a, node.value(0));
  DTR_ASSIGN(const ValueId b, node.value(1));
  return only(node.emit(of_c ? "aten.fmod.Tensor" : "aten.remainder.Tensor", {a, b}));
}

// Integers to the power of floats, rounded towards zero as ONNX Runtime does. Exponents that are
// whole and not negative give exact products; a float power just below a whole number is that
// number.
Result<ValueId> whole_power(NodeImport& node, ValueId given, ValueId exponent) {
  const DType dtype = node.dtype(given);
  DTR_ASSIGN(const ValueId wide, node.cast(given, DType::kInt64));
  DTR_ASSIGN(const ValueId whole, node.cast(exponent, DType::kInt64));
  DTR_ASSIGN(ValueId exact, node.emit("aten.pow.Tensor_Tensor", {wide, whole}));
  DTR_ASSIGN(exact, node.cast(exact, dtype));
  const auto known = node.constant_elements(exponent);
  if (known && std::ranges::all_of(*known, [](double each) {
        return each >= 0 && each < 0x1p53 && each == std::trunc(each);
      }))
    return exact;
  DTR_ASSIGN(const ValueId base, node.cast(given, DType::kFloat32));
  DTR_ASSIGN(exponent, node.cast(exponent, DType::kFloat32));
  DTR_ASSIGN(ValueId real, node.emit("aten.pow.Tensor_Tensor", {base, exponent}));
  DTR_ASSIGN(real, node.times(real, 1 + 0x1p-21));
  DTR_ASSIGN(real, node.emit("aten.trunc", {real}));
  DTR_ASSIGN(real, node.cast(real, dtype));
  DTR_ASSIGN(const ValueId back, node.cast(whole, DType::kFloat32));
  DTR_ASSIGN(const ValueId is_whole, node.emit("aten.eq.Tensor", {back, exponent}));
  DTR_ASSIGN(const ValueId zero, node.scalar(0, exponent));
  DTR_ASSIGN(const ValueId is_product, node.emit("aten.ge.Tensor", {exponent, zero}));
  DTR_ASSIGN(const ValueId both, node.emit("aten.logical_and", {is_whole, is_product}));
  return node.emit("aten.where.self", {both, exact, real});
}

// The result has the type of the base.
Result<Values> power(NodeImport& node) {
  DTR_ASSIGN(const ValueId given, node.value(0));
  DTR_ASSIGN(ValueId exponent, node.value(1));
  const DType dtype = node.dtype(given);
  const auto known = node.constant_elements(exponent);
  const bool one = known && node.type(exponent).elements() == 1 &&
                   node.type(exponent).rank() <= node.type(given).rank();
  if (one && !is_float(dtype) && known->front() >= 0 && known->front() < 0x1p53 &&
      known->front() == std::trunc(known->front()))
    return only(compositions::integer_power(node, given, static_cast<int64_t>(known->front())));
  if (!is_float(dtype) && !is_float(node.dtype(exponent))) {
    DTR_ASSIGN(const ValueId wide, node.cast(given, DType::kInt64));
    DTR_ASSIGN(exponent, node.cast(exponent, DType::kInt64));
    DTR_ASSIGN(const ValueId powers, node.emit("aten.pow.Tensor_Tensor", {wide, exponent}));
    return only(node.cast(powers, dtype));
  }
  if (!is_float(dtype)) return only(whole_power(node, given, exponent));
  DTR_ASSIGN(const ValueId base, node.cast(given, DType::kFloat32));
  ValueId y;
  if (one && known->front() == 2) {
    DTR_ASSIGN(y, node.mul(base, base));
  } else if (one && known->front() == 0.5) {
    DTR_ASSIGN(y, node.emit("aten.sqrt", {base}));
  } else if (one) {
    DTR_ASSIGN(y, node.emit("aten.pow.Tensor_Scalar", {base}, {{"exponent", known->front()}}));
  } else {
    DTR_ASSIGN(exponent, node.cast(exponent, DType::kFloat32));
    DTR_ASSIGN(y, node.emit("aten.pow.Tensor_Tensor", {base, exponent}));
  }
  return only(node.cast(y, dtype));
}

enum class Fold : uint8_t { kMax, kMin, kSum, kMean };

template <Fold kFold>
Result<Values> variadic(NodeImport& node) {
  DTR_ASSIGN(const Values all, node.values());
  ValueId x = all.front();
  for (size_t i = 1; i < all.size(); ++i) {
    if (kFold == Fold::kMax || kFold == Fold::kMin) {
      if (is_float(node.dtype(x))) {
        DTR_ASSIGN(x,
                   node.emit(kFold == Fold::kMax ? "aten.maximum" : "aten.minimum", {x, all[i]}));
      } else {
        DTR_ASSIGN(
            const ValueId first,
            node.emit(kFold == Fold::kMax ? "aten.gt.Tensor" : "aten.lt.Tensor", {x, all[i]}));
        DTR_ASSIGN(x, node.emit("aten.where.self", {first, x, all[i]}));
      }
    } else {
      DTR_ASSIGN(x, node.add(x, all[i]));
    }
  }
  if (kFold == Fold::kMean) {
    DTR_ASSIGN(x, node.times(x, 1.0 / static_cast<double>(all.size())));
  }
  return Values{x};
}

Result<Values> bit_shift(NodeImport& node) {
  DTR_ASSIGN(const std::string direction, node.word("direction", "", {"LEFT", "RIGHT"}));
  const bool left = direction == "LEFT";
  if (left && node.has_wide_unsigned())
    return node.unsupported("bits of UINT16, UINT32 or UINT64", "Convert the tensor to INT64.");
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId places, node.value(1));
  return only(compositions::shift(node, x, places, left));
}

Result<Values> where(NodeImport& node) {
  DTR_ASSIGN(const Values all, node.values());
  return only(compositions::select(node, all[0], all[1], all[2]));
}

// ---- conversions

Result<Values> cast(NodeImport& node) {
  DTR_ASSIGN(const int64_t to, node.integer("to"));
  (void)node.flag("saturate", true);
  (void)node.has_attribute("round_mode");
  const std::optional<DType> dtype = dtype_of(static_cast<int32_t>(to));
  if (!dtype || to == kInt4 || to == kUint4)
    return node.unsupported(
        fmt::format("it converts to {}", name_of_type(static_cast<int32_t>(to))),
        "Export the model with floats, integers and bools alone.");
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.cast(x, *dtype));
}

Result<Values> cast_like(NodeImport& node) {
  (void)node.flag("saturate", true);
  (void)node.has_attribute("round_mode");
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId like, node.value(1));
  return only(node.cast(x, node.dtype(like)));
}

Result<Values> bitwise_not(NodeImport& node) {
  if (node.has_wide_unsigned())
    return node.unsupported("bits of UINT16, UINT32 or UINT64", "Convert the tensor to INT64.");
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(node.emit("aten.bitwise_not", {x}));
}

}  // namespace

std::vector<Operator> elementwise_operators() {
  const auto number = [](std::string_view name, double fallback) {
    return std::vector<AttributeRule>{
        {.name = std::string(name), .attribute = std::string(name), .fallback = fallback}};
  };
  return {
      unary("Abs", "aten.abs"),
      unary("Acos", "aten.acos"),
      unary("Acosh", "aten.acosh"),
      binary("Add", "aten.add.Tensor"),
      binary("And", "aten.logical_and"),
      unary("Asin", "aten.asin"),
      unary("Asinh", "aten.asinh"),
      unary("Atan", "aten.atan"),
      unary("Atanh", "aten.atanh"),
      row("BiasGelu", 2, 2, bias_gelu<false>, kMicrosoft),
      row("BitShift", 2, 2, bit_shift),
      binary("BitwiseAnd", "aten.bitwise_and.Tensor"),
      row("BitwiseNot", 1, 1, bitwise_not),
      binary("BitwiseOr", "aten.bitwise_or.Tensor"),
      binary("BitwiseXor", "aten.bitwise_xor.Tensor"),
      row("Cast", 1, 1, cast),
      row("CastLike", 2, 2, cast_like),
      unary("Ceil", "aten.ceil"),
      row("Celu", 1, 1, celu),
      row("Clip", 1, 3, clip),
      unary("Cos", "aten.cos"),
      unary("Cosh", "aten.cosh"),
      row("Div", 2, 2, divide),
      row("Dropout", 1, 3, dropout),
      unary("Elu", "aten.elu", number("alpha", 1)),
      binary("Equal", "aten.eq.Tensor"),
      unary("Erf", "aten.erf"),
      unary("Exp", "aten.exp"),
      row("FastGelu", 1, 2, bias_gelu<true>, kMicrosoft),
      unary("Floor", "aten.floor"),
      row("Gelu", 1, 1, gelu),
      row("Gelu", 1, 1, bias_gelu<false>, kMicrosoft),
      binary("Greater", "aten.gt.Tensor"),
      binary("GreaterOrEqual", "aten.ge.Tensor"),
      row("HardSigmoid", 1, 1, hard_sigmoid),
      unary("HardSwish", "aten.hardswish"),
      moving_row("Identity", 1, 1, identity),
      row("IsInf", 1, 1, is_inf),
      row("IsNaN", 1, 1, is_nan),
      unary("LeakyRelu", "aten.leaky_relu",
            {{.name = "alpha",
              .attribute = "negative_slope",
              .fallback = static_cast<double>(0.01F)}}),
      binary("Less", "aten.lt.Tensor"),
      binary("LessOrEqual", "aten.le.Tensor"),
      unary("Log", "aten.log"),
      row("Max", 1, kAnyNumber, variadic<Fold::kMax>),
      row("Mean", 1, kAnyNumber, variadic<Fold::kMean>),
      row("Min", 1, kAnyNumber, variadic<Fold::kMin>),
      unary("Mish", "aten.mish"),
      row("Mod", 2, 2, modulo),
      binary("Mul", "aten.mul.Tensor"),
      row("Neg", 1, 1, negate),
      unary("Not", "aten.logical_not"),
      binary("Or", "aten.logical_or"),
      row("Pow", 2, 2, power),
      row("PRelu", 2, 2, prelu),
      row("QuickGelu", 1, 1, quick_gelu, kMicrosoft),
      unary("Reciprocal", "aten.reciprocal"),
      unary("Relu", "aten.relu"),
      unary("Round", "aten.round"),
      row("Rsqrt", 1, 1, reciprocal_root, kMicrosoft),
      row("Selu", 1, 1, selu),
      row("Shrink", 1, 1, shrink),
      unary("Sigmoid", "aten.sigmoid"),
      row("Sign", 1, 1, sign),
      unary("Sin", "aten.sin"),
      unary("Sinh", "aten.sinh"),
      row("Softplus", 1, 1, softplus),
      unary("Softsign", "aten.softsign"),
      unary("Sqrt", "aten.sqrt"),
      binary("Sub", "aten.sub.Tensor"),
      row("Sum", 1, kAnyNumber, variadic<Fold::kSum>),
      row("Swish", 1, 1, swish),
      unary("Tan", "aten.tan"),
      unary("Tanh", "aten.tanh"),
      row("ThresholdedRelu", 1, 1, thresholded_relu),
      row("Where", 3, 3, where),
      binary("Xor", "aten.logical_xor"),
  };
}

}  // namespace dtr::onnx
