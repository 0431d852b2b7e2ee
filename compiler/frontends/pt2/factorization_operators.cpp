// Linear algebra: determinants, inverses, systems of equations, factorizations.
#include <fmt/format.h>

#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/matrices.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

constexpr int64_t kMostByCofactors = 4;  // rows; more of them would take too many products

Result<ValueId> matrix_of(NodeImport& node) {
  for (const std::string_view name : {"A", "self", "input"})
    if (node.has(name)) return node.tensor(name);
  return node.tensor("A");
}
bool is_small(const NodeImport& node, ValueId matrices) {
  const Shape& shape = node.type(matrices).shape;
  return !shape.empty() && shape.back() <= kMostByCofactors;
}

// log |det| and the sign of the determinant.
struct SignAndLogarithm {
  ValueId sign, logarithm;
};
Result<SignAndLogarithm> sign_and_logarithm(NodeImport& node, ValueId matrices) {
  DTR_ASSIGN(const auto found, compositions::eliminate(node, matrices, {}));
  const auto last = static_cast<int64_t>(node.type(found.pivots).rank()) - 1;
  SignAndLogarithm result;
  DTR_ASSIGN(const ValueId signs, node.emit("aten.sign", {found.pivots}));
  DTR_ASSIGN(result.sign, compositions::product(node, signs, last, false));
  DTR_ASSIGN(result.sign, node.emit("aten.mul.Tensor", {result.sign, found.sign}));
  DTR_ASSIGN(ValueId sizes, node.emit("aten.abs", {found.pivots}));
  DTR_ASSIGN(sizes, node.emit("aten.log", {sizes}));
  DTR_ASSIGN(result.logarithm,
             node.emit("aten.sum.dim_IntList", {sizes}, {{"dim", Ints{last}}, {"keepdim", false}}));
  return result;
}

Result<Values> determinant(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_of(node));
  if (is_small(node, matrix)) return one(compositions::determinant(node, matrix));
  DTR_ASSIGN(const auto found, compositions::eliminate(node, matrix, {}));
  const auto last = static_cast<int64_t>(node.type(found.pivots).rank()) - 1;
  DTR_ASSIGN(const ValueId size, compositions::product(node, found.pivots, last, false));
  return one(node.emit("aten.mul.Tensor", {size, found.sign}));
}
Result<Values> signed_logarithm(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_of(node));
  DTR_ASSIGN(const SignAndLogarithm found, sign_and_logarithm(node, matrix));
  return Values{found.sign, found.logarithm};
}
// NaN where the determinant is negative.
Result<Values> log_determinant(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_of(node));
  DTR_ASSIGN(const SignAndLogarithm found, sign_and_logarithm(node, matrix));
  DTR_ASSIGN(const ValueId zero, number_like(node, found.sign, 0));
  DTR_ASSIGN(const ValueId negative, node.emit("aten.lt.Tensor", {found.sign, zero}));
  DTR_ASSIGN(const ValueId none,
             number_like(node, found.sign, std::numeric_limits<double>::quiet_NaN()));
  return one(node.emit("aten.where.self", {negative, none, found.logarithm}));
}

// The number, from 1, of the first element along the last dimension for which `fails` is true; 0
// where there is none: LAPACK's `info`, the second result of `inv_ex` and `cholesky_ex`.
Result<ValueId> first_failure(NodeImport& node, ValueId fails) {
  const auto last = static_cast<int64_t>(node.type(fails).rank()) - 1;
  DTR_ASSIGN(const ValueId failed, node.cast(fails, DType::kFloat32));
  DTR_ASSIGN(ValueId number,
             node.emit("aten.argmax", {failed}, {{"dim", last}, {"keepdim", false}}));
  DTR_ASSIGN(number, with_number(node, "aten.add.Tensor", number, 1));
  DTR_ASSIGN(const ValueId worst,
             node.emit("aten.amax", {failed}, {{"dim", Ints{last}}, {"keepdim", false}}));
  DTR_ASSIGN(const ValueId any, with_number(node, "aten.gt.Tensor", worst, 0));
  DTR_ASSIGN(const ValueId none, number_like(node, number, 0));
  DTR_ASSIGN(number, node.emit("aten.where.self", {any, number, none}));
  return node.cast(number, DType::kInt32);
}

Result<ValueId> inverted(NodeImport& node, ValueId matrices) {
  if (is_small(node, matrices)) return compositions::inverse(node, matrices);
  DTR_ASSIGN(const ValueId identity, compositions::identity_like(node, matrices));
  DTR_ASSIGN(const auto found, compositions::eliminate(node, matrices, identity));
  return found.solution;
}
Result<Values> inverse(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_of(node));
  DTR_ASSIGN(const ValueId result, inverted(node, matrix));
  DTR_TRY(node.boolean("check_errors", false));
  if (!node.is_read(1)) return Values{result};
  DTR_ASSIGN(const auto found, compositions::eliminate(node, matrix, {}));
  DTR_ASSIGN(const ValueId zero, number_like(node, found.pivots, 0));
  DTR_ASSIGN(const ValueId fails, node.emit("aten.eq.Tensor", {found.pivots, zero}));
  DTR_ASSIGN(const ValueId info, first_failure(node, fails));
  return Values{result, info};
}

// By squares; a negative power is that of the inverse.
Result<Values> matrix_power(NodeImport& node) {
  constexpr int64_t kMost = 1024;
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(int64_t power, node.integer("n"));
  if (power < -kMost || power > kMost)
    return node.unsupported(
        fmt::format("the power {} of a matrix: up to {} are computed", power, kMost),
        "raise the eigenvalues: values, vectors = torch.linalg.eigh(A), then "
        "vectors @ torch.diag_embed(values ** n) @ vectors.mT");
  if (power == 0) {
    const Shape shape = node.type(x).shape;
    DTR_ASSIGN(const ValueId identity, compositions::identity_like(node, x));
    return one(node.expand(identity, shape));
  }
  std::optional<GraphBuilder::KeepsFloat> kept;  // as the inverse is
  if (power < 0) {
    kept.emplace(node);
    DTR_ASSIGN(x, inverted(node, x));
    power = -power;
  }
  ValueId result;
  for (;; power /= 2) {
    if (power % 2 == 1) {
      DTR_ASSIGN(result,
                 result.valid() ? node.emit("aten.matmul", {result, x}) : Result<ValueId>(x));
    }
    if (power == 1) return Values{result};
    DTR_ASSIGN(x, node.emit("aten.matmul", {x, x}));
  }
}

// A⁻¹ · B, or B · A⁻¹; a B of the shape of A without its last dimension holds vectors.
Result<Values> solve(NodeImport& node) {
  DTR_ASSIGN(ValueId matrix, node.tensor("A"));
  DTR_ASSIGN(ValueId right, node.tensor("B"));
  DTR_ASSIGN(const bool left, node.boolean("left", true));
  DTR_TRY(node.boolean("check_errors", false));
  Shape shape = node.type(right).shape;
  Shape of_vectors = node.type(matrix).shape;
  of_vectors.pop_back();
  const bool vectors = shape.size() == 1 || shape == of_vectors;
  if (vectors) {
    shape.push_back(1);
    DTR_ASSIGN(right, node.view(right, shape));
  } else if (!left) {
    DTR_ASSIGN(matrix, compositions::transposed(node, matrix));
    DTR_ASSIGN(right, compositions::transposed(node, right));
  }
  ValueId result;
  if (is_small(node, matrix)) {
    DTR_ASSIGN(const ValueId inverse, compositions::inverse(node, matrix));
    DTR_ASSIGN(result, node.emit("aten.matmul", {inverse, right}));
  } else {
    DTR_ASSIGN(const auto found, compositions::eliminate(node, matrix, right));
    result = found.solution;
  }
  if (vectors) {
    Shape back = node.type(result).shape;
    back.pop_back();
    return one(node.view(result, back));
  }
  return one(left ? Result<ValueId>(result) : compositions::transposed(node, result));
}

Result<Values> cholesky(NodeImport& node) {
  DTR_ASSIGN(ValueId matrix, matrix_of(node));
  DTR_ASSIGN(const bool upper, node.boolean("upper", false));
  DTR_TRY(node.boolean("check_errors", false));
  if (upper) {
    DTR_ASSIGN(matrix, compositions::transposed(node, matrix));
  }
  DTR_ASSIGN(const ValueId lower, compositions::cholesky(node, matrix));
  ValueId result = lower;
  if (upper) {
    DTR_ASSIGN(result, compositions::transposed(node, lower));
  }
  if (!node.is_read(1)) return Values{result};
  // The diagonal is the root of a number that has to be positive: NaN and 0 fail. What is behind it
  // in its row is 0.
  DTR_ASSIGN(const ValueId identity, compositions::identity_like(node, lower));
  DTR_ASSIGN(ValueId diagonal, node.emit("aten.mul.Tensor", {lower, identity}));
  const auto last = static_cast<int64_t>(node.type(lower).rank()) - 1;
  DTR_ASSIGN(diagonal, node.emit("aten.sum.dim_IntList", {diagonal},
                                 {{"dim", Ints{last}}, {"keepdim", false}}));
  DTR_ASSIGN(const ValueId positive, with_number(node, "aten.gt.Tensor", diagonal, 0));
  DTR_ASSIGN(const ValueId fails, node.emit("aten.logical_not", {positive}));
  DTR_ASSIGN(const ValueId info, first_failure(node, fails));
  return Values{result, info};
}

// (L · Lᵀ)⁻¹ · B: two substitutions.
Result<Values> solve_factorized(NodeImport& node, ValueId right, ValueId triangle) {
  DTR_ASSIGN(const bool upper, node.boolean("upper", false));
  DTR_ASSIGN(const ValueId turned, compositions::transposed(node, triangle));
  const ValueId lower_one = upper ? turned : triangle, upper_one = upper ? triangle : turned;
  DTR_ASSIGN(const ValueId half, compositions::solve_triangle(node, lower_one, right, {}));
  return one(compositions::solve_triangle(node, upper_one, half, {.upper = true}));
}
Result<Values> cholesky_solve(NodeImport& node) {
  DTR_ASSIGN(const ValueId right, node.tensor("self"));
  DTR_ASSIGN(const ValueId triangle, node.tensor("input2"));
  return solve_factorized(node, right, triangle);
}
Result<Values> cholesky_inverse(NodeImport& node) {
  DTR_ASSIGN(const ValueId triangle, node.tensor("self"));
  DTR_ASSIGN(const ValueId identity, compositions::identity_like(node, triangle));
  return solve_factorized(node, identity, triangle);
}

Result<Values> solve_triangular(NodeImport& node) {
  DTR_ASSIGN(ValueId triangle, node.tensor("self"));
  DTR_ASSIGN(ValueId right, node.tensor("B"));
  DTR_ASSIGN(bool upper, node.boolean("upper"));
  DTR_ASSIGN(const bool left, node.boolean("left", true));
  DTR_ASSIGN(const bool unit, node.boolean("unitriangular", false));
  if (!left) {
    DTR_ASSIGN(triangle, compositions::transposed(node, triangle));
    DTR_ASSIGN(right, compositions::transposed(node, right));
    upper = !upper;
  }
  DTR_ASSIGN(const ValueId result,
             compositions::solve_triangle(node, triangle, right, {.upper = upper, .unit = unit}));
  return one(left ? Result<ValueId>(result) : compositions::transposed(node, result));
}
// Its older form, which gives the triangle too.
Result<Values> triangular_solve(NodeImport& node) {
  DTR_ASSIGN(const ValueId right, node.tensor("self"));
  DTR_ASSIGN(const ValueId triangle, node.tensor("A"));
  DTR_ASSIGN(const bool upper, node.boolean("upper", true));
  DTR_ASSIGN(const bool turns, node.boolean("transpose", false));
  DTR_ASSIGN(const bool unit, node.boolean("unitriangular", false));
  ValueId used = triangle;
  if (turns) {
    DTR_ASSIGN(used, compositions::transposed(node, triangle));
  }
  DTR_ASSIGN(const ValueId result, compositions::solve_triangle(
                                       node, used, right, {.upper = upper != turns, .unit = unit}));
  return Values{result, triangle};
}

Result<Values> orthogonal(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_of(node));
  DTR_ASSIGN(std::string_view mode, node.string("mode", "reduced"));
  DTR_ASSIGN(const bool some, node.boolean("some", true));
  if (!some) mode = "complete";
  const Shape shape = node.type(matrix).shape;
  if (shape.size() < 2) return node.unsupported("a matrix without columns");
  const int64_t height = shape[shape.size() - 2];
  const int64_t count = mode == "complete" ? height : std::min(height, shape.back());
  DTR_ASSIGN(const auto made, compositions::orthogonalize(node, matrix, count, mode != "r"));
  if (made.q.valid()) return Values{made.q, made.r};
  DTR_ASSIGN(const ValueId none, node.constant(node.type(matrix).dtype, {0}, 0, "none"));
  return Values{none, made.r};
}

Result<Values> exponential_of_matrix(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_of(node));
  return one(compositions::exponential(node, matrix));
}

}  // namespace

std::vector<Operator> factorization_operators() {
  const auto row = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, "aten.div.Tensor", build);
  };
  return {
      row("aten._linalg_det.default", exact<determinant>),
      row("aten._linalg_slogdet.default", exact<signed_logarithm>),
      row("aten._linalg_solve_ex.default", exact<solve>),
      row("aten.cholesky.default", exact<cholesky>),
      row("aten.cholesky_inverse.default", exact<cholesky_inverse>),
      row("aten.cholesky_solve.default", exact<cholesky_solve>),
      row("aten.linalg_cholesky.default", exact<cholesky>),
      row("aten.linalg_cholesky_ex.default", exact<cholesky>),
      row("aten.linalg_det.default", exact<determinant>),
      row("aten.linalg_inv.default", exact<inverse>),
      row("aten.linalg_inv_ex.default", exact<inverse>),
      tensor_row("aten.linalg_matrix_power.default", "aten.matmul", matrix_power),
      row("aten.linalg_qr.default", exact<orthogonal>),
      row("aten.linalg_slogdet.default", exact<signed_logarithm>),
      row("aten.linalg_solve.default", exact<solve>),
      row("aten.linalg_solve_triangular.default", exact<solve_triangular>),
      row("aten.logdet.default", exact<log_determinant>),
      row("aten.matrix_exp.default", exact<exponential_of_matrix>),
      tensor_row("aten.matrix_power.default", "aten.matmul", matrix_power),
      row("aten.qr.default", exact<orthogonal>),
      row("aten.slogdet.default", exact<signed_logarithm>),
      row("aten.triangular_solve.default", exact<triangular_solve>),
  };
}

}  // namespace dtr::pt2
