#include "compiler/compositions/indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"

namespace dtr::compositions {
namespace {

Result<ValueId> number(GraphBuilder& builder, ValueId like, int64_t value) {
  return builder.constant(builder.type(like).dtype, {}, static_cast<double>(value), "number");
}

Result<ValueId> times(GraphBuilder& builder, ValueId x, int64_t factor) {
  if (factor == 1) return x;
  DTR_ASSIGN(const ValueId by, number(builder, x, factor));
  return builder.emit("aten.mul.Tensor", {x, by});
}

constexpr int kMostOps = 1000;  // behind an index or mask

struct Range {
  double least, most;
};
Range joined(Range a, Range b) { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

// What bounds, places of extremes and constants, moved or joined at most, tell of integers. Up to
// `budget` ops are looked at: a value that joins itself over and over has exponentially many ways
// back.
Range range_of(const GraphBuilder& builder, ValueId value, int& budget) {
  constexpr Range kAny{-INFINITY, INFINITY};
  const auto all_of = [&](std::span<const ValueId> values) {
    Range range = range_of(builder, values[0], budget);
    for (const ValueId each : values.subspan(1))
      range = joined(range, range_of(builder, each, budget));
    return range;
  };
  if (const auto known = builder.constant_elements(value)) {
    if (known->empty()) return {0, 0};
    const auto [least, most] = std::ranges::minmax_element(*known);
    return {*least, *most};
  }
  const Graph& graph = builder.graph();
  const OpId id = graph.producer(value);
  if (!id.valid() || --budget < 0) return kAny;
  const Op& op = graph.op(id);
  if (op.def == &ops::kArgmax || op.def == &ops::kArgmin) {
    const Shape& shape = graph.type(op.operands[0]).shape;
    const bool of_all = op.attributes.find("dim") == nullptr || shape.empty();
    const int64_t extent =
        of_all ? element_count(shape)
               : shape[*ops::normalize_dim(op.attributes.get<int64_t>("dim"), shape.size())];
    return {0, static_cast<double>(extent - 1)};
  }
  if (op.def == &ops::kClamp) {
    const Range of = range_of(builder, op.operands[0], budget);
    const double low = op.attributes.get_or("min", of.least),
                 high = op.attributes.get_or("max", of.most);
    // Where the bounds contradict each other, PyTorch's result is the upper one.
    return {std::min(std::max(of.least, low), high), std::min(std::max(of.most, low), high)};
  }
  if (op.def == &ops::kWhereSelf) return all_of(std::span(op.operands).subspan(1));
  const bool joins =
      op.def == &ops::kCat || (op.def->has_trait(kMovesData) && op.def != &ops::kConstantPadNd);
  return joins ? all_of(op.operands) : kAny;
}
Range range_of(const GraphBuilder& builder, ValueId value) {
  int budget = kMostOps;
  return range_of(builder, value, budget);
}
bool is_within(const GraphBuilder& builder, ValueId index, int64_t extent) {
  const Range range = range_of(builder, index);
  return range.least >= 0 && range.most < static_cast<double>(extent);
}

// The places of the elements that `index` names along `dim` in a contiguous tensor of that shape.
Result<ValueId> flat_places(GraphBuilder& builder, const Shape& shape, int64_t dim, ValueId index) {
  const Shape of_index = builder.type(index).shape;
  if (shape.size() != of_index.size())
    return builder.unsupported(
        fmt::format("indices of shape {} into {}", to_string(of_index), to_string(shape)));
  const std::vector<int64_t> step = strides(shape, Layout::kContiguous);
  DTR_ASSIGN(ValueId place, rows_of_index(builder, index, shape[static_cast<size_t>(dim)],
                                          step[static_cast<size_t>(dim)]));
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) == dim || of_index[d] == 1) continue;
    Shape along(shape.size(), 1);
    along[d] = of_index[d];
    std::vector<double> offsets(static_cast<size_t>(of_index[d]));
    for (size_t i = 0; i < offsets.size(); ++i)
      offsets[i] = static_cast<double>(static_cast<int64_t>(i) * step[d]);
    DTR_ASSIGN(const ValueId offset, builder.constant(builder.type(index).dtype, offsets, along));
    DTR_ASSIGN(place, builder.emit("aten.add.Tensor", {place, offset}));
  }
  return place;
}

// A tensor as a table: the indices of some of its dimensions select rows.
struct Table {
  Ints dims, others;  // that are indexed, that are not
  Ints order;         // dims, then others
  ValueId place;      // a row for each element of the broadcast indices
  int64_t rows = 1;
  Shape shape;  // rows, then the extents of the others
  // The number of other dimensions before the indexed one in the result.
  int64_t front = 0;
};

// The operators that read or put the rows check a single index themselves; index_put takes those
// that count from the end.
Result<Table> table_of(GraphBuilder& builder, const Shape& shape,
                       const std::vector<ValueId>& indices, bool puts) {
  Table table;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < indices.size() && indices[d].valid() ? table.dims : table.others)
        .push_back(static_cast<int64_t>(d));
  if (table.dims.empty() || indices.size() > shape.size())
    return builder.unsupported(fmt::format("{} indices for {}", indices.size(), to_string(shape)));
  // The last index counts single rows.
  const bool single = table.dims.size() == 1;
  for (size_t i = table.dims.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(table.dims[i]);
    ValueId index = indices[d];
    if (!single || !puts) {
      DTR_ASSIGN(index, from_front(builder, index, shape[d]));
    }
    if (!single) {
      DTR_ASSIGN(index, rows_of_index(builder, index, shape[d], table.rows));
    }
    table.rows *= shape[d];
    if (!table.place.valid()) {
      table.place = index;
    } else {
      DTR_ASSIGN(table.place, builder.emit("aten.add.Tensor", {index, table.place}));
    }
  }
  table.order = table.dims;
  table.order.insert(table.order.end(), table.others.begin(), table.others.end());
  table.shape = {table.rows};
  for (const int64_t d : table.others) table.shape.push_back(shape[static_cast<size_t>(d)]);
  const bool neighbours =
      table.dims.back() - table.dims.front() + 1 == static_cast<int64_t>(table.dims.size());
  table.front = neighbours ? table.dims.front() : 0;
  return table;
}

// The order that moves the first `rank` dimensions of `all` behind the `front` ones that follow.
Ints moved_back(int64_t rank, int64_t front, int64_t all) {
  Ints order;
  for (int64_t d = 0; d < front; ++d) order.push_back(rank + d);
  for (int64_t d = 0; d < rank; ++d) order.push_back(d);
  for (int64_t d = rank + front; d < all; ++d) order.push_back(d);
  return order;
}

Ints inverse_of(const Ints& order) {
  Ints inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

}  // namespace

Result<ValueId> rows_of_index(GraphBuilder& builder, ValueId index, int64_t extent, int64_t step) {
  constexpr int64_t kLongestTable = 1024;
  constexpr int64_t kNowhere = -(int64_t{1} << 30);  // less the places of any tensor
  if (is_within(builder, index, extent)) return times(builder, index, step);
  const DType dtype = builder.type(index).dtype;
  if (extent <= kLongestTable) {
    std::vector<double> places(static_cast<size_t>(extent));
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = static_cast<double>(static_cast<int64_t>(i) * step);
    DTR_ASSIGN(const ValueId table, builder.constant(dtype, places));
    return builder.emit("aten.index_select", {table, index}, {{"dim", int64_t{0}}});
  }
  DTR_ASSIGN(const ValueId bounded,
             builder.emit("aten.clamp", {index},
                          {{"min", 0.0}, {"max", static_cast<double>(extent - 1)}}));
  DTR_ASSIGN(const ValueId inside, builder.emit("aten.eq.Tensor", {index, bounded}));
  DTR_ASSIGN(const ValueId place, times(builder, index, step));
  DTR_ASSIGN(const ValueId nowhere, number(builder, index, kNowhere));
  return builder.emit("aten.where.self", {inside, place, nowhere});
}

Result<ValueId> from_front(GraphBuilder& builder, ValueId index, int64_t extent) {
  if (range_of(builder, index).least >= 0) return index;
  DTR_ASSIGN(const ValueId zero, number(builder, index, 0));
  DTR_ASSIGN(const ValueId length, number(builder, index, extent));
  DTR_ASSIGN(const ValueId negative, builder.emit("aten.lt.Tensor", {index, zero}));
  DTR_ASSIGN(const ValueId moved, builder.emit("aten.add.Tensor", {index, length}));
  return builder.emit("aten.where.self", {negative, moved, index});
}

Result<ValueId> gather(GraphBuilder& builder, ValueId x, int64_t dim, ValueId index) {
  if (builder.type(x).rank() == 0) return x;
  // index_select checks indices of a list itself.
  const bool is_list =
      builder.type(x).elements() == builder.type(x).shape[static_cast<size_t>(dim)];
  ValueId place = index;
  if (!is_list) {
    DTR_ASSIGN(place, flat_places(builder, builder.type(x).shape, dim, index));
  }
  DTR_ASSIGN(const ValueId flat, builder.view(x, {builder.type(x).elements()}));
  return builder.emit("aten.index_select", {flat, place}, {{"dim", int64_t{0}}});
}

Result<ValueId> scatter(GraphBuilder& builder, ValueId x, int64_t dim, ValueId index,
                        ValueId values, bool accumulate) {
  const Shape shape = builder.type(x).shape;
  if (shape.empty())
    return accumulate ? builder.emit("aten.add.Tensor", {x, values}) : Result<ValueId>(values);
  DTR_ASSIGN(const ValueId place, flat_places(builder, shape, dim, index));
  DTR_ASSIGN(const ValueId flat, builder.view(x, {builder.type(x).elements()}));
  DTR_ASSIGN(const ValueId put,
             builder.emit("aten.index_put", {flat, place, values}, {{"accumulate", accumulate}}));
  return builder.view(put, shape);
}

Result<ValueId> index_by_tensors(GraphBuilder& builder, ValueId x,
                                 const std::vector<ValueId>& indices) {
  DTR_ASSIGN(const Table table, table_of(builder, builder.type(x).shape, indices, false));
  DTR_ASSIGN(ValueId rows, builder.permute(x, table.order));
  DTR_ASSIGN(rows, builder.view(rows, table.shape));
  DTR_ASSIGN(const ValueId picked,
             builder.emit("aten.index_select", {rows, table.place}, {{"dim", int64_t{0}}}));
  if (table.front == 0) return picked;
  const Type& type = builder.type(picked);
  return builder.permute(picked, moved_back(static_cast<int64_t>(builder.type(table.place).rank()),
                                            table.front, static_cast<int64_t>(type.rank())));
}

Result<ValueId> put_by_tensors(GraphBuilder& builder, ValueId x,
                               const std::vector<ValueId>& indices, ValueId values,
                               bool accumulate) {
  const Shape shape = builder.type(x).shape;
  DTR_ASSIGN(const Table table, table_of(builder, shape, indices, true));
  const Shape places = builder.type(table.place).shape;
  Shape rows = places;
  rows.insert(rows.end(), table.shape.begin() + 1, table.shape.end());
  const Ints order = moved_back(static_cast<int64_t>(places.size()), table.front,
                                static_cast<int64_t>(rows.size()));
  Shape named;
  for (const int64_t d : order) named.push_back(rows[static_cast<size_t>(d)]);
  DTR_ASSIGN(values, builder.expand(values, named));
  DTR_ASSIGN(values, builder.permute(values, inverse_of(order)));
  DTR_ASSIGN(ValueId whole, builder.permute(x, table.order));
  const Shape permuted = builder.type(whole).shape;
  DTR_ASSIGN(whole, builder.view(whole, table.shape));
  DTR_ASSIGN(whole, builder.emit("aten.index_put", {whole, table.place, values},
                                 {{"accumulate", accumulate}}));
  DTR_ASSIGN(whole, builder.view(whole, permuted));
  return builder.permute(whole, inverse_of(table.order));
}

Result<ValueId> masked_scatter(GraphBuilder& builder, ValueId x, ValueId mask, ValueId values) {
  const Shape shape = builder.type(x).shape;
  const int64_t count = builder.type(values).elements();
  if (builder.type(x).elements() == 0 || count == 0) return x;
  DTR_ASSIGN(const ValueId flat, builder.view(mask, {builder.type(mask).elements()}));
  DTR_ASSIGN(const ValueId seen, builder.emit("aten.cumsum", {flat}, {{"dim", int64_t{0}}}));
  DTR_ASSIGN(const ValueId one, builder.constant(DType::kInt64, {}, 1, "one"));
  DTR_ASSIGN(ValueId place, builder.emit("aten.sub.Tensor", {seen, one}));
  // Where the mask is false, the place may be outside of the values.
  DTR_ASSIGN(place, builder.emit("aten.clamp", {place},
                                 {{"min", 0.0}, {"max", static_cast<double>(count - 1)}}));
  DTR_ASSIGN(const ValueId list, builder.view(values, {count}));
  DTR_ASSIGN(ValueId taken,
             builder.emit("aten.index_select", {list, place}, {{"dim", int64_t{0}}}));
  DTR_ASSIGN(taken, builder.view(taken, shape));
  return builder.emit("aten.where.self", {mask, taken, x});
}

Result<ValueId> take(GraphBuilder& builder, ValueId x, const std::vector<double>& places,
                     const Shape& shape) {
  DTR_ASSIGN(const ValueId index, builder.constant(DType::kInt64, places));
  DTR_ASSIGN(const ValueId flat, builder.view(x, {builder.type(x).elements()}));
  DTR_ASSIGN(const ValueId taken,
             builder.emit("aten.index_select", {flat, index}, {{"dim", int64_t{0}}}));
  return builder.view(taken, shape);
}

namespace {

constexpr int64_t kMostPairs = int64_t{1} << 20;

// The number of pairs of elements that a rank along `dim` compares is at most kMostPairs.
bool ranks_fit(const Type& of, int64_t extent) { return of.elements() <= kMostPairs / extent; }

// The extremes by rank: how many elements come in front of each one is the place of its index.
// Needs a comparison of each pair.
Result<Extremes> top_by_rank(GraphBuilder& builder, ValueId x, int64_t count, int64_t dim,
                             bool greatest) {
  const Type of = builder.type(x);
  const auto at = static_cast<size_t>(dim);
  const int64_t extent = of.shape[at];
  if (!ranks_fit(of, extent))
    return builder.unsupported(
        fmt::format("the order of {} elements along a dimension of {}: {} pairs are compared at "
                    "most",
                    of.elements(), extent, kMostPairs),
        "sort fewer, or leave the order to the application");
  // Elements along `dim`, and beside them those that each one is compared with.
  Shape column = of.shape, row = of.shape;
  column.insert(column.begin() + dim + 1, 1);
  row.insert(row.begin() + dim, 1);
  DTR_ASSIGN(const ValueId own, builder.view(x, column));
  DTR_ASSIGN(const ValueId other, builder.view(x, row));
  Shape pairs(column.size(), 1);
  pairs[at] = pairs[at + 1] = extent;
  std::vector<double> is_earlier(static_cast<size_t>(extent * extent));
  for (int64_t i = 0; i < extent; ++i)
    for (int64_t j = 0; j < i; ++j) is_earlier[static_cast<size_t>(i * extent + j)] = 1;
  DTR_ASSIGN(const ValueId earlier, builder.constant(DType::kBool, is_earlier, pairs));
  DTR_ASSIGN(const ValueId beats,
             builder.emit(greatest ? "aten.gt.Tensor" : "aten.lt.Tensor", {other, own}));
  DTR_ASSIGN(const ValueId equals, builder.emit("aten.eq.Tensor", {other, own}));
  DTR_ASSIGN(const ValueId first, builder.emit("aten.logical_and", {equals, earlier}));
  DTR_ASSIGN(const ValueId in_front, builder.emit("aten.logical_or", {beats, first}));
  DTR_ASSIGN(const ValueId rank, builder.emit("aten.sum.dim_IntList", {in_front},
                                              {{"dim", Ints{dim + 1}}, {"keepdim", false}}));
  Shape along(of.rank(), 1);
  along[at] = extent;
  std::vector<double> all(static_cast<size_t>(extent));
  std::iota(all.begin(), all.end(), 0);
  DTR_ASSIGN(ValueId places, builder.constant(DType::kInt64, all, along));
  DTR_ASSIGN(places, builder.expand(places, of.shape));
  Extremes result;
  DTR_ASSIGN(const ValueId indices, scatter(builder, places, dim, rank, places, false));
  DTR_ASSIGN(result.indices, builder.slice(indices, dim, 0, count));
  DTR_ASSIGN(result.values, gather(builder, x, dim, result.indices));
  return result;
}

// Whether a mask of infinities may have replaced elements, which may have been moved since. Up to
// `budget` ops are looked at.
bool is_masked(const GraphBuilder& builder, ValueId value, int& budget) {
  const Graph& graph = builder.graph();
  if (const auto known = builder.constant_elements(value))
    return std::ranges::any_of(*known, [](double x) { return std::isinf(x); });
  const OpId id = graph.producer(value);
  if (!id.valid() || --budget < 0) return false;
  const Op& op = graph.op(id);
  if ((op.def == &ops::kMaskedFill || op.def == &ops::kConstantPadNd) &&
      std::isinf(op.attributes.get_or("value", 0.0)))
    return true;
  const bool passes = op.def == &ops::kWhereSelf || op.def == &ops::kMaskedFill ||
                      op.def == &ops::kCat || op.def == &ops::kAddTensor ||
                      op.def->has_trait(kMovesData);
  return passes && std::ranges::any_of(
                       op.operands, [&](ValueId each) { return is_masked(builder, each, budget); });
}

}  // namespace

Result<Extremes> top(GraphBuilder& builder, ValueId x, int64_t count, int64_t dim, bool greatest) {
  constexpr int64_t kMost = 64;      // found one by one where pairs can be compared
  constexpr int64_t kMostOf = 1024;  // and where there are too many: detectors keep 300 of 8400
  const Type of = builder.type(x);
  if (of.rank() == 0 || count < 1 || count > of.shape[static_cast<size_t>(dim)])
    return builder.unsupported(fmt::format("{} elements of {}", count, to_string(of.shape)));
  const int64_t extent = of.shape[static_cast<size_t>(dim)];
  // There is no number beyond an infinity for an element that was taken.
  int budget = kMostOps;
  const int64_t most = ranks_fit(of, extent) ? kMost : kMostOf;
  const bool by_rank = count > most || !is_float(of.dtype) ||
                       (count > 1 && extent <= kMost && is_masked(builder, x, budget));
  if (by_rank) return top_by_rank(builder, x, count, dim, greatest);
  Shape along(of.rank(), 1);
  along[static_cast<size_t>(dim)] = extent;
  std::vector<double> all(static_cast<size_t>(extent));
  std::iota(all.begin(), all.end(), 0);
  DTR_ASSIGN(const ValueId places, builder.constant(DType::kInt64, all, along));
  // An element that was taken is replaced by a number below the least of all (or above the
  // greatest): by one, and by a part of it, because a float of 2^24 minus one may be itself. Not by
  // an infinity: a quantizer could not observe its range.
  DTR_ASSIGN(const ValueId last, builder.emit(greatest ? "aten.amin" : "aten.amax", {x},
                                              {{"dim", Ints{dim}}, {"keepdim", true}}));
  DTR_ASSIGN(ValueId distance, builder.emit("aten.abs", {last}));
  DTR_ASSIGN(const ValueId part, builder.constant(of.dtype, {}, 0x1p-12, "part"));
  DTR_ASSIGN(distance, builder.emit("aten.mul.Tensor", {distance, part}));
  DTR_ASSIGN(const ValueId one, builder.constant(of.dtype, {}, 1, "one"));
  DTR_ASSIGN(distance, builder.emit("aten.add.Tensor", {distance, one}));
  DTR_ASSIGN(const ValueId beyond,
             builder.emit(greatest ? "aten.sub.Tensor" : "aten.add.Tensor", {last, distance}));
  std::vector<ValueId> values, indices;
  for (int64_t i = 0; i < count; ++i) {
    DTR_ASSIGN(values.emplace_back(), builder.emit(greatest ? "aten.amax" : "aten.amin", {x},
                                                   {{"dim", Ints{dim}}, {"keepdim", true}}));
    DTR_ASSIGN(indices.emplace_back(), builder.emit(greatest ? "aten.argmax" : "aten.argmin", {x},
                                                    {{"dim", dim}, {"keepdim", true}}));
    if (i + 1 == count) break;
    DTR_ASSIGN(const ValueId taken, builder.emit("aten.eq.Tensor", {places, indices.back()}));
    DTR_ASSIGN(x, builder.emit("aten.where.self", {taken, beyond, x}));
  }
  Extremes result;
  DTR_ASSIGN(result.values, builder.concatenate(std::move(values), dim));
  DTR_ASSIGN(result.indices, builder.concatenate(std::move(indices), dim));
  return result;
}

}  // namespace dtr::compositions
