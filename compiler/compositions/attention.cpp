#include "compiler/compositions/attention.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace dtr::compositions
