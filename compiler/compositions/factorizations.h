// Linear algebra of square matrices (…, n, n) as elementwise operators, written out step by step:
// elimination with partial pivoting, Cholesky's and Householder's factorizations, substitution.
// n is at most kMostSteps. Errors of all: those of GraphBuilder::emit; other shapes.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

constexpr int64_t kMostSteps = 64;

// A matrix product of any dtype: of integers as products and sums, which are exact.
Result<ValueId> matrix_product(GraphBuilder& builder, ValueId a, ValueId b);

// The pivots (…, n) of A, the sign (…) of the exchanges of rows, and A⁻¹ · B; B, (…, n, m), may be
// invalid: then there is no solution.
struct Elimination {
  ValueId pivots, sign, solution;
};
Result<Elimination> eliminate(GraphBuilder& builder, ValueId matrices, ValueId right);

// The identity (n, n), and that of the size and dtype of square matrices (…, n, n).
Result<ValueId> identity(GraphBuilder& builder, int64_t n, DType dtype);
Result<ValueId> identity_like(GraphBuilder& builder, ValueId matrices);

// The lower triangle L with L · Lᵀ = A, of which the lower triangle is read. NaN where A is not
// positive definite.
Result<ValueId> cholesky(GraphBuilder& builder, ValueId matrices);

// T⁻¹ · B for a triangle T, of which the other triangle is not read; `unit`: neither is the
// diagonal, which is 1.
struct Triangle {
  bool upper = false, unit = false;
};
Result<ValueId> solve_triangle(GraphBuilder& builder, ValueId triangles, ValueId right,
                               Triangle of);

// Q and R of matrices (…, m, n), with LAPACK's signs: `rows` of R and columns of Q, which is
// invalid unless it is asked for.
struct Orthogonal {
  ValueId q, r;
};
Result<Orthogonal> orthogonalize(GraphBuilder& builder, ValueId matrices, int64_t rows,
                                 bool with_q);

// e^A = 1 + A + A² / 2 + …. NaN where an element of A is infinite.
Result<ValueId> exponential(GraphBuilder& builder, ValueId matrices);

// The matrices with their last two dimensions exchanged.
Result<ValueId> transposed(GraphBuilder& builder, ValueId matrices);

}  // namespace dtr::compositions
