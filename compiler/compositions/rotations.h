// Eigenvalues and singular values by Jacobi's rotations, written out step by step: a step turns all
// pairs of columns that a round of a tournament has, and a fixed number of sweeps has every pair
// meet often enough for float32. The smaller size of a matrix is at most kMostRotated. Errors of
// all: those of GraphBuilder::emit; other shapes.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

constexpr int64_t kMostRotated = 32;

// Of symmetric matrices (…, n, n), of which one triangle is read: the eigenvalues (…, n), the least
// first, and the eigenvectors as columns, invalid unless asked for. An eigenvector has either sign,
// those of equal eigenvalues are some basis of their space.
struct Eigen {
  ValueId values, vectors;
};
Result<Eigen> eigen(GraphBuilder& builder, ValueId matrices, bool upper, bool with_vectors);

// Of matrices (…, m, n): the singular values (…, k), k = min(m, n), the greatest first, and the
// vectors as columns of (…, m, k) and (…, n, k), invalid unless asked for; with `full` the bases
// are complete, (…, m, m) and (…, n, n). A pair of vectors has either sign.
struct Singular {
  ValueId left, values, right;
};
Result<Singular> singular(GraphBuilder& builder, ValueId matrices, bool with_vectors, bool full);

// What singular values of matrices (…, m, n) count as zero, relative to the greatest, unless the
// model says: max(m, n) · the epsilon of float32, 2^-23 (torch.linalg.pinv and matrix_rank).
double default_tolerance(const Shape& matrices);

// The pseudoinverse (…, n, m): singular values up to max(absolute, relative · the greatest) count
// as zero. Both are (…, 1, 1), or invalid: 0, and `default_tolerance`.
Result<ValueId> pseudo_inverse(GraphBuilder& builder, ValueId matrices, ValueId absolute,
                               ValueId relative);

// The symmetric matrices that have this triangle. Error: not square.
Result<ValueId> symmetric(GraphBuilder& builder, ValueId matrices, bool upper);

}  // namespace dtr::compositions
