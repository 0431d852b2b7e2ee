// Operators that compute element by element and that the IR computes in float or on integers alone:
// codes are dequantized before and quantized behind.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/masks.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;
using Builder = Importer::Builder;

bool on_integers(Importer& importer, size_t operand = 0) {
  const TensorInfo& tensor = importer.tensor(operand);
  return tensor.scales.empty() && tensor.type != fb::TensorType::FLOAT32;
}

// An operand that broadcasts, as real numbers or integers.
Result<ValueId> number_operand(Importer& importer, size_t operand) {
  DTR_ASSIGN(const ValueId value, importer.real_value(operand));
  return importer.aligned(value, importer.tensor(operand).shape);
}

Result<std::vector<ValueId>> number_operands(Importer& importer) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < importer.op().inputs.size(); ++i) {
    if (!importer.has(i)) return importer.invalid(fmt::format("input {} is absent", i));
    DTR_ASSIGN(operands.emplace_back(), number_operand(importer, i));
  }
  return operands;
}

// Operators that are one op of ours.
template <const OpDef& kDef>
Result<ValueId> one_op(Importer& importer) {
  DTR_ASSIGN(std::vector<ValueId> operands, number_operands(importer));
  return on_reals(importer, kDef.name, std::move(operands));
}

Result<ValueId> square(Importer& importer) {
  DTR_ASSIGN(const ValueId x, importer.real_value(0));
  return on_reals(importer, "aten.mul.Tensor", {x, x});
}

Result<ValueId> squared_difference(Importer& importer) {
  DTR_ASSIGN(std::vector<ValueId> operands, number_operands(importer));
  DTR_ASSIGN(const ValueId distance,
             Builder(importer).emit("aten.sub.Tensor", std::move(operands)));
  return on_reals(importer, "aten.mul.Tensor", {distance, distance});
}

// Integers are divided towards 0.
Result<ValueId> divide(Importer& importer) {
  std::string activation;
  if (importer.op().options != nullptr) {
    DTR_ASSIGN(const fb::DivOptions* options,
               importer.options<fb::DivOptions>(OptionsType::DivOptions));
    DTR_ASSIGN(activation, importer.activation(options->fused_activation_function()));
  }
  const bool whole = on_integers(importer);
  DTR_ASSIGN(std::vector<ValueId> operands, number_operands(importer));
  DTR_ASSIGN(ValueId y,
             Builder(importer).emit(
                 whole ? "aten.div.Tensor_mode" : "aten.div.Tensor", std::move(operands),
                 whole ? Attributes{{"rounding_mode", std::string("trunc")}} : Attributes{}));
  // The activation limits the real result, before it is quantized.
  if (activation == "relu") {
    DTR_ASSIGN(y, Builder(importer).emit("aten.relu", {y}));
  } else if (!activation.empty()) {
    const bool six = activation == "relu6";
    DTR_ASSIGN(y, Builder(importer).emit("aten.clamp", {y},
                                         {{"min", six ? 0.0 : -1.0}, {"max", six ? 6.0 : 1.0}}));
  }
  return importer.as_output(y);
}

// Of floats: the quotient, rounded down, as the format says; not PyTorch's, which is that of the
// exact quotient.
Result<ValueId> floor_divide(Importer& importer) {
  DTR_ASSIGN(std::vector<ValueId> operands, number_operands(importer));
  if (on_integers(importer))
    return on_reals(importer, "aten.div.Tensor_mode", std::move(operands),
                    {{"rounding_mode", std::string("floor")}});
  DTR_ASSIGN(const ValueId quotient,
             Builder(importer).emit("aten.div.Tensor", std::move(operands)));
  return on_reals(importer, "aten.floor", {quotient});
}

// Integers are raised by products where the exponent is a constant.
Result<ValueId> power(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(std::vector<ValueId> operands, number_operands(importer));
  const auto exponent = builder.constant_elements(operands[1]);
  const bool same = exponent && !exponent->empty() && std::ranges::all_of(*exponent, [&](double e) {
                      return e == exponent->front();
                    });
  // A constant with dimensions of its own could widen the result.
  const bool plain = same && importer.type(operands[0]).elements() ==
                                 element_count(logical_shape(importer.output().shape));
  if (on_integers(importer)) {
    DTR_ASSIGN(const ValueId powers,
               plain && exponent->front() >= 0
                   ? compositions::integer_power(builder, operands[0],
                                                 static_cast<int64_t>(exponent->front()))
                   : builder.emit("aten.pow.Tensor_Tensor", operands));
    return importer.as_output(powers);
  }
  if (plain)
    return on_reals(importer, "aten.pow.Tensor_Scalar", {operands[0]},
                    {{"exponent", exponent->front()}});
  return on_reals(importer, "aten.pow.Tensor_Tensor", std::move(operands));
}

// SELECT's mask may be a vector over the first dimension instead of broadcasting.
Result<ValueId> select(Importer& importer) {
  DTR_ASSIGN(ValueId mask, importer.value(0));
  Shape of_mask = importer.tensor(0).shape;
  const Shape& shape = importer.tensor(1).shape;
  if (importer.op().code == BuiltinOperator::SELECT && of_mask.size() == 1 && shape.size() > 1) {
    Shape wide(shape.size(), 1);
    wide[0] = of_mask[0];
    DTR_ASSIGN(mask, importer.reshape(mask, of_mask, wide));
    of_mask = wide;
  }
  DTR_ASSIGN(mask, importer.aligned(mask, of_mask));
  DTR_ASSIGN(const ValueId a, number_operand(importer, 1));
  DTR_ASSIGN(const ValueId b, number_operand(importer, 2));
  Builder builder(importer);
  DTR_ASSIGN(const ValueId y, compositions::select(builder, mask, a, b));
  return importer.as_output(y);
}

Result<ValueId> add_n(Importer& importer) {
  DTR_ASSIGN(const std::vector<ValueId> operands, number_operands(importer));
  ValueId sum = operands.front();
  for (size_t i = 1; i < operands.size(); ++i) {
    DTR_ASSIGN(sum, Builder(importer).emit("aten.add.Tensor", {sum, operands[i]}));
  }
  return importer.as_output(sum);
}

Result<ValueId> cast(Importer& importer) {
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.as_output(x);
}

// Rounds to the steps of a quantization whose zero is exact, as a training simulates it.
Result<ValueId> fake_quant(Importer& importer) {
  DTR_ASSIGN(const fb::FakeQuantOptions* options,
             importer.options<fb::FakeQuantOptions>(OptionsType::FakeQuantOptions));
  const double low = static_cast<double>(options->min()),
               high = static_cast<double>(options->max());
  const int bits = options->num_bits();
  if (!(low < high) || low > 0 || high < 0 || bits < 2 || bits > 16)
    return importer.unsupported(fmt::format("{} bits from {} to {}", bits, low, high));
  const double least = options->narrow_range() ? 1 : 0, most = std::exp2(bits) - 1;
  const double scale = (high - low) / (most - least);
  const double zero_point = std::clamp(std::round(least - low / scale), least, most);
  Builder builder(importer);
  const auto number = [&](double value) {
    return builder.constant(DType::kFloat32, {}, value, "number");
  };
  DTR_ASSIGN(ValueId x, importer.real_value(0));
  DTR_ASSIGN(x, builder.emit(
                    "aten.clamp", {x},
                    {{"min", (least - zero_point) * scale}, {"max", (most - zero_point) * scale}}));
  DTR_ASSIGN(const ValueId inverse, number(1 / scale));
  DTR_ASSIGN(x, builder.emit("aten.mul.Tensor", {x, inverse}));
  DTR_ASSIGN(x, builder.emit("aten.round", {x}));
  DTR_ASSIGN(const ValueId step, number(scale));
  return on_reals(importer, "aten.mul.Tensor", {x, step});
}

// The number of boundaries that are not greater than x.
Result<ValueId> bucketize(Importer& importer) {
  DTR_ASSIGN(const fb::BucketizeOptions* options,
             importer.options<fb::BucketizeOptions>(OptionsType::BucketizeOptions));
  Builder builder(importer);
  DTR_ASSIGN(const ValueId x, importer.value(0));
  const DType dtype = importer.type(x).dtype;
  if (dtype != DType::kFloat32 || options->boundaries() == nullptr ||
      options->boundaries()->size() == 0 || options->boundaries()->size() > 256)
    return importer.unsupported("it needs float elements and 1 to 256 boundaries");
  ValueId count;
  for (const float boundary : *options->boundaries()) {
    DTR_ASSIGN(const ValueId limit,
               builder.constant(dtype, {}, static_cast<double>(boundary), "boundary"));
    DTR_ASSIGN(ValueId above, builder.emit("aten.ge.Tensor", {x, limit}));
    DTR_ASSIGN(above, builder.emit("convert", {above}, {{"dtype", std::string("i32")}}));
    if (count.valid()) {
      DTR_ASSIGN(count, builder.emit("aten.add.Tensor", {count, above}));
    } else {
      count = above;
    }
  }
  return importer.as_output(count);
}

constexpr OperatorDef kElementwiseOperators[] = {
    {BuiltinOperator::ADD_N, 1, kAnyNumber, add_n},
    {BuiltinOperator::ATAN2, 2, 2, one_op<ops::kAtan2>},
    {BuiltinOperator::BITWISE_XOR, 2, 2, one_op<ops::kBitwiseXorTensor>},
    {BuiltinOperator::BUCKETIZE, 1, 1, bucketize},
    {BuiltinOperator::CAST, 1, 1, cast},
    {BuiltinOperator::DIV, 2, 2, divide},
    {BuiltinOperator::EQUAL, 2, 2, one_op<ops::kEqTensor>},
    {BuiltinOperator::FAKE_QUANT, 1, 1, fake_quant},
    {BuiltinOperator::FLOOR_DIV, 2, 2, floor_divide},
    {BuiltinOperator::FLOOR_MOD, 2, 2, one_op<ops::kRemainderTensor>},
    {BuiltinOperator::GREATER, 2, 2, one_op<ops::kGtTensor>},
    {BuiltinOperator::GREATER_EQUAL, 2, 2, one_op<ops::kGeTensor>},
    {BuiltinOperator::LESS, 2, 2, one_op<ops::kLtTensor>},
    {BuiltinOperator::LESS_EQUAL, 2, 2, one_op<ops::kLeTensor>},
    {BuiltinOperator::LOGICAL_AND, 2, 2, one_op<ops::kLogicalAnd>},
    {BuiltinOperator::LOGICAL_NOT, 1, 1, one_op<ops::kLogicalNot>},
    {BuiltinOperator::LOGICAL_OR, 2, 2, one_op<ops::kLogicalOr>},
    {BuiltinOperator::NOT_EQUAL, 2, 2, one_op<ops::kNeTensor>},
    {BuiltinOperator::POW, 2, 2, power},
    {BuiltinOperator::SELECT, 3, 3, select},
    {BuiltinOperator::SELECT_V2, 3, 3, select},
    {BuiltinOperator::SQUARE, 1, 1, square},
    {BuiltinOperator::SQUARED_DIFFERENCE, 2, 2, squared_difference},
    {BuiltinOperator::STABLEHLO_ADD, 2, 2, one_op<ops::kAddTensor>},
    {BuiltinOperator::STABLEHLO_MAXIMUM, 2, 2, one_op<ops::kMaximum>},
    {BuiltinOperator::STABLEHLO_MINIMUM, 2, 2, one_op<ops::kMinimum>},
    {BuiltinOperator::STABLEHLO_MULTIPLY, 2, 2, one_op<ops::kMulTensor>},
};

}  // namespace

Result<ValueId> on_reals(Importer& importer, std::string_view op, std::vector<ValueId> operands,
                         const Attributes& attributes) {
  DTR_ASSIGN(const ValueId y, Builder(importer).emit(op, std::move(operands), attributes));
  return importer.as_output(y);
}

std::span<const OperatorDef> elementwise_operators() { return kElementwiseOperators; }

}  // namespace dtr::tflite
