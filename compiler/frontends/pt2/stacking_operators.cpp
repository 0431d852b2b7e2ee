// Operators after NumPy's: tensors that are given dimensions and joined, parts along the axis that
// a name says (h, v, d), diagonals, and products of a matrix with itself.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/norms.h"
#include "compiler/compositions/tiling.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// ---- more dimensions, and joins

// As many dimensions at least: a vector is a row of a matrix, a matrix the first layer of a volume.
Result<ValueId> at_least(NodeImport& node, ValueId x, size_t rank) {
  Shape shape = node.type(x).shape;
  if (shape.size() >= rank) return x;
  if (shape.empty()) {
    shape.assign(rank, 1);
  } else {
    if (shape.size() == 1 && rank > 1) shape.insert(shape.begin(), 1);
    shape.resize(rank, 1);
  }
  return node.view(x, shape);
}

template <size_t kRank>
Result<Values> give_dimensions(NodeImport& node) {
  if (node.has_tensor("self")) {
    DTR_ASSIGN(const ValueId x, node.tensor("self"));
    return one(at_least(node, x, kRank));
  }
  DTR_ASSIGN(Values tensors, node.tensors("tensors"));
  for (ValueId& each : tensors) {
    DTR_ASSIGN(each, at_least(node, each, kRank));
  }
  return tensors;
}

// Joins along `dim` after `prepare` has given each its dimensions.
template <class Prepare>
Result<Values> join(NodeImport& node, int64_t dim, Prepare prepare) {
  DTR_ASSIGN(Values parts, node.tensors("tensors"));
  for (ValueId& each : parts) {
    DTR_ASSIGN(each, prepare(each));
  }
  return one(node.concatenate(std::move(parts), dim));
}
Result<Values> hstack(NodeImport& node) {
  DTR_ASSIGN(const Values parts, node.tensors("tensors"));
  return join(node, node.type(parts[0]).rank() < 2 ? 0 : 1,
              [&](ValueId x) { return at_least(node, x, 1); });
}
Result<Values> vstack(NodeImport& node) {
  return join(node, 0, [&](ValueId x) { return at_least(node, x, 2); });
}
Result<Values> dstack(NodeImport& node) {
  return join(node, 2, [&](ValueId x) { return at_least(node, x, 3); });
}
Result<Values> column_stack(NodeImport& node) {
  return join(node, 1, [&](ValueId x) -> Result<ValueId> {
    return node.type(x).rank() < 2 ? node.view(x, {node.type(x).elements(), 1})
                                   : Result<ValueId>(x);
  });
}

Result<Values> cartesian_product(NodeImport& node) {
  DTR_ASSIGN(Values vectors, node.tensors("tensors"));
  if (vectors.size() == 1) return vectors;
  DTR_ASSIGN(Values grids, compositions::meshgrid(node, std::move(vectors), false));
  for (ValueId& grid : grids) {
    DTR_ASSIGN(grid, node.view(grid, {node.type(grid).elements(), 1}));
  }
  return one(node.concatenate(std::move(grids), 1));
}

Result<Values> ravel(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return one(node.view(x, {node.type(x).elements()}));
}

template <int64_t kDim>
Result<Values> flip_along(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() <= kDim)
    return node.unsupported(fmt::format("the tensor is {}", to_string(node.type(x).shape)));
  return one(node.flip(x, {kDim}));
}

Result<Values> sort_first(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() == 0) return Values{x};
  DTR_ASSIGN(const auto sorted, compositions::top(node, x, node.type(x).shape[0], 0, false));
  return Values{sorted.values};
}

// The elements with these numbers, counted in row-major order.
Result<Values> take(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  const Shape shape = node.type(index).shape;
  DTR_ASSIGN(const ValueId flat, node.view(x, {node.type(x).elements()}));
  DTR_ASSIGN(index, node.view(index, {node.type(index).elements()}));
  DTR_ASSIGN(index, node.wrap_negative_indices(index, node.type(x).elements()));
  DTR_ASSIGN(index, compositions::from_front(node, index, node.type(x).elements()));
  DTR_ASSIGN(const ValueId taken,
             node.emit("aten.index_select", {flat, index}, {{"dim", int64_t{0}}}));
  return one(node.view(taken, shape));
}

// ---- diagonals

// The elements of a matrix at (i, i + offset), or at (i − offset, i).
Result<ValueId> diagonal_of(NodeImport& node, ValueId matrix, int64_t offset) {
  const int64_t rows = node.type(matrix).shape[0], columns = node.type(matrix).shape[1];
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  std::vector<double> places;
  for (int64_t i = 0; row + i < rows && column + i < columns; ++i)
    places.push_back(static_cast<double>((row + i) * columns + column + i));
  if (places.empty())
    return node.unsupported(
        fmt::format("the diagonal {} of {}", offset, to_string(node.type(matrix).shape)));
  return compositions::take(node, matrix, places, {static_cast<int64_t>(places.size())});
}

// A matrix with a vector as its diagonal.
Result<ValueId> matrix_of(NodeImport& node, ValueId vector, int64_t offset) {
  constexpr int64_t kMost = 4096;
  const int64_t count = node.type(vector).elements();
  const int64_t size = count + std::abs(offset);
  if (offset > kMost || offset < -kMost || size > kMost)
    return node.unsupported(fmt::format("a diagonal of {} with offset {}", count, offset));
  const int64_t row = std::max<int64_t>(-offset, 0), column = std::max<int64_t>(offset, 0);
  std::vector<double> is_there(static_cast<size_t>(count * count), 0);
  for (int64_t i = 0; i < count; ++i) is_there[static_cast<size_t>(i * (count + 1))] = 1;
  DTR_ASSIGN(const ValueId mask,
             node.GraphBuilder::constant(DType::kBool, is_there, Shape{count, count}));
  DTR_ASSIGN(const ValueId zero, node.constant(node.type(vector).dtype, {}, 0, "zero"));
  DTR_ASSIGN(const ValueId wide, node.view(vector, {1, count}));
  DTR_ASSIGN(const ValueId square, node.emit("aten.where.self", {mask, wide, zero}));
  return node.pad(square, {column, row, row, column}, 0);
}

Result<Values> diag(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t offset, node.integer("diagonal", 0));
  const size_t rank = node.type(x).rank();
  if (rank == 1) return one(matrix_of(node, x, offset));
  if (rank == 2) return one(diagonal_of(node, x, offset));
  return node.unsupported(fmt::format("the tensor is {}", to_string(node.type(x).shape)));
}
Result<Values> flat_diagonal(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t offset, node.integer("offset", 0));
  DTR_ASSIGN(const ValueId vector, node.view(x, {node.type(x).elements()}));
  return one(matrix_of(node, vector, offset));
}
Result<Values> trace(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() != 2)
    return node.unsupported(fmt::format("the tensor is {}", to_string(node.type(x).shape)));
  DTR_ASSIGN(const ValueId diagonal, diagonal_of(node, x, 0));
  return one(node.emit("aten.sum.dim_IntList", {diagonal}, {{"dim", Ints{0}}, {"keepdim", false}}));
}

// ---- products

// Sums of products over the last dimension of both.
Result<Values> inner(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.tensor("self"));
  DTR_ASSIGN(const ValueId b, node.tensor("other"));
  const Shape left = node.type(a).shape, right = node.type(b).shape;
  if (left.empty() || right.empty()) return one(node.emit("aten.mul.Tensor", {a, b}));
  if (left.back() != right.back())
    return node.unsupported(
        fmt::format("the tensors are {} and {}", to_string(left), to_string(right)));
  DTR_ASSIGN(const ValueId rows,
             node.view(a, {node.type(a).elements() / left.back(), left.back()}));
  DTR_ASSIGN(ValueId columns, node.view(b, {node.type(b).elements() / right.back(), right.back()}));
  DTR_ASSIGN(columns, node.permute(columns, {1, 0}));
  DTR_ASSIGN(const ValueId product, matrix_product_of(node, rows, columns));
  Shape shape(left.begin(), left.end() - 1);
  shape.insert(shape.end(), right.begin(), right.end() - 1);
  return one(node.view(product, shape));
}
Result<Values> vector_dot(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.tensor("x"));
  DTR_ASSIGN(const ValueId b, node.tensor("y"));
  DTR_ASSIGN(const ValueId products, node.emit("aten.mul.Tensor", {a, b}));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(products).rank(), -1));
  return one(
      node.emit("aten.sum.dim_IntList", {products}, {{"dim", Ints{dim}}, {"keepdim", false}}));
}
// Of several matrices; the first may be a row, the last a column.
Result<Values> chain_of_products(NodeImport& node) {
  DTR_ASSIGN(Values matrices, node.tensors("tensors"));
  const bool row = node.type(matrices.front()).rank() == 1;
  const bool column = node.type(matrices.back()).rank() == 1;
  if (row) {
    DTR_ASSIGN(matrices.front(),
               node.view(matrices.front(), {1, node.type(matrices.front()).elements()}));
  }
  if (column) {
    DTR_ASSIGN(matrices.back(),
               node.view(matrices.back(), {node.type(matrices.back()).elements(), 1}));
  }
  ValueId product = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) {
    DTR_ASSIGN(product, node.emit("aten.matmul", {product, matrices[i]}));
  }
  Shape shape = node.type(product).shape;
  if (column) shape.pop_back();
  if (row) shape.erase(shape.begin());
  return one(node.view(product, shape));
}

// The sum over what `size` has one element of, or does not have.
Result<Values> sum_to_size(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints size, node.ints("size"));
  const Shape shape = node.type(x).shape;
  if (size.size() > shape.size())
    return node.unsupported(
        fmt::format("the tensor is {}, the size is {}", to_string(shape), to_string(size)));
  const size_t front = shape.size() - size.size();
  Ints dims;
  for (size_t d = 0; d < shape.size(); ++d)
    if (d < front || (size[d - front] == 1 && shape[d] != 1))
      dims.push_back(static_cast<int64_t>(d));
  if (dims.empty()) return Values{x};
  DTR_ASSIGN(const ValueId sum,
             node.emit("aten.sum.dim_IntList", {x}, {{"dim", dims}, {"keepdim", true}}));
  return one(node.view(sum, size));
}

}  // namespace

std::vector<Operator> stacking_operators() {
  return {
      view_row("aten.atleast_1d.Sequence", "", give_dimensions<1>),
      view_row("aten.atleast_1d.default", "", give_dimensions<1>),
      view_row("aten.atleast_2d.Sequence", "", give_dimensions<2>),
      view_row("aten.atleast_2d.default", "", give_dimensions<2>),
      view_row("aten.atleast_3d.Sequence", "", give_dimensions<3>),
      view_row("aten.atleast_3d.default", "", give_dimensions<3>),
      view_row("aten.ravel.default", "aten.view", ravel),
      tensor_row("aten.cartesian_prod.default", "aten.cat", cartesian_product),
      tensor_row("aten.column_stack.default", "aten.cat", column_stack),
      tensor_row("aten.dstack.default", "aten.cat", dstack),
      tensor_row("aten.hstack.default", "aten.cat", hstack),
      tensor_row("aten.row_stack.default", "aten.cat", vstack),
      tensor_row("aten.vstack.default", "aten.cat", vstack),
      tensor_row("aten.fliplr.default", "aten.flip", flip_along<1>),
      tensor_row("aten.flipud.default", "aten.flip", flip_along<0>),
      tensor_row("aten.msort.default", "aten.argmin", sort_first),
      tensor_row("aten.take.default", "aten.index_select", take),

      tensor_row("aten.diag.default", "aten.where.self", diag),
      tensor_row("aten.diagflat.default", "aten.where.self", flat_diagonal),
      tensor_row("aten.trace.default", "aten.sum.dim_IntList", trace),

      tensor_row("aten.chain_matmul.default", "aten.matmul", chain_of_products),
      tensor_row("aten.inner.default", "aten.matmul", inner),
      tensor_row("aten.linalg_multi_dot.default", "aten.matmul", chain_of_products),
      tensor_row("aten.linalg_vecdot.default", "aten.mul.Tensor", vector_dot),
      tensor_row("aten.sum_to_size.default", "aten.sum.dim_IntList", sum_to_size),
  };
}

}  // namespace dtr::pt2
