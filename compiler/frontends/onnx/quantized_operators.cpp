// Quantize and dequantize, and operators on codes: they become dequantize, the operator on real
// numbers, quantize, as models of PyTorch have them; the compiler computes that in int8. Codes of
// UINT8 become those of int8: each less 128, and the zero points too.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/onnx/importer.h"

namespace dtr::onnx {
namespace {

using Codes = NodeImport::Codes;

Result<Values> quantize_linear(NodeImport& node) {
  DTR_ASSIGN(const int64_t axis, node.integer("axis", int64_t{1}));
  (void)node.has_attribute("saturate");
  (void)node.has_attribute("precision");
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId real, node.cast(x, DType::kFloat32));
  return only(node.quantized(real, {.scale = 1, .zero_point = 2, .axis = axis}));
}

Result<Values> dequantize_linear(NodeImport& node) {
  DTR_ASSIGN(const int64_t axis, node.integer("axis", int64_t{1}));
  return only(node.dequantized(0, {.scale = 1, .zero_point = 2, .axis = axis}));
}

// Chooses scale and zero point from the elements: in float, as the format defines it.
Result<Values> dynamic_quantize_linear(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId flat, node.view(x, {node.type(x).elements()}));
  const Attributes all{{"dim", Ints{0}}, {"keepdim", false}};
  DTR_ASSIGN(ValueId high, node.emit("aten.amax", {flat}, all));
  DTR_ASSIGN(ValueId low, node.emit("aten.amin", {flat}, all));
  DTR_ASSIGN(high, node.emit("aten.clamp", {high}, {{"min", 0.0}}));
  DTR_ASSIGN(low, node.emit("aten.clamp", {low}, {{"max", 0.0}}));
  DTR_ASSIGN(ValueId scale, node.sub(high, low));
  DTR_ASSIGN(const ValueId steps, node.scalar(255, scale));
  DTR_ASSIGN(scale, node.div(scale, steps));
  const Attributes bytes{{"min", 0.0}, {"max", 255.0}};
  DTR_ASSIGN(ValueId zero, node.times(low, -1));
  DTR_ASSIGN(zero, node.div(zero, scale));
  DTR_ASSIGN(zero, node.emit("aten.clamp", {zero}, bytes));
  DTR_ASSIGN(zero, node.emit("aten.round", {zero}));
  DTR_ASSIGN(ValueId codes, node.div(x, scale));
  DTR_ASSIGN(codes, node.emit("aten.round", {codes}));
  DTR_ASSIGN(codes, node.add(codes, zero));
  DTR_ASSIGN(codes, node.emit("aten.clamp", {codes}, bytes));
  DTR_ASSIGN(codes, node.cast(codes, DType::kUint8));
  DTR_ASSIGN(zero, node.cast(zero, DType::kUint8));
  return Values{codes, scale, zero};
}

// ---- products of integers

// An operand less its zero point, as float: sums of products are exact up to 2^24.
Result<ValueId> centred(NodeImport& node, size_t input, size_t zero_point, int64_t axis) {
  DTR_ASSIGN(ValueId x, node.value(input));
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  if (!node.has(zero_point)) return x;
  DTR_ASSIGN(ValueId zero, node.value(zero_point));
  DTR_ASSIGN(zero, node.cast(zero, DType::kFloat32));
  if (node.type(zero).elements() == 1) {
    DTR_ASSIGN(zero, node.view(zero, {}));
  } else if (node.type(zero).rank() == 1) {
    DTR_ASSIGN(const int64_t at, node.axis(axis, node.type(x).rank()));
    Shape along(node.type(x).rank(), 1);
    along[static_cast<size_t>(at)] = node.type(zero).elements();
    DTR_ASSIGN(zero, node.view(zero, along));
  }
  return node.sub(x, zero);
}

Result<Values> matmul_integer(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, centred(node, 0, 2, -2));
  DTR_ASSIGN(const ValueId b, centred(node, 1, 3, -1));
  DTR_ASSIGN(const ValueId y, multiplied(node, a, b));
  return only(node.cast(y, DType::kInt32));
}

Result<Values> conv_integer(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, centred(node, 0, 2, 1));
  DTR_ASSIGN(const ValueId weight, centred(node, 1, 3, 0));
  DTR_ASSIGN(const ValueId y, convolved(node, x, weight, {}));
  return only(node.cast(y, DType::kInt32));
}

// ---- operators on codes

// The quantization of the operand of the dequantize that computes `real`; null if none does.
const Quantization* quantization_behind(const NodeImport& node, ValueId real) {
  const Graph& graph = node.graph();
  const OpId op = graph.producer(real);
  if (!op.valid() || graph.op(op).def->name != "dequantize") return nullptr;
  const Type& type = graph.type(graph.op(op).operands[0]);
  return type.quantization ? &*type.quantization : nullptr;
}

// The int32 bias of a product as real numbers: its scale is that of the operand times that of the
// weight.
Result<ValueId> real_bias(NodeImport& node, size_t input, ValueId x, ValueId weight) {
  if (!node.has(input)) return ValueId{};
  const Quantization* of_x = quantization_behind(node, x);
  const Quantization* of_weight = quantization_behind(node, weight);
  if (of_x == nullptr || of_weight == nullptr || of_x->scales.size() != 1)
    return node.unsupported("it has a bias, and its scales are not constant",
                            "Quantize the model statically.");
  DTR_ASSIGN(const std::vector<double> codes, node.known(input));
  const auto channels = static_cast<int64_t>(codes.size());
  if (of_weight->scales.size() != 1 && of_weight->scales.size() != codes.size())
    return node.invalid(fmt::format("a bias of {} entries", codes.size()));
  return node.dequantized_constant(codes, DType::kInt32,
                                   bias_quantization(*of_x, *of_weight, channels));
}

// Operands: x, weight and result with scale and zero point each, and a bias.
Result<Values> qlinear_conv(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.dequantized(0, {.scale = 1, .zero_point = 2}));
  DTR_ASSIGN(const ValueId weight, node.dequantized(3, {.scale = 4, .zero_point = 5, .axis = 0}));
  DTR_ASSIGN(const ValueId bias, real_bias(node, 8, x, weight));
  DTR_ASSIGN(const ValueId y, convolved(node, x, weight, bias));
  return only(node.quantized(y, {.scale = 6, .zero_point = 7}));
}

Result<Values> qlinear_matmul(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.dequantized(0, {.scale = 1, .zero_point = 2, .axis = -2}));
  DTR_ASSIGN(const ValueId b, node.dequantized(3, {.scale = 4, .zero_point = 5, .axis = -1}));
  DTR_ASSIGN(const ValueId y, multiplied(node, a, b));
  return only(node.quantized(y, {.scale = 6, .zero_point = 7}));
}

// The result is float if it has no scale.
Result<Values> qgemm(NodeImport& node) {
  DTR_ASSIGN(const bool transposed, node.flag("transB"));
  DTR_ASSIGN(const ValueId a, node.dequantized(0, {.scale = 1, .zero_point = 2}));
  DTR_ASSIGN(const ValueId b,
             node.dequantized(3, {.scale = 4, .zero_point = 5, .axis = transposed ? 0 : 1}));
  DTR_ASSIGN(const ValueId bias, real_bias(node, 6, a, b));
  DTR_ASSIGN(const ValueId y, general_product(node, a, b, bias));
  if (!node.has(7)) return Values{y};
  return only(node.quantized(y, {.scale = 7, .zero_point = 8}));
}

template <bool kProduct>
Result<Values> qlinear_binary(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.dequantized(0, {.scale = 1, .zero_point = 2}));
  DTR_ASSIGN(const ValueId b, node.dequantized(3, {.scale = 4, .zero_point = 5}));
  DTR_ASSIGN(const ValueId y, kProduct ? node.mul(a, b) : node.add(a, b));
  return only(node.quantized(y, {.scale = 6, .zero_point = 7}));
}

// Operators of one operand: x and the result with scale and zero point each.
template <Result<ValueId> (*kFunction)(NodeImport&, ValueId)>
Result<Values> qlinear_unary(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.dequantized(0, {.scale = 1, .zero_point = 2}));
  DTR_ASSIGN(const ValueId y, kFunction(node, x));
  return only(node.quantized(y, {.scale = 3, .zero_point = 4}));
}

Result<ValueId> sigmoid(NodeImport& node, ValueId x) { return node.emit("aten.sigmoid", {x}); }

Result<ValueId> leaky_relu(NodeImport& node, ValueId x) {
  DTR_ASSIGN(const double alpha, node.number("alpha", static_cast<double>(0.01F)));
  return node.emit("aten.leaky_relu", {x}, {{"negative_slope", alpha}});
}

// Channels may be the last dimension.
template <Result<ValueId> (*kPool)(NodeImport&, ValueId)>
Result<ValueId> pooled(NodeImport& node, ValueId x) {
  DTR_ASSIGN(const bool channels_last, node.flag("channels_last"));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  if (!channels_last || rank < 3) return kPool(node, x);
  Ints forth{0, rank - 1}, back{0};
  for (int64_t i = 1; i + 1 < rank; ++i) forth.push_back(i);
  for (int64_t i = 2; i < rank; ++i) back.push_back(i);
  back.push_back(1);
  DTR_ASSIGN(x, node.permute(x, forth));
  DTR_ASSIGN(x, kPool(node, x));
  return node.permute(x, back);
}

Result<ValueId> global_average(NodeImport& node, ValueId x) {
  return globally_reduced(node, x, "aten.mean.dim");
}

Result<ValueId> softmax(NodeImport& node, ValueId x) {
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{-1}));
  DTR_ASSIGN(const int64_t opset, node.integer("opset", int64_t{13}));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  if (opset < 13 && dim + 1 != static_cast<int64_t>(node.type(x).rank()))
    return node.unsupported("softmax over several dimensions");
  return node.emit("aten.softmax", {x}, {{"dim", dim}});
}

Result<ValueId> reduce_mean(NodeImport& node, ValueId x) {
  DTR_ASSIGN(const Ints stated, node.ints("axes", Ints{}));
  DTR_ASSIGN(const bool keepdim, node.flag("keepdims", true));
  DTR_ASSIGN(Ints dims, node.axes(stated, node.type(x).rank()));
  if (dims.empty())
    for (size_t i = 0; i < node.type(x).rank(); ++i) dims.push_back(static_cast<int64_t>(i));
  return node.emit("aten.mean.dim", {x}, {{"dim", dims}, {"keepdim", keepdim}});
}

// Operands: scale and zero point of the result, then each part with its own.
Result<Values> qlinear_concat(NodeImport& node) {
  DTR_ASSIGN(const int64_t stated, node.integer("axis"));
  if (node.inputs() % 3 != 2) return node.invalid("its operands are not in threes");
  Values parts;
  for (size_t i = 2; i < node.inputs(); i += 3) {
    DTR_ASSIGN(parts.emplace_back(), node.dequantized(i, {.scale = i + 1, .zero_point = i + 2}));
  }
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(parts.front()).rank()));
  DTR_ASSIGN(const ValueId y, node.concatenate(std::move(parts), dim));
  return only(node.quantized(y, {.scale = 0, .zero_point = 1}));
}

Result<Values> qlinear_where(NodeImport& node) {
  DTR_ASSIGN(const ValueId mask, node.value(0));
  DTR_ASSIGN(const ValueId a, node.dequantized(1, {.scale = 2, .zero_point = 3}));
  DTR_ASSIGN(const ValueId b, node.dequantized(4, {.scale = 5, .zero_point = 6}));
  DTR_ASSIGN(const ValueId y, node.emit("aten.where.self", {mask, a, b}));
  return only(node.quantized(y, {.scale = 7, .zero_point = 8}));
}

}  // namespace

std::vector<Operator> quantized_operators() {
  const auto own = [](std::string_view name, size_t least, size_t most,
                      Result<Values> (*build)(NodeImport&)) {
    return row(name, least, most, build, kMicrosoft);
  };
  return {
      row("ConvInteger", 2, 4, conv_integer),
      row("DequantizeLinear", 2, 3, dequantize_linear),
      own("DequantizeLinear", 2, 3, dequantize_linear),
      row("DynamicQuantizeLinear", 1, 1, dynamic_quantize_linear),
      row("MatMulInteger", 2, 4, matmul_integer),
      own("QGemm", 6, 9, qgemm),
      own("QLinearAdd", 7, 8, qlinear_binary<false>),
      own("QLinearAveragePool", 4, 5, qlinear_unary<pooled<average_pooled>>),
      own("QLinearConcat", 5, kAnyNumber, qlinear_concat),
      row("QLinearConv", 8, 9, qlinear_conv),
      own("QLinearGlobalAveragePool", 5, 5, qlinear_unary<pooled<global_average>>),
      own("QLinearLeakyRelu", 4, 5, qlinear_unary<leaky_relu>),
      row("QLinearMatMul", 8, 8, qlinear_matmul),
      own("QLinearMul", 7, 8, qlinear_binary<true>),
      own("QLinearReduceMean", 4, 5, qlinear_unary<reduce_mean>),
      own("QLinearSigmoid", 4, 5, qlinear_unary<sigmoid>),
      own("QLinearSoftmax", 4, 5, qlinear_unary<softmax>),
      own("QLinearWhere", 8, 9, qlinear_where),
      row("QuantizeLinear", 2, 3, quantize_linear),
      own("QuantizeLinear", 2, 3, quantize_linear),
  };
}

}  // namespace dtr::onnx
