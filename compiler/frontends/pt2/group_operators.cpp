// Operators on groups of rows whose borders an input gives: products with a matrix for each group,
// as layers of experts make them, and reductions. Shapes are known, borders are not: every group
// computes all rows, and masks choose.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// The numbers of `count` rows, in the shape that broadcasts.
Result<ValueId> row_numbers(NodeImport& node, DType dtype, int64_t count, const Shape& shape) {
  std::vector<double> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return node.GraphBuilder::constant(dtype, numbers, shape);
}

// Matrix `index` of several.
Result<ValueId> matrix_at(NodeImport& node, ValueId matrices, int64_t index) {
  const Shape shape = node.type(matrices).shape;
  DTR_ASSIGN(const ValueId found, node.slice(matrices, 0, index, index + 1));
  return node.view(found, {shape[1], shape[2]});
}

// Groups of rows of `a`, of columns of `b`, or of what both are summed over; each ends where
// `ends`, which rise, says.
class GroupedProduct {
 public:
  GroupedProduct(NodeImport& node, ValueId a, ValueId b, ValueId ends)
      : node_(node), a_(a), b_(b), ends_(ends), count_(node.type(ends).elements()) {}

  Result<ValueId> rows_of_a() { return chosen(node_.type(a_).shape[0], true); }
  Result<ValueId> columns_of_b() { return chosen(node_.type(b_).shape[1], false); }
  Result<ValueId> sums() {
    const int64_t inner = node_.type(a_).shape[1];
    DTR_ASSIGN(const ValueId places, row_numbers(node_, node_.type(ends_).dtype, inner, {inner}));
    DTR_ASSIGN(const ValueId zero, number_like(node_, a_, 0));
    Values products;
    ValueId before;  // where groups in front of this one are
    for (int64_t group = 0; group < count_; ++group) {
      DTR_ASSIGN(const ValueId to_here, is_before_end(places, group));
      DTR_ASSIGN(ValueId own, node_.emit("aten.where.self", {to_here, a_, zero}));
      if (before.valid()) {
        DTR_ASSIGN(own, node_.emit("aten.where.self", {before, zero, own}));
      }
      DTR_ASSIGN(ValueId product, compositions::matrix_product(node_, own, b_));
      const Shape shape = node_.type(product).shape;
      DTR_ASSIGN(product, node_.view(product, {1, shape[0], shape[1]}));
      products.push_back(product);
      before = to_here;
    }
    return node_.concatenate(products, 0);
  }

 private:
  Result<ValueId> is_before_end(ValueId places, int64_t group) {
    DTR_ASSIGN(const ValueId end, node_.slice(ends_, 0, group, group + 1));
    return node_.emit("aten.lt.Tensor", {places, end});
  }

  // From the last group to the first: a place belongs to the first group that ends behind it.
  Result<ValueId> chosen(int64_t extent, bool rows) {
    DTR_ASSIGN(const ValueId places, row_numbers(node_, node_.type(ends_).dtype, extent,
                                                 rows ? Shape{extent, 1} : Shape{extent}));
    ValueId result;
    for (int64_t group = count_; group-- > 0;) {
      ValueId left = a_, right = b_;
      DTR_ASSIGN((rows ? right : left), matrix_at(node_, rows ? b_ : a_, group));
      DTR_ASSIGN(const ValueId product, matrix_product_of(node_, left, right));
      if (!result.valid()) {
        DTR_ASSIGN(result, number_like(node_, product, 0));
      }
      DTR_ASSIGN(const ValueId here, is_before_end(places, group));
      DTR_ASSIGN(result, node_.emit("aten.where.self", {here, product, result}));
    }
    return result;
  }

  NodeImport& node_;
  ValueId a_, b_, ends_;
  int64_t count_;
};

// What lies behind the last group, which PyTorch does not write, is zero.
Result<Values> grouped_product(NodeImport& node) {
  const bool own = node.has("self");
  DTR_ASSIGN(const ValueId a, node.tensor(own ? "self" : "input"));
  DTR_ASSIGN(const ValueId b, node.tensor(own ? "mat2" : "weight"));
  DTR_ASSIGN(const ValueId ends, node.optional_tensor("offs"));
  DTR_TRY(node.dtype("out_dtype"));
  if (node.has("bias"))
    return node.unsupported("a product of groups with a bias", "add the bias behind it");
  const Shape left = node.type(a).shape, right = node.type(b).shape;
  const bool fits = left.size() >= 2 && left.size() <= 3 && right.size() >= 2 &&
                    right.size() <= 3 && left.back() == right[right.size() - 2];
  const bool batches = left.size() == 3 && right.size() == 3;
  if (!fits || batches == ends.valid())
    return node.unsupported(
        fmt::format("a product of groups of {} and {}", to_string(left), to_string(right)));
  if (batches) return one(compositions::matrix_product(node, a, b));
  const Shape counted = node.type(ends).shape;
  const int64_t groups = right.size() == 3 ? right[0] : left.size() == 3 ? left[0] : counted[0];
  if (counted != Shape{groups})
    return node.unsupported(fmt::format("ends of {} for {} groups", to_string(counted), groups));
  GroupedProduct product(node, a, b, ends);
  if (right.size() == 3) return one(product.rows_of_a());
  return one(left.size() == 3 ? product.columns_of_b() : product.sums());
}

// Rows reduced in segments, whose lengths or borders are given along the last dimension of those
// in front of `axis`.
Result<Values> segment_reduce(NodeImport& node) {
  constexpr int64_t kMostPairs = int64_t{1} << 22;
  DTR_ASSIGN(const ValueId data, node.tensor("data"));
  DTR_ASSIGN(const std::string_view reduce, node.string("reduce"));
  DTR_ASSIGN(ValueId lengths, node.optional_tensor("lengths"));
  DTR_ASSIGN(const ValueId borders, node.optional_tensor("offsets"));
  DTR_ASSIGN(const int64_t axis, node.integer("axis", 0));
  DTR_TRY(node.boolean("unsafe", false));
  const bool starts = node.has("initial");
  DTR_ASSIGN(const double initial, node.number("initial", 0));
  const Shape shape = node.type(data).shape;
  if (node.has("indices") || lengths.valid() == borders.valid())
    return node.unsupported("segments without lengths", "give `lengths`");
  const ValueId given = lengths.valid() ? lengths : borders;
  const Shape of_given = node.type(given).shape;
  if (axis < 0 || static_cast<size_t>(axis) >= shape.size() ||
      of_given.size() != static_cast<size_t>(axis) + 1)
    return node.unsupported(fmt::format("segments of {} along dimension {} of {}",
                                        to_string(of_given), axis, to_string(shape)));
  ValueId ends;  // and where each segment begins
  ValueId begins;
  if (lengths.valid()) {
    DTR_ASSIGN(ends, node.emit("aten.cumsum", {lengths}, {{"dim", axis}}));
    DTR_ASSIGN(begins, node.emit("aten.sub.Tensor", {ends, lengths}));
  } else {
    DTR_ASSIGN(begins, node.slice(borders, axis, 0, of_given.back() - 1));
    DTR_ASSIGN(ends, node.slice(borders, axis, 1, of_given.back()));
    DTR_ASSIGN(lengths, node.emit("aten.sub.Tensor", {ends, begins}));
  }
  const int64_t segments = node.type(ends).shape.back(), rows = shape[static_cast<size_t>(axis)];
  if (node.type(data).elements() > kMostPairs / std::max<int64_t>(segments, 1))
    return node.unsupported(
        fmt::format("{} segments of {} elements", segments, node.type(data).elements()),
        "reduce fewer elements at a time");
  // (…, segments, rows, …)
  Shape of_mask = node.type(ends).shape, of_data = shape;
  of_mask.resize(shape.size() + 1, 1);
  of_data.insert(of_data.begin() + axis, 1);
  Shape along(shape.size() + 1, 1);
  along[static_cast<size_t>(axis) + 1] = rows;
  DTR_ASSIGN(const ValueId places, row_numbers(node, node.type(ends).dtype, rows, along));
  DTR_ASSIGN(begins, node.view(begins, of_mask));
  DTR_ASSIGN(ends, node.view(ends, of_mask));
  DTR_ASSIGN(const ValueId behind, node.emit("aten.ge.Tensor", {places, begins}));
  DTR_ASSIGN(const ValueId before, node.emit("aten.lt.Tensor", {places, ends}));
  DTR_ASSIGN(const ValueId inside, node.emit("aten.logical_and", {behind, before}));
  DTR_ASSIGN(const ValueId each, node.view(data, of_data));
  const bool greatest = reduce == "max", least = reduce == "min", mean = reduce == "mean";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double neutral = greatest ? -kInfinity : least ? kInfinity : reduce == "prod" ? 1 : 0;
  DTR_ASSIGN(const ValueId none, number_like(node, each, neutral));
  DTR_ASSIGN(const ValueId kept, node.emit("aten.where.self", {inside, each, none}));
  const int64_t dim = axis + 1;
  ValueId result;
  if (reduce == "prod") {
    DTR_ASSIGN(result, compositions::product(node, kept, dim, false));
  } else {
    const std::string_view op = greatest ? "aten.amax"
                                : least  ? "aten.amin"
                                         : "aten.sum.dim_IntList";
    DTR_ASSIGN(result, node.emit(op, {kept}, {{"dim", Ints{dim}}, {"keepdim", false}}));
  }
  if (starts) {
    const std::string_view op = greatest           ? "aten.maximum"
                                : least            ? "aten.minimum"
                                : reduce == "prod" ? "aten.mul.Tensor"
                                                   : "aten.add.Tensor";
    DTR_ASSIGN(result, with_number(node, op, result, initial));
  }
  if (!mean) return Values{result};
  // Of no rows it is the initial value, or no number: 0 / 0.
  of_mask.pop_back();
  DTR_ASSIGN(ValueId count, node.view(lengths, of_mask));
  DTR_ASSIGN(count, node.cast(count, node.type(result).dtype));
  if (starts) {
    DTR_ASSIGN(count, with_number(node, "aten.maximum", count, 1));
  }
  return one(node.emit("aten.div.Tensor", {result, count}));
}

}  // namespace

std::vector<Operator> group_operators() {
  return {
      tensor_row("aten._grouped_mm.default", "aten.matmul", grouped_product),
      tensor_row("aten.segment_reduce.default", "aten.where.self", segment_reduce),
      tensor_row("transformers.grouped_mm_fallback.default", "aten.matmul", grouped_product),
  };
}

}  // namespace dtr::pt2
