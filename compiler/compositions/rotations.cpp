#include "compiler/compositions/rotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/indices.h"

namespace dtr::compositions {
namespace {

constexpr double kLeastDivisor = 1e-30;

// Short names of what the steps need; a matrix is the last two dimensions.
class Stepper {
 public:
  explicit Stepper(GraphBuilder& builder) : builder_(builder), exact_(builder) {}

  using Made = Result<ValueId>;
  Made add(ValueId a, ValueId b) { return builder_.emit("aten.add.Tensor", {a, b}); }
  Made sub(ValueId a, ValueId b) { return builder_.emit("aten.sub.Tensor", {a, b}); }
  Made mul(ValueId a, ValueId b) { return builder_.emit("aten.mul.Tensor", {a, b}); }
  Made div(ValueId a, ValueId b) { return builder_.emit("aten.div.Tensor", {a, b}); }
  Made root(ValueId a) { return builder_.emit("aten.sqrt", {a}); }
  Made where(ValueId mask, ValueId a, ValueId b) {
    return builder_.emit("aten.where.self", {mask, a, b});
  }
  Made number(ValueId like, double value) {
    return builder_.constant(builder_.type(like).dtype, {}, value, "number");
  }
  Made at_least(ValueId a, double bound) {
    DTR_ASSIGN(const ValueId least, number(a, bound));
    return builder_.emit("aten.maximum", {a, least});
  }
  Made sum_of_products(ValueId a, ValueId b) {
    DTR_ASSIGN(const ValueId products, mul(a, b));
    return builder_.emit("aten.sum.dim_IntList", {products},
                         {{"dim", Ints{row_axis(a)}}, {"keepdim", true}});
  }
  Made selected(ValueId x, int64_t dim, const std::vector<double>& places) {
    DTR_ASSIGN(const ValueId index, builder_.constant(DType::kInt64, places));
    return builder_.emit("aten.index_select", {x, index}, {{"dim", dim}});
  }
  // (…, 1, k) as (…, k, 1) and back.
  Made turned(ValueId vector) {
    Shape shape = builder_.type(vector).shape;
    std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
    return builder_.view(vector, shape);
  }
  // (…, 1, k) as (…, k) and back.
  Made flattened(ValueId row) {
    Shape shape = builder_.type(row).shape;
    shape.erase(shape.end() - 2);
    return builder_.view(row, shape);
  }
  Made as_row(ValueId vector) {
    Shape shape = builder_.type(vector).shape;
    shape.insert(shape.end() - 1, 1);
    return builder_.view(vector, shape);
  }
  // (…, k) times (…, 1, 1).
  Made times(ValueId vector, ValueId scale) {
    DTR_ASSIGN(const ValueId row, as_row(vector));
    DTR_ASSIGN(const ValueId product, mul(row, scale));
    return flattened(product);
  }
  int64_t row_axis(ValueId x) const { return static_cast<int64_t>(builder_.type(x).rank()) - 2; }
  int64_t extent(ValueId x, int64_t axis) const {
    return builder_.type(x).shape[static_cast<size_t>(axis)];
  }

 private:
  GraphBuilder& builder_;
  GraphBuilder::KeepsFloat exact_;
};

// Column i meets column i + half in a round. Then all but the first move on by one place, so that
// after n − 1 rounds each has met each and is where it was.
std::vector<double> next_round(int64_t n) {
  const int64_t half = n / 2;
  std::vector<double> from(static_cast<size_t>(n));
  std::iota(from.begin(), from.end(), 0);
  if (half == 1) return from;
  from[1] = static_cast<double>(half);
  for (int64_t i = 2; i < half; ++i) from[static_cast<size_t>(i)] = static_cast<double>(i - 1);
  for (int64_t i = half; i + 1 < n; ++i) from[static_cast<size_t>(i)] = static_cast<double>(i + 1);
  from[static_cast<size_t>(n - 1)] = static_cast<double>(half - 1);
  return from;
}

// Errors of float32 are gone in fewer: random, graded, clustered and singular matrices needed
// 5 sweeps of 5 columns, 8 of 16 and 9 of 32.
int64_t rounds_of(int64_t n) {
  int64_t sweeps = 5;
  for (int64_t size = 1; size < n; size *= 2) ++sweeps;
  return sweeps * (n - 1);
}

// Cosines and sines (…, 1, half) of the rotations.
struct Rotation {
  ValueId cosine, sine;
};

// Those that make the element `across` of [[first, across], [across, second]] zero, by the smaller
// of both angles: t = 2g / (d ± √(d² + 4g²)) with d = second − first, where nothing cancels. A zero
// `across` is not turned.
Result<Rotation> rotation_of(Stepper& step, GraphBuilder& builder, ValueId first, ValueId second,
                             ValueId across) {
  DTR_ASSIGN(const ValueId apart, step.sub(second, first));
  DTR_ASSIGN(const ValueId twice, step.add(across, across));
  DTR_ASSIGN(const ValueId square, step.mul(apart, apart));
  DTR_ASSIGN(const ValueId other, step.mul(twice, twice));
  DTR_ASSIGN(ValueId divisor, step.add(square, other));
  DTR_ASSIGN(divisor, step.root(divisor));
  DTR_ASSIGN(const ValueId size, builder.emit("aten.abs", {apart}));
  DTR_ASSIGN(divisor, step.add(divisor, size));
  DTR_ASSIGN(divisor, step.at_least(divisor, kLeastDivisor));
  DTR_ASSIGN(ValueId tangent, step.div(twice, divisor));
  DTR_ASSIGN(const ValueId zero, step.number(apart, 0));
  DTR_ASSIGN(const ValueId falls, builder.emit("aten.lt.Tensor", {apart, zero}));
  DTR_ASSIGN(const ValueId opposite, builder.emit("aten.neg", {tangent}));
  DTR_ASSIGN(tangent, step.where(falls, opposite, tangent));
  DTR_ASSIGN(const ValueId one, step.number(apart, 1));
  DTR_ASSIGN(ValueId cosine, step.mul(tangent, tangent));
  DTR_ASSIGN(cosine, step.add(cosine, one));
  DTR_ASSIGN(cosine, step.root(cosine));
  DTR_ASSIGN(cosine, step.div(one, cosine));
  DTR_ASSIGN(const ValueId sine, step.mul(tangent, cosine));
  return Rotation{cosine, sine};
}

// The halves of x along `axis` turned against each other, and moved on to the next round.
Result<ValueId> turn(Stepper& step, GraphBuilder& builder, ValueId x, int64_t axis,
                     const Rotation& by, const std::vector<double>& next) {
  const auto n = static_cast<int64_t>(next.size());
  DTR_ASSIGN(const ValueId first, builder.slice(x, axis, 0, n / 2));
  DTR_ASSIGN(const ValueId second, builder.slice(x, axis, n / 2, n));
  DTR_ASSIGN(const ValueId kept, step.mul(first, by.cosine));
  DTR_ASSIGN(const ValueId taken, step.mul(second, by.sine));
  DTR_ASSIGN(const ValueId upper, step.sub(kept, taken));
  DTR_ASSIGN(const ValueId given, step.mul(first, by.sine));
  DTR_ASSIGN(const ValueId rest, step.mul(second, by.cosine));
  DTR_ASSIGN(const ValueId lower, step.add(given, rest));
  DTR_ASSIGN(const ValueId both, builder.concatenate({upper, lower}, axis));
  return n == 2 ? Result<ValueId>(both) : step.selected(both, axis, next);
}

// An identity (n, n) for each matrix of `like`, in its dtype.
Result<ValueId> identities(GraphBuilder& builder, ValueId like, int64_t n) {
  DTR_ASSIGN(const ValueId one, identity(builder, n, builder.type(like).dtype));
  const Shape& batch = builder.type(like).shape;
  Shape shape(batch.begin(), batch.end() - 2);
  shape.insert(shape.end(), {n, n});
  return builder.expand(one, shape);
}

// Divided by their greatest element, (…, 1, 1): its square may exceed float32, and `top` orders
// numbers that differ from the least minus one.
struct Scaled {
  ValueId matrices, scale;
};
Result<Scaled> scaled(Stepper& step, GraphBuilder& builder, ValueId matrices) {
  const int64_t rows = step.row_axis(matrices);
  Scaled result;
  DTR_ASSIGN(const ValueId sizes, builder.emit("aten.abs", {matrices}));
  DTR_ASSIGN(result.scale, builder.emit("aten.amax", {sizes},
                                        {{"dim", Ints{rows, rows + 1}}, {"keepdim", true}}));
  DTR_ASSIGN(result.scale, step.at_least(result.scale, kLeastDivisor));
  DTR_ASSIGN(result.matrices, step.div(matrices, result.scale));
  return result;
}

// The columns in another order, (…, k) numbers of columns.
Result<ValueId> ordered_columns(Stepper& step, GraphBuilder& builder, ValueId x, ValueId order) {
  DTR_ASSIGN(ValueId index, step.as_row(order));
  DTR_ASSIGN(index, builder.expand(index, builder.type(x).shape));
  return gather(builder, x, step.row_axis(x) + 1, index);
}

tl::unexpected<Diagnostic> not_rotated(const GraphBuilder& builder, ValueId matrices,
                                       std::string_view what) {
  return builder.unsupported(
      fmt::format("matrices of {}: {} are decomposed", to_string(builder.type(matrices).shape),
                  what),
      "decompose a larger matrix outside of the model, and make what is needed a buffer");
}

// A · V with orthogonal columns, and V, whose columns are orthogonal and of length 1; A has at
// least as many rows as columns. A column of zeros is added to an odd number of them: it is turned
// against none.
struct Columns {
  ValueId products, turns;  // (…, m, n), (…, n, n); `turns` is invalid unless asked for
};
Result<Columns> orthogonal_columns(Stepper& step, GraphBuilder& builder, ValueId x,
                                   bool with_turns) {
  const int64_t rows = step.row_axis(x), count = step.extent(x, rows + 1);
  const int64_t n = count + count % 2;
  DTR_ASSIGN(x, builder.pad(x, {0, n - count}, 0));
  const std::vector<double> next = next_round(n);
  ValueId turns;
  if (with_turns) {
    DTR_ASSIGN(turns, identities(builder, x, n));
  }
  for (int64_t round = 0; count > 1 && round < rounds_of(n); ++round) {
    DTR_ASSIGN(const ValueId left, builder.slice(x, rows + 1, 0, n / 2));
    DTR_ASSIGN(const ValueId right, builder.slice(x, rows + 1, n / 2, n));
    DTR_ASSIGN(const ValueId first, step.sum_of_products(left, left));
    DTR_ASSIGN(const ValueId second, step.sum_of_products(right, right));
    DTR_ASSIGN(const ValueId across, step.sum_of_products(left, right));
    DTR_ASSIGN(const Rotation by, rotation_of(step, builder, first, second, across));
    DTR_ASSIGN(x, turn(step, builder, x, rows + 1, by, next));
    if (!with_turns) continue;
    DTR_ASSIGN(turns, turn(step, builder, turns, rows + 1, by, next));
  }
  Columns result;
  DTR_ASSIGN(result.products, builder.slice(x, rows + 1, 0, count));
  if (!with_turns) return result;
  DTR_ASSIGN(turns, builder.slice(turns, rows, 0, count));
  DTR_ASSIGN(result.turns, builder.slice(turns, rows + 1, 0, count));
  return result;
}

// 1 or −1 as the diagonal of R is, (…, 1, k).
Result<ValueId> signs_of_diagonal(Stepper& step, GraphBuilder& builder, ValueId r) {
  const int64_t k = builder.type(r).shape.back();
  DTR_ASSIGN(const ValueId square, builder.slice(r, step.row_axis(r), 0, k));
  DTR_ASSIGN(const ValueId one, identities(builder, square, k));
  DTR_ASSIGN(const ValueId diagonal, step.sum_of_products(square, one));
  DTR_ASSIGN(const ValueId zero, step.number(r, 0));
  DTR_ASSIGN(const ValueId negative, builder.emit("aten.lt.Tensor", {diagonal, zero}));
  DTR_ASSIGN(const ValueId minus, step.number(r, -1));
  DTR_ASSIGN(const ValueId plus, step.number(r, 1));
  return step.where(negative, minus, plus);
}

}  // namespace

Result<ValueId> symmetric(GraphBuilder& builder, ValueId matrices, bool upper) {
  Stepper step(builder);
  const Shape& shape = builder.type(matrices).shape;
  const int64_t n = shape.size() < 2 ? 0 : shape.back();
  if (n < 1 || shape[shape.size() - 2] != n || n > kMostRotated)
    return not_rotated(builder, matrices,
                       fmt::format("symmetric ones up to {} × {}", kMostRotated, kMostRotated));
  std::vector<double> read(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) read[static_cast<size_t>(i * n + j)] = upper ? i <= j : j <= i;
  DTR_ASSIGN(const ValueId mask, builder.constant(DType::kBool, read, Shape{n, n}));
  DTR_ASSIGN(const ValueId turned, transposed(builder, matrices));
  return step.where(mask, matrices, turned);
}

Result<Eigen> eigen(GraphBuilder& builder, ValueId matrices, bool upper, bool with_vectors) {
  Stepper step(builder);
  DTR_ASSIGN(const ValueId whole, symmetric(builder, matrices, upper));
  DTR_ASSIGN(const Scaled from, scaled(step, builder, whole));
  const int64_t rows = step.row_axis(whole), count = step.extent(whole, rows);
  const int64_t n = count + count % 2, half = n / 2;
  DTR_ASSIGN(ValueId x, builder.pad(from.matrices, {0, n - count, 0, n - count}, 0));
  const std::vector<double> next = next_round(n);
  ValueId vectors;
  if (with_vectors) {
    DTR_ASSIGN(vectors, identities(builder, x, n));
  }
  Shape flat = builder.type(x).shape;
  flat.pop_back();
  flat.back() = n * n;
  // The diagonal, then what is across of each pair.
  std::vector<double> places;
  for (int64_t i = 0; i < n; ++i) places.push_back(static_cast<double>(i * n + i));
  for (int64_t i = 0; i < half; ++i) places.push_back(static_cast<double>(i * n + i + half));
  const auto elements = [&](ValueId of) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId all, builder.view(of, flat));
    DTR_ASSIGN(const ValueId some, step.selected(all, rows, places));
    return step.as_row(some);
  };
  for (int64_t round = 0; count > 1 && round < rounds_of(n); ++round) {
    DTR_ASSIGN(const ValueId own, elements(x));
    DTR_ASSIGN(const ValueId first, builder.slice(own, rows + 1, 0, half));
    DTR_ASSIGN(const ValueId second, builder.slice(own, rows + 1, half, n));
    DTR_ASSIGN(const ValueId across, builder.slice(own, rows + 1, n, n + half));
    DTR_ASSIGN(const Rotation by, rotation_of(step, builder, first, second, across));
    Rotation down;
    DTR_ASSIGN(down.cosine, step.turned(by.cosine));
    DTR_ASSIGN(down.sine, step.turned(by.sine));
    DTR_ASSIGN(x, turn(step, builder, x, rows, down, next));
    DTR_ASSIGN(x, turn(step, builder, x, rows + 1, by, next));
    if (!with_vectors) continue;
    DTR_ASSIGN(vectors, turn(step, builder, vectors, rows + 1, by, next));
  }
  DTR_ASSIGN(const ValueId found, elements(x));
  DTR_ASSIGN(ValueId values, builder.slice(found, rows + 1, 0, count));
  DTR_ASSIGN(values, step.flattened(values));
  DTR_ASSIGN(const Extremes in_order, top(builder, values, count, rows, false));
  Eigen result;
  DTR_ASSIGN(result.values, step.times(in_order.values, from.scale));
  if (!with_vectors) return result;
  DTR_ASSIGN(vectors, builder.slice(vectors, rows, 0, count));
  DTR_ASSIGN(vectors, builder.slice(vectors, rows + 1, 0, count));
  DTR_ASSIGN(result.vectors, ordered_columns(step, builder, vectors, in_order.indices));
  return result;
}

namespace {

// Of matrices with at least as many rows as columns.
Result<Singular> singular_of_tall(Stepper& step, GraphBuilder& builder, ValueId x,
                                  bool with_vectors, bool full) {
  const int64_t rows = step.row_axis(x), height = step.extent(x, rows);
  const int64_t count = step.extent(x, rows + 1);
  DTR_ASSIGN(const Scaled from, scaled(step, builder, x));
  DTR_ASSIGN(const Columns made, orthogonal_columns(step, builder, from.matrices, with_vectors));
  DTR_ASSIGN(ValueId lengths, step.sum_of_products(made.products, made.products));
  DTR_ASSIGN(lengths, step.root(lengths));
  DTR_ASSIGN(const ValueId values, step.flattened(lengths));
  DTR_ASSIGN(const Extremes in_order, top(builder, values, count, rows, true));
  Singular result;
  DTR_ASSIGN(result.values, step.times(in_order.values, from.scale));
  if (!with_vectors) return result;
  DTR_ASSIGN(result.right, ordered_columns(step, builder, made.turns, in_order.indices));
  DTR_ASSIGN(const ValueId products,
             ordered_columns(step, builder, made.products, in_order.indices));
  // Householder's Q has the same columns but for their signs, and others where a length is zero.
  DTR_ASSIGN(const Orthogonal basis, orthogonalize(builder, products, full ? height : count, true));
  DTR_ASSIGN(const ValueId signs, signs_of_diagonal(step, builder, basis.r));
  DTR_ASSIGN(const ValueId own, builder.slice(basis.q, rows + 1, 0, count));
  DTR_ASSIGN(const ValueId others, builder.slice(basis.q, rows + 1, count, full ? height : count));
  DTR_ASSIGN(result.left, step.mul(own, signs));
  if (full && height > count) {
    DTR_ASSIGN(result.left, builder.concatenate({result.left, others}, rows + 1));
  }
  return result;
}

Result<bool> is_wide(GraphBuilder& builder, ValueId matrices) {
  const Shape& shape = builder.type(matrices).shape;
  const int64_t height = shape.size() < 2 ? 0 : shape[shape.size() - 2];
  const int64_t width = shape.empty() ? 0 : shape.back();
  if (const int64_t least = std::min(height, width); least < 1 || least > kMostRotated)
    return not_rotated(builder, matrices,
                       fmt::format("those with up to {} rows or columns", kMostRotated));
  return width > height;
}

}  // namespace

Result<Singular> singular(GraphBuilder& builder, ValueId matrices, bool with_vectors, bool full) {
  Stepper step(builder);
  DTR_ASSIGN(const bool wide, is_wide(builder, matrices));
  if (wide) {
    DTR_ASSIGN(matrices, transposed(builder, matrices));
  }
  DTR_ASSIGN(Singular result, singular_of_tall(step, builder, matrices, with_vectors, full));
  if (wide) std::swap(result.left, result.right);
  return result;
}

// V · diag(1/σ²) · (A · V)ᵀ, without what counts as zero.
double default_tolerance(const Shape& matrices) {
  return std::ldexp(static_cast<double>(std::max(matrices.back(), matrices.end()[-2])), -23);
}

Result<ValueId> pseudo_inverse(GraphBuilder& builder, ValueId matrices, ValueId absolute,
                               ValueId relative) {
  Stepper step(builder);
  DTR_ASSIGN(const bool wide, is_wide(builder, matrices));
  if (wide) {
    DTR_ASSIGN(matrices, transposed(builder, matrices));
  }
  const int64_t rows = step.row_axis(matrices);
  DTR_ASSIGN(const Scaled from, scaled(step, builder, matrices));
  DTR_ASSIGN(const Columns made, orthogonal_columns(step, builder, from.matrices, true));
  DTR_ASSIGN(ValueId lengths, step.sum_of_products(made.products, made.products));
  DTR_ASSIGN(lengths, step.root(lengths));
  DTR_ASSIGN(ValueId bound,
             builder.emit("aten.amax", {lengths}, {{"dim", Ints{rows + 1}}, {"keepdim", true}}));
  if (!relative.valid()) {
    DTR_ASSIGN(relative, step.number(bound, default_tolerance(builder.type(matrices).shape)));
  }
  DTR_ASSIGN(bound, step.mul(bound, relative));
  if (absolute.valid()) {
    DTR_ASSIGN(absolute, step.div(absolute, from.scale));
    DTR_ASSIGN(bound, builder.emit("aten.maximum", {bound, absolute}));
  }
  DTR_ASSIGN(const ValueId counts, builder.emit("aten.gt.Tensor", {lengths, bound}));
  DTR_ASSIGN(const ValueId one, step.number(lengths, 1));
  DTR_ASSIGN(const ValueId zero, step.number(lengths, 0));
  DTR_ASSIGN(ValueId factors, step.where(counts, lengths, one));
  DTR_ASSIGN(factors, step.div(one, factors));
  DTR_ASSIGN(factors, step.where(counts, factors, zero));
  DTR_ASSIGN(const ValueId left, step.mul(made.products, factors));
  DTR_ASSIGN(factors, step.div(factors, from.scale));
  DTR_ASSIGN(ValueId right, step.mul(made.turns, factors));
  DTR_ASSIGN(const ValueId turned, transposed(builder, wide ? right : left));
  return matrix_product(builder, wide ? left : right, turned);
}

}  // namespace dtr::compositions
