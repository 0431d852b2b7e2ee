// Operators along a dimension, each of whose results depends on all elements before it.
#pragma once

#include <functional>

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// Element i of the result combines the elements 0 … i of x along `dim`, in log2 of their number
// steps, each on the whole tensor. `combine` is associative and gets earlier elements first.
// Errors: those of GraphBuilder::emit and of `combine`.
using Combine = std::function<Result<ValueId>(ValueId before, ValueId behind)>;
Result<ValueId> scan(GraphBuilder& builder, ValueId x, int64_t dim, const Combine& combine);

// The greatest element so far, or the least, and the index of its last occurrence. Errors: those of
// GraphBuilder::emit; x has rank 1 or more.
struct RunningExtreme {
  ValueId values, indices;
};
Result<RunningExtreme> running_extreme(GraphBuilder& builder, ValueId x, int64_t dim,
                                       bool greatest);

// log(exp(beta · a) + exp(beta · b)) / beta; and with a beta of 1 that of the elements so far along
// `dim`: in steps, not from x minus the greatest of all, beside which early sums vanish. Errors:
// those of GraphBuilder::emit.
Result<ValueId> log_sum_exp(GraphBuilder& builder, ValueId a, ValueId b, double beta);
Result<ValueId> running_log_sum_exp(GraphBuilder& builder, ValueId x, int64_t dim);

}  // namespace dtr::compositions
