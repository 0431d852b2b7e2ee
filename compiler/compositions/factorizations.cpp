#include "compiler/compositions/factorizations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dtr::compositions {
namespace {

using Value = Result<ValueId>;

Value binary(GraphBuilder& builder, std::string_view op, ValueId a, ValueId b) {
  return builder.emit(op, {a, b});
}
constexpr std::string_view kPlus = "aten.add.Tensor", kMinus = "aten.sub.Tensor",
                           kTimes = "aten.mul.Tensor", kBy = "aten.div.Tensor",
                           kWhere = "aten.where.self";

// Rows, columns and the number of the dimension of rows.
int64_t rows_of(const GraphBuilder& builder, ValueId x) {
  const Shape& shape = builder.type(x).shape;
  return shape[shape.size() - 2];
}
int64_t columns_of(const GraphBuilder& builder, ValueId x) { return builder.type(x).shape.back(); }
int64_t row_dim(const GraphBuilder& builder, ValueId x) {
  return static_cast<int64_t>(builder.type(x).rank()) - 2;
}

Value rows(GraphBuilder& builder, ValueId x, int64_t from, int64_t to) {
  return builder.slice(x, row_dim(builder, x), from, to);
}
Value columns(GraphBuilder& builder, ValueId x, int64_t from, int64_t to) {
  return builder.slice(x, row_dim(builder, x) + 1, from, to);
}
// The rows and columns from the second on.
Value rest(GraphBuilder& builder, ValueId x) {
  DTR_ASSIGN(const ValueId below, rows(builder, x, 1, rows_of(builder, x)));
  return columns(builder, below, 1, columns_of(builder, x));
}
Value sum_of_rows(GraphBuilder& builder, ValueId x) {
  return builder.emit("aten.sum.dim_IntList", {x},
                      {{"dim", Ints{row_dim(builder, x)}}, {"keepdim", true}});
}
Value real_number(GraphBuilder& builder, ValueId like, double value) {
  return builder.constant(builder.type(like).dtype, {}, value, "number");
}

Result<int64_t> size_of(GraphBuilder& builder, ValueId matrices) {
  const Shape& shape = builder.type(matrices).shape;
  const int64_t n = shape.size() < 2 ? 0 : shape.back();
  if (n < 1 || n > kMostSteps || shape[shape.size() - 2] != n)
    return builder.unsupported(
        fmt::format("matrices of {}: square ones up to {} × {} are factorized", to_string(shape),
                    kMostSteps, kMostSteps),
        "factorize a larger matrix outside of the model, and make what is needed a buffer");
  return n;
}

// The row of the element of the first column whose absolute value is the greatest becomes the first
// one; the first one takes its place. `moved`: 1 where that is another row, else 0.
struct Pivoted {
  ValueId first, others, moved;
};
Result<Pivoted> pivot(GraphBuilder& builder, ValueId x) {
  const int64_t count = rows_of(builder, x), dim = row_dim(builder, x);
  DTR_ASSIGN(const ValueId first, rows(builder, x, 0, 1));
  if (count == 1) {
    DTR_ASSIGN(const ValueId corner, columns(builder, first, 0, 1));
    DTR_ASSIGN(const ValueId zero, real_number(builder, x, 0));
    DTR_ASSIGN(const ValueId none, binary(builder, kTimes, corner, zero));
    return Pivoted{first, {}, none};
  }
  DTR_ASSIGN(ValueId column, columns(builder, x, 0, 1));
  DTR_ASSIGN(column, builder.emit("aten.abs", {column}));
  DTR_ASSIGN(const ValueId place,
             builder.emit("aten.argmax", {column}, {{"dim", dim}, {"keepdim", true}}));
  std::vector<double> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  DTR_ASSIGN(const ValueId all, builder.constant(DType::kInt64, numbers, Shape{count, 1}));
  DTR_ASSIGN(const ValueId chosen, binary(builder, "aten.eq.Tensor", all, place));
  DTR_ASSIGN(const ValueId zero, real_number(builder, x, 0));
  DTR_ASSIGN(ValueId picked, builder.emit(kWhere, {chosen, x, zero}));
  DTR_ASSIGN(picked, sum_of_rows(builder, picked));
  DTR_ASSIGN(ValueId others, builder.emit(kWhere, {chosen, first, x}));
  DTR_ASSIGN(others, rows(builder, others, 1, count));
  DTR_ASSIGN(const ValueId origin, builder.constant(DType::kInt64, {}, 0, "first"));
  DTR_ASSIGN(ValueId moved, binary(builder, "aten.ne.Tensor", place, origin));
  DTR_ASSIGN(moved, builder.emit("convert", {moved},
                                 {{"dtype", std::string(name(builder.type(x).dtype))}}));
  return Pivoted{picked, others, moved};
}

// (…, 1, 1) as (…).
Value element(GraphBuilder& builder, ValueId x) {
  Shape shape = builder.type(x).shape;
  shape.resize(shape.size() - 2);
  return builder.view(x, shape);
}

// The sum of rows, each times its factor of (…, 1, k): no matrix product, which would be quantized.
Value combined(GraphBuilder& builder, ValueId factors, ValueId x) {
  Shape shape = builder.type(factors).shape;
  std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  DTR_ASSIGN(const ValueId column, builder.view(factors, shape));
  DTR_ASSIGN(const ValueId weighted, binary(builder, kTimes, column, x));
  return sum_of_rows(builder, weighted);
}

// Rows 0 … n−1 of X = T⁻¹ · B, each from those that are known: rows of T from its diagonal on, or
// up to it.
class Substitution {
 public:
  Substitution(GraphBuilder& builder, bool from_below, bool unit)
      : builder_(builder), from_below_(from_below), unit_(unit) {}

  // `factors`: the elements of a row beside the diagonal that belong to known rows; invalid: none.
  Result<void> add(ValueId factors, ValueId diagonal, ValueId right) {
    if (known_.valid() && factors.valid()) {
      DTR_ASSIGN(const ValueId other, combined(builder_, factors, known_));
      DTR_ASSIGN(right, binary(builder_, kMinus, right, other));
    }
    if (!unit_) {
      DTR_ASSIGN(right, binary(builder_, kBy, right, diagonal));
    }
    if (!known_.valid()) {
      known_ = right;
      return {};
    }
    DTR_ASSIGN(known_, from_below_
                           ? builder_.concatenate({right, known_}, row_dim(builder_, right))
                           : builder_.concatenate({known_, right}, row_dim(builder_, right)));
    return {};
  }
  ValueId known() const { return known_; }

 private:
  GraphBuilder& builder_;
  bool from_below_, unit_;
  ValueId known_;
};

// Both with the same dimensions in front of those of the matrices.
Result<std::pair<ValueId, ValueId>> same_batch(GraphBuilder& builder, ValueId a, ValueId b) {
  Shape left = builder.type(a).shape, right = builder.type(b).shape;
  const size_t rank = std::max(left.size(), right.size());
  left.insert(left.begin(), rank - left.size(), 1);
  right.insert(right.begin(), rank - right.size(), 1);
  DTR_ASSIGN(a, builder.view(a, left));
  DTR_ASSIGN(b, builder.view(b, right));
  for (size_t d = 0; d + 2 < rank; ++d)
    if (left[d] == 1) {
      left[d] = right[d];
    } else if (right[d] == 1) {
      right[d] = left[d];
    }
  DTR_ASSIGN(a, builder.expand(a, left));
  DTR_ASSIGN(b, builder.expand(b, right));
  return std::pair(a, b);
}

}  // namespace

Result<ValueId> transposed(GraphBuilder& builder, ValueId matrices) {
  Ints order(builder.type(matrices).rank());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() >= 2) std::swap(order[order.size() - 2], order[order.size() - 1]);
  return builder.permute(matrices, order);
}

Result<ValueId> matrix_product(GraphBuilder& builder, ValueId a, ValueId b) {
  const Type left = builder.type(a), right = builder.type(b);
  if (is_float(left.dtype) || left.quantized() || left.rank() < 2 || right.rank() < 2)
    return builder.emit("aten.matmul", {a, b});
  constexpr int64_t kMostProducts = int64_t{1} << 24;
  if (left.shape.back() != right.shape[right.rank() - 2])
    return builder.unsupported(fmt::format("the shapes {} and {} do not multiply",
                                           to_string(left.shape), to_string(right.shape)));
  if (left.elements() > kMostProducts / std::max<int64_t>(right.shape.back(), 1))
    return builder.unsupported(
        fmt::format("a product of integers {} and {}, which takes more than "
                    "{} products",
                    to_string(left.shape), to_string(right.shape), kMostProducts),
        "convert the operands to float32 in front of it");
  Shape tall = left.shape, wide = right.shape;
  tall.push_back(1);
  wide.insert(wide.end() - 2, 1);
  DTR_ASSIGN(a, builder.view(a, tall));
  DTR_ASSIGN(b, builder.view(b, wide));
  DTR_ASSIGN(const ValueId products, binary(builder, kTimes, a, b));
  DTR_ASSIGN(const ValueId sums, sum_of_rows(builder, products));
  Shape shape = builder.type(sums).shape;
  shape.erase(shape.end() - 2);
  DTR_ASSIGN(const ValueId result, builder.view(sums, shape));
  return builder.emit("convert", {result}, {{"dtype", std::string(name(left.dtype))}});
}

Result<ValueId> identity(GraphBuilder& builder, int64_t n, DType dtype) {
  std::vector<double> ones(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) ones[static_cast<size_t>(i * n + i)] = 1;
  return builder.constant(dtype, ones, Shape{n, n});
}

Result<ValueId> identity_like(GraphBuilder& builder, ValueId matrices) {
  DTR_ASSIGN(const int64_t n, size_of(builder, matrices));
  return identity(builder, n, builder.type(matrices).dtype);
}

Result<Elimination> eliminate(GraphBuilder& builder, ValueId matrices, ValueId right) {
  const GraphBuilder::KeepsFloat exact(builder);
  DTR_ASSIGN(const int64_t n, size_of(builder, matrices));
  ValueId x = matrices;
  if (right.valid()) {
    DTR_ASSIGN(const auto both, same_batch(builder, matrices, right));
    DTR_ASSIGN(x, builder.concatenate({both.first, both.second}, row_dim(builder, both.first) + 1));
  }
  std::vector<ValueId> found, pivots;  // the rows of the upper triangle, from the diagonal on
  ValueId moves;
  for (int64_t step = 0; step < n; ++step) {
    DTR_ASSIGN(const Pivoted pivoted, pivot(builder, x));
    DTR_ASSIGN(const ValueId corner, columns(builder, pivoted.first, 0, 1));
    found.push_back(pivoted.first);
    pivots.push_back(corner);
    DTR_ASSIGN(moves,
               moves.valid() ? binary(builder, kPlus, moves, pivoted.moved) : Value(pivoted.moved));
    if (!pivoted.others.valid()) break;
    DTR_ASSIGN(const ValueId column, columns(builder, pivoted.others, 0, 1));
    ValueId divisor = corner;
    if (!right.valid()) {  // of a column of zeros nothing is taken: the determinant is 0, no NaN
      DTR_ASSIGN(const ValueId zero, real_number(builder, corner, 0));
      DTR_ASSIGN(const ValueId none, binary(builder, "aten.eq.Tensor", corner, zero));
      DTR_ASSIGN(const ValueId unit, real_number(builder, corner, 1));
      DTR_ASSIGN(divisor, builder.emit(kWhere, {none, unit, corner}));
    }
    DTR_ASSIGN(const ValueId factors, binary(builder, kBy, column, divisor));
    const int64_t width = columns_of(builder, x);
    DTR_ASSIGN(const ValueId first, columns(builder, pivoted.first, 1, width));
    DTR_ASSIGN(const ValueId others, columns(builder, pivoted.others, 1, width));
    DTR_ASSIGN(const ValueId taken, binary(builder, kTimes, factors, first));
    DTR_ASSIGN(x, binary(builder, kMinus, others, taken));
  }
  Elimination result;
  DTR_ASSIGN(result.pivots, builder.concatenate(pivots, row_dim(builder, pivots[0]) + 1));
  Shape shape = builder.type(result.pivots).shape;
  shape.erase(shape.end() - 2);
  DTR_ASSIGN(result.pivots, builder.view(result.pivots, shape));
  // 1 − 2 · (moves mod 2), with the remainder from a floor.
  DTR_ASSIGN(moves, element(builder, moves));
  DTR_ASSIGN(const ValueId half, real_number(builder, moves, 0.5));
  DTR_ASSIGN(ValueId pairs, binary(builder, kTimes, moves, half));
  DTR_ASSIGN(pairs, builder.emit("aten.floor", {pairs}));
  DTR_ASSIGN(const ValueId two, real_number(builder, moves, 2));
  DTR_ASSIGN(pairs, binary(builder, kTimes, pairs, two));
  DTR_ASSIGN(ValueId odd, binary(builder, kMinus, moves, pairs));
  DTR_ASSIGN(odd, binary(builder, kTimes, odd, two));
  DTR_ASSIGN(const ValueId unit, real_number(builder, moves, 1));
  DTR_ASSIGN(result.sign, binary(builder, kMinus, unit, odd));
  if (!right.valid()) return result;
  Substitution solution(builder, true, false);
  for (int64_t step = n; step-- > 0;) {
    const ValueId row = found[static_cast<size_t>(step)];
    const int64_t width = columns_of(builder, row), own = n - step;
    DTR_ASSIGN(const ValueId factors, own > 1 ? columns(builder, row, 1, own) : Value(ValueId{}));
    DTR_ASSIGN(const ValueId of_right, columns(builder, row, own, width));
    DTR_TRY(solution.add(factors, pivots[static_cast<size_t>(step)], of_right));
  }
  result.solution = solution.known();
  return result;
}

Result<ValueId> cholesky(GraphBuilder& builder, ValueId matrices) {
  const GraphBuilder::KeepsFloat exact(builder);
  DTR_ASSIGN(const int64_t n, size_of(builder, matrices));
  ValueId x = matrices;
  std::vector<ValueId> found;
  for (int64_t step = 0; step < n; ++step) {
    DTR_ASSIGN(const ValueId column, columns(builder, x, 0, 1));
    DTR_ASSIGN(ValueId corner, rows(builder, column, 0, 1));
    DTR_ASSIGN(corner, builder.emit("aten.sqrt", {corner}));
    ValueId whole = corner;
    if (step + 1 < n) {
      DTR_ASSIGN(ValueId below, rows(builder, column, 1, n - step));
      DTR_ASSIGN(below, binary(builder, kBy, below, corner));
      DTR_ASSIGN(whole, builder.concatenate({corner, below}, row_dim(builder, corner)));
      DTR_ASSIGN(const ValueId turned, transposed(builder, below));
      DTR_ASSIGN(const ValueId taken, binary(builder, kTimes, below, turned));
      DTR_ASSIGN(const ValueId left, rest(builder, x));
      DTR_ASSIGN(x, binary(builder, kMinus, left, taken));
    }
    DTR_ASSIGN(whole, builder.pad(whole, {0, 0, step, 0}, 0));
    found.push_back(whole);
  }
  return builder.concatenate(found, row_dim(builder, found[0]) + 1);
}

Result<ValueId> solve_triangle(GraphBuilder& builder, ValueId triangles, ValueId right,
                               Triangle of) {
  const GraphBuilder::KeepsFloat exact(builder);
  DTR_ASSIGN(const int64_t n, size_of(builder, triangles));
  DTR_ASSIGN(const auto both, same_batch(builder, triangles, right));
  Substitution solution(builder, of.upper, of.unit);
  for (int64_t step = 0; step < n; ++step) {
    const int64_t row = of.upper ? n - 1 - step : step;
    DTR_ASSIGN(const ValueId line, rows(builder, both.first, row, row + 1));
    DTR_ASSIGN(const ValueId factors, step == 0  ? Value(ValueId{})
                                      : of.upper ? columns(builder, line, row + 1, n)
                                                 : columns(builder, line, 0, row));
    DTR_ASSIGN(const ValueId diagonal, columns(builder, line, row, row + 1));
    DTR_ASSIGN(const ValueId of_right, rows(builder, both.second, row, row + 1));
    DTR_TRY(solution.add(factors, diagonal, of_right));
  }
  return solution.known();
}

Result<Orthogonal> orthogonalize(GraphBuilder& builder, ValueId matrices, int64_t count,
                                 bool with_q) {
  const GraphBuilder::KeepsFloat exact(builder);
  const Shape shape = builder.type(matrices).shape;
  const int64_t height = shape.size() < 2 ? 0 : shape[shape.size() - 2];
  const int64_t width = shape.empty() ? 0 : shape.back();
  const int64_t steps = std::min(height, width);
  if (steps < 1 || std::max(steps, count) > kMostSteps || builder.type(matrices).quantized())
    return builder.unsupported(
        fmt::format("matrices of {}: up to {} columns are made orthogonal", to_string(shape),
                    kMostSteps),
        "factorize a larger matrix outside of the model, and make what is needed a buffer");
  struct Reflection {
    ValueId vector, factor;  // H = 1 − factor · v · vᵀ
  };
  std::vector<Reflection> reflections;
  std::vector<ValueId> found;  // rows of R
  ValueId x = matrices;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t left = height - step;
    if (left > 1) {
      DTR_ASSIGN(const ValueId column, columns(builder, x, 0, 1));
      DTR_ASSIGN(const ValueId corner, rows(builder, column, 0, 1));
      DTR_ASSIGN(const ValueId squares, binary(builder, kTimes, column, column));
      DTR_ASSIGN(ValueId norm, sum_of_rows(builder, squares));
      DTR_ASSIGN(norm, builder.emit("aten.sqrt", {norm}));
      // The new corner has the other sign than the old one, so that nothing cancels.
      DTR_ASSIGN(const ValueId zero, real_number(builder, norm, 0));
      DTR_ASSIGN(const ValueId opposite, builder.emit("aten.neg", {norm}));
      DTR_ASSIGN(const ValueId negative, binary(builder, "aten.lt.Tensor", corner, zero));
      DTR_ASSIGN(const ValueId made, builder.emit(kWhere, {negative, norm, opposite}));
      DTR_ASSIGN(const ValueId first, binary(builder, kMinus, corner, made));
      DTR_ASSIGN(const ValueId others, rows(builder, column, 1, left));
      Reflection reflection;
      DTR_ASSIGN(reflection.vector, builder.concatenate({first, others}, row_dim(builder, column)));
      // 2 / (vᵀ · v) = −1 / (made · first). A column that is zero below its corner stays, and so
      // does the sign of the corner, as in LAPACK.
      DTR_ASSIGN(ValueId divisor, binary(builder, kTimes, made, first));
      DTR_ASSIGN(ValueId beneath, binary(builder, kTimes, others, others));
      DTR_ASSIGN(beneath, sum_of_rows(builder, beneath));
      DTR_ASSIGN(const ValueId none, binary(builder, "aten.eq.Tensor", beneath, zero));
      DTR_ASSIGN(const ValueId minus_one, real_number(builder, norm, -1));
      DTR_ASSIGN(divisor, builder.emit(kWhere, {none, minus_one, divisor}));
      DTR_ASSIGN(reflection.factor, binary(builder, kBy, minus_one, divisor));
      DTR_ASSIGN(reflection.factor, builder.emit(kWhere, {none, zero, reflection.factor}));
      reflections.push_back(reflection);
      DTR_ASSIGN(const ValueId weighted, binary(builder, kTimes, reflection.vector, x));
      DTR_ASSIGN(ValueId taken, sum_of_rows(builder, weighted));
      DTR_ASSIGN(taken, binary(builder, kTimes, taken, reflection.factor));
      DTR_ASSIGN(taken, binary(builder, kTimes, reflection.vector, taken));
      DTR_ASSIGN(x, binary(builder, kMinus, x, taken));
    }
    DTR_ASSIGN(ValueId row, rows(builder, x, 0, 1));
    DTR_ASSIGN(row, builder.pad(row, {step, 0}, 0));
    found.push_back(row);
    if (step + 1 < steps) {
      DTR_ASSIGN(x, rest(builder, x));
    }
  }
  Orthogonal result;
  DTR_ASSIGN(result.r, builder.concatenate(found, row_dim(builder, found[0])));
  DTR_ASSIGN(result.r, builder.pad(result.r, {0, 0, 0, count - steps}, 0));
  if (!with_q) return result;
  std::vector<double> ones(static_cast<size_t>(height * count), 0);
  for (int64_t i = 0; i < std::min(height, count); ++i)
    ones[static_cast<size_t>(i * count + i)] = 1;
  DTR_ASSIGN(ValueId q, builder.constant(builder.type(matrices).dtype, ones, Shape{height, count}));
  Shape batch = shape;
  batch.back() = count;
  DTR_ASSIGN(q, builder.expand(q, batch));
  for (size_t i = reflections.size(); i-- > 0;) {
    const auto above = static_cast<int64_t>(i);
    DTR_ASSIGN(const ValueId upper, rows(builder, q, 0, above));
    DTR_ASSIGN(const ValueId lower, rows(builder, q, above, height));
    DTR_ASSIGN(const ValueId weighted, binary(builder, kTimes, reflections[i].vector, lower));
    DTR_ASSIGN(ValueId taken, sum_of_rows(builder, weighted));
    DTR_ASSIGN(taken, binary(builder, kTimes, taken, reflections[i].factor));
    DTR_ASSIGN(taken, binary(builder, kTimes, reflections[i].vector, taken));
    DTR_ASSIGN(const ValueId changed, binary(builder, kMinus, lower, taken));
    DTR_ASSIGN(q, above == 0 ? Value(changed)
                             : builder.concatenate({upper, changed}, row_dim(builder, q)));
  }
  result.q = q;
  return result;
}

// Halved until its norm is at most ½, where nine terms are exact; squared as often. The norm is the
// greatest sum of a column.
Result<ValueId> exponential(GraphBuilder& builder, ValueId matrices) {
  constexpr int kMostHalvings = 12, kTerms = 9;
  const GraphBuilder::KeepsFloat exact(builder);
  DTR_ASSIGN(const ValueId identity, identity_like(builder, matrices));
  DTR_ASSIGN(ValueId norm, builder.emit("aten.abs", {matrices}));
  DTR_ASSIGN(norm, sum_of_rows(builder, norm));
  const Ints last{row_dim(builder, matrices) + 1};
  DTR_ASSIGN(norm, builder.emit("aten.amax", {norm}, {{"dim", last}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId half, real_number(builder, matrices, 0.5));
  ValueId x = matrices;
  std::vector<ValueId> halved;
  for (int i = 0; i < kMostHalvings; ++i) {
    DTR_ASSIGN(const ValueId bound, real_number(builder, norm, std::ldexp(0.5, i)));
    DTR_ASSIGN(const ValueId applies, binary(builder, "aten.gt.Tensor", norm, bound));
    DTR_ASSIGN(const ValueId smaller, binary(builder, kTimes, x, half));
    DTR_ASSIGN(x, builder.emit(kWhere, {applies, smaller, x}));
    halved.push_back(applies);
  }
  // 1 + x (1 + x/2 (1 + x/3 (…))).
  DTR_ASSIGN(ValueId result, builder.expand(identity, builder.type(x).shape));
  for (int k = kTerms; k > 0; --k) {
    DTR_ASSIGN(const ValueId factor, real_number(builder, x, 1.0 / k));
    DTR_ASSIGN(const ValueId part, binary(builder, kTimes, x, factor));
    DTR_ASSIGN(const ValueId product, builder.emit("aten.matmul", {part, result}));
    DTR_ASSIGN(result, binary(builder, kPlus, product, identity));
  }
  for (const ValueId applies : halved) {
    DTR_ASSIGN(const ValueId square, builder.emit("aten.matmul", {result, result}));
    DTR_ASSIGN(result, builder.emit(kWhere, {applies, square, result}));
  }
  return result;
}

}  // namespace dtr::compositions
