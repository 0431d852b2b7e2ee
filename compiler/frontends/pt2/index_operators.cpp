// Operators that compute indices, or read elements by index.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/compositions/indices.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<ValueId> index_of_extreme(NodeImport& node, std::string_view op, bool keepdim) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Attributes attributes{{"keepdim", keepdim}};
  if (node.has("dim")) {
    DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
    attributes.set("dim", dim);
  }
  return node.emit(op, {x}, attributes);
}

template <const char* kOp>
Result<Values> argument_of_extreme(NodeImport& node) {
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId index, index_of_extreme(node, kOp, keepdim));
  return Values{index};
}

// max.dim, min.dim: values and indices.
template <const char* kValue, const char* kIndex>
Result<Values> extreme_with_index(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() == 0) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(const ValueId value,
             node.emit(kValue, {x}, {{"dim", Ints{dim}}, {"keepdim", keepdim}}));
  DTR_ASSIGN(const ValueId index, index_of_extreme(node, kIndex, keepdim));
  return Values{value, index};
}

constexpr char kAmax[] = "aten.amax";
constexpr char kAmin[] = "aten.amin";
constexpr char kArgmax[] = "aten.argmax";
constexpr char kArgmin[] = "aten.argmin";

// What training does with the table does not matter.
Result<Values> embedding(NodeImport& node) {
  DTR_ASSIGN(const ValueId table, node.tensor("weight"));
  DTR_ASSIGN(const ValueId indices, node.tensor("indices"));
  DTR_TRY(node.integer("padding_idx", -1));
  for (const std::string_view of_training : {"scale_grad_by_freq", "sparse"})
    DTR_TRY(node.boolean(of_training, false));
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.index_select", {table, indices}, {{"dim", int64_t{0}}}));
  return Values{result};
}

Result<Values> index_select(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() == 0) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(index, node.view(index, {node.type(index).elements()}));
  DTR_ASSIGN(const ValueId result, node.emit("aten.index_select", {x, index}, {{"dim", dim}}));
  return Values{result};
}

// x[:, index], x[a, b]: one tensor of indices, or several. Negative ones, which count from the end,
// have to be known if there is one.
Result<Values> index(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Values indices, node.optional_tensors("indices"));
  for (const ValueId each : indices)
    if (each.valid() && node.type(each).dtype == DType::kBool)
      return node.unsupported("a mask picks the elements",
                              "keep the shape: torch.where(mask, x, 0), or x * mask");
  std::optional<int64_t> dim;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].valid()) continue;
    if (dim) {
      DTR_ASSIGN(const ValueId picked, compositions::index_by_tensors(node, x, indices));
      return Values{picked};
    }
    dim = static_cast<int64_t>(i);
  }
  if (!dim || *dim >= static_cast<int64_t>(node.type(x).rank()))
    return node.unsupported(
        fmt::format("{} indices for {}", indices.size(), to_string(node.type(x).shape)));
  const ValueId at = indices[static_cast<size_t>(*dim)];
  DTR_ASSIGN(const ValueId whole,
             node.wrap_negative_indices(at, node.type(x).shape[static_cast<size_t>(*dim)]));
  DTR_ASSIGN(const ValueId result, node.emit("aten.index_select", {x, whole}, {{"dim", *dim}}));
  return Values{result};
}

Result<Values> gather(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_TRY(node.boolean("sparse_grad", false));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(const ValueId result, compositions::gather(node, x, dim, index));
  return Values{result};
}

// The greatest or least elements in order, and their indices.
Result<Values> in_order(NodeImport& node, std::optional<int64_t> count, bool greatest) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size(), -1));
  const int64_t all = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  DTR_ASSIGN(const compositions::Extremes found,
             compositions::top(node, x, count.value_or(all), dim, greatest));
  return Values{found.values, found.indices};
}
Result<Values> topk(NodeImport& node) {
  DTR_ASSIGN(const int64_t count, node.integer("k"));
  DTR_ASSIGN(const bool greatest, node.boolean("largest", true));
  DTR_TRY(node.boolean("sorted", true));
  return in_order(node, count, greatest);
}
Result<Values> sort(NodeImport& node) {
  DTR_ASSIGN(const bool descending, node.boolean("descending", false));
  DTR_TRY(node.boolean("stable", false));
  return in_order(node, {}, descending);
}
Result<Values> argsort(NodeImport& node) {
  DTR_ASSIGN(const Values sorted, sort(node));
  return Values{sorted[1]};
}

}  // namespace

std::vector<Operator> index_operators() {
  return {
      tensor_row("aten.argsort.default", kArgmin, argsort),
      tensor_row("aten.argsort.stable", kArgmin, argsort),
      tensor_row("aten.gather.default", "aten.index_select", gather),
      tensor_row("aten.sort.default", kArgmin, sort),
      tensor_row("aten.sort.stable", kArgmin, sort),
      tensor_row("aten.topk.default", kArgmax, topk),
      tensor_row("aten.argmax.default", kArgmax, argument_of_extreme<kArgmax>),
      tensor_row("aten.argmin.default", kArgmin, argument_of_extreme<kArgmin>),
      tensor_row("aten.max.dim", kArgmax, extreme_with_index<kAmax, kArgmax>),
      tensor_row("aten.min.dim", kArgmin, extreme_with_index<kAmin, kArgmin>),
      tensor_row("aten.embedding.default", "aten.index_select", embedding),
      tensor_row("aten.index.Tensor", "aten.index_select", index),
      tensor_row("aten.index_select.default", "aten.index_select", index_select),
  };
}

}  // namespace dtr::pt2
