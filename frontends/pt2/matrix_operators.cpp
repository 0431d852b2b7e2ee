// linear and the matrix products that mean it, batch norm, softmax, normalizations.
#include <fmt/format.h>

#include "frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// a · b as linear with b's axes exchanged.
Result<ValueId> product(NodeImport& node, ValueId a, ValueId b, ValueId bias = {}) {
  DTR_ASSIGN(const ValueId weight, node.transposed(b));
  Values operands{a, weight};
  if (bias.valid()) operands.push_back(bias);
  return node.emit("aten.linear", std::move(operands));
}

Result<Values> mm(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.tensor("self"));
  DTR_ASSIGN(const ValueId b, node.tensor("mat2"));
  DTR_ASSIGN(const ValueId result, product(node, a, b));
  return Values{result};
}

// beta · self + alpha · (mat1 · mat2): linear where the bias is one value a column and both factors are 1.
Result<Values> addmm(NodeImport& node) {
  DTR_ASSIGN(ValueId bias, node.tensor("self"));
  DTR_ASSIGN(const ValueId a, node.tensor("mat1"));
  DTR_ASSIGN(const ValueId b, node.tensor("mat2"));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const double beta, node.number("beta", 1));
  if (node.type(b).rank() != 2) return node.unsupported(fmt::format("`mat2` has shape {}", to_string(node.type(b).shape)));
  const int64_t columns = node.type(b).shape[1];
  const Shape shape = node.type(bias).shape;
  if (alpha == 1 && beta == 1 && (shape == Shape{columns} || shape == Shape{1, columns})) {
    DTR_ASSIGN(bias, node.view(bias, {columns}));
    DTR_ASSIGN(const ValueId result, product(node, a, b, bias));
    return Values{result};
  }
  DTR_ASSIGN(ValueId result, product(node, a, b));
  if (alpha != 1) {
    DTR_ASSIGN(const ValueId scale, node.constant(node.type(result).dtype, {}, alpha, "alpha"));
    DTR_ASSIGN(result, node.emit("aten.mul.Tensor", {result, scale}));
  }
  if (beta != 0) {
    DTR_ASSIGN(result, node.emit("aten.add.Tensor", {result, bias}, {{"alpha", beta}}));
  }
  return Values{result};
}

Result<Values> matmul(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.tensor("self"));
  DTR_ASSIGN(const ValueId b, node.tensor("other"));
  const size_t rank_a = node.type(a).rank();
  const size_t rank_b = node.type(b).rank();
  if (rank_b == 2 && rank_a >= 2) {
    DTR_ASSIGN(const ValueId result, product(node, a, b));
    return Values{result};
  }
  if (rank_a != 3 || rank_b != 3) return node.unsupported(fmt::format("operands of rank {} and {}", rank_a, rank_b));
  DTR_ASSIGN(const ValueId result, node.emit("aten.bmm", {a, b}));
  return Values{result};
}

Result<Values> batch_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  DTR_ASSIGN(const bool training, node.boolean("training", false));
  if (training) return node.unsupported("batch normalization in training mode", "call model.eval() before the export");
  if (!node.has("running_mean") || !node.has("running_var"))
    return node.unsupported("batch normalization without running statistics", "create the module with track_running_stats=True");
  DTR_ASSIGN(const ValueId mean, node.tensor("running_mean"));
  DTR_ASSIGN(const ValueId variance, node.tensor("running_var"));
  DTR_ASSIGN(const double eps, node.number("eps"));
  DTR_ASSIGN(const ValueId result, node.emit("aten.batch_norm", {x, weight, bias, mean, variance}, {{"eps", eps}}));
  return Values{result};
}

Result<Values> softmax(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  DTR_ASSIGN(const bool half_to_float, node.boolean("half_to_float", false));
  if (half_to_float || (dtype && *dtype != node.type(x).dtype)) return node.unsupported("softmax that converts its input");
  DTR_ASSIGN(const ValueId result, node.emit("aten.softmax", {x}, {{"dim", dim}}));
  return Values{result};
}

}  // namespace

std::vector<Operator> matrix_operators() {
  return {
      {.target = "aten.linear.default", .op = "aten.linear", .params = {{"input"}, {"weight"}, {"bias", Take::kOptionalTensor}}},
      {.target = "aten.mm.default", .op = "aten.linear", .build = mm},
      {.target = "aten.addmm.default", .op = "aten.linear", .build = addmm},
      {.target = "aten.matmul.default", .op = "aten.linear", .build = matmul},
      {.target = "aten.bmm.default", .op = "aten.bmm", .params = {{"self"}, {"mat2"}}},
      {.target = "aten.batch_norm.default", .op = "aten.batch_norm", .build = batch_norm},
      {.target = "aten._native_batch_norm_legit_no_training.default", .op = "aten.batch_norm", .build = batch_norm},
      {.target = "aten.layer_norm.default",
       .op = "aten.layer_norm",
       .params = {{"input"},
                  {"weight", Take::kOptionalTensor},
                  {"bias", Take::kOptionalTensor},
                  {"normalized_shape", Take::kInts},
                  {"eps", Take::kNumber, 1e-5}}},
      {.target = "aten.softmax.int", .op = "aten.softmax", .build = softmax},
      {.target = "aten._softmax.default", .op = "aten.softmax", .build = softmax},
  };
}

}  // namespace dtr::pt2
