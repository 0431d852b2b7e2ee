// Operators that put elements by index or by a mask, and views that read by other strides.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// ---- by index

// Puts elements of `values`, which has at least the extents of the indices.
Result<Values> put(NodeImport& node, ValueId values, bool accumulate) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId index, node.tensor("index"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  const Shape shape = node.type(x).shape, of_index = node.type(index).shape;
  if (node.type(index).elements() == 0) return Values{x};
  if (!shape.empty()) DTR_TRY(node.check_indices(index, shape[static_cast<size_t>(dim)]));
  if (of_index.size() == node.type(values).rank()) {
    for (size_t d = 0; d < of_index.size(); ++d) {
      DTR_ASSIGN(values, node.slice(values, static_cast<int64_t>(d), 0, of_index[d]));
    }
  } else {
    DTR_ASSIGN(values, node.expand(values, of_index));
  }
  DTR_ASSIGN(values, node.cast(values, node.type(x).dtype));
  return one(compositions::scatter(node, x, dim, index, values, accumulate));
}

template <bool kAccumulate>
Result<Values> scatter(NodeImport& node) {
  DTR_ASSIGN(const ValueId values, node.tensor("src"));
  return put(node, values, kAccumulate);
}

template <bool kAccumulate>
Result<Values> scatter_value(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double number, node.number("value"));
  DTR_ASSIGN(const ValueId value, node.constant(node.type(x).dtype, {}, number, "value"));
  return put(node, value, kAccumulate);
}

// With what is named added, where an index may name an element several times.
template <bool kOfNumber>
Result<Values> scatter_by(NodeImport& node) {
  DTR_ASSIGN(const std::string_view reduce, node.string("reduce"));
  if (reduce != "add")
    return node.unsupported(fmt::format("the reduction `{}`", reduce),
                            "gather the elements, compute with them, and scatter the results");
  return kOfNumber ? scatter_value<true>(node) : scatter<true>(node);
}

// Where a mask of the dimensions from `first` on is true, the value, which broadcasts to x.
Result<Values> put_by_mask(NodeImport& node, ValueId x, size_t first, ValueId mask, ValueId value,
                           bool accumulate) {
  const Shape shape = node.type(x).shape, of_mask = node.type(mask).shape;
  const size_t behind = first + of_mask.size();
  const Shape& of_value = node.type(value).shape;
  // One row for all places: none of the value's dimensions counts them.
  const bool one_row = behind <= shape.size() && of_value.size() <= shape.size() - behind;
  if (!one_row && node.type(value).elements() != 1)
    return node.unsupported("a mask names the places of several values",
                            "say it with a shape that does not depend on values: "
                            "torch.where(mask, values, x)");
  if (!one_row) {
    DTR_ASSIGN(value, node.view(value, {}));
  }
  Shape aligned(first, 1);
  aligned.insert(aligned.end(), of_mask.begin(), of_mask.end());
  aligned.resize(shape.size(), 1);
  DTR_ASSIGN(mask, node.view(mask, aligned));
  if (accumulate) {
    DTR_ASSIGN(value, node.emit("aten.add.Tensor", {x, value}));
  }
  return one(node.emit("aten.where.self", {mask, value, x}));
}

Result<Values> index_put(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Values indices, node.optional_tensors("indices"));
  DTR_ASSIGN(ValueId values, node.tensor("values"));
  DTR_ASSIGN(const bool accumulate, node.boolean("accumulate", false));
  DTR_ASSIGN(values, node.cast(values, node.type(x).dtype));
  const Shape shape = node.type(x).shape;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].valid()) continue;
    if (node.type(indices[d]).dtype == DType::kBool) {
      if (std::ranges::count_if(indices, &ValueId::valid) > 1)
        return node.unsupported("a mask beside other indices",
                                "use torch.where for the part that the mask picks");
      return put_by_mask(node, x, d, indices[d], values, accumulate);
    }
    if (d < shape.size()) {
      DTR_ASSIGN(indices[d], node.wrap_negative_indices(indices[d], shape[d]));
    }
  }
  return one(compositions::put_by_tensors(node, x, indices, values, accumulate));
}

Result<Values> masked_scatter(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId mask, node.tensor("mask"));
  DTR_ASSIGN(const ValueId source, node.tensor("source"));
  DTR_ASSIGN(mask, node.expand(mask, node.type(x).shape));
  return one(compositions::masked_scatter(node, x, mask, source));
}

Result<Values> diagonal_scatter(NodeImport& node) {
  DTR_ASSIGN(const ValueId source, node.tensor("src"));
  return one(with_diagonal(node, source));
}

// ---- views

Result<Values> diagonal(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t offset, node.integer("offset", 0));
  DTR_ASSIGN(const int64_t rows, node.dim("dim1", shape.size(), 0));
  DTR_ASSIGN(const int64_t columns, node.dim("dim2", shape.size(), 1));
  if (shape.size() < 2 || rows == columns)
    return node.unsupported(fmt::format("a diagonal of {}", to_string(shape)));
  const int64_t height = shape[static_cast<size_t>(rows)],
                width = shape[static_cast<size_t>(columns)];
  const int64_t first_row = std::max<int64_t>(-offset, 0),
                first_column = std::max<int64_t>(offset, 0);
  const int64_t count = std::max<int64_t>(std::min(height - first_row, width - first_column), 0);
  Ints order;
  Shape result;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (d != rows && d != columns) {
      order.push_back(d);
      result.push_back(shape[static_cast<size_t>(d)]);
    }
  order.insert(order.end(), {rows, columns});
  Shape flat = result;
  result.push_back(count);
  flat.push_back(height * width);
  std::vector<double> places;
  for (int64_t i = 0; i < count; ++i)
    places.push_back(static_cast<double>((first_row + i) * width + first_column + i));
  DTR_ASSIGN(const ValueId index, node.GraphBuilder::constant(DType::kInt64, places));
  DTR_ASSIGN(ValueId value, node.permute(x, order));
  DTR_ASSIGN(value, node.view(value, flat));
  return one(node.emit("aten.index_select", {value, index},
                       {{"dim", static_cast<int64_t>(flat.size()) - 1}}));
}

// The places in a contiguous tensor, as PyTorch's default layout is, that a view by strides has;
// exports of others fail at their check.
Result<std::vector<double>> strided_places(NodeImport& node, ValueId x, const Ints& size) {
  DTR_ASSIGN(const Ints stride, node.ints("stride"));
  DTR_ASSIGN(const int64_t first, node.integer("storage_offset", 0));
  if (size.size() != stride.size()) return node.unsupported("sizes and strides of different ranks");
  std::vector<double> places{static_cast<double>(first)};
  for (size_t d = 0; d < size.size(); ++d) {
    std::vector<double> next;
    for (const double place : places)
      for (int64_t i = 0; i < size[d]; ++i)
        next.push_back(place + static_cast<double>(i * stride[d]));
    places = std::move(next);
    if (places.size() > size_t{1} << 24)
      return node.unsupported("a view of more than 16 million elements");
  }
  const auto elements = static_cast<double>(node.type(x).elements());
  if (std::ranges::any_of(places, [&](double place) { return place < 0 || place >= elements; }))
    return node.unsupported("strides that leave the tensor");
  return places;
}
Result<Values> as_strided(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints size, node.ints("size"));
  DTR_ASSIGN(const std::vector<double> places, strided_places(node, x, size));
  return one(compositions::take(node, x, places, {size.begin(), size.end()}));
}
// A copy of the tensor with that view replaced.
Result<Values> as_strided_scatter(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId part, node.tensor("src"));
  DTR_ASSIGN(const Ints size, node.ints("size"));
  DTR_ASSIGN(const std::vector<double> places, strided_places(node, x, size));
  const auto count = static_cast<int64_t>(places.size());
  if (node.type(part).elements() != count)
    return node.unsupported(
        fmt::format("{} elements for a view of {}", node.type(part).elements(), to_string(size)));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(part, node.cast(part, node.type(x).dtype));
  DTR_ASSIGN(part, node.view(part, {count}));
  DTR_ASSIGN(const ValueId index, node.GraphBuilder::constant(DType::kInt64, places));
  DTR_ASSIGN(ValueId all, node.view(x, {node.type(x).elements()}));
  DTR_ASSIGN(all, compositions::scatter(node, all, 0, index, part, false));
  return one(node.view(all, shape));
}

// ---- distances

// (…, P, M), (…, R, M) to (…, P, R).
Result<Values> cdist(NodeImport& node) {
  DTR_ASSIGN(ValueId a, node.tensor("x1"));
  DTR_ASSIGN(ValueId b, node.tensor("x2"));
  DTR_ASSIGN(const double p, node.number("p", 2));
  Shape left = node.type(a).shape, right = node.type(b).shape;
  if (left.size() < 2 || right.size() < 2)
    return node.unsupported(
        fmt::format("distances of {} and {}", to_string(left), to_string(right)));
  left.insert(left.end() - 1, 1);
  right.insert(right.end() - 2, 1);
  DTR_ASSIGN(a, node.view(a, left));
  DTR_ASSIGN(b, node.view(b, right));
  DTR_ASSIGN(const ValueId apart, node.emit("aten.sub.Tensor", {a, b}));
  const auto last = static_cast<int64_t>(node.type(apart).rank()) - 1;
  return one(compositions::vector_norm(node, apart, p, {last}, false));
}

// Of each pair of rows of a matrix.
Result<Values> pdist(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double p, node.number("p", 2));
  const int64_t rows = node.type(x).rank() == 2 ? node.type(x).shape[0] : 0;
  if (rows < 2) return node.unsupported("distances of fewer than two rows");
  std::vector<double> first, second;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i + 1; j < rows; ++j) {
      first.push_back(static_cast<double>(i));
      second.push_back(static_cast<double>(j));
    }
  const auto pick = [&](const std::vector<double>& list) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId index, node.GraphBuilder::constant(DType::kInt64, list));
    return node.emit("aten.index_select", {x, index}, {{"dim", int64_t{0}}});
  };
  DTR_ASSIGN(const ValueId a, pick(first));
  DTR_ASSIGN(const ValueId b, pick(second));
  DTR_ASSIGN(const ValueId apart, node.emit("aten.sub.Tensor", {a, b}));
  return one(compositions::vector_norm(node, apart, p, {1}, false));
}

}  // namespace

// The diagonal's element i lies in row i, or where the diagonal is below the middle one in column
// i.
Result<ValueId> with_diagonal(NodeImport& node, ValueId source) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank();
  DTR_ASSIGN(const int64_t offset, node.integer("offset", 0));
  DTR_ASSIGN(const int64_t rows, node.dim("dim1", rank, 0));
  DTR_ASSIGN(const int64_t columns, node.dim("dim2", rank, 1));
  if (rank < 2 || rows == columns)
    return node.unsupported(fmt::format("a diagonal of {}", to_string(node.type(x).shape)));
  Ints order, back(rank);
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (d != rows && d != columns) order.push_back(d);
  order.insert(order.end(), {rows, columns});
  for (size_t d = 0; d < rank; ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  DTR_ASSIGN(x, node.permute(x, order));
  const Shape shape = node.type(x).shape;
  const int64_t height = shape[rank - 2], width = shape[rank - 1];
  std::vector<double> places;
  for (int64_t row = 0; row < height; ++row)
    for (int64_t column = 0; column < width; ++column)
      places.push_back(column - row == offset ? 1 : 0);
  DTR_ASSIGN(const ValueId mask,
             node.GraphBuilder::constant(DType::kBool, places, Shape{height, width}));
  const bool in_rows = offset >= 0;
  Shape line = node.type(source).shape;
  const int64_t count = line.empty() ? 0 : line.back();
  line.insert(in_rows ? line.end() : line.end() - (line.empty() ? 0 : 1), 1);
  if (line.size() != rank || count > (in_rows ? height : width))
    return node.unsupported(fmt::format("{} as a diagonal of {}",
                                        to_string(node.type(source).shape), to_string(shape)));
  DTR_ASSIGN(source, node.view(source, line));
  DTR_ASSIGN(source,
             node.pad(source, in_rows ? Ints{0, 0, 0, height - count} : Ints{0, width - count}, 0));
  DTR_ASSIGN(source, node.cast(source, node.type(x).dtype));
  DTR_ASSIGN(const ValueId result, node.emit("aten.where.self", {mask, source, x}));
  return node.permute(result, back);
}

std::vector<Operator> scatter_operators() {
  return {
      tensor_row("aten._cdist_forward.default", "aten.sqrt", cdist),
      tensor_row("aten._pdist_forward.default", "aten.sqrt", pdist),
      view_row("aten.as_strided.default", "aten.index_select", as_strided),
      tensor_row("aten.as_strided_copy.default", "aten.index_select", as_strided),
      tensor_row("aten.as_strided_scatter.default", "aten.index_put", as_strided_scatter),
      tensor_row("aten.cdist.default", "aten.sqrt", cdist),
      view_row("aten.diagonal.default", "aten.index_select", diagonal),
      tensor_row("aten.diagonal_scatter.default", "aten.where.self", diagonal_scatter),
      tensor_row("aten.diagonal_copy.default", "aten.index_select", diagonal),
      tensor_row("aten.index_put.default", "aten.index_put", index_put),
      tensor_row("aten.masked_scatter.default", "aten.index_select", masked_scatter),
      tensor_row("aten.pdist.default", "aten.sqrt", pdist),
      tensor_row("aten.scatter.reduce", "aten.index_put", scatter_by<false>),
      tensor_row("aten.scatter.value_reduce", "aten.index_put", scatter_by<true>),
      tensor_row("aten.scatter.src", "aten.index_put", scatter<false>),
      tensor_row("aten.scatter.value", "aten.index_put", scatter_value<false>),
      tensor_row("aten.scatter_add.default", "aten.index_put", scatter<true>),
  };
}

}  // namespace dtr::pt2
