#include "compiler/compositions/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace dtr::compositions {
namespace {

// The last two dimensions exchanged.
Result<ValueId> adjoint(GraphBuilder& builder, ValueId value) {
  const auto rank = static_cast<int64_t>(builder.type(value).rank());
  Ints dims;
  for (int64_t d = 0; d + 2 < rank; ++d) dims.push_back(d);
  dims.insert(dims.end(), {rank - 1, rank - 2});
  return builder.permute(value, dims);
}

// Heads of keys and values that several heads of queries share are a dimension of their own, along
// which they are repeated.
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

Result<Heads> heads_of(GraphBuilder& builder, const Shape& query, const Shape& key) {
  if (query.size() < 3 || key.size() != query.size() ||
      key[key.size() - 3] == query[query.size() - 3])
    return Heads{};
  const int64_t of_query = query[query.size() - 3], of_key = key[key.size() - 3];
  if (of_key < 1 || of_query % of_key != 0)
    return builder.unsupported(
        fmt::format("{} heads of queries share {} of keys", of_query, of_key));
  return Heads{of_query / of_key};
}

// Position i of the queries attends to positions up to i of the keys.
Result<ValueId> causal_mask(GraphBuilder& builder, int64_t queries, int64_t keys) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (queries > kMost || keys > kMost || queries * keys > kMost)
    return builder.unsupported(fmt::format("a causal mask of {}x{}", queries, keys),
                               "attend to shorter sequences");
  std::vector<double> attends(static_cast<size_t>(queries * keys));
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j <= i && j < keys; ++j) attends[static_cast<size_t>(i * keys + j)] = 1;
  return builder.constant(DType::kBool, attends, Shape{queries, keys});
}

// `value` with its dimensions in the order of `groups`, each group made one dimension.
Result<ValueId> grouped(GraphBuilder& builder, ValueId value, std::string_view labels,
                        std::initializer_list<std::string_view> groups) {
  Ints dims;
  Shape shape;
  for (const std::string_view group : groups) {
    int64_t extent = 1;
    for (const char label : group) {
      const size_t dim = labels.find(label);
      dims.push_back(static_cast<int64_t>(dim));
      extent *= builder.type(value).shape[dim];
    }
    shape.push_back(extent);
  }
  DTR_ASSIGN(const ValueId permuted, builder.permute(value, dims));
  return builder.view(permuted, shape);
}

}  // namespace

Result<ValueId> attention(GraphBuilder& builder, const Attention& of) {
  ValueId query = of.query, key = of.key, value = of.value, mask = of.mask;
  const Shape shape = builder.type(query).shape;
  Heads heads;
  if (of.shares_heads) {
    DTR_ASSIGN(heads, heads_of(builder, shape, builder.type(key).shape));
  }
  const double scale = of.scale.value_or(1 / std::sqrt(static_cast<double>(shape.back())));
  if (of.causal) {
    const Shape keys = builder.type(key).shape;
    DTR_ASSIGN(mask, causal_mask(builder, shape[shape.size() - 2], keys[keys.size() - 2]));
  }
  DTR_ASSIGN(query, builder.view(query, heads.split(shape, true)));
  DTR_ASSIGN(key, builder.view(key, heads.split(Shape(builder.type(key).shape), false)));
  DTR_ASSIGN(value, builder.view(value, heads.split(Shape(builder.type(value).shape), false)));
  if (mask.valid() && builder.type(mask).rank() >= 3) {
    const bool one = builder.type(mask).shape[builder.type(mask).rank() - 3] == 1;
    DTR_ASSIGN(mask, builder.view(mask, heads.split(Shape(builder.type(mask).shape), !one)));
  }

  DTR_ASSIGN(const ValueId transposed, adjoint(builder, key));
  DTR_ASSIGN(ValueId scores, builder.emit("aten.matmul", {query, transposed}));
  if (scale != 1) {
    DTR_ASSIGN(const ValueId factor,
               builder.constant(builder.type(scores).dtype, {}, scale, "scale"));
    DTR_ASSIGN(scores, builder.emit("aten.mul.Tensor", {scores, factor}));
  }
  std::vector<ValueId> operands{scores};
  if (mask.valid() && builder.type(mask).dtype == DType::kBool) {
    operands.push_back(mask);
  } else if (mask.valid()) {
    DTR_ASSIGN(operands[0], builder.emit("aten.add.Tensor", {scores, mask}));
  }
  DTR_ASSIGN(const ValueId weights,
             builder.emit("aten.softmax", operands,
                          {{"dim", static_cast<int64_t>(builder.type(scores).rank()) - 1}}));
  DTR_ASSIGN(ValueId result, builder.emit("aten.matmul", {weights, value}));
  Shape attended = shape;
  attended.back() = builder.type(result).shape.back();
  if (heads.shared != 1) {
    DTR_ASSIGN(result, builder.view(result, attended));
  }
  return result;
}

Result<ValueId> einsum(GraphBuilder& builder, std::string_view text,
                       const std::vector<ValueId>& operands) {
  std::string equation(text);
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->"), comma = equation.find(',');
  const auto refuse = [&] {
    return builder.unsupported(
        fmt::format("the equation `{}` is none that one matrix product computes", text),
        "write it as one or two operands, a result, each letter at most once in each of them");
  };
  if (arrow == std::string::npos || operands.empty() || operands.size() > 2 ||
      (operands.size() == 2) != (comma != std::string::npos))
    return refuse();
  const std::string result = equation.substr(arrow + 2);
  const std::string left = equation.substr(0, std::min(comma, arrow));
  const std::string right =
      operands.size() == 2 ? equation.substr(comma + 1, arrow - comma - 1) : std::string();
  const auto in = [](const std::string& labels, char label) {
    return labels.find(label) != std::string::npos;
  };
  for (const std::string* labels : {&left, &right, &result})
    for (const char label : *labels)
      if (std::isalpha(static_cast<unsigned char>(label)) == 0 ||
          std::ranges::count(*labels, label) != 1)
        return refuse();
  for (const char label : result)
    if (!in(left, label) && !in(right, label)) return refuse();
  if (left.size() != builder.type(operands[0]).rank() ||
      (operands.size() == 2 && right.size() != builder.type(operands[1]).rank()))
    return refuse();

  std::string batch, rows, columns, inner;
  for (const char label : left)
    (!in(right, label) ? rows : in(result, label) ? batch : inner) += label;
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
      shape.push_back(
          builder.type(operands[from_left ? 0 : 1]).shape[(from_left ? left : right).find(label)]);
    }
    DTR_ASSIGN(const ValueId a, grouped(builder, operands[0], left, {batch, rows, inner}));
    DTR_ASSIGN(const ValueId b, grouped(builder, operands[1], right, {batch, inner, columns}));
    DTR_ASSIGN(product, builder.emit("aten.matmul", {a, b}));
    DTR_ASSIGN(product, builder.view(product, shape));
  }
  Ints dims;
  for (const char label : result)
    dims.push_back(static_cast<int64_t>((operands.size() == 2 ? order : left).find(label)));
  DTR_ASSIGN(product, builder.permute(product, dims));
  return product;
}

}  // namespace dtr::compositions
