// Statistics of the elements along a dimension: quantiles, the most frequent element, histograms,
// areas below curves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/scans.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// ---- quantiles

// Where a quantile lies between the sorted elements of a dimension: weight 0 is the lower one.
struct Rank {
  int64_t lower = 0;
  double weight = 0;
};

// In float, as PyTorch computes ranks.
Rank rank_of(double quantile, int64_t count, std::string_view interpolation) {
  const float rank = static_cast<float>(quantile) * static_cast<float>(count - 1);
  float lower = std::floor(rank);
  float weight = rank - lower;
  if (interpolation == "lower") weight = 0;
  if (interpolation == "higher" && weight > 0) weight = 1;
  if (interpolation == "midpoint" && weight > 0) weight = 0.5F;
  if (interpolation == "nearest") {
    lower = std::nearbyint(rank);  // halves to even
    weight = 0;
  }
  if (weight == 1) {
    lower += 1;
    weight = 0;
  }
  return {.lower = static_cast<int64_t>(lower), .weight = weight};
}

// The elements of one rank, with `dim` kept as one element.
Result<ValueId> at_rank(NodeImport& node, ValueId sorted, int64_t dim, const Rank& rank) {
  DTR_ASSIGN(const ValueId lower, node.slice(sorted, dim, rank.lower, rank.lower + 1));
  if (rank.weight == 0) return lower;
  DTR_ASSIGN(const ValueId upper, node.slice(sorted, dim, rank.lower + 1, rank.lower + 2));
  DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {upper, lower}));
  const bool from_upper = rank.weight >= 0.5;  // the shorter way, as PyTorch takes it
  DTR_ASSIGN(const ValueId weight,
             number_like(node, lower, from_upper ? rank.weight - 1 : rank.weight));
  DTR_ASSIGN(const ValueId part, node.emit("aten.mul.Tensor", {way, weight}));
  return node.emit("aten.add.Tensor", {from_upper ? upper : lower, part});
}

// What a quantile is taken of.
struct Ranked {
  ValueId x;
  int64_t dim = 0;
  Shape reduced;  // of the result, without a dimension of several quantiles
};
Result<Ranked> ranked(NodeImport& node) {
  Ranked of;
  DTR_ASSIGN(of.x, node.tensor("self"));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  of.reduced = node.type(of.x).shape;
  if (node.has("dim")) {
    DTR_ASSIGN(of.dim, node.dim("dim", of.reduced.size()));
    if (!of.reduced.empty()) {
      of.reduced[static_cast<size_t>(of.dim)] = 1;
      if (!keepdim) of.reduced.erase(of.reduced.begin() + of.dim);
    }
  } else {
    of.reduced.assign(keepdim ? of.reduced.size() : 0, 1);
    DTR_ASSIGN(of.x, node.view(of.x, {node.type(of.x).elements()}));
  }
  if (node.type(of.x).rank() == 0) {
    DTR_ASSIGN(of.x, node.view(of.x, {1}));
  }
  return of;
}

// One quantile, which is known.
Result<Values> quantile(NodeImport& node) {
  DTR_ASSIGN(const Ranked of, ranked(node));
  DTR_ASSIGN(const double q, node.number("q"));
  DTR_ASSIGN(const std::string_view interpolation, node.string("interpolation", "linear"));
  if (!(q >= 0 && q <= 1)) return node.unsupported(fmt::format("the quantile {}", q));
  const int64_t count = node.type(of.x).shape[static_cast<size_t>(of.dim)];
  DTR_ASSIGN(const compositions::Extremes sorted,
             compositions::top(node, of.x, count, of.dim, false));
  DTR_ASSIGN(const ValueId found,
             at_rank(node, sorted.values, of.dim, rank_of(q, count, interpolation)));
  return one(node.view(found, of.reduced));
}

// Quantiles of a tensor, which may be computed; with `of_numbers` those of the elements that are
// numbers, of which each row may have another count. The ranks are computed as PyTorch does, and
// the elements there gathered.
template <bool kOfNumbers>
Result<Values> quantiles(NodeImport& node) {
  DTR_ASSIGN(const Ranked of, ranked(node));
  DTR_ASSIGN(const std::string_view interpolation, node.string("interpolation", "linear"));
  DTR_ASSIGN(ValueId q, node.tensor_or_scalar("q", of.x));
  const Shape of_q = node.type(q).shape;
  if (of_q.size() > 1) return node.unsupported(fmt::format("quantiles of {}", to_string(of_q)));
  // The ranked dimension last.
  const auto rank = static_cast<int64_t>(node.type(of.x).rank());
  Ints order, back;
  for (int64_t d = 0; d < rank; ++d)
    if (d != of.dim) order.push_back(d);
  order.push_back(of.dim);
  DTR_ASSIGN(ValueId x, node.permute(of.x, order));
  const int64_t count = node.type(x).shape.back();
  ValueId places, there;
  DTR_ASSIGN(q, node.view(q, {node.type(q).elements()}));
  if (kOfNumbers) {
    DTR_ASSIGN(const ValueId missing, node.emit("aten.ne.Tensor", {x, x}));
    DTR_ASSIGN(const ValueId infinity, number_like(node, x, INFINITY));
    DTR_ASSIGN(x, node.emit("aten.where.self", {missing, infinity, x}));
    DTR_ASSIGN(const ValueId is_number, node.emit("aten.logical_not", {missing}));
    DTR_ASSIGN(there, node.emit("aten.sum.dim_IntList", {is_number},
                                {{"dim", Ints{rank - 1}}, {"keepdim", true}}));
    DTR_ASSIGN(there, node.cast(there, node.type(x).dtype));
    DTR_ASSIGN(ValueId last, with_number(node, "aten.sub.Tensor", there, 1));
    DTR_ASSIGN(last, with_number(node, "aten.maximum", last, 0));
    DTR_ASSIGN(places, node.emit("aten.mul.Tensor", {last, q}));
  } else {
    DTR_ASSIGN(places, with_number(node, "aten.mul.Tensor", q, static_cast<double>(count - 1)));
  }
  Shape shape = node.type(x).shape;
  shape.back() = node.type(q).elements();
  DTR_ASSIGN(places, node.expand(places, shape));
  const auto at = [&](std::string_view rounding) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId rounded, node.emit(rounding, {places}));
    return node.cast(rounded, DType::kInt64);
  };
  DTR_ASSIGN(const compositions::Extremes sorted,
             compositions::top(node, x, count, rank - 1, false));
  const bool one_of_them = interpolation == "nearest" || interpolation == "higher";
  DTR_ASSIGN(const ValueId lower_place, at(interpolation == "nearest"  ? "aten.round"
                                           : interpolation == "higher" ? "aten.ceil"
                                                                       : "aten.floor"));
  DTR_ASSIGN(ValueId found, compositions::gather(node, sorted.values, rank - 1, lower_place));
  if (!one_of_them && interpolation != "lower") {
    DTR_ASSIGN(const ValueId upper_place, at("aten.ceil"));
    DTR_ASSIGN(const ValueId upper,
               compositions::gather(node, sorted.values, rank - 1, upper_place));
    DTR_ASSIGN(const ValueId floor, node.emit("aten.floor", {places}));
    DTR_ASSIGN(ValueId weight, node.emit("aten.sub.Tensor", {places, floor}));
    if (interpolation == "midpoint") {
      DTR_ASSIGN(weight, number_like(node, places, 0.5));
    }
    // The shorter way, as PyTorch takes it. Equal elements, which may be infinite, stay.
    DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {upper, found}));
    DTR_ASSIGN(const ValueId from_upper, with_number(node, "aten.ge.Tensor", weight, 0.5));
    DTR_ASSIGN(const ValueId rest, with_number(node, "aten.sub.Tensor", weight, 1));
    DTR_ASSIGN(const ValueId start, node.emit("aten.where.self", {from_upper, upper, found}));
    DTR_ASSIGN(const ValueId part, node.emit("aten.where.self", {from_upper, rest, weight}));
    DTR_ASSIGN(const ValueId moved, node.emit("aten.mul.Tensor", {way, part}));
    DTR_ASSIGN(const ValueId between, node.emit("aten.add.Tensor", {start, moved}));
    DTR_ASSIGN(const ValueId same, node.emit("aten.eq.Tensor", {upper, found}));
    DTR_ASSIGN(found, node.emit("aten.where.self", {same, found, between}));
  }
  if (kOfNumbers) {
    DTR_ASSIGN(const ValueId some, with_number(node, "aten.gt.Tensor", there, 0));
    DTR_ASSIGN(const ValueId none, number_like(node, found, NAN));
    DTR_ASSIGN(found, node.emit("aten.where.self", {some, found, none}));
  }
  // The quantiles first.
  back.push_back(rank - 1);
  for (int64_t d = 0; d + 1 < rank; ++d) back.push_back(d);
  DTR_ASSIGN(found, node.permute(found, back));
  Shape result = of.reduced;
  result.insert(result.begin(), of_q.begin(), of_q.end());
  return one(node.view(found, result));
}

// ---- counts

// The most frequent element along a dimension, the least of several, and where it is last.
Result<Values> mode(NodeImport& node) {
  constexpr int64_t kMostPairs = int64_t{1} << 20;
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size(), -1));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  if (shape.empty()) return node.unsupported("the tensor is a scalar");
  const int64_t extent = shape[static_cast<size_t>(dim)];
  if (node.type(x).elements() > kMostPairs / extent)
    return node.unsupported(fmt::format(
        "the most frequent of {} elements: {} pairs are compared at most", extent, kMostPairs));
  Shape column = shape, row = shape;
  column.insert(column.begin() + dim + 1, 1);
  row.insert(row.begin() + dim, 1);
  DTR_ASSIGN(const ValueId own, node.view(x, column));
  DTR_ASSIGN(const ValueId other, node.view(x, row));
  DTR_ASSIGN(const ValueId equals, node.emit("aten.eq.Tensor", {own, other}));
  DTR_ASSIGN(const ValueId counts, node.emit("aten.sum.dim_IntList", {equals},
                                             {{"dim", Ints{dim + 1}}, {"keepdim", false}}));
  const auto extreme = [&](std::string_view op, ValueId of) {
    return node.emit(op, {of}, {{"dim", Ints{dim}}, {"keepdim", true}});
  };
  DTR_ASSIGN(const ValueId most, extreme("aten.amax", counts));
  DTR_ASSIGN(const ValueId is_mode, node.emit("aten.eq.Tensor", {counts, most}));
  DTR_ASSIGN(const ValueId greatest, extreme("aten.amax", x));
  DTR_ASSIGN(const ValueId modes, node.emit("aten.where.self", {is_mode, x, greatest}));
  DTR_ASSIGN(const ValueId value, extreme("aten.amin", modes));
  DTR_ASSIGN(const ValueId is_here, node.emit("aten.eq.Tensor", {x, value}));
  Shape along(shape.size(), 1);
  along[static_cast<size_t>(dim)] = extent;
  std::vector<double> all(static_cast<size_t>(extent));
  std::iota(all.begin(), all.end(), 0);
  DTR_ASSIGN(const ValueId places, node.GraphBuilder::constant(DType::kInt64, all, along));
  DTR_ASSIGN(const ValueId none, number_like(node, places, 0));
  DTR_ASSIGN(const ValueId here, node.emit("aten.where.self", {is_here, places, none}));
  DTR_ASSIGN(const ValueId index, extreme("aten.amax", here));
  Values results;
  Shape reduced = shape;
  reduced[static_cast<size_t>(dim)] = 1;
  if (!keepdim) reduced.erase(reduced.begin() + dim);
  for (const ValueId each : {value, index}) {
    DTR_ASSIGN(results.emplace_back(), node.view(each, reduced));
  }
  return results;
}

// How many elements are in each of `bins` equal parts of a range; the last one has its end too.
Result<Values> histogram(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t bins, node.integer("bins", 100));
  DTR_ASSIGN(const double least, node.number("min", 0));
  DTR_ASSIGN(const double most, node.number("max", 0));
  if (bins < 1 || least > most)
    return node.unsupported(fmt::format("{} bins from {} to {}", bins, least, most));
  const DType dtype = node.type(x).dtype;
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  DTR_ASSIGN(x, node.view(x, {node.type(x).elements(), 1}));
  DTR_ASSIGN(ValueId from, number_like(node, x, least));
  DTR_ASSIGN(ValueId to, number_like(node, x, most));
  if (least == most) {  // the range of the elements
    const auto extreme = [&](std::string_view op) {
      return node.emit(op, {x}, {{"dim", Ints{0, 1}}, {"keepdim", false}});
    };
    if (least == 0) {
      DTR_ASSIGN(from, extreme("aten.amin"));
      DTR_ASSIGN(to, extreme("aten.amax"));
    }
    // One to each side of a single value.
    DTR_ASSIGN(const ValueId is_point, node.emit("aten.eq.Tensor", {from, to}));
    DTR_ASSIGN(const ValueId beside, node.cast(is_point, DType::kFloat32));
    DTR_ASSIGN(from, node.emit("aten.sub.Tensor", {from, beside}));
    DTR_ASSIGN(to, node.emit("aten.add.Tensor", {to, beside}));
  }
  DTR_ASSIGN(const ValueId is_above, node.emit("aten.ge.Tensor", {x, from}));
  DTR_ASSIGN(const ValueId is_below, node.emit("aten.le.Tensor", {x, to}));
  DTR_ASSIGN(const ValueId is_inside, node.emit("aten.logical_and", {is_above, is_below}));
  DTR_ASSIGN(const ValueId way, node.emit("aten.sub.Tensor", {x, from}));
  DTR_ASSIGN(const ValueId width, node.emit("aten.sub.Tensor", {to, from}));
  DTR_ASSIGN(const ValueId factor, number_like(node, x, static_cast<double>(bins)));
  DTR_ASSIGN(const ValueId scaled, node.emit("aten.mul.Tensor", {way, factor}));
  DTR_ASSIGN(const ValueId place, node.emit("aten.div.Tensor", {scaled, width}));
  DTR_ASSIGN(const ValueId whole, node.emit("aten.floor", {place}));
  DTR_ASSIGN(const ValueId last, number_like(node, x, static_cast<double>(bins - 1)));
  DTR_ASSIGN(const ValueId bin, node.emit("aten.minimum", {whole, last}));
  std::vector<double> all(static_cast<size_t>(bins));
  std::iota(all.begin(), all.end(), 0);
  DTR_ASSIGN(const ValueId numbers,
             node.GraphBuilder::constant(DType::kFloat32, all, Shape{1, bins}));
  DTR_ASSIGN(const ValueId same, node.emit("aten.eq.Tensor", {bin, numbers}));
  DTR_ASSIGN(const ValueId counted, node.emit("aten.logical_and", {same, is_inside}));
  DTR_ASSIGN(const ValueId counts,
             node.emit("aten.sum.dim_IntList", {counted}, {{"dim", Ints{0}}, {"keepdim", false}}));
  return one(node.cast(counts, dtype));
}

// ---- areas

// The mean of neighbours along a dimension, times how far they are apart: their sum, or running
// sums.
template <bool kRunning>
Result<Values> area(NodeImport& node) {
  DTR_ASSIGN(const ValueId y, node.tensor("y"));
  const Shape shape = node.type(y).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size(), -1));
  if (shape.empty()) return node.unsupported("the tensor is a scalar");
  const int64_t extent = shape[static_cast<size_t>(dim)];
  const auto behind = [&](ValueId of, int64_t d) { return node.slice(of, d, 1, extent); };
  const auto before = [&](ValueId of, int64_t d) { return node.slice(of, d, 0, extent - 1); };
  DTR_ASSIGN(const ValueId right, behind(y, dim));
  DTR_ASSIGN(const ValueId left, before(y, dim));
  DTR_ASSIGN(ValueId sum, node.emit("aten.add.Tensor", {left, right}));
  ValueId step;
  if (node.has_tensor("x")) {
    DTR_ASSIGN(ValueId x, node.tensor("x"));
    Shape along(shape.size(), 1);
    along[static_cast<size_t>(dim)] = extent;
    if (node.type(x).rank() == 1) {
      DTR_ASSIGN(x, node.view(x, along));
    }
    if (node.type(x).rank() != shape.size())
      return node.unsupported(
          fmt::format("places of {} for {}", to_string(node.type(x).shape), to_string(shape)));
    DTR_ASSIGN(const ValueId far, behind(x, dim));
    DTR_ASSIGN(const ValueId near, before(x, dim));
    DTR_ASSIGN(step, node.emit("aten.sub.Tensor", {far, near}));
  } else {
    DTR_ASSIGN(const double dx, node.number("dx", 1));
    DTR_ASSIGN(step, number_like(node, y, dx));
  }
  DTR_ASSIGN(sum, node.emit("aten.mul.Tensor", {sum, step}));
  DTR_ASSIGN(const ValueId half, number_like(node, y, 0.5));
  if (kRunning) {
    DTR_ASSIGN(sum, compositions::scan(node, sum, dim, [&](ValueId first, ValueId second) {
                 return node.emit("aten.add.Tensor", {first, second});
               }));
  } else {
    DTR_ASSIGN(sum,
               node.emit("aten.sum.dim_IntList", {sum}, {{"dim", Ints{dim}}, {"keepdim", false}}));
  }
  return one(node.emit("aten.mul.Tensor", {sum, half}));
}

}  // namespace

std::vector<Operator> statistics_operators() {
  return {
      tensor_row("aten.cumulative_trapezoid.dx", "aten.add.Tensor", area<true>),
      tensor_row("aten.cumulative_trapezoid.x", "aten.add.Tensor", area<true>),
      tensor_row("aten.histc.default", "aten.eq.Tensor", histogram),
      tensor_row("aten.mode.default", "aten.eq.Tensor", mode),
      tensor_row("aten.nanquantile.default", "aten.argmin", quantiles<true>),
      tensor_row("aten.nanquantile.scalar", "aten.argmin", quantiles<true>),
      tensor_row("aten.quantile.default", "aten.argmin", quantiles<false>),
      tensor_row("aten.quantile.scalar", "aten.argmin", quantile),
      tensor_row("aten.trapezoid.dx", "aten.sum.dim_IntList", area<false>),
      tensor_row("aten.trapezoid.x", "aten.sum.dim_IntList", area<false>),
  };
}

}  // namespace dtr::pt2
