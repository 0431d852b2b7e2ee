// Linear algebra by eigenvalues and singular values: decompositions, pseudoinverses, ranks,
// condition numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/rotations.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<ValueId> matrix_argument(NodeImport& node) {
  for (const std::string_view name : {"A", "self", "input"})
    if (node.has(name)) return node.tensor(name);
  return node.tensor("A");
}

Result<bool> reads_upper(NodeImport& node) {
  DTR_ASSIGN(const std::string_view triangle, node.string("UPLO", "L"));
  return triangle == "U" || triangle == "u";
}

Result<Values> eigen_of_symmetric(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_argument(node));
  DTR_ASSIGN(const bool upper, reads_upper(node));
  DTR_TRY(node.boolean("compute_v", true));
  const bool with_vectors = node.is_read(1);
  DTR_ASSIGN(const auto found, compositions::eigen(node, matrix, upper, with_vectors));
  return with_vectors ? Values{found.values, found.vectors} : Values{found.values};
}

// `transposes`: the vectors on the right are rows.
Result<Values> singular_of(NodeImport& node, bool full, bool transposes) {
  DTR_ASSIGN(const ValueId matrix, matrix_argument(node));
  DTR_ASSIGN(const bool asked, node.boolean("compute_uv", true));
  if (node.has("driver")) {
    DTR_TRY(node.string("driver"));
  }
  const bool with_vectors = asked && (node.is_read(0) || node.is_read(2));
  const Shape& shape = node.type(matrix).shape;
  if (with_vectors && full && shape.size() >= 2 &&
      std::max(shape.back(), shape[shape.size() - 2]) > compositions::kMostSteps)
    return node.unsupported(
        fmt::format("the complete bases of matrices of {}", to_string(shape)),
        "call torch.linalg.svd(x, full_matrices=False), if the first vectors are enough");
  DTR_ASSIGN(auto found, compositions::singular(node, matrix, with_vectors, full));
  if (!with_vectors) {
    // What nobody reads, or torch.svd(compute_uv=False) fills with zeros.
    const Shape left = node.stated_type(0) ? node.stated_type(0)->shape : Shape{0};
    const Shape right = node.stated_type(2) ? node.stated_type(2)->shape : Shape{0};
    const DType dtype = node.type(found.values).dtype;
    DTR_ASSIGN(const ValueId u, node.constant(dtype, left, 0, "none"));
    DTR_ASSIGN(const ValueId v, node.constant(dtype, right, 0, "none"));
    return Values{u, found.values, v};
  }
  if (transposes) {
    DTR_ASSIGN(found.right, compositions::transposed(node, found.right));
  }
  return Values{found.left, found.values, found.right};
}
Result<Values> singular(NodeImport& node) {
  const bool decomposed = node.node().target.find("_linalg_svd") != std::string_view::npos;
  DTR_ASSIGN(const bool full, node.boolean("full_matrices", !decomposed));
  return singular_of(node, full, true);
}
Result<Values> old_singular(NodeImport& node) {
  DTR_ASSIGN(const bool some, node.boolean("some", true));
  return singular_of(node, !some, false);
}
Result<Values> singular_values(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_argument(node));
  if (node.has("driver")) {
    DTR_TRY(node.string("driver"));
  }
  DTR_ASSIGN(const auto found, compositions::singular(node, matrix, false, false));
  return Values{found.values};
}

// A tolerance as (…, 1, 1); invalid if there is none, or an absolute one of 0, which PyTorch takes
// for none.
Result<ValueId> tolerance(NodeImport& node, std::string_view name, ValueId like) {
  if (!node.has(name)) return ValueId{};
  if (!node.has_tensor(name)) {
    DTR_ASSIGN(const double number, node.number(name));
    if (name == "atol" && !(number > 0)) return ValueId{};
    return number_like(node, like, number);
  }
  DTR_ASSIGN(ValueId value, node.tensor(name));
  DTR_ASSIGN(value, node.cast(value, node.type(like).dtype));
  Shape shape = node.type(value).shape;
  shape.insert(shape.end(), {1, 1});
  return node.view(value, shape);
}
struct Tolerances {
  ValueId absolute, relative;
};
// As PyTorch has them: the relative one is zero where only an absolute one is given.
Result<Tolerances> tolerances(NodeImport& node, ValueId like) {
  Tolerances result;
  DTR_ASSIGN(result.absolute, tolerance(node, node.has("tol") ? "tol" : "atol", like));
  DTR_ASSIGN(result.relative, tolerance(node, node.has("rcond") ? "rcond" : "rtol", like));
  if (result.absolute.valid() && !result.relative.valid()) {
    DTR_ASSIGN(result.relative, number_like(node, like, 0));
  }
  return result;
}
// The matrix; of a Hermitian one that which its lower triangle says.
Result<ValueId> maybe_hermitian(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_argument(node));
  DTR_ASSIGN(const bool hermitian, node.boolean("hermitian", false));
  return hermitian ? compositions::symmetric(node, matrix, false) : Result<ValueId>(matrix);
}

Result<Values> pseudo_inverse(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, maybe_hermitian(node));
  DTR_ASSIGN(Tolerances bounds, tolerances(node, matrix));
  if (node.node().target.ends_with("pinverse.default") && !bounds.relative.valid()) {
    DTR_ASSIGN(bounds.relative, number_like(node, matrix, 1e-15));
  }
  return one(compositions::pseudo_inverse(node, matrix, bounds.absolute, bounds.relative));
}

// How many singular values, or absolute eigenvalues, are above the tolerance.
Result<Values> rank_of(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, maybe_hermitian(node));
  DTR_ASSIGN(const Tolerances bounds, tolerances(node, matrix));
  const Shape shape = node.type(matrix).shape;
  DTR_ASSIGN(const auto found, compositions::singular(node, matrix, false, false));
  const auto last = static_cast<int64_t>(node.type(found.values).rank()) - 1;
  DTR_ASSIGN(ValueId bound,
             node.emit("aten.amax", {found.values}, {{"dim", Ints{last}}, {"keepdim", true}}));
  const auto as_row = [&](ValueId tolerance) -> Result<ValueId> {
    Shape row = node.type(tolerance).shape;
    if (row.empty()) return tolerance;
    row.pop_back();
    return node.view(tolerance, row);
  };
  ValueId relative;
  if (bounds.relative.valid()) {
    DTR_ASSIGN(relative, as_row(bounds.relative));
  } else {
    DTR_ASSIGN(relative, number_like(node, matrix, compositions::default_tolerance(shape)));
  }
  DTR_ASSIGN(bound, node.emit("aten.mul.Tensor", {bound, relative}));
  if (bounds.absolute.valid()) {
    DTR_ASSIGN(const ValueId absolute, as_row(bounds.absolute));
    DTR_ASSIGN(bound, node.emit("aten.maximum", {bound, absolute}));
  }
  DTR_ASSIGN(const ValueId counts, node.emit("aten.gt.Tensor", {found.values, bound}));
  return one(
      node.emit("aten.sum.dim_IntList", {counts}, {{"dim", Ints{last}}, {"keepdim", false}}));
}

// The greatest singular value over the least, or the other way round for p = -2.
Result<Values> condition(NodeImport& node) {
  DTR_ASSIGN(const ValueId matrix, matrix_argument(node));
  DTR_ASSIGN(const double order, node.number("p", 2));
  if (std::abs(order) != 2)
    return node.unsupported(fmt::format("the condition number of order {}", order),
                            "torch.linalg.norm(A, p) * torch.linalg.norm(torch.linalg.inv(A), p)");
  DTR_ASSIGN(const auto found, compositions::singular(node, matrix, false, false));
  const auto last = static_cast<int64_t>(node.type(found.values).rank()) - 1;
  const Attributes along{{"dim", Ints{last}}, {"keepdim", false}};
  DTR_ASSIGN(const ValueId greatest, node.emit("aten.amax", {found.values}, along));
  DTR_ASSIGN(const ValueId least, node.emit("aten.amin", {found.values}, along));
  return one(
      node.emit("aten.div.Tensor", order > 0 ? Values{greatest, least} : Values{least, greatest}));
}

}  // namespace

Result<ValueId> norm_of_singular_values(NodeImport& node, ValueId matrices, SingularNorm norm) {
  const GraphBuilder::KeepsFloat kept(node);
  DTR_ASSIGN(const auto found, compositions::singular(node, matrices, false, false));
  const auto last = static_cast<int64_t>(node.type(found.values).rank()) - 1;
  const std::string_view op = norm == SingularNorm::kGreatest ? "aten.amax"
                              : norm == SingularNorm::kLeast  ? "aten.amin"
                                                              : "aten.sum.dim_IntList";
  return node.emit(op, {found.values}, {{"dim", Ints{last}}, {"keepdim", false}});
}

std::vector<Operator> spectral_operators() {
  const auto row = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, "aten.div.Tensor", build);
  };
  return {
      row("aten._linalg_eigh.default", exact<eigen_of_symmetric>),
      row("aten._linalg_svd.default", exact<singular>),
      row("aten.linalg_cond.default", exact<condition>),
      row("aten.linalg_eigh.default", exact<eigen_of_symmetric>),
      row("aten.linalg_eigvalsh.default", exact<eigen_of_symmetric>),
      row("aten.linalg_matrix_rank.atol_rtol_float", exact<rank_of>),
      row("aten.linalg_matrix_rank.atol_rtol_tensor", exact<rank_of>),
      row("aten.linalg_matrix_rank.default", exact<rank_of>),
      row("aten.linalg_matrix_rank.tol_tensor", exact<rank_of>),
      row("aten.linalg_pinv.atol_rtol_float", exact<pseudo_inverse>),
      row("aten.linalg_pinv.atol_rtol_tensor", exact<pseudo_inverse>),
      row("aten.linalg_pinv.default", exact<pseudo_inverse>),
      row("aten.linalg_pinv.rcond_tensor", exact<pseudo_inverse>),
      row("aten.linalg_svd.default", exact<singular>),
      row("aten.linalg_svdvals.default", exact<singular_values>),
      row("aten.pinverse.default", exact<pseudo_inverse>),
      row("aten.svd.default", exact<old_singular>),
  };
}

}  // namespace dtr::pt2
