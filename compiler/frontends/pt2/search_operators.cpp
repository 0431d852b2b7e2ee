// Operators that look elements up or count them, that reduce elements which an index names, and
// running extremes and products.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/norms.h"
#include "compiler/compositions/scans.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<ValueId> count_up(NodeImport& node, DType dtype, int64_t count, const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return node.GraphBuilder::constant(dtype, values, shape);
}

// `value` with a dimension of one element in front of `dim`.
Result<ValueId> unsqueezed(NodeImport& node, ValueId value, int64_t dim) {
  Shape shape = node.type(value).shape;
  shape.insert(shape.begin() + dim, 1);
  return node.view(value, shape);
}

Result<ValueId> without_dim(NodeImport& node, ValueId value, int64_t dim, bool keepdim) {
  Shape shape = node.type(value).shape;
  if (!keepdim && !shape.empty()) shape.erase(shape.begin() + dim);
  return node.view(value, shape);
}

// ---- by index

// gather whose index broadcasts to the tensor in the other dimensions, and the other way round.
Result<Values> take_along_dim(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("indices"));
  if (!node.has("dim")) {
    DTR_ASSIGN(x, node.view(x, {node.type(x).elements()}));
    DTR_ASSIGN(index, node.view(index, {node.type(index).elements()}));
    DTR_ASSIGN(index, node.wrap_negative_indices(index, node.type(x).elements()));
    DTR_ASSIGN(index, compositions::from_front(node, index, node.type(x).elements()));
    return one(compositions::gather(node, x, 0, index));
  }
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  Shape of_x = node.type(x).shape, of_index = node.type(index).shape;
  if (of_x.size() != of_index.size() || of_x.empty())
    return node.unsupported(
        fmt::format("indices of {} for {}", to_string(of_index), to_string(of_x)));
  for (size_t d = 0; d < of_x.size(); ++d)
    if (static_cast<int64_t>(d) != dim) of_x[d] = of_index[d] = std::max(of_x[d], of_index[d]);
  DTR_ASSIGN(x, node.expand(x, of_x));
  DTR_ASSIGN(index, node.expand(index, of_index));
  DTR_ASSIGN(index, node.wrap_negative_indices(index, of_x[static_cast<size_t>(dim)]));
  DTR_ASSIGN(index, compositions::from_front(node, index, of_x[static_cast<size_t>(dim)]));
  return one(compositions::gather(node, x, dim, index));
}

// A list of indices along `dim`, in the shape of the part that it names.
Result<ValueId> spread_index(NodeImport& node, ValueId index, const Shape& part, int64_t dim) {
  Shape along(part.size(), 1);
  if (!part.empty()) along[static_cast<size_t>(dim)] = node.type(index).elements();
  DTR_ASSIGN(index, node.view(index, along));
  return node.expand(index, part);
}

template <bool kAccumulate>
Result<Values> index_put_rows(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_ASSIGN(ValueId source, node.tensor("source"));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  const Shape shape = node.type(x).shape;
  if (shape.empty()) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(source, node.cast(source, node.type(x).dtype));
  if (alpha != 1) {
    DTR_ASSIGN(const ValueId factor, node.constant(node.type(x).dtype, {}, alpha, "alpha"));
    DTR_ASSIGN(source, node.emit("aten.mul.Tensor", {source, factor}));
  }
  DTR_TRY(node.check_indices(index, shape[static_cast<size_t>(dim)]));
  DTR_ASSIGN(index, spread_index(node, index, node.type(source).shape, dim));
  return one(compositions::scatter(node, x, dim, index, source, kAccumulate));
}

Result<Values> index_fill(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_ASSIGN(ValueId value, node.tensor_or_scalar("value", x));
  Shape part = node.type(x).shape;
  if (part.empty()) return node.unsupported("the tensor is a scalar");
  const int64_t extent = part[static_cast<size_t>(dim)];
  part[static_cast<size_t>(dim)] = node.type(index).elements();
  DTR_ASSIGN(value, node.cast(value, node.type(x).dtype));
  DTR_ASSIGN(value, node.expand(value, part));
  // Unlike those of index_copy, negative ones count from the end.
  DTR_ASSIGN(index, node.wrap_negative_indices(index, extent));
  DTR_ASSIGN(index, compositions::from_front(node, index, extent));
  DTR_ASSIGN(index, spread_index(node, index, part, dim));
  return one(compositions::scatter(node, x, dim, index, value, false));
}

// Of the sources that `index` names for a place: their sum or mean, with what is there if
// `include_self` is set.
Result<ValueId> scatter_sum(NodeImport& node, ValueId x, int64_t dim, ValueId index, ValueId source,
                            bool include_self, bool mean) {
  const DType dtype = node.type(x).dtype;
  const Shape part = node.type(source).shape;
  const auto filled = [&](const Shape& shape, double value) {
    return node.constant(dtype, shape, value, "count");
  };
  ValueId base = x;
  if (!include_self) {
    DTR_ASSIGN(const ValueId zeros, filled(part, 0));
    DTR_ASSIGN(base, compositions::scatter(node, x, dim, index, zeros, false));
  }
  DTR_ASSIGN(const ValueId sum, compositions::scatter(node, base, dim, index, source, true));
  if (!mean) return sum;
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(ValueId counts, filled(shape, 1));
  DTR_ASSIGN(const ValueId ones, filled(part, 1));
  if (!include_self) {
    DTR_ASSIGN(const ValueId zeros, filled(part, 0));
    DTR_ASSIGN(counts, compositions::scatter(node, counts, dim, index, zeros, false));
  }
  DTR_ASSIGN(counts, compositions::scatter(node, counts, dim, index, ones, true));
  if (is_float(dtype)) return node.emit("aten.div.Tensor", {sum, counts});
  return node.emit("aten.div.Tensor_mode", {sum, counts},
                   {{"rounding_mode", std::string("floor")}});
}

// Products or extremes of the sources for each place: of all sources, those that name another place
// are replaced by what does not change the result, for extremes by what is there or by the least
// extreme of all.
Result<ValueId> scatter_pairs(NodeImport& node, ValueId x, int64_t dim, ValueId index,
                              ValueId source, bool include_self, std::string_view reduce) {
  constexpr int64_t kMostPairs = int64_t{1} << 20;
  const Shape shape = node.type(x).shape;
  const auto at = static_cast<size_t>(dim);
  const int64_t places = shape[at];
  const int64_t sources_there = node.type(source).elements();
  if (sources_there > kMostPairs / std::max<int64_t>(places, 1))
    return node.unsupported(
        fmt::format("`{}` of {} sources for {} places", reduce, sources_there, places),
        "reduce with sum or mean, or reduce fewer elements at a time");
  // (…, places, sources, …)
  DTR_ASSIGN(index, compositions::rows_of_index(node, index, places, 1));
  DTR_ASSIGN(index, unsqueezed(node, index, dim));
  DTR_ASSIGN(const ValueId sources, unsqueezed(node, source, dim));
  Shape along(shape.size() + 1, 1);
  along[at] = places;
  DTR_ASSIGN(const ValueId counted, count_up(node, node.type(index).dtype, places, along));
  DTR_ASSIGN(const ValueId named, node.emit("aten.eq.Tensor", {index, counted}));
  const bool greatest = reduce == "amax", multiplies = reduce == "prod";
  const std::string_view extreme = greatest ? "aten.amax" : "aten.amin";
  const Attributes over_sources{{"dim", Ints{dim + 1}}, {"keepdim", false}};
  ValueId otherwise;
  if (multiplies) {
    DTR_ASSIGN(otherwise, number_like(node, x, 1));
  } else if (include_self) {
    DTR_ASSIGN(otherwise, unsqueezed(node, x, dim + 1));
  } else {
    DTR_ASSIGN(otherwise, node.emit(greatest ? "aten.amin" : "aten.amax", {sources},
                                    {{"dim", Ints{dim + 1}}, {"keepdim", true}}));
  }
  DTR_ASSIGN(ValueId found, node.emit("aten.where.self", {named, sources, otherwise}));
  if (multiplies) {
    DTR_ASSIGN(found, compositions::product(node, found, dim + 1, false));
    if (include_self) return node.emit("aten.mul.Tensor", {found, x});
  } else {
    DTR_ASSIGN(found, node.emit(extreme, {found}, over_sources));
    // A place that no source names has its own element in each pair, others beside sources.
    if (include_self) return node.emit(greatest ? "aten.maximum" : "aten.minimum", {found, x});
  }
  DTR_ASSIGN(const ValueId any, node.emit("aten.amax", {named}, over_sources));
  return node.emit("aten.where.self", {any, found, x});
}

// x with `part` in place of its first elements along every dimension but `dim`.
Result<ValueId> with_front(NodeImport& node, ValueId x, int64_t dim, ValueId part) {
  const Shape shape = node.type(x).shape, front = node.type(part).shape;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    const auto at = static_cast<size_t>(d);
    if (d == dim || front[at] == shape[at]) continue;
    DTR_ASSIGN(ValueId behind, node.slice(x, d, front[at], shape[at]));
    for (int64_t other = d + 1; other < static_cast<int64_t>(shape.size()); ++other) {
      DTR_ASSIGN(behind, node.slice(behind, other, 0, front[static_cast<size_t>(other)]));
    }
    DTR_ASSIGN(part, node.concatenate({part, behind}, d));
  }
  return part;
}

// An index for each element of the source, in its shape.
Result<Values> reduce_to(NodeImport& node, ValueId x, int64_t dim, ValueId index, ValueId source) {
  DTR_ASSIGN(const std::string_view reduce, node.string("reduce"));
  DTR_ASSIGN(const bool include_self, node.boolean("include_self", true));
  const Shape shape = node.type(x).shape, part = node.type(index).shape;
  if (shape.empty() || part.size() != shape.size() || node.type(source).rank() != shape.size())
    return node.unsupported(fmt::format("indices of {} for {}", to_string(part), to_string(shape)));
  if (element_count(part) == 0) return Values{x};
  DTR_TRY(node.check_indices(index, shape[static_cast<size_t>(dim)]));
  for (size_t d = 0; d < part.size(); ++d) {
    DTR_ASSIGN(source, node.slice(source, static_cast<int64_t>(d), 0, part[d]));
  }
  if (reduce == "sum" || reduce == "mean")
    return one(scatter_sum(node, x, dim, index, source, include_self, reduce == "mean"));
  if (reduce != "amax" && reduce != "amin" && reduce != "prod")
    return node.unsupported(fmt::format("the reduction `{}`", reduce),
                            "reduce with sum, mean, prod, amax or amin");
  ValueId front = x;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    if (d == dim) continue;
    DTR_ASSIGN(front, node.slice(front, d, 0, part[static_cast<size_t>(d)]));
  }
  DTR_ASSIGN(const ValueId reduced,
             scatter_pairs(node, front, dim, index, source, include_self, reduce));
  return one(with_front(node, x, dim, reduced));
}
Result<Values> scatter_reduce(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId index, node.tensor("index"));
  DTR_ASSIGN(const ValueId source, node.tensor("src"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  return reduce_to(node, x, dim, index, source);
}
// An index for each part of the source along `dim`.
Result<Values> index_reduce(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_ASSIGN(const ValueId source, node.tensor("source"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  const Shape part = node.type(source).shape;
  if (part.empty() || part.size() != node.type(x).rank())
    return node.unsupported(fmt::format("sources of shape {}", to_string(part)));
  DTR_ASSIGN(index, spread_index(node, index, part, dim));
  return reduce_to(node, x, dim, index, source);
}

// ---- by value

// The k-th least element along a dimension, from 1, and its index.
Result<Values> kth_least(NodeImport& node, ValueId x, int64_t k, int64_t dim, bool keepdim) {
  if (node.type(x).rank() == 0) {
    DTR_ASSIGN(const ValueId zero, node.constant(DType::kInt64, {}, 0, "index"));
    return Values{x, zero};
  }
  DTR_ASSIGN(const compositions::Extremes least, compositions::top(node, x, k, dim, false));
  Values results;
  for (ValueId each : {least.values, least.indices}) {
    DTR_ASSIGN(each, node.slice(each, dim, k - 1, k));
    DTR_ASSIGN(each, without_dim(node, each, dim, keepdim));
    results.push_back(each);
  }
  return results;
}
Result<Values> kthvalue(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t k, node.integer("k"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), -1));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  return kth_least(node, x, k, dim, keepdim);
}
// Of an even number of elements the lower one.
Result<Values> median(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  if (!node.has("dim")) {
    const int64_t count = node.type(x).elements();
    DTR_ASSIGN(x, node.view(x, {count}));
    DTR_ASSIGN(const Values found, kth_least(node, x, (count + 1) / 2, 0, false));
    return Values{found[0]};
  }
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  const int64_t count = node.type(x).rank() == 0 ? 1 : node.type(x).shape[static_cast<size_t>(dim)];
  return kth_least(node, x, (count + 1) / 2, dim, keepdim);
}

// Of the elements that are numbers; NaN where none is. The others are put behind them.
Result<Values> median_of_numbers(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  if (!is_float(node.type(x).dtype)) return median(node);
  const bool of_all = !node.has("dim");
  if (of_all || node.type(x).rank() == 0) {
    DTR_ASSIGN(x, node.view(x, {node.type(x).elements()}));
  }
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), 0));
  DTR_ASSIGN(bool keepdim, node.boolean("keepdim", false));
  keepdim = keepdim && node.stated_shape().size() == node.type(x).rank();
  const int64_t count = node.type(x).shape[static_cast<size_t>(dim)];
  DTR_ASSIGN(const ValueId missing, node.emit("aten.ne.Tensor", {x, x}));
  DTR_ASSIGN(const ValueId infinity, number_like(node, x, INFINITY));
  DTR_ASSIGN(const ValueId kept, node.emit("aten.where.self", {missing, infinity, x}));
  DTR_ASSIGN(const compositions::Extremes sorted, compositions::top(node, kept, count, dim, false));
  DTR_ASSIGN(const ValueId is_number, node.emit("aten.logical_not", {missing}));
  DTR_ASSIGN(const ValueId there, node.emit("aten.sum.dim_IntList", {is_number},
                                            {{"dim", Ints{dim}}, {"keepdim", true}}));
  // Of an even number of elements the lower one: (there − 1) / 2, from 0.
  DTR_ASSIGN(ValueId rank, with_number(node, "aten.maximum", there, 1));
  DTR_ASSIGN(rank, with_number(node, "aten.sub.Tensor", rank, 1));
  DTR_ASSIGN(const ValueId two, number_like(node, rank, 2));
  DTR_ASSIGN(rank, node.emit("aten.div.Tensor_mode", {rank, two},
                             {{"rounding_mode", std::string("floor")}}));
  DTR_ASSIGN(ValueId value, compositions::gather(node, sorted.values, dim, rank));
  DTR_ASSIGN(const ValueId some, with_number(node, "aten.gt.Tensor", there, 0));
  DTR_ASSIGN(const ValueId none, number_like(node, value, NAN));
  DTR_ASSIGN(value, node.emit("aten.where.self", {some, value, none}));
  DTR_ASSIGN(value, without_dim(node, value, dim, keepdim));
  if (of_all) return Values{value};
  DTR_ASSIGN(ValueId index, compositions::gather(node, sorted.indices, dim, rank));
  DTR_ASSIGN(index, without_dim(node, index, dim, keepdim));
  return Values{value, index};
}

Result<Values> one_hot(NodeImport& node) {
  DTR_ASSIGN(ValueId index, node.tensor("self"));
  DTR_ASSIGN(const int64_t classes, node.integer("num_classes", -1));
  if (classes < 1)
    return node.unsupported("the number of classes depends on the indices",
                            "give it: one_hot(x, num_classes=…)");
  const auto rank = static_cast<int64_t>(node.type(index).rank());
  DTR_ASSIGN(index, unsqueezed(node, index, rank));
  DTR_ASSIGN(const ValueId all, count_up(node, node.type(index).dtype, classes, {classes}));
  DTR_ASSIGN(const ValueId hot, node.emit("aten.eq.Tensor", {index, all}));
  return one(node.cast(hot, DType::kInt64));
}

// Where the first `size` elements are that are not zero: a row of places in each dimension, or of
// `fill_value` where there are fewer.
Result<Values> nonzero_places(NodeImport& node) {
  constexpr int64_t kMostPairs = int64_t{1} << 20;
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t size, node.integer("size"));
  DTR_ASSIGN(const int64_t fill, node.integer("fill_value", -1));
  const Shape shape = node.type(x).shape;
  const int64_t elements = element_count(shape);
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank == 0 || size < 1 || elements < 1 || size > kMostPairs / elements)
    return node.unsupported(fmt::format("{} places of {} elements", size, elements),
                            "look for fewer places, or in parts of the tensor");
  DTR_ASSIGN(x, node.cast(x, DType::kBool));
  DTR_ASSIGN(x, node.view(x, {1, elements}));
  DTR_ASSIGN(const ValueId seen, node.emit("aten.cumsum", {x}, {{"dim", int64_t{1}}}));
  DTR_ASSIGN(ValueId counted, count_up(node, DType::kInt64, size, {size, 1}));
  DTR_ASSIGN(counted, with_number(node, "aten.add.Tensor", counted, 1));
  // The first element up to which as many are not zero is that element.
  DTR_ASSIGN(const ValueId there, node.emit("aten.eq.Tensor", {seen, counted}));
  DTR_ASSIGN(ValueId place,
             node.emit("aten.argmax", {there}, {{"dim", int64_t{1}}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId found,
             node.emit("aten.amax", {there}, {{"dim", Ints{1}}, {"keepdim", true}}));
  const std::vector<int64_t> steps = strides(shape, Layout::kContiguous);
  const auto row = [&](const auto& of) {
    return node.GraphBuilder::constant(DType::kInt64, std::vector<double>(of.begin(), of.end()),
                                       Shape{1, rank});
  };
  DTR_ASSIGN(const ValueId step, row(steps));
  DTR_ASSIGN(const ValueId extent, row(shape));
  DTR_ASSIGN(place, node.emit("aten.div.Tensor_mode", {place, step},
                              {{"rounding_mode", std::string("floor")}}));
  DTR_ASSIGN(place, node.emit("aten.fmod.Tensor", {place, extent}));
  DTR_ASSIGN(const ValueId none, number_like(node, place, static_cast<double>(fill)));
  return one(node.emit("aten.where.self", {found, place, none}));
}

// How many of the boundaries, which rise along the last dimension, are below each value; with
// `right`, not above it.
Result<Values> count_below(NodeImport& node, ValueId values, ValueId boundaries) {
  DTR_ASSIGN(const bool narrow, node.boolean("out_int32", false));
  DTR_ASSIGN(bool right, node.boolean("right", false));
  DTR_ASSIGN(const std::string_view side, node.string("side", right ? "right" : "left"));
  right = side == "right";
  if (node.has("sorter")) {
    DTR_ASSIGN(const ValueId order, node.tensor("sorter"));
    const auto last = static_cast<int64_t>(node.type(boundaries).rank()) - 1;
    DTR_ASSIGN(boundaries, compositions::gather(node, boundaries, last, order));
  }
  DTR_ASSIGN(const auto both, node.promoted_pair(values, boundaries));
  values = both.first;
  boundaries = both.second;
  if (node.type(boundaries).rank() > 1) {
    const auto rank = static_cast<int64_t>(node.type(boundaries).rank());
    DTR_ASSIGN(boundaries, unsqueezed(node, boundaries, rank - 1));
  }
  DTR_ASSIGN(values, unsqueezed(node, values, static_cast<int64_t>(node.type(values).rank())));
  DTR_ASSIGN(ValueId below,
             node.emit(right ? "aten.le.Tensor" : "aten.lt.Tensor", {boundaries, values}));
  DTR_ASSIGN(below, node.cast(below, DType::kInt64));
  const auto last = static_cast<int64_t>(node.type(below).rank()) - 1;
  DTR_ASSIGN(const ValueId count,
             node.emit("aten.sum.dim_IntList", {below}, {{"dim", Ints{last}}, {"keepdim", false}}));
  return one(node.cast(count, narrow ? DType::kInt32 : DType::kInt64));
}
Result<Values> bucketize(NodeImport& node) {
  DTR_ASSIGN(const ValueId values, node.tensor("self"));
  DTR_ASSIGN(const ValueId boundaries, node.tensor("boundaries"));
  return count_below(node, values, boundaries);
}
Result<Values> searchsorted(NodeImport& node) {
  DTR_ASSIGN(const ValueId boundaries, node.tensor("sorted_sequence"));
  DTR_ASSIGN(const ValueId values, node.tensor_or_scalar("self", boundaries));
  return count_below(node, values, boundaries);
}

Result<Values> isin(NodeImport& node) {
  const bool of_number = node.has("test_element");
  DTR_ASSIGN(ValueId values, node.tensor("elements"));
  DTR_ASSIGN(ValueId list, of_number ? node.tensor_or_scalar("test_element", values)
                                     : node.tensor("test_elements"));
  DTR_TRY(node.boolean("assume_unique", false));
  DTR_ASSIGN(const bool invert, node.boolean("invert", false));
  DTR_ASSIGN(const auto both, node.promoted_pair(values, list));
  DTR_ASSIGN(list, node.view(both.second, {node.type(both.second).elements()}));
  const auto rank = static_cast<int64_t>(node.type(both.first).rank());
  DTR_ASSIGN(values, unsqueezed(node, both.first, rank));
  DTR_ASSIGN(const ValueId same, node.emit("aten.eq.Tensor", {values, list}));
  DTR_ASSIGN(const ValueId any,
             node.emit("aten.amax", {same}, {{"dim", Ints{rank}}, {"keepdim", false}}));
  return invert ? one(node.emit("aten.logical_not", {any})) : Values{any};
}

Result<Values> nan_to_num(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  if (!is_float(node.type(x).dtype)) return Values{x};
  constexpr double kMost = std::numeric_limits<float>::max();
  DTR_ASSIGN(const double nan, node.number("nan", 0));
  DTR_ASSIGN(const double most, node.number("posinf", kMost));
  DTR_ASSIGN(const double least, node.number("neginf", -kMost));
  const auto replace = [&](ValueId mask, double by) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId number, node.constant(node.type(x).dtype, {}, by, "number"));
    return node.emit("aten.where.self", {mask, number, x});
  };
  DTR_ASSIGN(const ValueId is_nan, node.emit("aten.ne.Tensor", {x, x}));
  DTR_ASSIGN(x, replace(is_nan, nan));
  for (const auto& [infinity, by] : {std::pair{INFINITY, most}, {-INFINITY, least}}) {
    DTR_ASSIGN(const ValueId bound, node.constant(node.type(x).dtype, {}, infinity, "infinity"));
    DTR_ASSIGN(const ValueId is_infinite, node.emit("aten.eq.Tensor", {x, bound}));
    DTR_ASSIGN(x, replace(is_infinite, by));
  }
  return Values{x};
}

// ---- along a dimension

template <bool kGreatest>
Result<Values> running_extreme(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() == 0) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(const auto found, compositions::running_extreme(node, x, dim, kGreatest));
  return Values{found.values, found.indices};
}

Result<Values> running_product(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  const DType own = node.type(x).dtype;
  DTR_ASSIGN(x, node.cast(x, dtype.value_or(is_float(own) ? own : DType::kInt64)));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() == 0) return Values{x};
  return one(compositions::scan(node, x, dim, [&](ValueId before, ValueId behind) {
    return node.emit("aten.mul.Tensor", {before, behind});
  }));
}

Result<Values> running_log_sum_exp(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() == 0) return Values{x};
  return one(compositions::running_log_sum_exp(node, x, dim));
}

}  // namespace

std::vector<Operator> search_operators() {
  return {
      tensor_row("aten.bucketize.Tensor", "aten.lt.Tensor", bucketize),
      tensor_row("aten.cummax.default", "aten.where.self", running_extreme<true>),
      tensor_row("aten.cummin.default", "aten.where.self", running_extreme<false>),
      tensor_row("aten.cumprod.default", "aten.mul.Tensor", running_product),
      tensor_row("aten.index_add.default", "aten.index_put", index_put_rows<true>),
      tensor_row("aten.index_copy.default", "aten.index_put", index_put_rows<false>),
      tensor_row("aten.index_fill.int_Scalar", "aten.index_put", index_fill),
      tensor_row("aten.index_fill.int_Tensor", "aten.index_put", index_fill),
      tensor_row("aten.index_reduce.default", "aten.index_put", index_reduce),
      tensor_row("aten.isin.Tensor_Scalar", "aten.eq.Tensor", isin),
      tensor_row("aten.isin.Tensor_Tensor", "aten.eq.Tensor", isin),
      tensor_row("aten.kthvalue.default", "aten.argmin", kthvalue),
      tensor_row("aten.logcumsumexp.default", "aten.softplus", running_log_sum_exp),
      tensor_row("aten.median.default", "aten.argmin", median),
      tensor_row("aten.median.dim", "aten.argmin", median),
      tensor_row("aten.nanmedian.default", "aten.argmin", median_of_numbers),
      tensor_row("aten.nanmedian.dim", "aten.argmin", median_of_numbers),
      tensor_row("aten.nan_to_num.default", "aten.where.self", nan_to_num),
      tensor_row("aten.nonzero_static.default", "aten.argmax", nonzero_places),
      tensor_row("aten.one_hot.default", "aten.eq.Tensor", one_hot),
      tensor_row("aten.scatter_reduce.two", "aten.index_put", scatter_reduce),
      tensor_row("aten.searchsorted.Scalar", "aten.lt.Tensor", searchsorted),
      tensor_row("aten.searchsorted.Tensor", "aten.lt.Tensor", searchsorted),
      tensor_row("aten.take_along_dim.default", "aten.index_select", take_along_dim),
  };
}

}  // namespace dtr::pt2
