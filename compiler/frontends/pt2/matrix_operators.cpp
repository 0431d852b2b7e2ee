// linear and equivalent matrix products, batch norm, softmax, normalizations.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// The value is known when the model is compiled: a constant, or computed from constants alone.
bool is_static(const Graph& graph, ValueId value) {
  if (graph.is_constant(value)) return true;
  const OpId op = graph.producer(value);
  if (!op.valid() || graph.op(op).operands.size() != 1) return false;  // dequantize, permute, view
  return is_static(graph, graph.op(op).operands[0]);
}

}  // namespace

Result<ValueId> matrix_product_of(NodeImport& node, ValueId a, ValueId b) {
  const bool whole = !is_float(node.type(a).dtype) && !node.type(a).quantized();
  if (node.type(b).rank() == 2 && node.type(a).rank() >= 1 && is_static(node.graph(), b) &&
      !whole) {
    DTR_ASSIGN(const ValueId weight, node.transposed(b));
    return node.emit("aten.linear", {a, weight});
  }
  const Shape left = node.type(a).shape, right = node.type(b).shape;
  if (left.empty() || right.empty())
    return node.unsupported("a matrix product with a scalar", "multiply with `*`");
  if (left.size() == 1) {
    DTR_ASSIGN(a, node.view(a, {1, left[0]}));
  }
  if (right.size() == 1) {
    DTR_ASSIGN(b, node.view(b, {right[0], 1}));
  }
  DTR_ASSIGN(const ValueId result, compositions::matrix_product(node, a, b));
  Shape shape = node.type(result).shape;
  if (left.size() == 1) shape.erase(shape.end() - 2);
  if (right.size() == 1) shape.pop_back();
  return node.view(result, shape);
}

namespace {

// value · factor.
Result<ValueId> scaled(NodeImport& node, ValueId value, double factor, std::string_view name) {
  if (factor == 1) return value;
  DTR_ASSIGN(const ValueId constant, node.constant(node.type(value).dtype, {}, factor, name));
  return node.emit("aten.mul.Tensor", {value, constant});
}

// beta · self + product, self broadcast.
Result<Values> add_to_self(NodeImport& node, ValueId product) {
  DTR_ASSIGN(ValueId self, node.tensor("self"));
  DTR_ASSIGN(const double beta, node.number("beta", 1));
  if (beta == 0) return Values{product};  // as PyTorch: self is not read then
  DTR_ASSIGN(self, scaled(node, self, beta, "beta"));
  DTR_ASSIGN(const ValueId result, node.emit("aten.add.Tensor", {product, self}));
  return Values{result};
}

// beta · self + alpha · (a · b), self broadcast. With parameters, beta and alpha disappear into
// them and self into the bias of a linear layer where it is one value a column.
Result<Values> add_product(NodeImport& node, std::string_view name_a, std::string_view name_b) {
  DTR_ASSIGN(ValueId bias, node.tensor("self"));
  DTR_ASSIGN(const ValueId a, node.tensor(name_a));
  DTR_ASSIGN(ValueId b, node.tensor(name_b));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const double beta, node.number("beta", 1));
  const Shape shape = node.type(b).shape;
  const bool fixed = is_static(node.graph(), b) && is_float(node.type(b).dtype);
  if (fixed && beta != 0 && shape.size() == 2) {
    const int64_t columns = shape[1];
    const Shape bias_shape = node.type(bias).shape;
    if (bias_shape == Shape{columns} || bias_shape == Shape{1, columns}) {
      DTR_ASSIGN(bias, node.view(bias, {columns}));
      DTR_ASSIGN(bias, scaled(node, bias, beta, "beta"));
      // The product follows: a permute of codes is folded into them at once, their scales later.
      DTR_ASSIGN(ValueId weight, node.transposed(b));
      DTR_ASSIGN(weight, scaled(node, weight, alpha, "alpha"));
      DTR_ASSIGN(const ValueId result, node.emit("aten.linear", {a, weight, bias}));
      return Values{result};
    }
  }
  if (fixed) {
    DTR_ASSIGN(b, scaled(node, b, alpha, "alpha"));
  }
  DTR_ASSIGN(ValueId result, matrix_product_of(node, a, b));
  if (!fixed) {
    DTR_ASSIGN(result, scaled(node, result, alpha, "alpha"));
  }
  return add_to_self(node, result);
}
Result<Values> addmm(NodeImport& node) { return add_product(node, "mat1", "mat2"); }
Result<Values> baddbmm(NodeImport& node) { return add_product(node, "batch1", "batch2"); }
Result<Values> addmv(NodeImport& node) { return add_product(node, "mat", "vec"); }

// With the product of a column and a row, or the sum of the products of a batch.
Result<Values> addr(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.tensor("vec1"));
  DTR_ASSIGN(const ValueId b, node.tensor("vec2"));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const ValueId column, node.view(a, {node.type(a).elements(), 1}));
  DTR_ASSIGN(ValueId outer, node.emit("aten.mul.Tensor", {column, b}));
  DTR_ASSIGN(outer, scaled(node, outer, alpha, "alpha"));
  return add_to_self(node, outer);
}
Result<Values> addbmm(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.tensor("batch1"));
  DTR_ASSIGN(const ValueId b, node.tensor("batch2"));
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const ValueId products, compositions::matrix_product(node, a, b));
  DTR_ASSIGN(ValueId sum,
             node.emit("aten.sum.dim_IntList", {products}, {{"dim", Ints{0}}, {"keepdim", false}}));
  DTR_ASSIGN(sum, scaled(node, sum, alpha, "alpha"));
  return add_to_self(node, sum);
}

template <class Name>
Result<Values> product_with(NodeImport& node, Name other) {
  DTR_ASSIGN(const ValueId a, node.tensor("self"));
  DTR_ASSIGN(const ValueId b, node.tensor(other));
  DTR_ASSIGN(const ValueId result, matrix_product_of(node, a, b));
  return Values{result};
}
Result<Values> mm(NodeImport& node) { return product_with(node, "mat2"); }
Result<Values> mv(NodeImport& node) { return product_with(node, "vec"); }
Result<Values> dot(NodeImport& node) { return product_with(node, "tensor"); }
Result<Values> vdot(NodeImport& node) { return product_with(node, "other"); }
Result<Values> matmul(NodeImport& node) { return product_with(node, "other"); }

// x · weightᵀ + bias; a weight that is computed makes it a matmul, a vector a product with it.
Result<Values> linear(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId weight, node.tensor("weight"));
  if (node.type(weight).rank() == 1) {
    DTR_ASSIGN(ValueId sums, matrix_product_of(node, x, weight));
    DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
    if (bias.valid()) {
      DTR_ASSIGN(sums, node.emit("aten.add.Tensor", {sums, bias}));
    }
    return Values{sums};
  }
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  const bool whole = !is_float(node.type(x).dtype) && !node.type(x).quantized();
  if (!whole && is_static(node.graph(), weight) &&
      (!bias.valid() || is_static(node.graph(), bias))) {
    Values operands{x, weight};
    if (bias.valid()) operands.push_back(bias);
    DTR_ASSIGN(const ValueId result, node.emit("aten.linear", std::move(operands)));
    return Values{result};
  }
  DTR_ASSIGN(const ValueId right, node.transposed(weight));
  DTR_ASSIGN(ValueId result, matrix_product_of(node, x, right));
  if (bias.valid()) {
    DTR_ASSIGN(result, node.emit("aten.add.Tensor", {result, bias}));
  }
  return Values{result};
}

// By the moments of the batch itself, as models standardize their weights.
Result<Values> normalize_batch(NodeImport& node, ValueId x, ValueId weight, ValueId bias) {
  DTR_ASSIGN(const double eps, node.number("eps"));
  const Shape shape = node.type(x).shape;
  if (shape.size() < 2)
    return node.unsupported(fmt::format("an input of shape {} has no channels", to_string(shape)));
  Ints dims;
  for (size_t d = 0; d < shape.size(); ++d)
    if (d != 1) dims.push_back(static_cast<int64_t>(d));
  DTR_ASSIGN(const ValueId mean,
             node.emit("aten.mean.dim", {x}, {{"dim", dims}, {"keepdim", true}}));
  DTR_ASSIGN(ValueId spread, compositions::variance(node, x, {mean, dims, true, 0, false}));
  DTR_ASSIGN(const ValueId least, node.constant(node.type(x).dtype, {}, eps, "eps"));
  DTR_ASSIGN(spread, node.emit("aten.add.Tensor", {spread, least}));
  DTR_ASSIGN(spread, node.emit("aten.rsqrt", {spread}));
  DTR_ASSIGN(ValueId result, node.emit("aten.sub.Tensor", {x, mean}));
  DTR_ASSIGN(result, node.emit("aten.mul.Tensor", {result, spread}));
  Shape channels(shape.size() - 1, 1);
  channels[0] = shape[1];
  for (const auto& [gain, op] : {std::pair{weight, "aten.mul.Tensor"}, {bias, "aten.add.Tensor"}}) {
    if (!gain.valid()) continue;
    DTR_ASSIGN(const ValueId each, node.view(gain, channels));
    DTR_ASSIGN(result, node.emit(op, {result, each}));
  }
  return Values{result};
}

Result<Values> batch_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  DTR_ASSIGN(const bool training, node.boolean("training", false));
  if (training && !node.has("running_mean")) return normalize_batch(node, x, weight, bias);
  if (training)
    return node.unsupported("batch normalization in training mode",
                            "call model.eval() before the export");
  if (!node.has("running_mean") || !node.has("running_var"))
    return node.unsupported("batch normalization without running statistics",
                            "create the module with track_running_stats=True");
  DTR_ASSIGN(const ValueId mean, node.tensor("running_mean"));
  DTR_ASSIGN(const ValueId variance, node.tensor("running_var"));
  DTR_ASSIGN(const double eps, node.number("eps"));
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.batch_norm", {x, weight, bias, mean, variance}, {{"eps", eps}}));
  return Values{result};
}

Result<Values> layer_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  DTR_ASSIGN(const Ints shape, node.ints("normalized_shape"));
  DTR_ASSIGN(const double eps, node.number("eps", 1e-5));
  DTR_ASSIGN(const ValueId result, node.emit("aten.layer_norm", {x, weight, bias},
                                             {{"normalized_shape", shape}, {"eps", eps}}));
  return Values{result};
}

Result<Values> rms_norm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_ASSIGN(const Ints shape, node.ints("normalized_shape"));
  DTR_ASSIGN(const double eps, node.number("eps", 0x1p-23));  // None: the epsilon of float32
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.rms_norm", {x, weight}, {{"normalized_shape", shape}, {"eps", eps}}));
  return Values{result};
}

Result<Values> emit_group_norm(NodeImport& node, ValueId x, int64_t groups) {
  DTR_ASSIGN(const ValueId weight, node.optional_tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  DTR_ASSIGN(const double eps, node.number("eps", 1e-5));
  DTR_ASSIGN(const ValueId result, node.emit("aten.group_norm", {x, weight, bias},
                                             {{"num_groups", groups}, {"eps", eps}}));
  return Values{result};
}

// Sums over pairs of dimensions: a product of matrices.
Result<Values> tensordot(NodeImport& node) {
  DTR_ASSIGN(ValueId a, node.tensor("self"));
  DTR_ASSIGN(ValueId b, node.tensor("other"));
  const auto matrix = [&](ValueId x, std::string_view argument, bool sums_first,
                          Shape& free) -> Result<ValueId> {
    const auto rank = static_cast<int64_t>(node.type(x).rank());
    const Shape shape = node.type(x).shape;
    DTR_ASSIGN(Ints sums, node.ints(argument));
    for (int64_t& dim : sums) {
      if (dim < 0) dim += rank;
      if (dim < 0 || dim >= rank || std::ranges::count(sums, dim) != 1)
        return node.unsupported(
            fmt::format("`{}` is [{}], the rank is {}", argument, fmt::join(sums, ", "), rank));
    }
    Ints order;
    int64_t inner = 1;
    for (const int64_t dim : sums) inner *= shape[static_cast<size_t>(dim)];
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (std::ranges::find(sums, dim) != sums.end()) continue;
      order.push_back(dim);
      free.push_back(shape[static_cast<size_t>(dim)]);
    }
    const int64_t rest =
        element_count(Shape(free.end() - static_cast<std::ptrdiff_t>(order.size()), free.end()));
    order.insert(sums_first ? order.begin() : order.end(), sums.begin(), sums.end());
    DTR_ASSIGN(x, node.permute(x, order));
    return node.view(x, sums_first ? Shape{inner, rest} : Shape{rest, inner});
  };
  Shape shape;
  DTR_ASSIGN(a, matrix(a, "dims_self", false, shape));
  DTR_ASSIGN(b, matrix(b, "dims_other", true, shape));
  DTR_ASSIGN(const ValueId sums, matrix_product_of(node, a, b));
  DTR_ASSIGN(const ValueId result, node.view(sums, shape));
  return Values{result};
}

template <class Name>
Result<Values> group_norm_of(NodeImport& node, Name groups_argument) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const int64_t groups, node.integer(groups_argument));
  for (const std::string_view repeated :
       {"N", "C", "HxW"}) {  // of native_group_norm: what the shape says
    DTR_TRY(node.integer(repeated, 0));
  }
  return emit_group_norm(node, x, groups);
}
Result<Values> group_norm(NodeImport& node) { return group_norm_of(node, "num_groups"); }
Result<Values> native_group_norm(NodeImport& node) { return group_norm_of(node, "group"); }

// Each channel is a group of its own; with running statistics it is a batch norm.
Result<Values> instance_norm(NodeImport& node) {
  DTR_ASSIGN(const bool own_statistics, node.boolean("use_input_stats"));
  if (!own_statistics) return batch_norm(node);
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  if (node.type(x).rank() < 2)
    return node.unsupported(fmt::format("the input has shape {}, which has no channels",
                                        to_string(node.type(x).shape)));
  return emit_group_norm(node, x, node.type(x).shape[1]);
}

// The statistics of the batch itself: run_decompositions() makes this of instance norms, whose
// samples it makes channels of one.
Result<Values> norm_of_batch(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_TRY(node.boolean("training", true));
  const Shape shape = node.type(x).shape;
  if (shape.size() < 2 || shape[0] != 1)
    return node.unsupported("it normalizes with the statistics of the batch",
                            "export model.eval(), with running statistics");
  return emit_group_norm(node, x, shape[1]);
}

template <class Op>
Result<Values> softmax_as(NodeImport& node, Op op) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  DTR_ASSIGN(const bool half_to_float, node.boolean("half_to_float", false));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  if (half_to_float)
    return node.unsupported(
        fmt::format("it converts its input from {} first", name(node.type(x).dtype)),
        "leave out the dtype");
  DTR_ASSIGN(const ValueId result, node.emit(op, {x}, {{"dim", dim}}));
  return Values{result};
}
Result<Values> softmax(NodeImport& node) { return softmax_as(node, "aten.softmax"); }
Result<Values> log_softmax(NodeImport& node) { return softmax_as(node, "aten.log_softmax"); }

}  // namespace

std::vector<Operator> matrix_operators() {
  return {
      {.target = "aten.linear.default", .op = "aten.linear", .build = linear},
      {.target = "aten.mm.default", .op = "aten.matmul", .build = mm},
      {.target = "aten.addbmm.default", .op = "aten.matmul", .build = addbmm},
      {.target = "aten.addmm.default", .op = "aten.linear", .build = addmm},
      {.target = "aten.addmv.default", .op = "aten.matmul", .build = addmv},
      {.target = "aten.addr.default", .op = "aten.mul.Tensor", .build = addr},
      {.target = "aten.baddbmm.default", .op = "aten.matmul", .build = baddbmm},
      {.target = "aten.matmul.default", .op = "aten.matmul", .build = matmul},
      {.target = "aten.bmm.default", .op = "aten.matmul", .build = mm},
      {.target = "aten.mv.default", .op = "aten.matmul", .build = mv},
      {.target = "aten.dot.default", .op = "aten.matmul", .build = dot},
      {.target = "aten.vdot.default", .op = "aten.matmul", .build = vdot},
      {.target = "aten.tensordot.default", .op = "aten.matmul", .build = tensordot},
      {.target = "aten.batch_norm.default", .op = "aten.batch_norm", .build = batch_norm},
      {.target = "aten._native_batch_norm_legit_no_training.default",
       .op = "aten.batch_norm",
       .build = batch_norm},
      {.target = "aten.layer_norm.default", .op = "aten.layer_norm", .build = layer_norm},
      {.target = "aten.native_layer_norm.default", .op = "aten.layer_norm", .build = layer_norm},
      {.target = "aten.rms_norm.default", .op = "aten.rms_norm", .build = rms_norm},
      {.target = "aten.group_norm.default", .op = "aten.group_norm", .build = group_norm},
      {.target = "aten.native_group_norm.default",
       .op = "aten.group_norm",
       .build = native_group_norm},
      {.target = "aten.instance_norm.default", .op = "aten.group_norm", .build = instance_norm},
      {.target = "aten._native_batch_norm_legit.no_stats",
       .op = "aten.group_norm",
       .build = norm_of_batch},
      {.target = "aten.softmax.int", .op = "aten.softmax", .build = softmax},
      {.target = "aten._softmax.default", .op = "aten.softmax", .build = softmax},
      {.target = "aten.log_softmax.int", .op = "aten.log_softmax", .build = log_softmax},
      {.target = "aten._log_softmax.default", .op = "aten.log_softmax", .build = log_softmax},
  };
}

}  // namespace dtr::pt2
