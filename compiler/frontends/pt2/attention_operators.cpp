// Attention and einsum as the products, softmax and permutations that they stand for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/frontends/pt2/operators.h"

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

// Heads of keys and values that several heads of queries share are a dimension of their own, along which they are repeated.
struct Heads {
  int64_t shared = 1;  // queries' heads of one of keys
  Shape split(Shape shape, bool of_query) const {
    if (shared == 1) return shape;
    const auto head = shape.end() - 3;
    if (of_query) *head /= shared;
    shape.insert(head + 1, of_query ? shared : 1);
    return shape;
  }
};

Result<Heads> heads_of(NodeImport& node, const Shape& query, const Shape& key) {
  DTR_ASSIGN(const bool grouped, node.boolean("enable_gqa", false));
  if (!grouped || query.size() < 3 || key.size() != query.size() || key[key.size() - 3] == query[query.size() - 3]) return Heads{};
  const int64_t of_query = query[query.size() - 3], of_key = key[key.size() - 3];
  if (of_key < 1 || of_query % of_key != 0) return node.unsupported(fmt::format("{} heads of queries share {} of keys", of_query, of_key));
  return Heads{of_query / of_key};
}

// Position i of the queries attends to positions up to i of the keys.
Result<ValueId> causal_mask(NodeImport& node, int64_t queries, int64_t keys) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (queries > kMost || keys > kMost || queries * keys > kMost)
    return node.unsupported(fmt::format("a causal mask of {}x{}", queries, keys), "attend to shorter sequences");
  std::vector<double> attends(static_cast<size_t>(queries * keys));
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j <= i && j < keys; ++j) attends[static_cast<size_t>(i * keys + j)] = 1;
  return node.constant(DType::kBool, attends, Shape{queries, keys});
}

// softmax(query · keyᵀ · scale + mask) · value. A mask of bool says which positions take part, one of floats is added; `mask_softmax` makes
// the first out of the second where it can.
Result<Values> attention(NodeImport& node) {
  DTR_ASSIGN(ValueId query, node.tensor("query"));
  DTR_ASSIGN(ValueId key, node.tensor("key"));
  DTR_ASSIGN(ValueId value, node.tensor("value"));
  DTR_ASSIGN(ValueId mask, node.optional_tensor("attn_mask"));
  DTR_ASSIGN(const double dropout, node.number("dropout_p", 0));
  DTR_ASSIGN(const bool causal, node.boolean("is_causal", false));
  for (const ValueId operand : {query, key, value})
    if (node.type(operand).rank() < 2)
      return node.unsupported(fmt::format("an operand has shape {}, expected a matrix or several", to_string(node.type(operand).shape)));
  const Shape shape = node.type(query).shape;
  DTR_ASSIGN(const Heads heads, heads_of(node, shape, node.type(key).shape));
  DTR_ASSIGN(const double scale, node.number("scale", 1 / std::sqrt(static_cast<double>(shape.back()))));
  if (dropout != 0) return node.unsupported("dropout in attention", "call model.eval() before the export");
  if (causal && mask.valid()) return node.unsupported("a mask and is_causal", "put the causal mask into the mask");
  if (causal) {
    const Shape keys = node.type(key).shape;
    DTR_ASSIGN(mask, causal_mask(node, shape[shape.size() - 2], keys[keys.size() - 2]));
  }
  DTR_ASSIGN(query, node.view(query, heads.split(shape, true)));
  DTR_ASSIGN(key, node.view(key, heads.split(Shape(node.type(key).shape), false)));
  DTR_ASSIGN(value, node.view(value, heads.split(Shape(node.type(value).shape), false)));
  if (mask.valid() && node.type(mask).rank() >= 3) {
    const bool one = node.type(mask).shape[node.type(mask).rank() - 3] == 1;
    DTR_ASSIGN(mask, node.view(mask, heads.split(Shape(node.type(mask).shape), !one)));
  }

  DTR_ASSIGN(const ValueId transposed, adjoint(node, key));
  DTR_ASSIGN(ValueId scores, node.emit("aten.matmul", {query, transposed}));
  if (scale != 1) {
    DTR_ASSIGN(const ValueId factor, node.constant(node.type(scores).dtype, {}, scale, "scale"));
    DTR_ASSIGN(scores, node.emit("aten.mul.Tensor", {scores, factor}));
  }
  Values operands{scores};
  if (mask.valid() && node.type(mask).dtype == DType::kBool) {
    operands.push_back(mask);
  } else if (mask.valid()) {
    DTR_ASSIGN(operands[0], node.emit("aten.add.Tensor", {scores, mask}));
  }
  DTR_ASSIGN(const ValueId weights, node.emit("aten.softmax", operands, {{"dim", static_cast<int64_t>(node.type(scores).rank()) - 1}}));
  DTR_ASSIGN(ValueId result, node.emit("aten.matmul", {weights, value}));
  Shape attended = shape;
  attended.back() = node.type(result).shape.back();
  if (heads.shared != 1) {
    DTR_ASSIGN(result, node.view(result, attended));
  }
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
