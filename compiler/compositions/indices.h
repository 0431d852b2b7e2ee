// Elements that tensors of indices name: as rows of a table, whose number is computed from the
// indices.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// result[i][j] = x[index[i][j]][j] along dimension 0, and so on: PyTorch's gather. Indices count
// from the front. Errors of these: those of GraphBuilder::emit.
Result<ValueId> gather(GraphBuilder& builder, ValueId x, int64_t dim, ValueId index);

// x[:, a, b]: `indices` has an entry for each of the first dimensions, invalid where all of it is
// taken. Negative ones count from the end. The shapes of the indices broadcast; the result has them
// where the indexed dimensions are, in front of all if those are not neighbours. Errors: the same.
Result<ValueId> index_by_tensors(GraphBuilder& builder, ValueId x,
                                 const std::vector<ValueId>& indices);

// The `count` greatest elements along `dim`, or the least, in order, and their indices. Errors:
// more than 64.
struct Extremes {
  ValueId values, indices;
};
Result<Extremes> top(GraphBuilder& builder, ValueId x, int64_t count, int64_t dim, bool greatest);

}  // namespace dtr::compositions
