// Reads and writes elements by tensors of indices: the tensor becomes a table of rows, whose
// numbers are computed from the indices.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// Adds `extent` to negative indices, which count from the end: while the program runs, unless the
// indices are constant; not if they are known to be none. Errors: those of GraphBuilder::emit.
Result<ValueId> from_front(GraphBuilder& builder, ValueId index, int64_t extent);

// index · step, where indices count from the front. Those outside of `extent` would name rows
// beside those that are meant: unless it is known that there are none, the places are looked up in
// a table, whose kernel refuses them; of large extents they name nothing, which the kernel that
// reads the places refuses. Errors: those of GraphBuilder::emit.
Result<ValueId> rows_of_index(GraphBuilder& builder, ValueId index, int64_t extent, int64_t step);

// result[i][j] = x[index[i][j]][j] along dimension 0, and so on: PyTorch's gather. Indices count
// from the front. Errors of these: those of GraphBuilder::emit.
Result<ValueId> gather(GraphBuilder& builder, ValueId x, int64_t dim, ValueId index);

// x[:, a, b]: `indices` has an entry for each of the first dimensions, invalid where all of it is
// taken. Negative ones count from the end. The shapes of the indices broadcast; the result has them
// where the indexed dimensions are, in front of all if those are not neighbours. Errors: the same.
Result<ValueId> index_by_tensors(GraphBuilder& builder, ValueId x,
                                 const std::vector<ValueId>& indices);

// The inverse: x with the elements that `index` names along `dim` replaced by those of `values`,
// which has the shape of `index` (PyTorch's scatter), or with them added. Errors: the same.
Result<ValueId> scatter(GraphBuilder& builder, ValueId x, int64_t dim, ValueId index,
                        ValueId values, bool accumulate);
// x[:, a, b] = values, which broadcast to what is named; or with them added. Errors: the same.
Result<ValueId> put_by_tensors(GraphBuilder& builder, ValueId x,
                               const std::vector<ValueId>& indices, ValueId values,
                               bool accumulate);
// x, with the next of the values in order where the mask, of the same shape, is true. Errors: the
// same.
Result<ValueId> masked_scatter(GraphBuilder& builder, ValueId x, ValueId mask, ValueId values);
// The elements of x at these places, which number the elements in row-major order, in `shape`.
// Errors: the same.
Result<ValueId> take(GraphBuilder& builder, ValueId x, const std::vector<double>& places,
                     const Shape& shape);

// The `count` greatest elements along `dim`, or the least, in order, and their indices; of equal
// ones the first. Up to 64 floats are found one by one; more, and integers, by their rank, for
// which all pairs are compared; up to 1024 floats one by one again if there are more than 2^20
// pairs. Errors: more than 2^20 pairs of others; those of GraphBuilder::emit.
struct Extremes {
  ValueId values, indices;
};
Result<Extremes> top(GraphBuilder& builder, ValueId x, int64_t count, int64_t dim, bool greatest);

}  // namespace dtr::compositions
