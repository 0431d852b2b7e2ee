// Builds norms, variances and sums from a few operators each. Errors: those of GraphBuilder;
// `unsupported` of the builder for the cases named below.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// (Σ |x|^p)^(1/p) over dimensions; the greatest or least |x| for an infinite p. Unsupported: p that
// is not positive.
Result<ValueId> vector_norm(GraphBuilder& builder, ValueId x, double p, const Ints& dims,
                            bool keepdim);

// x · y / (max(|x|, eps) · max(|y|, eps)) along `dim`, with the reciprocal of each norm computed
// from its square. Unsupported: unequal ranks.
Result<ValueId> cosine_similarity(GraphBuilder& builder, ValueId x, ValueId y, int64_t dim,
                                  double eps);

// The result of v · (g / |v|), where |v| is the norm over all dimensions but `kept_dim`, and |v|.
struct WeightNorm {
  ValueId weight, norm;
};
Result<WeightNorm> weight_norm(GraphBuilder& builder, ValueId v, ValueId g, int64_t kept_dim);

// log Σ exp(x), computed from x minus its greatest element, so that no sum overflows. NaN if that
// element is infinite.
Result<ValueId> log_sum_exp(GraphBuilder& builder, ValueId x, const Ints& dims, bool keepdim);

// Cumulative sums along `dim` of a float x of rank 1 or more, as the product with a triangle of
// ones. Unsupported: more than 1024 elements.
Result<ValueId> cumulative_sum(GraphBuilder& builder, ValueId x, int64_t dim);

// The product of the elements along `dim`: of halves, so that its depth is the logarithm of their
// number. Errors: none to multiply, or x of rank 0.
Result<ValueId> product(GraphBuilder& builder, ValueId x, int64_t dim, bool keepdim);

// x, of integers, to the power of a number that is not negative: by products, which wrap as
// PyTorch's do. Errors: a negative exponent; those of GraphBuilder::emit.
Result<ValueId> integer_power(GraphBuilder& builder, ValueId x, int64_t exponent);

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
