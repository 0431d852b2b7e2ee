// Functions of one or two elements that PyTorch defines by others, and reductions that leave
// elements out or count them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/compositions/norms.h"
#include "compiler/compositions/scans.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Result<ValueId> is_nan(NodeImport& node, ValueId x) { return node.emit("aten.ne.Tensor", {x, x}); }

// ---- of one element

// Angles in another unit.
template <bool kToDegrees>
Result<Values> turned_to(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  if (!is_float(node.type(x).dtype)) {
    DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  }
  constexpr double kFactor = kToDegrees ? 180 / std::numbers::pi : std::numbers::pi / 180;
  return one(with_number(node, "aten.mul.Tensor", x, kFactor));
}

Result<Values> is_finite(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  if (!is_float(node.type(x).dtype)) return one(node.constant(DType::kBool, shape, 1, "finite"));
  DTR_ASSIGN(const ValueId magnitude, node.emit("aten.abs", {x}));
  return one(with_number(node, "aten.lt.Tensor", magnitude, kInfinity));
}
template <int kSign>
Result<Values> is_infinity(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  if (!is_float(node.type(x).dtype)) return one(node.constant(DType::kBool, shape, 0, "finite"));
  return one(with_number(node, "aten.eq.Tensor", x, kSign * kInfinity));
}
Result<Values> is_real(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  return one(node.constant(DType::kBool, shape, 1, "real"));
}

// Of a real number: 0, or π where it is negative.
Result<Values> angle(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId is_negative, with_number(node, "aten.lt.Tensor", x, 0));
  DTR_ASSIGN(const ValueId half_turn, node.constant(DType::kFloat32, {}, std::numbers::pi, "pi"));
  DTR_ASSIGN(const ValueId zero, number_like(node, half_turn, 0));
  return one(node.emit("aten.where.self", {is_negative, half_turn, zero}));
}

// sin(πx) / πx, 1 at 0: where πx is 0, which int8 makes of small x too.
Result<Values> sinc(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId angle, with_number(node, "aten.mul.Tensor", x, std::numbers::pi));
  DTR_ASSIGN(const ValueId zero, number_like(node, angle, 0));
  DTR_ASSIGN(const ValueId is_zero, node.emit("aten.eq.Tensor", {angle, zero}));
  DTR_ASSIGN(const ValueId one_there, number_like(node, angle, 1));
  DTR_ASSIGN(const ValueId divisor, node.emit("aten.where.self", {is_zero, one_there, angle}));
  DTR_ASSIGN(const ValueId sine, node.emit("aten.sin", {angle}));
  DTR_ASSIGN(const ValueId ratio, node.emit("aten.div.Tensor", {sine, divisor}));
  return one(node.emit("aten.where.self", {is_zero, one_there, ratio}));
}

// The share of a normal distribution below x: ½ (1 + erf(x / √2)).
Result<Values> normal_share(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId scaled, with_number(node, "aten.mul.Tensor", x, std::sqrt(0.5)));
  DTR_ASSIGN(const ValueId share, node.emit("aten.erf", {scaled}));
  DTR_ASSIGN(const ValueId both, with_number(node, "aten.add.Tensor", share, 1));
  return one(with_number(node, "aten.mul.Tensor", both, 0.5));
}

// ---- of two elements

// x · log(y + offset), 0 where x is 0.
Result<ValueId> times_logarithm(NodeImport& node, ValueId x, ValueId y, double offset) {
  DTR_ASSIGN(const ValueId zero, number_like(node, x, 0));
  DTR_ASSIGN(const ValueId is_zero, node.emit("aten.eq.Tensor", {x, zero}));
  if (offset != 0) {
    DTR_ASSIGN(y, with_number(node, "aten.add.Tensor", y, offset));
  }
  DTR_ASSIGN(const ValueId logarithm, node.emit("aten.log", {y}));
  DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {x, logarithm}));
  return node.emit("aten.where.self", {is_zero, zero, product});
}
template <int kOffset>
Result<Values> times_logarithm(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  return one(times_logarithm(node, both.first, both.second, kOffset));
}
// −x log x, −∞ below zero.
Result<Values> entropy(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId product, times_logarithm(node, x, x, 0));
  DTR_ASSIGN(const ValueId negated, node.emit("aten.neg", {product}));
  DTR_ASSIGN(const ValueId below, with_number(node, "aten.lt.Tensor", x, 0));
  DTR_ASSIGN(const ValueId least, number_like(node, negated, -kInfinity));
  return one(node.emit("aten.where.self", {below, least, negated}));
}

// The greater one, or the only one that is a number.
template <const char* kOp>
Result<Values> extreme_of_numbers(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  const auto [a, b] = both;
  DTR_ASSIGN(ValueId result, node.emit(kOp, {a, b}));
  if (!is_float(node.type(result).dtype)) return Values{result};
  for (const auto& [absent, other] : {std::pair{a, b}, {b, a}}) {
    DTR_ASSIGN(const ValueId missing, is_nan(node, absent));
    DTR_ASSIGN(result, node.emit("aten.where.self", {missing, other, result}));
  }
  return Values{result};
}
constexpr char kMaximum[] = "aten.maximum", kMinimum[] = "aten.minimum";

template <const char* kOp, const char* kArgument>
Result<Values> bound_by(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", kArgument));
  return one(node.emit(kOp, {both.first, both.second}));
}
constexpr char kMin[] = "min", kMax[] = "max";

// log(e^a + e^b), or of powers of two: the greater one plus what the other adds.
template <bool kOfTwo>
Result<Values> log_of_sum(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  return one(
      compositions::log_sum_exp(node, both.first, both.second, kOfTwo ? std::numbers::ln2 : 1.0));
}

// x · 2^n.
Result<Values> load_exponent(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId power, node.tensor("other"));
  DTR_ASSIGN(power, node.cast(power, DType::kFloat32));
  DTR_ASSIGN(power, with_number(node, "aten.mul.Tensor", power, std::numbers::ln2));
  DTR_ASSIGN(power, node.emit("aten.exp", {power}));
  DTR_ASSIGN(const ValueId base, node.cast(x, DType::kFloat32));
  return one(node.emit("aten.mul.Tensor", {base, power}));
}

// |a − b| ≤ atol + rtol · |b|, or equal.
Result<Values> is_close(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  DTR_ASSIGN(const double relative, node.number("rtol", 1e-5));
  DTR_ASSIGN(const double absolute, node.number("atol", 1e-8));
  DTR_ASSIGN(const bool equal_nan, node.boolean("equal_nan", false));
  const auto [a, b] = both;
  DTR_ASSIGN(ValueId result, node.emit("aten.eq.Tensor", {a, b}));
  const auto join = [&](ValueId other) -> Result<void> {
    DTR_ASSIGN(result, node.emit("aten.logical_or", {result, other}));
    return {};
  };
  if (is_float(node.type(a).dtype)) {
    DTR_ASSIGN(ValueId distance, node.emit("aten.sub.Tensor", {a, b}));
    DTR_ASSIGN(distance, node.emit("aten.abs", {distance}));
    DTR_ASSIGN(ValueId allowed, node.emit("aten.abs", {b}));
    DTR_ASSIGN(allowed, with_number(node, "aten.mul.Tensor", allowed, relative));
    DTR_ASSIGN(allowed, with_number(node, "aten.add.Tensor", allowed, absolute));
    DTR_ASSIGN(ValueId near, node.emit("aten.le.Tensor", {distance, allowed}));
    DTR_ASSIGN(const ValueId finite, with_number(node, "aten.lt.Tensor", distance, kInfinity));
    DTR_ASSIGN(near, node.emit("aten.logical_and", {near, finite}));
    DTR_TRY(join(near));
  }
  if (equal_nan) {
    DTR_ASSIGN(const ValueId first, is_nan(node, a));
    DTR_ASSIGN(const ValueId second, is_nan(node, b));
    DTR_ASSIGN(const ValueId both_nan, node.emit("aten.logical_and", {first, second}));
    DTR_TRY(join(both_nan));
  }
  return Values{result};
}

Result<Values> distance(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  DTR_ASSIGN(const double order, node.number("p", 2));
  DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {both.first, both.second}));
  Ints all;
  for (size_t d = 0; d < node.type(way).rank(); ++d) all.push_back(static_cast<int64_t>(d));
  return one(compositions::vector_norm(node, way, order, all, false));
}

// ---- reductions

Result<Values> count_nonzero(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Ints dims;
  if (node.has("dim") && node.node().target.find("dim_IntList") == std::string_view::npos) {
    DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
    if (node.type(x).rank() > 0) dims = {dim};
  } else {
    DTR_ASSIGN(dims, node.dims("dim", node.type(x).rank()));
  }
  DTR_ASSIGN(const ValueId counted, with_number(node, "aten.ne.Tensor", x, 0));
  return one(
      node.emit("aten.sum.dim_IntList", {counted}, {{"dim", std::move(dims)}, {"keepdim", false}}));
}

// Sums and means of those that are numbers.
template <bool kMean>
Result<Values> of_numbers(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  const Attributes along{{"dim", dims}, {"keepdim", keepdim}};
  DTR_ASSIGN(const ValueId missing, is_nan(node, x));
  DTR_ASSIGN(const ValueId zero, number_like(node, x, 0));
  DTR_ASSIGN(const ValueId kept, node.emit("aten.where.self", {missing, zero, x}));
  DTR_ASSIGN(const ValueId sum, node.emit("aten.sum.dim_IntList", {kept}, along));
  if (!kMean) return Values{sum};
  DTR_ASSIGN(const ValueId there, node.emit("aten.logical_not", {missing}));
  DTR_ASSIGN(ValueId count, node.emit("aten.sum.dim_IntList", {there}, along));
  DTR_ASSIGN(count, node.cast(count, node.type(sum).dtype));
  return one(node.emit("aten.div.Tensor", {sum, count}));
}

// A norm by the singular values of the matrices in these dimensions.
Result<Values> singular_norm(NodeImport& node, ValueId x, const Ints& dims, bool keepdim,
                             SingularNorm norm) {
  Ints order;
  Shape shape = node.type(x).shape;
  for (int64_t dim = 0; dim < static_cast<int64_t>(shape.size()); ++dim)
    if (dim != dims[0] && dim != dims[1]) order.push_back(dim);
  order.insert(order.end(), {dims[0], dims[1]});
  DTR_ASSIGN(const ValueId matrices, node.permute(x, order));
  DTR_ASSIGN(const ValueId result, norm_of_singular_values(node, matrices, norm));
  if (!keepdim) return Values{result};
  for (const int64_t dim : dims) shape[static_cast<size_t>(dim)] = 1;
  return one(node.view(result, shape));
}

// Norms of matrices: Frobenius', the greatest or least sum of a row or column, and those of
// singular values.
Result<Values> matrix_norm(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank();
  Ints dims;
  for (const int64_t dim : {int64_t{-2}, int64_t{-1}}) dims.push_back(dim);
  if (node.has("dim")) {
    DTR_ASSIGN(dims, node.ints("dim"));
  }
  if (dims.size() != 2 || rank < 2) return node.unsupported("a norm that is not of matrices");
  for (int64_t& dim : dims) dim += dim < 0 ? static_cast<int64_t>(rank) : 0;
  if (dims[0] == dims[1] || std::min(dims[0], dims[1]) < 0 ||
      std::max(dims[0], dims[1]) >= static_cast<int64_t>(rank))
    return node.unsupported("a norm that is not of matrices");
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  const std::string_view target = node.node().target;
  if (target.ends_with(".str_ord") || target.ends_with(".ord_str")) {
    DTR_ASSIGN(const std::string_view order, node.string("ord", "fro"));
    if (order == "nuc") return singular_norm(node, x, dims, keepdim, SingularNorm::kSum);
    if (order != "fro")
      return node.unsupported(fmt::format("the norm `{}`", order), "take the norm `fro` or `nuc`");
    return one(compositions::vector_norm(
        node, x, 2, {std::min(dims[0], dims[1]), std::max(dims[0], dims[1])}, keepdim));
  }
  DTR_ASSIGN(const double order, node.number("ord"));
  if (std::abs(order) == 2)
    return singular_norm(node, x, dims, keepdim,
                         order > 0 ? SingularNorm::kGreatest : SingularNorm::kLeast);
  const bool of_rows = std::isinf(order);
  if (!of_rows && std::abs(order) != 1)
    return node.unsupported(fmt::format("the norm of order {}", order),
                            "take a norm of order 1, -1, 2, -2, inf or -inf, `fro` or `nuc`");
  DTR_ASSIGN(x, node.emit("aten.abs", {x}));
  const int64_t added = of_rows ? dims[1] : dims[0], left = of_rows ? dims[0] : dims[1];
  DTR_ASSIGN(x, node.emit("aten.sum.dim_IntList", {x}, {{"dim", Ints{added}}, {"keepdim", true}}));
  DTR_ASSIGN(x, node.emit(order > 0 ? "aten.amax" : "aten.amin", {x},
                          {{"dim", Ints{left}}, {"keepdim", true}}));
  if (keepdim) return Values{x};
  Shape shape = node.type(x).shape;
  for (const int64_t dim : {std::max(dims[0], dims[1]), std::min(dims[0], dims[1])})
    shape.erase(shape.begin() + dim);
  return one(node.view(x, shape));
}

// Without an order the root of all squares; else of vectors, or of matrices where there are two
// dimensions.
Result<Values> linalg_norm(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  if (node.has("ord") && dims.size() != 1) return matrix_norm(node);
  DTR_ASSIGN(const double order, node.number("ord", 2));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  return one(compositions::vector_norm(node, x, order, dims, keepdim));
}

}  // namespace

std::vector<Operator> defined_operators() {
  return {
      tensor_row("aten.deg2rad.default", "aten.mul.Tensor", turned_to<false>),
      tensor_row("aten.rad2deg.default", "aten.mul.Tensor", turned_to<true>),
      tensor_row("aten.isfinite.default", "aten.lt.Tensor", is_finite),
      tensor_row("aten.isneginf.default", "aten.eq.Tensor", is_infinity<-1>),
      tensor_row("aten.isposinf.default", "aten.eq.Tensor", is_infinity<1>),
      tensor_row("aten.isreal.default", "", is_real),
      tensor_row("aten.sinc.default", "aten.sin", sinc),
      tensor_row("aten.special_entr.default", "aten.log", entropy),
      tensor_row("aten.special_ndtr.default", "aten.erf", normal_share),
      tensor_row("aten.angle.default", "aten.where.self", angle),

      tensor_row("aten.clamp_max.Tensor", kMinimum, bound_by<kMinimum, kMax>),
      tensor_row("aten.clamp_min.Tensor", kMaximum, bound_by<kMaximum, kMin>),
      tensor_row("aten.dist.default", "aten.sub.Tensor", distance),
      tensor_row("aten.fmax.default", kMaximum, extreme_of_numbers<kMaximum>),
      tensor_row("aten.fmin.default", kMinimum, extreme_of_numbers<kMinimum>),
      tensor_row("aten.isclose.default", "aten.le.Tensor", is_close),
      tensor_row("aten.ldexp.Tensor", "aten.exp", load_exponent),
      tensor_row("aten.logaddexp.default", "aten.softplus", log_of_sum<false>),
      tensor_row("aten.logaddexp2.default", "aten.softplus", log_of_sum<true>),
      tensor_row("aten.special_xlog1py.default", "aten.log", times_logarithm<1>),
      tensor_row("aten.special_xlog1py.other_scalar", "aten.log", times_logarithm<1>),
      tensor_row("aten.special_xlog1py.self_scalar", "aten.log", times_logarithm<1>),
      tensor_row("aten.xlogy.Scalar_Other", "aten.log", times_logarithm<0>),
      tensor_row("aten.xlogy.Scalar_Self", "aten.log", times_logarithm<0>),
      tensor_row("aten.xlogy.Tensor", "aten.log", times_logarithm<0>),

      tensor_row("aten.count_nonzero.default", "aten.sum.dim_IntList", count_nonzero),
      tensor_row("aten.count_nonzero.dim_IntList", "aten.sum.dim_IntList", count_nonzero),
      tensor_row("aten.linalg_matrix_norm.default", "aten.abs", matrix_norm),
      tensor_row("aten.linalg_matrix_norm.str_ord", "aten.sqrt", matrix_norm),
      tensor_row("aten.linalg_norm.default", "aten.sqrt", linalg_norm),
      tensor_row("aten.linalg_norm.ord_str", "aten.sqrt", matrix_norm),
      tensor_row("aten.nanmean.default", "aten.sum.dim_IntList", of_numbers<true>),
      tensor_row("aten.nansum.default", "aten.sum.dim_IntList", of_numbers<false>),
  };
}

}  // namespace dtr::pt2
