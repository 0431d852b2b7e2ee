// Operators that make and apply masks. Masks of models mostly are known: they are compared,
// combined and cut when the model is read. Selections by a known mask are products and sums with
// constants. A mask that is an input may put a number in place of elements.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "compiler/compositions/masks.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

using compositions::Known;

constexpr std::string_view kGiveConstants =
    "make the mask a buffer of the module, or compute with maximum, minimum, relu or clamp";

Result<Known> known(NodeImport& node, std::string_view name) {
  if (const auto number = node.number(name)) return Known{{}, {*number}};
  DTR_ASSIGN(const ValueId value, node.tensor(name));
  if (!node.graph().is_constant(value))
    return node.unsupported(fmt::format("`{}` is computed while the model runs", name),
                            std::string(kGiveConstants));
  DTR_ASSIGN(std::vector<double> values, node.constant_elements(name));
  return Known{node.type(value).shape, std::move(values)};
}

Result<Values> made(NodeImport& node, DType dtype, const Known& from) {
  DTR_ASSIGN(const ValueId result, node.constant(dtype, from.values, from.shape));
  return Values{result};
}

struct And {
  bool operator()(double a, double b) const { return a != 0 && b != 0; }
};
struct Or {
  bool operator()(double a, double b) const { return a != 0 || b != 0; }
};
struct Xor {
  bool operator()(double a, double b) const { return (a != 0) != (b != 0); }
};

Result<Values> remainder(NodeImport& node) {
  DTR_ASSIGN(const Known a, known(node, "self"));
  DTR_ASSIGN(const Known b, known(node, "other"));
  DTR_ASSIGN(const Known result, compositions::paired(node, a, b, [](double x, double y) {
               return x - y * std::floor(x / y);
             }));
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  return made(node, node.type(self).dtype, result);
}

template <class Relation>
Result<Values> related(NodeImport& node) {
  DTR_ASSIGN(const Known a, known(node, "self"));
  DTR_ASSIGN(const Known b, known(node, "other"));
  DTR_ASSIGN(const Known result, compositions::paired(node, a, b, Relation()));
  return made(node, DType::kBool, result);
}

Result<Values> logical_not(NodeImport& node) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  if (!node.graph().is_constant(self)) {
    DTR_ASSIGN(const ValueId result, node.emit("aten.logical_not", {self}));
    return Values{result};
  }
  DTR_ASSIGN(Known mask, known(node, "self"));
  for (double& value : mask.values) value = value == 0 ? 1 : 0;
  return made(node, DType::kBool, mask);
}

// The part of each matrix above the diagonal, or below it.
template <bool kUpper>
Result<Values> triangle(NodeImport& node) {
  DTR_ASSIGN(Known matrix, known(node, "self"));
  DTR_ASSIGN(const int64_t diagonal, node.integer("diagonal", 0));
  if (matrix.shape.size() < 2)
    return node.unsupported(fmt::format("the constant has shape {}", to_string(matrix.shape)));
  compositions::keep_triangle(matrix, kUpper, diagonal);
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  return made(node, node.type(self).dtype, matrix);
}

// A constant that is one number everywhere; nullopt if it is computed or has several.
struct Uniform {
  Shape shape;
  double number;
};
std::optional<Uniform> uniform(NodeImport& node, std::string_view name) {
  const auto constant = known(node, name);
  if (!constant || constant->values.empty()) return std::nullopt;
  const double first = constant->values.front();
  if (std::ranges::any_of(constant->values, [&](double value) { return value != first; }))
    return std::nullopt;
  return Uniform{constant->shape, first};
}

// The same by a computed mask: where one of the two is a number.
Result<Values> select_computed(NodeImport& node, std::string_view when, std::string_view then,
                               std::string_view otherwise) {
  DTR_ASSIGN(const ValueId mask, node.tensor(when));
  const auto a = uniform(node, then), b = uniform(node, otherwise);
  if (node.type(mask).dtype != DType::kBool || (!a && !b))
    return node.unsupported(
        fmt::format("`{}` is computed while the model runs and chooses between two tensors", when),
        "choose between a tensor and a number");
  const Uniform& filled = a ? *a : *b;
  ValueId x;
  if (a && b) {
    const std::vector<double> values(static_cast<size_t>(element_count(b->shape)), b->number);
    DTR_ASSIGN(x, node.constant(DType::kFloat32, values, b->shape));
  } else {
    DTR_ASSIGN(x, node.tensor(a ? otherwise : then));
  }
  DTR_ASSIGN(const ValueId result,
             compositions::fill_by_mask(node, x, mask, a.has_value(), filled.number, filled.shape));
  return Values{result};
}

Result<Values> select(NodeImport& node, std::string_view when, std::string_view then,
                      std::string_view otherwise) {
  DTR_ASSIGN(const ValueId condition, node.tensor(when));
  if (!node.graph().is_constant(condition)) return select_computed(node, when, then, otherwise);
  DTR_ASSIGN(const Known mask, known(node, when));
  const auto a = known(node, then), b = known(node, otherwise);
  if (a && b) {
    DTR_ASSIGN(const Known first, compositions::paired(node, mask, *a, [](double m, double value) {
                 return m != 0 ? value : 0;
               }));
    DTR_ASSIGN(const Known second, compositions::paired(node, mask, *b, [](double m, double value) {
                 return m != 0 ? 0 : value;
               }));
    DTR_ASSIGN(const Known sum,
               compositions::paired(node, first, second, [](double p, double q) { return p + q; }));
    const auto self = node.tensor(node.number(then) ? otherwise : then);
    return made(node, self ? node.type(*self).dtype : DType::kFloat32, sum);
  }
  if (!a && !b) {
    DTR_ASSIGN(const ValueId x, node.tensor(then));
    DTR_ASSIGN(const ValueId y, node.tensor(otherwise));
    DTR_ASSIGN(const ValueId kept,
               compositions::select_by_constant(node, mask, x, true, Known{{}, {0}}));
    DTR_ASSIGN(const ValueId rest,
               compositions::select_by_constant(node, mask, y, false, Known{{}, {0}}));
    DTR_ASSIGN(const ValueId result, node.emit("aten.add.Tensor", {kept, rest}));
    return Values{result};
  }
  DTR_ASSIGN(const ValueId x, node.tensor(a ? otherwise : then));
  DTR_ASSIGN(const ValueId result,
             compositions::select_by_constant(node, mask, x, !a, a ? *a : *b));
  return Values{result};
}
Result<Values> where(NodeImport& node) {
  return select(node, "condition", node.has("self") ? "self" : "input", "other");
}
Result<Values> masked_fill(NodeImport& node) { return select(node, "mask", "value", "self"); }

}  // namespace

std::vector<Operator> mask_operators() {
  const auto constant = [](std::string_view target,
                           Result<Values> (*build)(NodeImport&)) -> Operator {
    return {.target = target, .op = "", .build = build};
  };
  return {
      constant("aten.__and__.Tensor", related<And>),
      constant("aten.__or__.Tensor", related<Or>),
      constant("aten.bitwise_and.Tensor", related<And>),
      constant("aten.bitwise_not.default", logical_not),
      constant("aten.bitwise_or.Tensor", related<Or>),
      constant("aten.eq.Scalar", related<std::equal_to<>>),
      constant("aten.eq.Tensor", related<std::equal_to<>>),
      constant("aten.ge.Scalar", related<std::greater_equal<>>),
      constant("aten.ge.Tensor", related<std::greater_equal<>>),
      constant("aten.gt.Scalar", related<std::greater<>>),
      constant("aten.gt.Tensor", related<std::greater<>>),
      constant("aten.le.Scalar", related<std::less_equal<>>),
      constant("aten.le.Tensor", related<std::less_equal<>>),
      constant("aten.logical_and.default", related<And>),
      constant("aten.logical_not.default", logical_not),
      constant("aten.logical_or.default", related<Or>),
      constant("aten.logical_xor.default", related<Xor>),
      constant("aten.lt.Scalar", related<std::less<>>),
      constant("aten.lt.Tensor", related<std::less<>>),
      constant("aten.ne.Scalar", related<std::not_equal_to<>>),
      constant("aten.ne.Tensor", related<std::not_equal_to<>>),
      constant("aten.remainder.Scalar", remainder),
      constant("aten.tril.default", triangle<false>),
      constant("aten.triu.default", triangle<true>),
      making("aten.masked_fill.Scalar", "aten.add.Tensor", masked_fill),
      making("aten.masked_fill.Tensor", "aten.add.Tensor", masked_fill),
      making("aten.where.Scalar", "aten.add.Tensor", where),
      making("aten.where.self", "aten.add.Tensor", where),
      making("aten.where.ScalarOther", "aten.add.Tensor", where),
      making("aten.where.ScalarSelf", "aten.add.Tensor", where),
  };
}

}  // namespace dtr::pt2
