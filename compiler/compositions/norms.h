// Norms, variances and sums of a kind that are a few operators each.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// (Σ |x|^p)^(1/p) over dimensions; the greatest or least |x| for an infinite p. Errors: p that is
// not positive.
Result<ValueId> vector_norm(GraphBuilder& builder, ValueId x, double p, const Ints& dims,
                            bool keepdim);

// x · y / (max(|x|, eps) · max(|y|, eps)) along `dim`, with the reciprocal of each norm from its
// square. Errors: unequal ranks.
Result<ValueId> cosine_similarity(GraphBuilder& builder, ValueId x, ValueId y, int64_t dim,
                                  double eps);

// v · (g / |v|), the norm over all dimensions but `kept_dim`.
struct WeightNorm {
  ValueId weight, norm;
};
Result<WeightNorm> weight_norm(GraphBuilder& builder, ValueId v, ValueId g, int64_t kept_dim);

// log Σ exp(x), of x less its greatest element, so that no sum overflows. Where that is infinite
// the result is NaN.
Result<ValueId> log_sum_exp(GraphBuilder& builder, ValueId x, const Ints& dims, bool keepdim);

// Sums of all elements up to each along `dim`, of a float x of rank 1 or more: the product with a
// triangle of ones. Errors: more than 1024 elements.
Result<ValueId> cumulative_sum(GraphBuilder& builder, ValueId x, int64_t dim);

// The product of the elements along `dim`: of halves, so that its depth is the logarithm of their
// number. Errors: none to multiply, or x of rank 0.
Result<ValueId> product(GraphBuilder& builder, ValueId x, int64_t dim, bool keepdim);

// The sum of squared distances from `mean` over `dims`, which the mean keeps, divided by their
// number less `correction`; or its root. Errors: no more elements than the correction.
struct Variance {
  ValueId mean;
  Ints dims;
  bool keepdim = false;
  double correction = 1;
  bool root = false;
};
Result<ValueId> variance(GraphBuilder& builder, ValueId x, const Variance& of);

}  // namespace dtr::compositions
