// Operators that are composed of a few others: norms of vectors, logarithms and powers of other
// bases, interpolation, products of vectors, and replacements of parts of a tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/compositions/norms.h"
#include "compiler/compositions/slices.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<ValueId> times(NodeImport& node, ValueId x, double factor) {
  DTR_ASSIGN(const ValueId number, node.constant(node.type(x).dtype, {}, factor, "factor"));
  return node.emit("aten.mul.Tensor", {x, number});
}

Result<ValueId> plus(NodeImport& node, ValueId x, double addend) {
  DTR_ASSIGN(const ValueId number, node.constant(node.type(x).dtype, {}, addend, "addend"));
  return node.emit("aten.add.Tensor", {x, number});
}

// ---- functions of each element

// log_b(x) = log(x) / log(b).
template <int kBase>
Result<Values> logarithm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId natural, node.emit("aten.log", {x}));
  return one(times(node, natural, 1 / std::log(double{kBase})));
}

Result<Values> log1p(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId more, plus(node, x, 1));
  return one(node.emit("aten.log", {more}));
}

Result<Values> expm1(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId power, node.emit("aten.exp", {x}));
  return one(plus(node, power, -1));
}

// base^x = exp(x · log(base)).
Result<Values> power_of(NodeImport& node, double base, ValueId x) {
  if (!(base > 0))
    return node.unsupported(fmt::format("powers of {}", base), "take powers of a positive number");
  DTR_ASSIGN(const ValueId exponent, times(node, x, std::log(base)));
  return one(node.emit("aten.exp", {exponent}));
}
Result<Values> exp2(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return power_of(node, 2, x);
}
Result<Values> power_of_number(NodeImport& node) {
  DTR_ASSIGN(const double base, node.number("self"));
  DTR_ASSIGN(ValueId x, node.tensor("exponent"));
  const DType stated = node.stated_dtype().value_or(node.type(x).dtype);
  DTR_ASSIGN(x, node.cast(x, is_float(stated) ? DType::kFloat32 : stated));
  if (is_float(stated)) return power_of(node, base, x);
  DTR_ASSIGN(const ValueId whole, number_like(node, x, base));
  return one(node.emit("aten.pow.Tensor_Tensor", {whole, x}));
}

Result<Values> erfc(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId erf, node.emit("aten.erf", {x}));
  DTR_ASSIGN(const ValueId unit, node.constant(node.type(x).dtype, {}, 1, "one"));
  return one(node.emit("aten.sub.Tensor", {unit, erf}));
}

// At inference the slope is the mean of those that training draws.
Result<Values> rrelu(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double lower, node.number("lower", 1.0 / 8));
  DTR_ASSIGN(const double upper, node.number("upper", 1.0 / 3));
  DTR_ASSIGN(const bool training, node.boolean("training", false));
  if (training) return node.unsupported("it draws random slopes", "export model.eval()");
  return one(node.emit("aten.leaky_relu", {x}, {{"negative_slope", (lower + upper) / 2}}));
}

// ---- several tensors

// self + value · (tensor1 ∘ tensor2).
Result<Values> add_composed(NodeImport& node, std::string_view op) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(const ValueId a, node.tensor("tensor1"));
  DTR_ASSIGN(const ValueId b, node.tensor("tensor2"));
  DTR_ASSIGN(const double value, node.number("value", 1.0));
  DTR_ASSIGN(const ValueId both, node.emit(op, {a, b}));
  return one(node.emit("aten.add.Tensor", {self, both}, {{"alpha", value}}));
}
Result<Values> addcmul(NodeImport& node) { return add_composed(node, "aten.mul.Tensor"); }
Result<Values> addcdiv(NodeImport& node) { return add_composed(node, "aten.div.Tensor"); }

// self + weight · (end − self).
Result<Values> lerp(NodeImport& node) {
  DTR_ASSIGN(const ValueId self, node.tensor("self"));
  DTR_ASSIGN(const ValueId end, node.tensor("end"));
  DTR_ASSIGN(const ValueId weight, node.tensor_or_scalar("weight", self));
  DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {end, self}));
  DTR_ASSIGN(const ValueId part, node.emit("aten.mul.Tensor", {way, weight}));
  return one(node.emit("aten.add.Tensor", {self, part}));
}

Result<Values> outer(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "vec2"));
  const auto& [a, b] = both;
  DTR_ASSIGN(const ValueId column, node.view(a, {node.type(a).elements(), 1}));
  return one(node.emit("aten.mul.Tensor", {column, b}));
}

// ---- norms

Result<Values> norm(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  const std::string_view order = node.has("p") ? "p" : "ord";
  DTR_ASSIGN(const double p, node.number(order, 2.0));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  return one(compositions::vector_norm(node, x, p, dims, keepdim));
}

Result<Values> pairwise_distance(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("x1"));
  DTR_ASSIGN(const ValueId y, node.tensor("x2"));
  DTR_ASSIGN(const double p, node.number("p", 2));
  DTR_ASSIGN(const double eps, node.number("eps", 1e-6));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  return one(distance_of(node, x, y, p, eps, keepdim));
}

// x[i + 1] − x[i] along a dimension, `n` times; of bools, whether they differ.
Result<Values> differences(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t times_taken, node.integer("n", 1));
  const size_t rank = node.type(x).rank();
  DTR_ASSIGN(const int64_t dim, node.dim("dim", rank, -1));
  DTR_ASSIGN(const ValueId before, node.optional_tensor("prepend"));
  DTR_ASSIGN(const ValueId behind, node.optional_tensor("append"));
  DTR_ASSIGN(x, node.concatenate({before, x, behind}, dim));
  for (int64_t i = 0; i < times_taken; ++i) {
    const int64_t extent = rank == 0 ? 0 : node.type(x).shape[static_cast<size_t>(dim)];
    if (extent < 1)
      return node.unsupported(fmt::format("differences of {}", to_string(node.type(x).shape)));
    DTR_ASSIGN(const ValueId next, node.slice(x, dim, 1, extent));
    DTR_ASSIGN(const ValueId previous, node.slice(x, dim, 0, extent - 1));
    const bool truth = node.type(x).dtype == DType::kBool;
    DTR_ASSIGN(x, node.emit(truth ? "aten.logical_xor" : "aten.sub.Tensor", {next, previous}));
  }
  return Values{x};
}

Result<Values> cosine_similarity(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("x1"));
  DTR_ASSIGN(const ValueId y, node.tensor("x2"));
  DTR_ASSIGN(const double eps, node.number("eps", 1e-8));
  DTR_ASSIGN(const int64_t dim,
             node.dim("dim", std::max(node.type(x).rank(), node.type(y).rank()), 1));
  return one(compositions::cosine_similarity(node, x, y, dim, eps));
}

// Of constants, as torch.nn.utils leaves a weight. The second result is |v|.
Result<Values> weight_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId v, node.tensor("v"));
  DTR_ASSIGN(const ValueId g, node.tensor("g"));
  DTR_ASSIGN(const int64_t but, node.integer("dim", 0));
  DTR_ASSIGN(const auto made, compositions::weight_norm(node, v, g, but));
  return Values{made.weight, made.norm};
}

// ---- parts that are replaced

template <Result<ValueId> (*kWith)(NodeImport&, ValueId)>
Result<Values> scatter(NodeImport& node) {
  DTR_ASSIGN(const ValueId part, node.tensor("src"));
  return one(kWith(node, part));
}

// `value` in the shape of x, whose elements it replaces.
Result<Values> in_place_of(NodeImport& node, ValueId x, ValueId value) {
  DTR_ASSIGN(value, node.cast(value, node.type(x).dtype));
  const Shape shape = node.type(x).shape;
  return one(node.expand(value, shape));
}

Result<Values> copy(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId part, node.tensor("src"));
  return in_place_of(node, x, part);
}

Result<Values> fill(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId value, node.tensor_or_scalar("value", x));
  return in_place_of(node, x, value);
}

Result<Values> zero(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  return one(node.constant(node.type(x).dtype, shape, 0, "zero"));
}

}  // namespace

Result<ValueId> with_slice(NodeImport& node, ValueId part) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size(), 0));
  DTR_ASSIGN(int64_t start, node.integer("start", 0));
  DTR_ASSIGN(int64_t end, node.integer("end", INT64_MAX));
  DTR_ASSIGN(const int64_t step, node.integer("step", 1));
  const int64_t extent = shape.empty() ? 0 : shape[static_cast<size_t>(dim)];
  const auto clip = [&](int64_t bound) {
    return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
  };
  start = clip(start);
  end = std::max(start, clip(end));
  Shape expected = shape;
  if (step >= 1 && !shape.empty())
    expected[static_cast<size_t>(dim)] = (end - start) / step + ((end - start) % step != 0 ? 1 : 0);
  if (step < 1 || shape.empty() || node.type(part).shape != expected)
    return node.unsupported(fmt::format("{} takes the place of {}:{}:{} of {}",
                                        to_string(node.type(part).shape), start, end, step,
                                        to_string(shape)));
  return compositions::replace_slice(node, x, part, dim, start, step);
}

Result<ValueId> with_selection(NodeImport& node, ValueId part) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  DTR_ASSIGN(const NodeImport::Selection at, node.selection(shape));
  shape[static_cast<size_t>(at.dim)] = 1;
  DTR_ASSIGN(part, node.view(part, shape));
  return compositions::replace_slice(node, x, part, at.dim, at.index, 1);
}

Result<ValueId> distance_of(NodeImport& node, ValueId x, ValueId y, double p, double eps,
                            bool keepdim) {
  DTR_ASSIGN(ValueId way, node.emit("aten.sub.Tensor", {x, y}));
  DTR_ASSIGN(way, plus(node, way, eps));
  const auto last = static_cast<int64_t>(node.type(way).rank()) - 1;
  return compositions::vector_norm(node, way, p, {last}, keepdim);
}

std::vector<Operator> composed_operators() {
  return {
      tensor_row("aten.erfc.default", "aten.erf", erfc),
      tensor_row("aten.exp2.default", "aten.exp", exp2),
      tensor_row("aten.expm1.default", "aten.exp", expm1),
      tensor_row("aten.log10.default", "aten.log", logarithm<10>),
      tensor_row("aten.log1p.default", "aten.log", log1p),
      tensor_row("aten.log2.default", "aten.log", logarithm<2>),
      tensor_row("aten.pow.Scalar", "aten.exp", power_of_number),
      tensor_row("aten.rrelu.default", "aten.leaky_relu", rrelu),

      tensor_row("aten.addcdiv.default", "aten.div.Tensor", addcdiv),
      tensor_row("aten.addcmul.default", "aten.mul.Tensor", addcmul),
      tensor_row("aten.ger.default", "aten.mul.Tensor", outer),
      tensor_row("aten.lerp.Scalar", "aten.mul.Tensor", lerp),
      tensor_row("aten.lerp.Tensor", "aten.mul.Tensor", lerp),
      tensor_row("aten.outer.default", "aten.mul.Tensor", outer),

      tensor_row("aten._weight_norm.default", "aten.mul.Tensor", weight_norm),
      tensor_row("aten._weight_norm_interface.default", "aten.mul.Tensor", weight_norm),
      tensor_row("aten.cosine_similarity.default", "aten.mul.Tensor", cosine_similarity),
      tensor_row("aten.diff.default", "aten.sub.Tensor", differences),
      tensor_row("aten.pairwise_distance.default", "aten.sqrt", pairwise_distance),
      tensor_row("aten.linalg_vector_norm.default", "aten.sqrt", norm),
      tensor_row("aten.norm.Scalar", "aten.sqrt", norm),
      tensor_row("aten.norm.ScalarOpt_dim", "aten.sqrt", norm),

      tensor_row("aten.copy.default", "aten.expand", copy),
      tensor_row("aten.fill.Scalar", "aten.expand", fill),
      tensor_row("aten.fill.Tensor", "aten.expand", fill),
      tensor_row("aten.select_scatter.default", "aten.cat", scatter<with_selection>),
      tensor_row("aten.slice_scatter.default", "aten.cat", scatter<with_slice>),
      tensor_row("aten.zero.default", "", zero),
  };
}

}  // namespace dtr::pt2
