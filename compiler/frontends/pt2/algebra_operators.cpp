// Products of vectors and matrices that are no plain matrix product, windows of signals, functions
// of signs, fractions and pairs of numbers, diagonals and triangles.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// (…, a, b) and (…, c, d) to (…, a · c, b · d).
Result<Values> kron(NodeImport& node) {
  DTR_ASSIGN(ValueId a, node.tensor("self"));
  DTR_ASSIGN(ValueId b, node.tensor("other"));
  Shape left = node.type(a).shape, right = node.type(b).shape;
  const size_t rank = std::max(left.size(), right.size());
  left.insert(left.begin(), rank - left.size(), 1);
  right.insert(right.begin(), rank - right.size(), 1);
  Shape wide_left, wide_right, result;
  for (size_t d = 0; d < rank; ++d) {
    wide_left.insert(wide_left.end(), {left[d], 1});
    wide_right.insert(wide_right.end(), {1, right[d]});
    result.push_back(left[d] * right[d]);
  }
  DTR_ASSIGN(a, node.view(a, wide_left));
  DTR_ASSIGN(b, node.view(b, wide_right));
  DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {a, b}));
  return one(node.view(product, result));
}

Result<Values> cross(NodeImport& node) {
  DTR_ASSIGN(ValueId a, node.tensor("self"));
  DTR_ASSIGN(ValueId b, node.tensor("other"));
  const Shape left = node.type(a).shape, right = node.type(b).shape;
  const size_t rank = left.size();
  int64_t dim = -1;
  if (node.has("dim")) {
    DTR_ASSIGN(dim, node.dim("dim", rank));
  } else if (node.node().target.find("linalg") != std::string_view::npos) {
    dim = static_cast<int64_t>(rank) - 1;
  } else {
    for (size_t d = rank; d-- > 0;)
      if (left[d] == 3) dim = static_cast<int64_t>(d);
  }
  const auto is_three = [&](const Shape& shape) {
    return dim >= 0 && shape.size() == rank && shape[static_cast<size_t>(dim)] == 3;
  };
  if (!is_three(left) || !is_three(right))
    return node.unsupported(
        fmt::format("the vectors {} and {}", to_string(left), to_string(right)));
  const auto part = [&](ValueId x, int64_t i) { return node.slice(x, dim, i % 3, i % 3 + 1); };
  Values parts;
  for (int64_t i = 0; i < 3; ++i) {
    DTR_ASSIGN(const ValueId a1, part(a, i + 1));
    DTR_ASSIGN(const ValueId b2, part(b, i + 2));
    DTR_ASSIGN(const ValueId a2, part(a, i + 2));
    DTR_ASSIGN(const ValueId b1, part(b, i + 1));
    DTR_ASSIGN(const ValueId first, node.emit("aten.mul.Tensor", {a1, b2}));
    DTR_ASSIGN(const ValueId second, node.emit("aten.mul.Tensor", {a2, b1}));
    DTR_ASSIGN(const ValueId each, node.emit("aten.sub.Tensor", {first, second}));
    parts.push_back(each);
  }
  return one(node.concatenate(parts, dim));
}

// y[o] = Σ_ij x1[i] · weight[o][i][j] · x2[j] + bias[o]: first over j, as a linear layer of o · i
// rows.
Result<Values> bilinear(NodeImport& node) {
  DTR_ASSIGN(ValueId x1, node.tensor("input1"));
  DTR_ASSIGN(const ValueId x2, node.tensor("input2"));
  DTR_ASSIGN(ValueId weight, node.tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  const Shape of_weight = node.type(weight).shape;
  if (of_weight.size() != 3 || node.type(x2).rank() == 0)
    return node.unsupported(fmt::format("weights of {}", to_string(of_weight)));
  const int64_t outputs = of_weight[0], inner = of_weight[1];
  DTR_ASSIGN(weight, node.view(weight, {outputs * inner, of_weight[2]}));
  DTR_ASSIGN(ValueId rows, node.emit("aten.linear", {x2, weight}));
  Shape shape = node.type(rows).shape;
  shape.back() = outputs;
  shape.push_back(inner);
  DTR_ASSIGN(rows, node.view(rows, shape));
  Shape of_x1 = node.type(x1).shape;
  of_x1.insert(of_x1.end() - 1, 1);
  DTR_ASSIGN(x1, node.view(x1, of_x1));
  DTR_ASSIGN(rows, node.emit("aten.mul.Tensor", {rows, x1}));
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  DTR_ASSIGN(ValueId result,
             node.emit("aten.sum.dim_IntList", {rows}, {{"dim", Ints{last}}, {"keepdim", false}}));
  if (bias.valid()) {
    DTR_ASSIGN(result, node.emit("aten.add.Tensor", {result, bias}));
  }
  return Values{result};
}

// ---- windows of signals

// curve(place, period) of the places 0, 1, … of one period.
template <class Curve>
Result<Values> window(NodeImport& node, Curve curve) {
  DTR_ASSIGN(const int64_t length, node.integer("window_length"));
  DTR_ASSIGN(const bool periodic, node.boolean("periodic", true));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  constexpr int64_t kMost = 1 << 20;
  if (length < 0 || length > kMost)
    return node.unsupported(fmt::format("a window of {}, at most {} are taken", length, kMost));
  const auto period = static_cast<double>(periodic ? length : length - 1);
  std::vector<double> values(static_cast<size_t>(length), 1);
  for (size_t i = 0; i < values.size() && length > 1; ++i)
    values[i] = curve(static_cast<double>(i), period);
  return one(node.GraphBuilder::constant(dtype.value_or(DType::kFloat32), values));
}

Result<Values> sum_of_cosines(NodeImport& node, const std::vector<double>& cosines) {
  return window(node, [&](double place, double period) {
    double sum = 0;
    for (size_t k = 0; k < cosines.size(); ++k)
      sum +=
          cosines[k] * std::cos(2 * std::numbers::pi * (static_cast<double>(k) * place) / period);
    return sum;
  });
}
Result<Values> hann(NodeImport& node) { return sum_of_cosines(node, {0.5, -0.5}); }
Result<Values> hamming(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", 0.54));
  DTR_ASSIGN(const double beta, node.number("beta", 0.46));
  return sum_of_cosines(node, {alpha, -beta});
}
Result<Values> blackman(NodeImport& node) { return sum_of_cosines(node, {0.42, -0.5, 0.08}); }

Result<Values> bartlett(NodeImport& node) {
  return window(node,
                [](double place, double period) { return 1 - std::abs(2 * place / period - 1); });
}

// I₀, by its series.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; k < 1000 && term > sum * 1e-17; ++k) {
    term *= x * x / 4 / (static_cast<double>(k) * k);
    sum += term;
  }
  return sum;
}
Result<Values> kaiser(NodeImport& node) {
  DTR_ASSIGN(const double beta, node.number("beta", 12));
  if (!(std::abs(beta) <= 500)) return node.unsupported(fmt::format("`beta` is {}", beta));
  return window(node, [beta, scale = bessel(beta)](double place, double period) {
    const double from_middle = 2 * place / period - 1;
    return bessel(beta * std::sqrt(std::max(0.0, 1 - from_middle * from_middle))) / scale;
  });
}

// ---- functions of each element

// √(a² + b²).
Result<Values> hypot(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  DTR_ASSIGN(const ValueId a, node.emit("aten.mul.Tensor", {both.first, both.first}));
  DTR_ASSIGN(const ValueId b, node.emit("aten.mul.Tensor", {both.second, both.second}));
  DTR_ASSIGN(const ValueId sum, node.emit("aten.add.Tensor", {a, b}));
  return one(node.emit("aten.sqrt", {sum}));
}

Result<ValueId> is_negative(NodeImport& node, ValueId x) {
  DTR_ASSIGN(const ValueId zero, number_like(node, x, 0));
  return node.emit("aten.lt.Tensor", {x, zero});
}

Result<Values> signbit(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return one(is_negative(node, x));
}

// |a| with the sign of b; −0 counts as 0, since codes have one zero.
Result<Values> copysign(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "other"));
  DTR_ASSIGN(const ValueId size, node.emit("aten.abs", {both.first}));
  DTR_ASSIGN(const ValueId opposite, node.emit("aten.neg", {size}));
  DTR_ASSIGN(const ValueId negative, is_negative(node, both.second));
  return one(node.emit("aten.where.self", {negative, opposite, size}));
}

// 0 below zero, 1 above, `values` at zero.
Result<Values> heaviside(NodeImport& node) {
  DTR_ASSIGN(const auto both, node.pair("self", "values"));
  const auto& [x, values] = both;
  DTR_ASSIGN(const ValueId zero, number_like(node, x, 0));
  DTR_ASSIGN(ValueId step, node.emit("aten.gt.Tensor", {x, zero}));
  DTR_ASSIGN(step, node.cast(step, node.type(x).dtype));
  DTR_ASSIGN(const ValueId at_zero, node.emit("aten.eq.Tensor", {x, zero}));
  return one(node.emit("aten.where.self", {at_zero, values, step}));
}

Result<Values> frac(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId whole, node.emit("aten.trunc", {x}));
  return one(node.emit("aten.sub.Tensor", {x, whole}));
}

Result<Values> round_decimals(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t decimals, node.integer("decimals"));
  if (decimals < -30 || decimals > 30)
    return node.unsupported(fmt::format("{} decimals", decimals));
  // Powers of ten from 1 on are exact.
  DTR_ASSIGN(const ValueId factor, number_like(node, x, std::pow(10.0, std::abs(decimals))));
  const std::string_view there = decimals < 0 ? "aten.div.Tensor" : "aten.mul.Tensor";
  const std::string_view back = decimals < 0 ? "aten.mul.Tensor" : "aten.div.Tensor";
  DTR_ASSIGN(const ValueId scaled, node.emit(there, {x, factor}));
  DTR_ASSIGN(const ValueId rounded, node.emit("aten.round", {scaled}));
  return one(node.emit(back, {rounded, factor}));
}

// ---- reductions

Result<Values> least_and_greatest(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  const size_t rank = node.type(x).rank();
  Ints dims;
  if (node.has("dim")) {
    DTR_ASSIGN(dims.emplace_back(), node.dim("dim", rank));
  } else {
    for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  }
  Values results;
  for (const std::string_view op : {"aten.amin", "aten.amax"}) {
    DTR_ASSIGN(results.emplace_back(), node.emit(op, {x}, {{"dim", dims}, {"keepdim", keepdim}}));
  }
  return results;
}

// Parts along `dim` whose norm exceeds the greatest are scaled down to it.
Result<Values> renorm(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double p, node.number("p"));
  DTR_ASSIGN(const double greatest, node.number("maxnorm"));
  const size_t rank = node.type(x).rank();
  DTR_ASSIGN(const int64_t kept, node.dim("dim", rank));
  Ints dims;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (d != kept) dims.push_back(d);
  DTR_ASSIGN(ValueId norm, compositions::vector_norm(node, x, p, dims, true));
  DTR_ASSIGN(const ValueId epsilon, number_like(node, x, 1e-7));
  DTR_ASSIGN(norm, node.emit("aten.add.Tensor", {norm, epsilon}));
  DTR_ASSIGN(ValueId factor, node.emit("aten.reciprocal", {norm}));
  DTR_ASSIGN(const ValueId most, number_like(node, x, greatest));
  DTR_ASSIGN(factor, node.emit("aten.mul.Tensor", {factor, most}));
  DTR_ASSIGN(const ValueId unit, number_like(node, x, 1));
  DTR_ASSIGN(factor, node.emit("aten.minimum", {factor, unit}));
  return one(node.emit("aten.mul.Tensor", {x, factor}));
}

// ---- matrices

// The last dimension as a diagonal of matrices, `offset` to the right of the middle one.
Result<Values> diag_embed(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t offset, node.integer("offset", 0));
  const Shape shape = node.type(x).shape;
  if (shape.empty()) return node.unsupported("the tensor is a scalar");
  const size_t rank = shape.size() + 1;
  DTR_ASSIGN(const int64_t dim1, node.dim("dim1", rank, -2));
  DTR_ASSIGN(const int64_t dim2, node.dim("dim2", rank, -1));
  const int64_t count = shape.back(), size = count + std::abs(offset);
  if (dim1 == dim2 || size > 4096) return node.unsupported(fmt::format("a diagonal of {}", size));
  // Element i is in row i and column i + offset, or in row i − offset and column i.
  const bool right = offset >= 0;
  std::vector<double> ones(static_cast<size_t>(count * size), 0);
  for (int64_t i = 0; i < count; ++i)
    ones[static_cast<size_t>(right ? i * size + i + offset : (i - offset) * count + i)] = 1;
  DTR_ASSIGN(ValueId places,
             node.GraphBuilder::constant(DType::kFloat32, ones,
                                         right ? Shape{count, size} : Shape{size, count}));
  DTR_ASSIGN(places, node.cast(places, node.type(x).dtype));
  Shape wide = shape;
  wide.insert(right ? wide.end() : wide.end() - 1, 1);
  DTR_ASSIGN(x, node.view(x, wide));
  DTR_ASSIGN(x, node.emit("aten.mul.Tensor", {x, places}));
  DTR_ASSIGN(x, node.pad(x, right ? Ints{0, 0, 0, offset} : Ints{0, -offset}, 0));
  Ints order;
  for (int64_t d = 0, next = 0; d < static_cast<int64_t>(rank); ++d)
    order.push_back(d == dim1   ? static_cast<int64_t>(rank) - 2
                    : d == dim2 ? static_cast<int64_t>(rank) - 1
                                : next++);
  return one(node.permute(x, order));
}

Result<Values> block_diag(NodeImport& node) {
  DTR_ASSIGN(Values blocks, node.tensors("tensors"));
  int64_t width = 0, before = 0;
  for (ValueId& block : blocks) {
    Shape shape = node.type(block).shape;
    shape.insert(shape.begin(), shape.size() < 2 ? 2 - shape.size() : 0, 1);
    DTR_ASSIGN(block, node.view(block, shape));
    width += shape[1];
  }
  if (blocks.empty()) return node.unsupported("it has no blocks");
  for (ValueId& block : blocks) {
    const int64_t own = node.type(block).shape[1];
    DTR_ASSIGN(block, node.pad(block, {before, width - before - own}, 0));
    before += own;
  }
  return one(node.concatenate(std::move(blocks), 0));
}

// Rows and columns of the elements of a triangle.
template <bool kUpper>
Result<Values> triangle_indices(NodeImport& node) {
  DTR_ASSIGN(const int64_t rows, node.integer("row"));
  DTR_ASSIGN(const int64_t columns, node.integer("col"));
  DTR_ASSIGN(const int64_t offset, node.integer("offset", 0));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  constexpr int64_t kMost = 4096;
  if (rows < 0 || columns < 0 || rows > kMost || columns > kMost)
    return node.unsupported(fmt::format("a triangle of {} × {}", rows, columns));
  std::vector<double> places, of_column;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      if (kUpper ? c - r < offset : c - r > offset) continue;
      places.push_back(static_cast<double>(r));
      of_column.push_back(static_cast<double>(c));
    }
  const auto count = static_cast<int64_t>(places.size());
  places.insert(places.end(), of_column.begin(), of_column.end());
  return one(node.GraphBuilder::constant(dtype.value_or(DType::kInt64), places, Shape{2, count}));
}

}  // namespace

std::vector<Operator> algebra_operators() {
  return {
      tensor_row("aten.bilinear.default", "aten.linear", bilinear),
      tensor_row("aten.cross.default", "aten.mul.Tensor", cross),
      tensor_row("aten.linalg_cross.default", "aten.mul.Tensor", cross),
      tensor_row("aten.kron.default", "aten.mul.Tensor", kron),
      tensor_row("aten.bartlett_window.default", "", bartlett),
      tensor_row("aten.bartlett_window.periodic", "", bartlett),
      tensor_row("aten.blackman_window.default", "", blackman),
      tensor_row("aten.blackman_window.periodic", "", blackman),
      tensor_row("aten.hamming_window.default", "", hamming),
      tensor_row("aten.hamming_window.periodic", "", hamming),
      tensor_row("aten.hamming_window.periodic_alpha", "", hamming),
      tensor_row("aten.hamming_window.periodic_alpha_beta", "", hamming),
      tensor_row("aten.hann_window.default", "", hann),
      tensor_row("aten.hann_window.periodic", "", hann),
      tensor_row("aten.kaiser_window.beta", "", kaiser),
      tensor_row("aten.kaiser_window.default", "", kaiser),
      tensor_row("aten.kaiser_window.periodic", "", kaiser),
      tensor_row("aten.aminmax.default", "aten.amax", least_and_greatest),
      tensor_row("aten.block_diag.default", "aten.cat", block_diag),
      tensor_row("aten.copysign.Scalar", "aten.where.self", copysign),
      tensor_row("aten.copysign.Tensor", "aten.where.self", copysign),
      tensor_row("aten.diag_embed.default", "aten.mul.Tensor", diag_embed),
      tensor_row("aten.frac.default", "aten.trunc", frac),
      tensor_row("aten.heaviside.default", "aten.where.self", heaviside),
      tensor_row("aten.hypot.default", "aten.sqrt", hypot),
      tensor_row("aten.renorm.default", "aten.minimum", renorm),
      tensor_row("aten.round.decimals", "aten.round", round_decimals),
      tensor_row("aten.signbit.default", "aten.lt.Tensor", signbit),
      tensor_row("aten.tril_indices.default", "", triangle_indices<false>),
      tensor_row("aten.triu_indices.default", "", triangle_indices<true>),
  };
}

}  // namespace dtr::pt2
