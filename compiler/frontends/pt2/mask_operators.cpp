// Operators that combine and apply masks. Most masks are known at compile time: they are combined
// and sliced when the model is read, and a selection of floats by a known mask becomes a product
// and a sum with constants. A computed mask selects while the program runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/masks.h"
#include "compiler/compositions/shifts.h"
#include "compiler/frontends/pt2/operators.h"
#include "compiler/ops/constant_folding.h"

namespace dtr::pt2 {
namespace {

using compositions::Known;

// The elements of a static value.
Result<Known> known(NodeImport& node, ValueId value) {
  value = node.known(value);
  std::optional<std::vector<double>> elements = node.constant_elements(value);
  DTR_CHECK(elements.has_value());
  return Known{node.type(value).shape, *std::move(elements)};
}

// Of bools the logical operator, of integers that of their bits.
template <const char* kOfBools, const char* kOfBits>
Result<Values> on_bits(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  const bool truth = node.type(both.first).dtype == DType::kBool;
  DTR_ASSIGN(const ValueId result,
             node.emit(truth ? kOfBools : kOfBits, {both.first, both.second}));
  return Values{result};
}
constexpr char kAnd[] = "aten.logical_and", kBitAnd[] = "aten.bitwise_and.Tensor";
constexpr char kOr[] = "aten.logical_or", kBitOr[] = "aten.bitwise_or.Tensor";
constexpr char kXor[] = "aten.logical_xor", kBitXor[] = "aten.bitwise_xor.Tensor";

template <bool kLeft>
Result<Values> shift(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  const auto& [x, places] = both;
  const DType dtype = node.type(x).dtype;
  if (is_float(dtype) || dtype == DType::kBool)
    return node.unsupported(fmt::format("a shift of {}", name(dtype)));
  return one(compositions::shift(node, x, places, kLeft));
}

// Whatever is not zero is true.
template <const char* kOp>
Result<Values> logical(NodeImport& node) {
  DTR_ASSIGN(ValueId a, node.tensor("self"));
  DTR_ASSIGN(ValueId b, node.tensor("other"));
  DTR_ASSIGN(a, node.cast(a, DType::kBool));
  DTR_ASSIGN(b, node.cast(b, DType::kBool));
  DTR_ASSIGN(const ValueId result, node.emit(kOp, {a, b}));
  return Values{result};
}

Result<Values> logical_not(NodeImport& node) {
  DTR_ASSIGN(ValueId self, node.tensor("self"));
  DTR_ASSIGN(self, node.cast(self, DType::kBool));
  DTR_ASSIGN(const ValueId result, node.emit("aten.logical_not", {self}));
  return Values{result};
}
Result<Values> bitwise_not(NodeImport& node) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  if (node.type(self).dtype == DType::kBool) return logical_not(node);
  DTR_ASSIGN(const ValueId result, node.emit("aten.bitwise_not", {self}));
  return Values{result};
}

// NaN is what differs from itself.
Result<Values> isnan(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId result, node.emit("aten.ne.Tensor", {x, x}));
  return Values{result};
}
Result<Values> isinf(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  DTR_ASSIGN(x, node.emit("aten.abs", {x}));
  DTR_ASSIGN(const ValueId bound, node.constant(node.type(x).dtype, {}, INFINITY, "infinity"));
  DTR_ASSIGN(const ValueId result, node.emit("aten.eq.Tensor", {x, bound}));
  return Values{result};
}

// The part of each matrix above the diagonal, or below it.
template <bool kUpper>
Result<Values> triangle(NodeImport& node) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(const int64_t diagonal, node.integer("diagonal", 0));
  const Type of = node.type(self);
  if (of.rank() < 2)
    return node.unsupported(
        fmt::format("the operand has shape {}, which is no matrix", to_string(of.shape)));
  const Shape shape(of.shape.end() - 2, of.shape.end());
  Known kept{shape, std::vector<double>(static_cast<size_t>(element_count(shape)), 1)};
  compositions::keep_triangle(kept, kUpper, diagonal);
  ValueId result;
  if (is_float(of.dtype) && !ops::is_static(node.graph(), self)) {
    DTR_ASSIGN(result, compositions::select_by_constant(node, kept, self, true, Known{{}, {0}}));
  } else {
    DTR_ASSIGN(const ValueId mask, node.constant(DType::kBool, kept.values, shape));
    DTR_ASSIGN(const ValueId zero, node.constant(of.dtype, {}, 0, "zero"));
    DTR_ASSIGN(result, node.emit("aten.where.self", {mask, self, zero}));
  }
  return Values{result};
}

std::optional<double> uniform(NodeImport& node, ValueId value) {
  if (!ops::is_static(node.graph(), value)) return std::nullopt;
  const auto of = known(node, value);
  if (!of || of->values.empty()) return std::nullopt;
  const double first = of->values.front();
  if (std::ranges::any_of(of->values, [&](double each) { return each != first; }))
    return std::nullopt;
  return first;
}

// By a mask that is computed.
Result<Values> select_computed(NodeImport& node, ValueId mask, ValueId then, ValueId otherwise) {
  for (ValueId* const choice : {&then, &otherwise})
    if (uniform(node, *choice)) *choice = node.known(*choice);
  DTR_ASSIGN(const ValueId result, compositions::select(node, mask, then, otherwise));
  return Values{result};
}

Result<Values> select(NodeImport& node, ValueId mask, ValueId then, ValueId otherwise) {
  if (node.type(mask).dtype != DType::kBool) {
    DTR_ASSIGN(mask, node.cast(mask, DType::kBool));
  }
  const auto is_known = [&](ValueId value) { return ops::is_static(node.graph(), value); };
  if (!is_known(mask)) return select_computed(node, mask, then, otherwise);
  const bool known_then = is_known(then), known_otherwise = is_known(otherwise);
  if (!is_float(node.type(then).dtype) || (known_then && known_otherwise)) {
    DTR_ASSIGN(const ValueId result, node.emit("aten.where.self", {mask, then, otherwise}));
    return Values{result};
  }
  DTR_ASSIGN(const Known chosen, known(node, mask));
  if (!known_then && !known_otherwise) {
    DTR_ASSIGN(const ValueId kept,
               compositions::select_by_constant(node, chosen, then, true, Known{{}, {0}}));
    DTR_ASSIGN(const ValueId rest,
               compositions::select_by_constant(node, chosen, otherwise, false, Known{{}, {0}}));
    DTR_ASSIGN(const ValueId result, node.emit("aten.add.Tensor", {kept, rest}));
    return Values{result};
  }
  DTR_ASSIGN(const Known other, known(node, known_then ? then : otherwise));
  DTR_ASSIGN(const ValueId result,
             compositions::select_by_constant(node, chosen, known_then ? otherwise : then,
                                              !known_then, other));
  return Values{result};
}
// The buffer of qat-prepare that lets weights through without their fake quantization.
bool is_switch_of_weights(const NodeImport& node) {
  return std::ranges::any_of(node.node().inputs, [](const auto& input) {
    const auto* tensor = std::get_if<TensorName>(&input.second);
    return tensor != nullptr && tensor->name.ends_with("quantization_weight_quant_on");
  });
}
Result<Values> where(NodeImport& node) {
  DTR_ASSIGN(const ValueId mask, node.tensor("condition"));
  const std::string_view then = node.has("self") ? "self" : "input";
  if (node.number(then) && node.number("other")) {
    const bool whole = node.integer(then) && node.integer("other");
    const DType dtype = whole ? DType::kInt64 : DType::kFloat32;
    DTR_ASSIGN(const double a, node.number(then));
    DTR_ASSIGN(const double b, node.number("other"));
    DTR_ASSIGN(const ValueId first, node.constant(dtype, {}, a, "then"));
    DTR_ASSIGN(const ValueId second, node.constant(dtype, {}, b, "otherwise"));
    return select(node, mask, first, second);
  }
  DTR_ASSIGN(const auto both, node.pair(then, "other"));
  if (const std::optional<double> everywhere = uniform(node, mask)) {
    if (*everywhere == 0 && is_switch_of_weights(node))
      return node.refuse(DiagnosticId::kPt2NotCalibrated,
                         "the fake quantization of weights is switched off",
                         "switch it on before the export: "
                         "model.quantization.weight_quant_on.fill_(True)");
    const ValueId chosen = *everywhere != 0 ? both.first : both.second;
    if (node.type(chosen).shape == node.stated_shape()) return Values{chosen};
  }
  return select(node, mask, both.first, both.second);
}

// The value is converted to the dtype of the tensor.
Result<Values> masked_fill(NodeImport& node) {
  DTR_ASSIGN(const ValueId mask, node.tensor("mask"));
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(ValueId value, node.tensor_or_scalar("value", self));
  DTR_ASSIGN(value, node.cast(value, node.type(self).dtype));
  return select(node, mask, value, self);
}

}  // namespace

std::vector<Operator> mask_operators() {
  const auto constant = [](std::string_view target,
                           Result<Values> (*build)(NodeImport&)) -> Operator {
    return {.target = target, .op = "", .build = build};
  };
  return {
      constant("aten.__and__.Scalar", on_bits<kAnd, kBitAnd>),
      constant("aten.__and__.Tensor", on_bits<kAnd, kBitAnd>),
      constant("aten.__lshift__.Scalar", shift<true>),
      constant("aten.__lshift__.Tensor", shift<true>),
      constant("aten.__or__.Scalar", on_bits<kOr, kBitOr>),
      constant("aten.__or__.Tensor", on_bits<kOr, kBitOr>),
      constant("aten.__rshift__.Scalar", shift<false>),
      constant("aten.__rshift__.Tensor", shift<false>),
      constant("aten.__xor__.Scalar", on_bits<kXor, kBitXor>),
      constant("aten.__xor__.Tensor", on_bits<kXor, kBitXor>),
      constant("aten.bitwise_and.Scalar", on_bits<kAnd, kBitAnd>),
      constant("aten.bitwise_and.Scalar_Tensor", on_bits<kAnd, kBitAnd>),
      constant("aten.bitwise_and.Tensor", on_bits<kAnd, kBitAnd>),
      constant("aten.bitwise_left_shift.Tensor", shift<true>),
      constant("aten.bitwise_left_shift.Tensor_Scalar", shift<true>),
      constant("aten.bitwise_not.default", bitwise_not),
      constant("aten.bitwise_or.Scalar", on_bits<kOr, kBitOr>),
      constant("aten.bitwise_or.Scalar_Tensor", on_bits<kOr, kBitOr>),
      constant("aten.bitwise_or.Tensor", on_bits<kOr, kBitOr>),
      constant("aten.bitwise_right_shift.Tensor", shift<false>),
      constant("aten.bitwise_right_shift.Tensor_Scalar", shift<false>),
      constant("aten.bitwise_xor.Scalar", on_bits<kXor, kBitXor>),
      constant("aten.bitwise_xor.Scalar_Tensor", on_bits<kXor, kBitXor>),
      constant("aten.bitwise_xor.Tensor", on_bits<kXor, kBitXor>),
      constant("aten.isinf.default", isinf),
      constant("aten.isnan.default", isnan),
      constant("aten.logical_and.default", logical<kAnd>),
      constant("aten.logical_not.default", logical_not),
      constant("aten.logical_or.default", logical<kOr>),
      constant("aten.logical_xor.default", logical<kXor>),
      constant("aten.tril.default", triangle<false>),
      constant("aten.triu.default", triangle<true>),
      tensor_row("aten.masked_fill.Scalar", "aten.add.Tensor", masked_fill),
      tensor_row("aten.masked_fill.Tensor", "aten.add.Tensor", masked_fill),
      tensor_row("aten.where.Scalar", "aten.add.Tensor", where),
      tensor_row("aten.where.self", "aten.add.Tensor", where),
      tensor_row("aten.where.ScalarOther", "aten.add.Tensor", where),
      tensor_row("aten.where.ScalarSelf", "aten.add.Tensor", where),
  };
}

}  // namespace dtr::pt2
