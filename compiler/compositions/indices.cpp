#include "compiler/compositions/indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/ops/broadcast.h"

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

// Negative indices counted from the front.
Result<ValueId> wrap_negative_indices(GraphBuilder& builder, ValueId index, int64_t extent) {
  if (const auto known = builder.constant_elements(index);
      known && std::ranges::all_of(*known, [](double i) { return i >= 0; }))
    return index;
  DTR_ASSIGN(const ValueId zero, number(builder, index, 0));
  DTR_ASSIGN(const ValueId length, number(builder, index, extent));
  DTR_ASSIGN(const ValueId negative, builder.emit("aten.lt.Tensor", {index, zero}));
  DTR_ASSIGN(const ValueId moved, builder.emit("aten.add.Tensor", {index, length}));
  return builder.emit("aten.where.self", {negative, moved, index});
}

}  // namespace

Result<ValueId> gather(GraphBuilder& builder, ValueId x, int64_t dim, ValueId index) {
  const Shape shape = builder.type(x).shape, of_index = builder.type(index).shape;
  if (shape.size() != of_index.size())
    return builder.unsupported(
        fmt::format("indices of shape {} into {}", to_string(of_index), to_string(shape)));
  if (shape.empty()) return x;
  const std::vector<int64_t> step = strides(shape, Layout::kContiguous);
  DTR_ASSIGN(ValueId place, times(builder, index, step[static_cast<size_t>(dim)]));
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
  DTR_ASSIGN(const ValueId flat, builder.view(x, {builder.type(x).elements()}));
  return builder.emit("aten.index_select", {flat, place}, {{"dim", int64_t{0}}});
}

Result<ValueId> index_by_tensors(GraphBuilder& builder, ValueId x,
                                 const std::vector<ValueId>& indices) {
  const Shape shape = builder.type(x).shape;
  Ints dims, others;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < indices.size() && indices[d].valid() ? dims : others).push_back(static_cast<int64_t>(d));
  if (dims.empty() || indices.size() > shape.size())
    return builder.unsupported(fmt::format("{} indices for {}", indices.size(), to_string(shape)));
  // One number a row: the last index counts single rows.
  ValueId place;
  int64_t rows = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(dims[i]);
    DTR_ASSIGN(ValueId index, wrap_negative_indices(builder, indices[d], shape[d]));
    DTR_ASSIGN(index, times(builder, index, rows));
    rows *= shape[d];
    if (!place.valid()) {
      place = index;
    } else {
      DTR_ASSIGN(place, builder.emit("aten.add.Tensor", {index, place}));
    }
  }
  Ints order = dims;
  order.insert(order.end(), others.begin(), others.end());
  DTR_ASSIGN(ValueId table, builder.permute(x, order));
  Shape flat{rows};
  for (const int64_t d : others) flat.push_back(shape[static_cast<size_t>(d)]);
  DTR_ASSIGN(table, builder.view(table, flat));
  DTR_ASSIGN(const ValueId picked,
             builder.emit("aten.index_select", {table, place}, {{"dim", int64_t{0}}}));
  const auto rank = static_cast<int64_t>(builder.type(place).rank());
  const bool neighbours = dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
  if (!neighbours || dims.front() == 0) return picked;
  Ints back;
  for (int64_t d = 0; d < dims.front(); ++d) back.push_back(rank + d);
  for (int64_t d = 0; d < rank; ++d) back.push_back(d);
  for (int64_t d = dims.front(); d < static_cast<int64_t>(others.size()); ++d)
    back.push_back(rank + d);
  return builder.permute(picked, back);
}

Result<Extremes> top(GraphBuilder& builder, ValueId x, int64_t count, int64_t dim, bool greatest) {
  constexpr int64_t kMost = 64;
  const Type of = builder.type(x);
  if (of.rank() == 0 || count < 1 || count > of.shape[static_cast<size_t>(dim)])
    return builder.unsupported(fmt::format("{} elements of {}", count, to_string(of.shape)));
  if (count > kMost)
    return builder.unsupported(
        fmt::format("the first {} elements in order, at most {} are found", count, kMost),
        "take fewer, or leave the order to the application");
  if (!is_float(of.dtype))
    return builder.unsupported(fmt::format("the order of {}", name(of.dtype)),
                               "convert the tensor to float first");
  const int64_t extent = of.shape[static_cast<size_t>(dim)];
  Shape along(of.rank(), 1);
  along[static_cast<size_t>(dim)] = extent;
  std::vector<double> all(static_cast<size_t>(extent));
  std::iota(all.begin(), all.end(), 0);
  DTR_ASSIGN(const ValueId places, builder.constant(DType::kInt64, all, along));
  // What is taken becomes less, or more, than all: by one, because infinity has no range that a
  // quantizer could observe.
  DTR_ASSIGN(ValueId beyond, builder.emit(greatest ? "aten.amin" : "aten.amax", {x},
                                          {{"dim", Ints{dim}}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId one, builder.constant(of.dtype, {}, greatest ? -1 : 1, "one"));
  DTR_ASSIGN(beyond, builder.emit("aten.add.Tensor", {beyond, one}));
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
