// Operators that compute indices, or read elements by index.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/norms.h"
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
  if (node.type(table).rank() > 0) DTR_TRY(node.check_indices(indices, node.type(table).shape[0]));
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.index_select", {table, indices}, {{"dim", int64_t{0}}}));
  return Values{result};
}

Result<Values> index_select(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() == 0) return node.unsupported("the tensor is a scalar");
  DTR_TRY(node.check_indices(index, node.type(x).shape[static_cast<size_t>(dim)]));
  DTR_ASSIGN(index, node.view(index, {node.type(index).elements()}));
  DTR_ASSIGN(const ValueId result, node.emit("aten.index_select", {x, index}, {{"dim", dim}}));
  return Values{result};
}

// x[:, index], x[a, b]: one tensor of indices, or several. Negative ones count from the end.
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
  const int64_t extent = node.type(x).shape[static_cast<size_t>(*dim)];
  DTR_ASSIGN(ValueId whole, node.wrap_negative_indices(at, extent));
  DTR_ASSIGN(whole, compositions::from_front(node, whole, extent));
  DTR_ASSIGN(const ValueId result, node.emit("aten.index_select", {x, whole}, {{"dim", *dim}}));
  return Values{result};
}

Result<Values> gather(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId index, node.tensor("index"));
  DTR_TRY(node.boolean("sparse_grad", false));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  if (node.type(x).rank() > 0)
    DTR_TRY(node.check_indices(index, node.type(x).shape[static_cast<size_t>(dim)]));
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

// Rows of a table that are longer than allowed, at the length that is. Where only look-ups read the
// table, those of rows that no index names do not matter, so that the table of a constant is one.
Result<Values> embedding_renorm(NodeImport& node) {
  DTR_ASSIGN(const ValueId table, node.tensor("self"));
  DTR_ASSIGN(const ValueId indices, node.tensor("indices"));
  DTR_ASSIGN(const double most, node.number("max_norm"));
  DTR_ASSIGN(const double order, node.number("norm_type", 2));
  const Shape shape = node.type(table).shape;
  if (shape.size() != 2)
    return node.unsupported(fmt::format("a table of the shape {}", to_string(shape)));
  DTR_ASSIGN(const ValueId lengths, compositions::vector_norm(node, table, order, {1}, true));
  DTR_ASSIGN(const ValueId is_longer, with_number(node, "aten.gt.Tensor", lengths, most));
  DTR_ASSIGN(const ValueId divisor, with_number(node, "aten.add.Tensor", lengths, 1e-7));
  DTR_ASSIGN(const ValueId allowed, number_like(node, lengths, most));
  DTR_ASSIGN(const ValueId unit, number_like(node, lengths, 1));
  DTR_ASSIGN(ValueId factor, node.emit("aten.div.Tensor", {allowed, divisor}));
  DTR_ASSIGN(factor, node.emit("aten.where.self", {is_longer, factor, unit}));
  if (!node.is_read_only_by("aten.embedding.default")) {
    std::vector<double> numbers(static_cast<size_t>(shape[0]));
    std::iota(numbers.begin(), numbers.end(), 0);
    const DType dtype = node.type(indices).dtype;
    DTR_ASSIGN(const ValueId rows, node.GraphBuilder::constant(dtype, numbers, Shape{shape[0], 1}));
    DTR_ASSIGN(const ValueId named, node.view(indices, {1, node.type(indices).elements()}));
    DTR_ASSIGN(ValueId is_named, node.emit("aten.eq.Tensor", {rows, named}));
    DTR_ASSIGN(is_named, node.emit("aten.amax", {is_named}, {{"dim", Ints{1}}, {"keepdim", true}}));
    DTR_ASSIGN(factor, node.emit("aten.where.self", {is_named, factor, unit}));
  }
  return one(node.emit("aten.mul.Tensor", {table, factor}));
}

// ---- bags of embeddings: rows of a table, reduced bag by bag

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };
constexpr int64_t kMostOfBags = int64_t{1} << 22;  // elements of all bags, each with all rows

// The number of rows of every bag if the offsets are known and all bags have as many.
std::optional<int64_t> common_size(const std::vector<double>& starts, int64_t count) {
  const auto bags = static_cast<int64_t>(starts.size());
  if (bags == 0 || count == 0 || count % bags != 0) return std::nullopt;
  const int64_t size = count / bags;
  for (int64_t i = 0; i < bags; ++i)
    if (starts[static_cast<size_t>(i)] != static_cast<double>(i * size)) return std::nullopt;
  return size;
}

// Whether row i, of `count`, is in bag b, from its start to before its end: (bags, count).
Result<ValueId> membership(NodeImport& node, ValueId starts, ValueId ends, int64_t count) {
  const int64_t bags = node.type(starts).elements();
  std::vector<double> places(static_cast<size_t>(count));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<double>(i);
  DTR_ASSIGN(const ValueId rows,
             node.GraphBuilder::constant(DType::kInt64, places, Shape{1, count}));
  DTR_ASSIGN(const ValueId first, node.view(starts, {bags, 1}));
  DTR_ASSIGN(const ValueId end, node.view(ends, {bags, 1}));
  DTR_ASSIGN(const ValueId begun, node.emit("aten.ge.Tensor", {rows, first}));
  DTR_ASSIGN(const ValueId not_over, node.emit("aten.lt.Tensor", {rows, end}));
  return node.emit("aten.logical_and", {begun, not_over});
}

// Rows of bags of one size: (bags, size, width), reduced over the size.
Result<Values> of_one_size(NodeImport& node, ValueId rows, int64_t size, Mode mode) {
  const Shape shape = node.type(rows).shape;
  DTR_ASSIGN(rows, node.view(rows, {shape[0] / size, size, shape[1]}));
  constexpr std::string_view kOps[] = {"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax"};
  return one(node.emit(kOps[mode], {rows}, {{"dim", Ints{1}}, {"keepdim", false}}));
}

// The greatest of each bag, whose rows are known.
Result<Values> greatest(NodeImport& node, ValueId rows, const std::vector<double>& starts) {
  const Shape shape = node.type(rows).shape;
  Values bags;
  for (size_t b = 0; b < starts.size(); ++b) {
    const auto from = static_cast<int64_t>(starts[b]);
    const int64_t to = b + 1 < starts.size() ? static_cast<int64_t>(starts[b + 1]) : shape[0];
    if (from == to) {
      DTR_ASSIGN(bags.emplace_back(),
                 node.constant(node.type(rows).dtype, {1, shape[1]}, 0, "empty"));
      continue;
    }
    DTR_ASSIGN(const ValueId bag, node.slice(rows, 0, from, to));
    DTR_ASSIGN(bags.emplace_back(),
               node.emit("aten.amax", {bag}, {{"dim", Ints{0}}, {"keepdim", true}}));
  }
  return one(node.concatenate(std::move(bags), 0));
}

// The greatest of each bag of the rows that are in it, 0 if there are none. Others are as small as
// the least of all rows.
Result<Values> greatest_of_members(NodeImport& node, ValueId rows, ValueId member) {
  const Shape shape = node.type(rows).shape;
  const int64_t bags = node.type(member).shape[0];
  if (shape[0] * shape[1] > kMostOfBags / bags)
    return node.unsupported(fmt::format("the greatest of {} bags of {} rows", bags, shape[0]),
                            "use bags of one size without padding_idx, or mode='sum'");
  DTR_ASSIGN(const ValueId least,
             node.emit("aten.amin", {rows}, {{"dim", Ints{0, 1}}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId of_bag, node.view(member, {bags, shape[0], 1}));
  DTR_ASSIGN(ValueId chosen, node.emit("aten.where.self", {of_bag, rows, least}));
  DTR_ASSIGN(chosen, node.emit("aten.amax", {chosen}, {{"dim", Ints{1}}, {"keepdim", false}}));
  DTR_ASSIGN(ValueId any, node.cast(member, DType::kFloat32));
  DTR_ASSIGN(any, node.emit("aten.sum.dim_IntList", {any}, {{"dim", Ints{1}}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId zero, node.constant(DType::kFloat32, {}, 0, "zero"));
  DTR_ASSIGN(any, node.emit("aten.gt.Tensor", {any, zero}));
  return one(node.emit("aten.where.self", {any, chosen, zero}));
}

// Sums and means are the product of the membership of rows in bags and the rows.
Result<Values> embedding_bag(NodeImport& node) {
  DTR_ASSIGN(const ValueId table, node.tensor("weight"));
  DTR_ASSIGN(ValueId indices, node.tensor("indices"));
  DTR_ASSIGN(ValueId starts, node.tensor("offsets"));
  DTR_ASSIGN(const int64_t stated_mode, node.integer("mode", 0));
  DTR_ASSIGN(const bool last_offset, node.boolean("include_last_offset", false));
  DTR_ASSIGN(int64_t padding, node.integer("padding_idx", -1));
  DTR_ASSIGN(const ValueId weights, node.optional_tensor("per_sample_weights"));
  for (const std::string_view of_training : {"scale_grad_by_freq", "sparse"})
    DTR_TRY(node.boolean(of_training, false));
  if (stated_mode < kSum || stated_mode > kMax || node.type(table).rank() != 2)
    return node.unsupported(fmt::format("mode {}", stated_mode));
  const auto mode = static_cast<Mode>(stated_mode);
  const int64_t count = node.type(indices).elements();
  DTR_ASSIGN(indices, node.view(indices, {count}));
  const int64_t bags = node.type(starts).elements() - (last_offset ? 1 : 0);
  if (bags < 1 || count == 0) return node.unsupported("it has no bags", "give one index or more");
  DTR_ASSIGN(starts, node.cast(starts, DType::kInt64));
  // The ends of bags are the starts of the next ones. The last one takes all rows that are left,
  // or ends at the last offset. As in PyTorch the greatest is that of all rows that are left even
  // so, and a mean is divided by their number.
  DTR_ASSIGN(const ValueId end,
             node.constant(DType::kInt64, {1}, static_cast<double>(count), "end"));
  DTR_ASSIGN(const ValueId next, node.slice(starts, 0, 1, bags));
  DTR_ASSIGN(const ValueId all_left,
             bags == 1 ? Result<ValueId>(end) : node.concatenate({next, end}, 0));
  ValueId ends = all_left;
  bool takes_all = true;
  if (last_offset) {
    DTR_ASSIGN(ends, node.slice(starts, 0, 1, bags + 1));
    DTR_ASSIGN(starts, node.slice(starts, 0, 0, bags));
    const auto known_ends = node.constant_elements(node.known(ends));
    takes_all = mode == kMax || (known_ends && known_ends->back() == static_cast<double>(count));
  }
  const auto known = node.constant_elements(node.known(starts));
  DTR_TRY(node.check_indices(indices, node.type(table).shape[0]));
  DTR_ASSIGN(ValueId rows, node.emit("aten.index_select", {table, indices}, {{"dim", int64_t{0}}}));
  if (weights.valid()) {
    DTR_ASSIGN(const ValueId factors, node.view(weights, {count, 1}));
    DTR_ASSIGN(rows, node.emit("aten.mul.Tensor", {rows, factors}));
  }
  if (known && takes_all && padding < 0) {
    if (const auto size = common_size(*known, count)) return of_one_size(node, rows, *size, mode);
    if (mode == kMax) return greatest(node, rows, *known);
  }
  DTR_ASSIGN(ValueId member, membership(node, starts, ends, count));
  DTR_ASSIGN(ValueId counted, membership(node, starts, all_left, count));
  if (padding >= 0) {
    DTR_ASSIGN(const ValueId number, node.constant(node.type(indices).dtype, {},
                                                   static_cast<double>(padding), "padding"));
    DTR_ASSIGN(const ValueId counts, node.emit("aten.ne.Tensor", {indices, number}));
    DTR_ASSIGN(member, node.emit("aten.logical_and", {member, counts}));
    DTR_ASSIGN(counted, node.emit("aten.logical_and", {counted, counts}));
  }
  if (mode == kMax) return greatest_of_members(node, rows, counted);
  DTR_ASSIGN(member, node.cast(member, DType::kFloat32));
  if (mode == kMean) {
    DTR_ASSIGN(ValueId sizes, node.cast(counted, DType::kFloat32));
    DTR_ASSIGN(sizes,
               node.emit("aten.sum.dim_IntList", {sizes}, {{"dim", Ints{1}}, {"keepdim", true}}));
    DTR_ASSIGN(const ValueId unit, node.constant(DType::kFloat32, {}, 1, "one"));
    DTR_ASSIGN(sizes, node.emit("aten.maximum", {sizes, unit}));
    DTR_ASSIGN(const ValueId factor, node.emit("aten.reciprocal", {sizes}));
    DTR_ASSIGN(member, node.emit("aten.mul.Tensor", {member, factor}));
  }
  return one(node.emit("aten.matmul", {member, rows}));
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
      tensor_row("aten.embedding_renorm.default", "aten.mul.Tensor", embedding_renorm),
      tensor_row("aten.index.Tensor", "aten.index_select", index),
      tensor_row("aten.index_select.default", "aten.index_select", index_select),
      tensor_row("aten._embedding_bag.default", "aten.index_select", embedding_bag),
      tensor_row("aten._embedding_bag_forward_only.default", "aten.index_select", embedding_bag),
      tensor_row("aten.embedding_bag.default", "aten.index_select", embedding_bag),
      tensor_row("aten.embedding_bag.padding_idx", "aten.index_select", embedding_bag),
  };
}

}  // namespace dtr::pt2
