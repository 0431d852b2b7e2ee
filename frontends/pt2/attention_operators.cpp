// Attention and einsum as the products, softmax and permutations that they stand for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// The last two dimensions exchanged.
Result<ValueId> adjoint(NodeImport& node, ValueId value) {
  const auto rank = static_cast<int64_t>(node.type(value).rank());
  Ints dims;
  for (int64_t d = 0; d + 2 < rank; ++d) dims.push_back(d);
  dims.insert(dims.end(), {rank - 1, rank - 2});
  return node.permute(value, dims);
}

// softmax(query · keyᵀ · scale + mask) · value.
Result<Values> attention(NodeImport& node) {
  DTR_ASSIGN(const ValueId query, node.tensor("query"));
  DTR_ASSIGN(const ValueId key, node.tensor("key"));
  DTR_ASSIGN(const ValueId value, node.tensor("value"));
  DTR_ASSIGN(const ValueId mask, node.optional_tensor("attn_mask"));
  DTR_ASSIGN(const double dropout, node.number("dropout_p", 0));
  DTR_ASSIGN(const bool causal, node.boolean("is_causal", false));
  DTR_ASSIGN(const bool grouped, node.boolean("enable_gqa", false));
  const Shape& shape = node.type(query).shape;
  for (const ValueId operand : {query, key, value})
    if (node.type(operand).rank() < 2)
      return node.unsupported(fmt::format("an operand has shape {}, expected a matrix or several", to_string(node.type(operand).shape)));
  DTR_ASSIGN(const double scale, node.number("scale", 1 / std::sqrt(static_cast<double>(shape.back()))));
  if (dropout != 0) return node.unsupported("dropout in attention", "call model.eval() before the export");
  if (grouped)
    return node.unsupported("several heads of queries share a head of keys (enable_gqa)", "repeat the keys' heads before attention");
  if (causal || (mask.valid() && node.type(mask).dtype == DType::kBool))
    return node.unsupported("attention that excludes positions (is_causal, or a mask of bool): no int8 range holds minus infinity",
                            "give a float mask with a finite penalty, such as -16");
  DTR_ASSIGN(const ValueId transposed, adjoint(node, key));
  DTR_ASSIGN(ValueId scores, node.emit("aten.matmul", {query, transposed}));
  if (scale != 1) {
    DTR_ASSIGN(const ValueId factor, node.constant(node.type(scores).dtype, {}, scale, "scale"));
    DTR_ASSIGN(scores, node.emit("aten.mul.Tensor", {scores, factor}));
  }
  if (mask.valid()) {
    DTR_ASSIGN(scores, node.emit("aten.add.Tensor", {scores, mask}));
  }
  DTR_ASSIGN(const ValueId weights, node.emit("aten.softmax", {scores}, {{"dim", static_cast<int64_t>(node.type(scores).rank()) - 1}}));
  DTR_ASSIGN(const ValueId result, node.emit("aten.matmul", {weights, value}));
  return Values{result};
}

// `value` with its dimensions in the order of `groups`, each group made one dimension.
Result<ValueId> grouped(NodeImport& node, ValueId value, std::string_view labels, std::initializer_list<std::string_view> groups) {
  Ints dims;
  Shape shape;
  for (const std::string_view group : groups) {
    int64_t extent = 1;
    for (const char label : group) {
      const size_t dim = labels.find(label);
      dims.push_back(static_cast<int64_t>(dim));
      extent *= node.type(value).shape[dim];
    }
    shape.push_back(extent);
  }
  DTR_ASSIGN(const ValueId permuted, node.permute(value, dims));
  return node.view(permuted, shape);
}

Result<Values> einsum(NodeImport& node) {
  DTR_ASSIGN(const std::string_view text, node.string("equation"));
  DTR_ASSIGN(const Values operands, node.tensors("tensors"));
  std::string equation(text);
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->"), comma = equation.find(',');
  const auto refuse = [&] {
    return node.unsupported(fmt::format("the equation `{}` is none that one matrix product computes", text),
                            "write it as one or two operands, a result, each letter at most once in each of them");
  };
  if (arrow == std::string::npos || operands.empty() || operands.size() > 2 || (operands.size() == 2) != (comma != std::string::npos))
    return refuse();
  const std::string result = equation.substr(arrow + 2);
  const std::string left = equation.substr(0, std::min(comma, arrow));
  const std::string right = operands.size() == 2 ? equation.substr(comma + 1, arrow - comma - 1) : std::string();
  const auto in = [](const std::string& labels, char label) { return labels.find(label) != std::string::npos; };
  for (const std::string* labels : {&left, &right, &result})
    for (const char label : *labels)
      if (std::isalpha(static_cast<unsigned char>(label)) == 0 || std::ranges::count(*labels, label) != 1) return refuse();
  for (const char label : result)
    if (!in(left, label) && !in(right, label)) return refuse();
  if (left.size() != node.type(operands[0]).rank() || (operands.size() == 2 && right.size() != node.type(operands[1]).rank()))
    return refuse();

  std::string batch, rows, columns, inner;
  for (const char label : left) (!in(right, label) ? rows : in(result, label) ? batch : inner) += label;
  for (const char label : right)
    if (!in(left, label)) columns += label;
  for (const char label : rows + columns)
    if (!in(result, label)) return refuse();  // a sum over one operand alone
  const std::string order = batch + rows + columns;
  ValueId product = operands[0];
  if (operands.size() == 2) {
    Shape shape;
    for (const char label : order) {
      const bool from_left = in(left, label);
      shape.push_back(node.type(operands[from_left ? 0 : 1]).shape[(from_left ? left : right).find(label)]);
    }
    DTR_ASSIGN(const ValueId a, grouped(node, operands[0], left, {batch, rows, inner}));
    DTR_ASSIGN(const ValueId b, grouped(node, operands[1], right, {batch, inner, columns}));
    DTR_ASSIGN(product, node.emit("aten.matmul", {a, b}));
    DTR_ASSIGN(product, node.view(product, shape));
  }
  Ints dims;
  for (const char label : result) dims.push_back(static_cast<int64_t>((operands.size() == 2 ? order : left).find(label)));
  DTR_ASSIGN(product, node.permute(product, dims));
  return Values{product};
}

}  // namespace

std::vector<Operator> attention_operators() {
  return {
      {.target = "aten.scaled_dot_product_attention.default", .op = "aten.matmul", .build = attention},
      {.target = "aten.einsum.default", .op = "aten.matmul", .build = einsum},
  };
}

}  // namespace dtr::pt2
