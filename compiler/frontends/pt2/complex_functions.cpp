// Functions of complex numbers: each from functions of their real and imaginary parts, or of their
// lengths and angles.
#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "compiler/compositions/factorizations.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/complex_operators.h"

namespace dtr::pt2 {

Result<ValueId> part_of(NodeImport& node, ValueId x, int64_t which) {
  Shape shape = node.type(x).shape;
  const auto last = static_cast<int64_t>(shape.size()) - 1;
  DTR_ASSIGN(const ValueId taken, node.slice(x, last, which, which + 1));
  shape.pop_back();
  return node.view(taken, shape);
}

Result<ValueId> with_parts(NodeImport& node, ValueId real, ValueId imaginary) {
  Values both;
  for (ValueId each : {real, imaginary}) {
    Shape shape = node.type(each).shape;
    shape.push_back(1);
    DTR_ASSIGN(each, node.view(each, shape));
    both.push_back(each);
  }
  return node.concatenate(both, static_cast<int64_t>(node.type(both[0]).rank()) - 1);
}

Result<ValueId> zeros_like(NodeImport& node, ValueId x) {
  const Type type = node.type(x);
  DTR_ASSIGN(const ValueId zero, node.constant(type.dtype, Shape(type.rank(), 1), 0, "zero"));
  return node.expand(zero, type.shape);
}

Result<Parts> parts_of_value(NodeImport& node, ValueId x) {
  Parts parts;
  DTR_ASSIGN(parts.real, part_of(node, x, 0));
  DTR_ASSIGN(parts.imaginary, part_of(node, x, 1));
  return parts;
}

Result<Parts> parts_of(NodeImport& node, std::string_view name) {
  if (!node.has_tensor(name)) {
    DTR_ASSIGN(const std::complex<double> number, node.complex_number(name));
    Parts parts;
    DTR_ASSIGN(parts.real, node.constant(DType::kFloat32, {}, number.real(), name));
    if (number.imag() != 0) {
      DTR_ASSIGN(parts.imaginary, node.constant(DType::kFloat32, {}, number.imag(), name));
    }
    return parts;
  }
  DTR_ASSIGN(const ValueId x, node.tensor(name));
  if (node.is_complex(name)) return parts_of_value(node, x);
  DTR_ASSIGN(const ValueId real, node.cast(x, DType::kFloat32));
  return Parts{real, {}};
}

Result<Parts> both_parts_of(NodeImport& node, std::string_view name) {
  DTR_ASSIGN(Parts parts, parts_of(node, name));
  if (!parts.imaginary.valid()) {
    DTR_ASSIGN(parts.imaginary, zeros_like(node, parts.real));
  }
  return parts;
}

Result<ValueId> joined(NodeImport& node, const Parts& parts) {
  return with_parts(node, parts.real, parts.imaginary);
}

namespace {

using Unary = Result<Parts> (*)(NodeImport&, const Parts&);

Result<ValueId> on(NodeImport& node, std::string_view op, ValueId x) { return node.emit(op, {x}); }
Result<ValueId> on(NodeImport& node, std::string_view op, ValueId x, ValueId y) {
  return node.emit(op, {x, y});
}
constexpr std::string_view kPlus = "aten.add.Tensor", kMinus = "aten.sub.Tensor",
                           kTimes = "aten.mul.Tensor", kBy = "aten.div.Tensor";

Result<Parts> scaled(NodeImport& node, const Parts& x, ValueId factor) {
  Parts result;
  DTR_ASSIGN(result.real, on(node, kTimes, x.real, factor));
  DTR_ASSIGN(result.imaginary, on(node, kTimes, x.imaginary, factor));
  return result;
}
Result<Parts> times(NodeImport& node, const Parts& x, double factor) {
  DTR_ASSIGN(const ValueId number, number_like(node, x.real, factor));
  return scaled(node, x, number);
}
Result<Parts> sum(NodeImport& node, const Parts& a, const Parts& b, std::string_view op = kPlus) {
  Parts result;
  DTR_ASSIGN(result.real, on(node, op, a.real, b.real));
  DTR_ASSIGN(result.imaginary, on(node, op, a.imaginary, b.imaginary));
  return result;
}
Result<Parts> plus_number(NodeImport& node, const Parts& x, double number) {
  DTR_ASSIGN(const ValueId real, with_number(node, kPlus, x.real, number));
  return Parts{real, x.imaginary};
}
// i · x.
Result<Parts> turned(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId real, on(node, "aten.neg", x.imaginary));
  return Parts{real, x.real};
}

Result<ValueId> squared_length(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId real, on(node, kTimes, x.real, x.real));
  DTR_ASSIGN(const ValueId imaginary, on(node, kTimes, x.imaginary, x.imaginary));
  return on(node, kPlus, real, imaginary);
}

}  // namespace

Result<Parts> product(NodeImport& node, const Parts& a, const Parts& b) {
  return multiply(node, a, b, [&](ValueId x, ValueId y) { return on(node, kTimes, x, y); });
}

// Times the conjugate of b, by its square.
Result<Parts> quotient(NodeImport& node, const Parts& a, const Parts& b) {
  DTR_ASSIGN(const ValueId opposite, on(node, "aten.neg", b.imaginary));
  DTR_ASSIGN(const Parts above, product(node, a, {b.real, opposite}));
  DTR_ASSIGN(const ValueId below, squared_length(node, b));
  Parts result;
  DTR_ASSIGN(result.real, on(node, kBy, above.real, below));
  DTR_ASSIGN(result.imaginary, on(node, kBy, above.imaginary, below));
  return result;
}

Result<ValueId> length_of(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId square, squared_length(node, x));
  return on(node, "aten.sqrt", square);
}
Result<ValueId> angle_of(NodeImport& node, const Parts& x) {
  return on(node, "aten.atan2", x.imaginary, x.real);
}
Result<Parts> at_angle(NodeImport& node, ValueId length, ValueId angle) {
  Parts parts;
  for (const auto& [to, op] :
       {std::pair{&parts.real, "aten.cos"}, {&parts.imaginary, "aten.sin"}}) {
    DTR_ASSIGN(const ValueId direction, on(node, op, angle));
    DTR_ASSIGN(*to, on(node, kTimes, length, direction));
  }
  return parts;
}

namespace {

// ---- functions

Result<Parts> exponential(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId length, on(node, "aten.exp", x.real));
  return at_angle(node, length, x.imaginary);
}
Result<Parts> exponential_less_one(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts power, exponential(node, x));
  return plus_number(node, power, -1);
}
Result<Parts> power_of_two(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts exponent, times(node, x, std::numbers::ln2));
  return exponential(node, exponent);
}
Result<Parts> logarithm(NodeImport& node, const Parts& x) {
  Parts result;
  DTR_ASSIGN(const ValueId length, length_of(node, x));
  DTR_ASSIGN(result.real, on(node, "aten.log", length));
  DTR_ASSIGN(result.imaginary, angle_of(node, x));
  return result;
}
template <int kBase>
Result<Parts> logarithm_to(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts natural, logarithm(node, x));
  return times(node, natural, 1 / std::log(static_cast<double>(kBase)));
}
Result<Parts> logarithm_of_more(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts more, plus_number(node, x, 1));
  return logarithm(node, more);
}
// The root whose angle is half as large.
Result<Parts> root(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId length, length_of(node, x));
  DTR_ASSIGN(const ValueId of_length, on(node, "aten.sqrt", length));
  DTR_ASSIGN(const ValueId angle, angle_of(node, x));
  DTR_ASSIGN(const ValueId half, with_number(node, kTimes, angle, 0.5));
  return at_angle(node, of_length, half);
}
// The conjugate by the square.
Result<Parts> reciprocal(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId square, squared_length(node, x));
  Parts result;
  DTR_ASSIGN(result.real, on(node, kBy, x.real, square));
  DTR_ASSIGN(const ValueId opposite, on(node, "aten.neg", x.imaginary));
  DTR_ASSIGN(result.imaginary, on(node, kBy, opposite, square));
  return result;
}
Result<Parts> reciprocal_root(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts below, root(node, x));
  return reciprocal(node, below);
}
Result<Parts> square(NodeImport& node, const Parts& x) { return product(node, x, x); }

// Of length 1, or 0.
Result<Parts> direction(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId length, length_of(node, x));
  DTR_ASSIGN(const ValueId zero, number_like(node, length, 0));
  DTR_ASSIGN(const ValueId unit, number_like(node, length, 1));
  DTR_ASSIGN(const ValueId is_zero, on(node, "aten.eq.Tensor", length, zero));
  DTR_ASSIGN(const ValueId divisor, node.emit("aten.where.self", {is_zero, unit, length}));
  Parts result;
  DTR_ASSIGN(result.real, on(node, kBy, x.real, divisor));
  DTR_ASSIGN(result.imaginary, on(node, kBy, x.imaginary, divisor));
  return result;
}

// (e^x + e^−x) / 2, or with a minus.
Result<ValueId> hyperbolic(NodeImport& node, ValueId x, bool sine) {
  DTR_ASSIGN(const ValueId opposite, on(node, "aten.neg", x));
  DTR_ASSIGN(const ValueId grown, on(node, "aten.exp", x));
  DTR_ASSIGN(const ValueId shrunk, on(node, "aten.exp", opposite));
  DTR_ASSIGN(const ValueId both, on(node, sine ? kMinus : kPlus, grown, shrunk));
  return with_number(node, kTimes, both, 0.5);
}
// sinh(x + iy) = sinh x cos y + i cosh x sin y, and cosh with both exchanged.
template <bool kSine>
Result<Parts> hyperbolic(NodeImport& node, const Parts& x) {
  Parts result;
  DTR_ASSIGN(const ValueId cosine, on(node, "aten.cos", x.imaginary));
  DTR_ASSIGN(const ValueId sine, on(node, "aten.sin", x.imaginary));
  DTR_ASSIGN(const ValueId first, hyperbolic(node, x.real, kSine));
  DTR_ASSIGN(const ValueId second, hyperbolic(node, x.real, !kSine));
  DTR_ASSIGN(result.real, on(node, kTimes, first, cosine));
  DTR_ASSIGN(result.imaginary, on(node, kTimes, second, sine));
  return result;
}
// (1 − e² + 2ie sin 2y · sign x) / (1 + 2e cos 2y + e²) with e = exp(−2|x|), which is at most 1,
// times the sign of x.
Result<Parts> hyperbolic_tangent(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(ValueId e, on(node, "aten.abs", x.real));
  DTR_ASSIGN(e, with_number(node, kTimes, e, -2));
  DTR_ASSIGN(e, on(node, "aten.exp", e));
  DTR_ASSIGN(const ValueId squared, on(node, kTimes, e, e));
  DTR_ASSIGN(const ValueId angle, with_number(node, kTimes, x.imaginary, 2));
  DTR_ASSIGN(ValueId cosine, on(node, "aten.cos", angle));
  DTR_ASSIGN(ValueId sine, on(node, "aten.sin", angle));
  DTR_ASSIGN(const ValueId twice, with_number(node, kTimes, e, 2));
  DTR_ASSIGN(cosine, on(node, kTimes, cosine, twice));
  DTR_ASSIGN(sine, on(node, kTimes, sine, twice));
  DTR_ASSIGN(ValueId below, on(node, kPlus, squared, cosine));
  DTR_ASSIGN(below, with_number(node, kPlus, below, 1));
  DTR_ASSIGN(const ValueId unit, number_like(node, e, 1));
  DTR_ASSIGN(ValueId above, on(node, kMinus, unit, squared));
  DTR_ASSIGN(const ValueId sign, on(node, "aten.sign", x.real));
  DTR_ASSIGN(above, on(node, kTimes, above, sign));
  Parts result;
  DTR_ASSIGN(result.real, on(node, kBy, above, below));
  DTR_ASSIGN(result.imaginary, on(node, kBy, sine, below));
  return result;
}
// f(x) = −i · g(ix): sin of sinh, tan of tanh; cos x = cosh(ix).
template <Unary kOf>
Result<Parts> turned_there_and_back(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts there, turned(node, x));
  DTR_ASSIGN(const Parts result, kOf(node, there));
  DTR_ASSIGN(const ValueId imaginary, on(node, "aten.neg", result.real));
  return Parts{result.imaginary, imaginary};
}
Result<Parts> cosine(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts there, turned(node, x));
  return hyperbolic<false>(node, there);
}
// (1 + tanh(x / 2)) / 2.
Result<Parts> sigmoid(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts half, times(node, x, 0.5));
  DTR_ASSIGN(const Parts tangent, hyperbolic_tangent(node, half));
  DTR_ASSIGN(const Parts more, plus_number(node, tangent, 1));
  return times(node, more, 0.5);
}
Result<Parts> silu(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts factor, sigmoid(node, x));
  return product(node, x, factor);
}

// log(x + √(x² + 1)), of the one of x and −x whose parts do not cancel.
Result<Parts> inverse_of_sinh(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId unit, number_like(node, x.real, 1));
  DTR_ASSIGN(const ValueId minus, number_like(node, x.real, -1));
  DTR_ASSIGN(const ValueId negative, with_number(node, "aten.lt.Tensor", x.real, 0));
  DTR_ASSIGN(const ValueId side, node.emit("aten.where.self", {negative, minus, unit}));
  DTR_ASSIGN(const Parts positive, scaled(node, x, side));
  DTR_ASSIGN(Parts result, square(node, positive));
  DTR_ASSIGN(result, plus_number(node, result, 1));
  DTR_ASSIGN(result, root(node, result));
  DTR_ASSIGN(result, sum(node, positive, result));
  DTR_ASSIGN(result, logarithm(node, result));
  return scaled(node, result, side);
}
// log(x + √(x + 1) √(x − 1)).
Result<Parts> inverse_of_cosh(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(Parts above, plus_number(node, x, 1));
  DTR_ASSIGN(Parts below, plus_number(node, x, -1));
  DTR_ASSIGN(above, root(node, above));
  DTR_ASSIGN(below, root(node, below));
  DTR_ASSIGN(Parts result, product(node, above, below));
  DTR_ASSIGN(result, sum(node, x, result));
  return logarithm(node, result);
}
// (log(1 + x) − log(1 − x)) / 2.
Result<Parts> inverse_of_tanh(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts opposite, times(node, x, -1));
  DTR_ASSIGN(const Parts above, logarithm_of_more(node, x));
  DTR_ASSIGN(const Parts below, logarithm_of_more(node, opposite));
  DTR_ASSIGN(const Parts way, sum(node, above, below, kMinus));
  return times(node, way, 0.5);
}
// π/2 − asin x.
Result<Parts> inverse_of_cosine(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const Parts sine, turned_there_and_back<inverse_of_sinh>(node, x));
  DTR_ASSIGN(const Parts opposite, times(node, sine, -1));
  return plus_number(node, opposite, std::numbers::pi / 2);
}

template <Unary kOf>
Result<Values> function(NodeImport& node) {
  DTR_ASSIGN(const Parts x, parts_of(node, "self"));
  DTR_ASSIGN(const Parts result, kOf(node, x));
  return one(joined(node, result));
}
template <Result<ValueId> (*kOf)(NodeImport&, const Parts&)>
Result<Values> real_function(NodeImport& node) {
  DTR_ASSIGN(const Parts x, parts_of(node, "self"));
  return one(kOf(node, x));
}

// ---- powers

// By squaring; of a negative exponent the reciprocal.
Result<Parts> whole_power(NodeImport& node, const Parts& x, int64_t exponent) {
  Parts result, base = x;
  for (int64_t rest = std::abs(exponent); rest > 0; rest /= 2) {
    if (rest % 2 == 1) {
      DTR_ASSIGN(result, result.real.valid() ? product(node, result, base) : Result<Parts>(base));
    }
    if (rest > 1) {
      DTR_ASSIGN(base, square(node, base));
    }
  }
  return exponent < 0 ? reciprocal(node, result) : Result<Parts>(result);
}

// x to the power y: e^(y log x), of which the length of x to a real power is the length.
Result<Parts> power(NodeImport& node, const Parts& x, const Parts& y) {
  DTR_ASSIGN(ValueId length, length_of(node, x));
  DTR_ASSIGN(const ValueId angle, angle_of(node, x));
  DTR_ASSIGN(ValueId turn, on(node, kTimes, angle, y.real));
  const ValueId of_x = length;
  DTR_ASSIGN(length, on(node, "aten.pow.Tensor_Tensor", length, y.real));
  if (y.imaginary.valid()) {
    DTR_ASSIGN(ValueId shrunk, on(node, kTimes, angle, y.imaginary));
    DTR_ASSIGN(shrunk, on(node, "aten.neg", shrunk));
    DTR_ASSIGN(shrunk, on(node, "aten.exp", shrunk));
    DTR_ASSIGN(length, on(node, kTimes, length, shrunk));
    DTR_ASSIGN(ValueId further, on(node, "aten.log", of_x));
    DTR_ASSIGN(further, on(node, kTimes, further, y.imaginary));
    DTR_ASSIGN(turn, on(node, kPlus, turn, further));
  }
  return at_angle(node, length, turn);
}

Result<Values> power_of(NodeImport& node) {
  constexpr double kMostWhole = 64;  // more products lose more than a logarithm does
  if (!node.has_tensor("exponent")) {
    DTR_ASSIGN(const std::complex<double> exponent, node.complex_number("exponent"));
    const double real = exponent.real();
    if (exponent.imag() == 0 && real == std::round(real) && real != 0 &&
        std::abs(real) <= kMostWhole && node.is_complex("self")) {
      DTR_ASSIGN(const Parts x, parts_of(node, "self"));
      DTR_ASSIGN(const Parts result, whole_power(node, x, static_cast<int64_t>(real)));
      return one(joined(node, result));
    }
  }
  DTR_ASSIGN(const Parts x, both_parts_of(node, "self"));
  DTR_ASSIGN(const Parts y, parts_of(node, "exponent"));
  DTR_ASSIGN(const Parts result, power(node, x, y));
  return one(joined(node, result));
}

// ---- comparisons

// Equal in both parts, or not in one.
template <bool kEqual>
Result<Values> compared(NodeImport& node) {
  DTR_ASSIGN(const Parts a, both_parts_of(node, "self"));
  DTR_ASSIGN(const Parts b, both_parts_of(node, "other"));
  const std::string_view op = kEqual ? "aten.eq.Tensor" : "aten.ne.Tensor";
  DTR_ASSIGN(const ValueId real, on(node, op, a.real, b.real));
  DTR_ASSIGN(const ValueId imaginary, on(node, op, a.imaginary, b.imaginary));
  return one(on(node, kEqual ? "aten.logical_and" : "aten.logical_or", real, imaginary));
}

// Whether a part is not a number, or both are less than infinite.
Result<ValueId> is_nan(NodeImport& node, const Parts& x) {
  DTR_ASSIGN(const ValueId real, on(node, "aten.ne.Tensor", x.real, x.real));
  DTR_ASSIGN(const ValueId imaginary, on(node, "aten.ne.Tensor", x.imaginary, x.imaginary));
  return on(node, "aten.logical_or", real, imaginary);
}
template <bool kFinite>
Result<ValueId> is_bounded(NodeImport& node, const Parts& x) {
  ValueId result;
  for (const ValueId part : {x.real, x.imaginary}) {
    DTR_ASSIGN(const ValueId size, on(node, "aten.abs", part));
    DTR_ASSIGN(const ValueId each, with_number(node, kFinite ? "aten.lt.Tensor" : "aten.eq.Tensor",
                                               size, std::numeric_limits<double>::infinity()));
    DTR_ASSIGN(result, result.valid() ? on(node, kFinite ? "aten.logical_and" : "aten.logical_or",
                                           result, each)
                                      : Result<ValueId>(each));
  }
  return result;
}

// ---- reductions

// The row of real numbers on the lengths: norms.
Result<Values> of_lengths(NodeImport& node) {
  DTR_ASSIGN(const Parts x, parts_of(node, "self"));
  DTR_ASSIGN(const ValueId length, length_of(node, x));
  std::string_view target = node.node().target;
  target.remove_prefix(std::string_view("torch.ops.").size());
  const NodeImport::Replaced replaced(node, {{"self", {length}}}, false);
  return import_operator(node, *find_operator(target).row);
}

// The variances of both parts add up.
template <bool kRoot>
Result<Values> spread(NodeImport& node) {
  DTR_ASSIGN(const Parts x, parts_of(node, "self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x.real).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const bool unbiased, node.boolean("unbiased", true));
  DTR_ASSIGN(const double correction, node.number("correction", unbiased ? 1 : 0));
  ValueId result;
  for (const ValueId part : {x.real, x.imaginary}) {
    DTR_ASSIGN(const ValueId mean,
               node.emit("aten.mean.dim", {part}, {{"dim", dims}, {"keepdim", true}}));
    DTR_ASSIGN(const ValueId own,
               compositions::variance(node, part, {mean, dims, keepdim, correction, false}));
    DTR_ASSIGN(result, result.valid() ? on(node, kPlus, result, own) : Result<ValueId>(own));
  }
  return one(kRoot ? on(node, "aten.sqrt", result) : Result<ValueId>(result));
}

Result<Parts> slice(NodeImport& node, const Parts& x, int64_t dim, int64_t from, int64_t to) {
  Parts result;
  DTR_ASSIGN(result.real, node.slice(x.real, dim, from, to));
  DTR_ASSIGN(result.imaginary, node.slice(x.imaginary, dim, from, to));
  return result;
}

// Of halves, so that the depth is the logarithm of their number.
Result<Values> product_along(NodeImport& node) {
  DTR_ASSIGN(Parts x, parts_of(node, "self"));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  int64_t dim = 0;
  if (node.has("dim")) {
    DTR_ASSIGN(dim, node.dim("dim", node.type(x.real).rank()));
  } else {
    const Shape flat{node.type(x.real).elements()};
    DTR_ASSIGN(x.real, node.view(x.real, flat));
    DTR_ASSIGN(x.imaginary, node.view(x.imaginary, flat));
  }
  Shape shape = node.type(x.real).shape;
  int64_t count = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  if (count == 0) return node.unsupported("a product of no numbers");
  while (count > 1) {
    const int64_t half = count / 2;
    DTR_ASSIGN(const Parts first, slice(node, x, dim, 0, half));
    DTR_ASSIGN(const Parts second, slice(node, x, dim, half, 2 * half));
    DTR_ASSIGN(Parts both, product(node, first, second));
    if (count % 2 == 1) {
      DTR_ASSIGN(const Parts last, slice(node, x, dim, count - 1, count));
      DTR_ASSIGN(both.real, node.concatenate({both.real, last.real}, dim));
      DTR_ASSIGN(both.imaginary, node.concatenate({both.imaginary, last.imaginary}, dim));
    }
    x = both;
    count -= half;
  }
  if (!keepdim && !shape.empty()) {
    shape.erase(shape.begin() + dim);
    DTR_ASSIGN(x.real, node.view(x.real, shape));
    DTR_ASSIGN(x.imaginary, node.view(x.imaginary, shape));
  }
  return one(joined(node, x));
}

// Each element times that `distance` before it, for distances that double.
Result<Values> products_so_far(NodeImport& node) {
  DTR_ASSIGN(Parts x, parts_of(node, "self"));
  const Shape shape = node.type(x.real).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size()));
  const int64_t count = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  for (int64_t distance = 1; distance < count; distance *= 2) {
    DTR_ASSIGN(const Parts before, slice(node, x, dim, 0, count - distance));
    DTR_ASSIGN(const Parts own, slice(node, x, dim, distance, count));
    DTR_ASSIGN(const Parts first, slice(node, x, dim, 0, distance));
    DTR_ASSIGN(const Parts both, product(node, before, own));
    DTR_ASSIGN(x.real, node.concatenate({first.real, both.real}, dim));
    DTR_ASSIGN(x.imaginary, node.concatenate({first.imaginary, both.imaginary}, dim));
  }
  return one(joined(node, x));
}

// ---- systems of equations

// (A + iB) · (X + iY) = C + iD as real matrices: [A −B; B A] · [X; Y] = [C; D].
Result<Parts> solved(NodeImport& node, const Parts& a, const Parts& right) {
  const auto rows = static_cast<int64_t>(node.type(a.real).rank()) - 2;
  DTR_ASSIGN(const ValueId opposite, on(node, "aten.neg", a.imaginary));
  DTR_ASSIGN(const ValueId above, node.concatenate({a.real, opposite}, rows + 1));
  DTR_ASSIGN(const ValueId below, node.concatenate({a.imaginary, a.real}, rows + 1));
  DTR_ASSIGN(const ValueId both, node.concatenate({above, below}, rows));
  const auto of_right = static_cast<int64_t>(node.type(right.real).rank()) - 2;
  DTR_ASSIGN(const ValueId joint, node.concatenate({right.real, right.imaginary}, of_right));
  DTR_ASSIGN(const auto found, compositions::eliminate(node, both, joint));
  const Shape shape = node.type(found.solution).shape;
  const auto dim = static_cast<int64_t>(shape.size()) - 2;
  const int64_t n = shape[shape.size() - 2] / 2;
  Parts result;
  DTR_ASSIGN(result.real, node.slice(found.solution, dim, 0, n));
  DTR_ASSIGN(result.imaginary, node.slice(found.solution, dim, n, 2 * n));
  return result;
}

Result<Values> inverse(NodeImport& node) {
  DTR_ASSIGN(const Parts x, parts_of(node, node.has("A") ? "A" : "self"));
  Parts identity;
  DTR_ASSIGN(identity.real, compositions::identity_like(node, x.real));
  DTR_ASSIGN(identity.imaginary, zeros_like(node, identity.real));
  DTR_ASSIGN(const Parts result, solved(node, x, identity));
  return one(joined(node, result));
}

// A B of the shape of A without its last dimension holds vectors.
Result<Values> solve(NodeImport& node) {
  DTR_ASSIGN(const Parts a, both_parts_of(node, "A"));
  DTR_ASSIGN(Parts right, both_parts_of(node, "B"));
  DTR_ASSIGN(const bool left, node.boolean("left", true));
  if (!left) return node.unsupported("X · A = B", "solve the transposed system");
  Shape shape = node.type(right.real).shape, of_vectors = node.type(a.real).shape;
  of_vectors.pop_back();
  const bool vectors = shape.size() == 1 || shape == of_vectors;
  if (vectors) {
    shape.push_back(1);
    DTR_ASSIGN(right.real, node.view(right.real, shape));
    DTR_ASSIGN(right.imaginary, node.view(right.imaginary, shape));
  }
  DTR_ASSIGN(Parts result, solved(node, a, right));
  if (vectors) {
    Shape back = node.type(result.real).shape;
    back.pop_back();
    DTR_ASSIGN(result.real, node.view(result.real, back));
    DTR_ASSIGN(result.imaginary, node.view(result.imaginary, back));
  }
  return one(joined(node, result));
}

// ---- determinants

// Where `condition` holds a, else b.
Result<Parts> chosen(NodeImport& node, ValueId condition, const Parts& a, const Parts& b) {
  Parts result;
  DTR_ASSIGN(result.real, node.emit("aten.where.self", {condition, a.real, b.real}));
  DTR_ASSIGN(result.imaginary, node.emit("aten.where.self", {condition, a.imaginary, b.imaginary}));
  return result;
}

// By elimination. In each step the row whose first element is the longest takes the place of the
// first one, and the sign of the product of the pivots changes if it is another one.
Result<Values> determinant(NodeImport& node) {
  constexpr int64_t kMostRows = compositions::kMostSteps;
  DTR_ASSIGN(Parts x, parts_of(node, node.has("A") ? "A" : "self"));
  const Shape shape = node.type(x.real).shape;
  const size_t rank = shape.size();
  if (rank < 2 || shape[rank - 1] != shape[rank - 2] || shape.back() < 1 ||
      shape.back() > kMostRows)
    return node.unsupported(fmt::format("matrices of {}: square ones up to {} × {}",
                                        to_string(shape), kMostRows, kMostRows),
                            "compute the determinant of a larger matrix outside of the model");
  const auto row_dim = static_cast<int64_t>(rank) - 2;
  Parts result;
  DTR_ASSIGN(const ValueId zero, number_like(node, x.real, 0));
  DTR_ASSIGN(const ValueId unit, number_like(node, x.real, 1));
  DTR_ASSIGN(const ValueId minus, number_like(node, x.real, -1));
  for (int64_t left = shape.back(); left > 0; --left) {
    DTR_ASSIGN(Parts first, slice(node, x, row_dim, 0, 1));
    Parts others;
    if (left > 1) {
      DTR_ASSIGN(const Parts column, slice(node, x, row_dim + 1, 0, 1));
      DTR_ASSIGN(const ValueId length, squared_length(node, column));
      DTR_ASSIGN(const ValueId place,
                 node.emit("aten.argmax", {length}, {{"dim", row_dim}, {"keepdim", true}}));
      std::vector<double> numbers(static_cast<size_t>(left));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
      DTR_ASSIGN(const ValueId all,
                 node.GraphBuilder::constant(DType::kInt64, numbers, Shape{left, 1}));
      DTR_ASSIGN(const ValueId here, node.emit("aten.eq.Tensor", {all, place}));
      DTR_ASSIGN(others, chosen(node, here, first, x));
      DTR_ASSIGN(others, slice(node, others, row_dim, 1, left));
      DTR_ASSIGN(Parts picked, chosen(node, here, x, {zero, zero}));
      for (ValueId* part : {&picked.real, &picked.imaginary}) {
        DTR_ASSIGN(*part, node.emit("aten.sum.dim_IntList", {*part},
                                    {{"dim", Ints{row_dim}}, {"keepdim", true}}));
      }
      DTR_ASSIGN(const ValueId stays, with_number(node, "aten.eq.Tensor", place, 0));
      DTR_ASSIGN(const ValueId sign, node.emit("aten.where.self", {stays, unit, minus}));
      first = picked;
      DTR_ASSIGN(const Parts pivot, slice(node, first, row_dim + 1, 0, 1));
      DTR_ASSIGN(const Parts turned_pivot, scaled(node, pivot, sign));
      DTR_ASSIGN(result, result.real.valid() ? product(node, result, turned_pivot)
                                             : Result<Parts>(turned_pivot));
      // A column of zeros has no pivot, and a determinant of 0.
      DTR_ASSIGN(const ValueId size, squared_length(node, pivot));
      DTR_ASSIGN(const ValueId none, with_number(node, "aten.eq.Tensor", size, 0));
      DTR_ASSIGN(const Parts divisor, chosen(node, none, {unit, zero}, pivot));
      DTR_ASSIGN(Parts factors, slice(node, others, row_dim + 1, 0, 1));
      DTR_ASSIGN(factors, quotient(node, factors, divisor));
      DTR_ASSIGN(first, slice(node, first, row_dim + 1, 1, left));
      DTR_ASSIGN(others, slice(node, others, row_dim + 1, 1, left));
      DTR_ASSIGN(const Parts taken, product(node, factors, first));
      DTR_ASSIGN(x, sum(node, others, taken, kMinus));
    } else {
      DTR_ASSIGN(result, result.real.valid() ? product(node, result, first) : Result<Parts>(first));
    }
  }
  Shape back(shape.begin(), shape.end() - 2);
  DTR_ASSIGN(result.real, node.view(result.real, back));
  DTR_ASSIGN(result.imaginary, node.view(result.imaginary, back));
  return one(joined(node, result));
}

// ---- sums of products

Result<Values> add_product(NodeImport& node) {
  DTR_ASSIGN(const Parts self, both_parts_of(node, "self"));
  DTR_ASSIGN(const Parts a, both_parts_of(node, "tensor1"));
  DTR_ASSIGN(const Parts b, both_parts_of(node, "tensor2"));
  const bool divides = node.node().target.find("addcdiv") != std::string_view::npos;
  DTR_ASSIGN(Parts result, divides ? quotient(node, a, b) : product(node, a, b));
  if (node.has("value")) {
    DTR_ASSIGN(const Parts factor, both_parts_of(node, "value"));
    DTR_ASSIGN(result, product(node, result, factor));
  }
  DTR_ASSIGN(result, sum(node, self, result));
  return one(joined(node, result));
}

// self + weight · (end − self).
Result<Values> lerp(NodeImport& node) {
  DTR_ASSIGN(const Parts self, both_parts_of(node, "self"));
  DTR_ASSIGN(const Parts end, both_parts_of(node, "end"));
  DTR_ASSIGN(const Parts weight, both_parts_of(node, "weight"));
  DTR_ASSIGN(Parts way, sum(node, end, self, kMinus));
  DTR_ASSIGN(way, product(node, way, weight));
  DTR_ASSIGN(way, sum(node, self, way));
  return one(joined(node, way));
}

}  // namespace

std::vector<Operator> complex_functions() {
  const auto row = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, kTimes, build);
  };
  const auto shaped = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, "", build);
  };
  return {
      row("aten.abs.default", real_function<length_of>),
      row("aten._linalg_det.default", exact<determinant>),
      row("aten.acos.default", function<inverse_of_cosine>),
      row("aten.acosh.default", function<inverse_of_cosh>),
      row("aten.addcdiv.default", add_product),
      row("aten.addcmul.default", add_product),
      row("aten.angle.default", real_function<angle_of>),
      row("aten.asin.default", function<turned_there_and_back<inverse_of_sinh>>),
      row("aten.asinh.default", function<inverse_of_sinh>),
      row("aten.atan.default", function<turned_there_and_back<inverse_of_tanh>>),
      row("aten.atanh.default", function<inverse_of_tanh>),
      row("aten.cos.default", function<cosine>),
      row("aten.cosh.default", function<hyperbolic<false>>),
      row("aten.cumprod.default", products_so_far),
      row("aten.eq.Scalar", compared<true>),
      row("aten.eq.Tensor", compared<true>),
      row("aten.exp.default", function<exponential>),
      row("aten.exp2.default", function<power_of_two>),
      row("aten.expm1.default", function<exponential_less_one>),
      row("aten.isfinite.default", real_function<is_bounded<true>>),
      row("aten.isinf.default", real_function<is_bounded<false>>),
      row("aten.isnan.default", real_function<is_nan>),
      row("aten.lerp.Scalar", lerp),
      row("aten.lerp.Tensor", lerp),
      shaped("aten.linalg_matrix_norm.default", of_lengths),
      shaped("aten.linalg_matrix_norm.str_ord", of_lengths),
      shaped("aten.linalg_norm.default", of_lengths),
      shaped("aten.linalg_vector_norm.default", of_lengths),
      row("aten.linalg_det.default", exact<determinant>),
      row("aten.linalg_inv.default", exact<inverse>),
      row("aten.linalg_inv_ex.default", exact<inverse>),
      row("aten.linalg_solve.default", exact<solve>),
      row("aten.log.default", function<logarithm>),
      row("aten.log10.default", function<logarithm_to<10>>),
      row("aten.log1p.default", function<logarithm_of_more>),
      row("aten.log2.default", function<logarithm_to<2>>),
      row("aten.ne.Scalar", compared<false>),
      row("aten.ne.Tensor", compared<false>),
      shaped("aten.norm.Scalar", of_lengths),
      shaped("aten.norm.ScalarOpt_dim", of_lengths),
      row("aten.pow.Scalar", power_of),
      row("aten.pow.Tensor_Scalar", power_of),
      row("aten.pow.Tensor_Tensor", power_of),
      row("aten.prod.default", product_along),
      row("aten.prod.dim_int", product_along),
      row("aten.reciprocal.default", function<reciprocal>),
      row("aten.rsqrt.default", function<reciprocal_root>),
      row("aten.sgn.default", function<direction>),
      row("aten.sigmoid.default", function<sigmoid>),
      row("aten.silu.default", function<silu>),
      row("aten.sin.default", function<turned_there_and_back<hyperbolic<true>>>),
      row("aten.sinh.default", function<hyperbolic<true>>),
      row("aten.sqrt.default", function<root>),
      row("aten.square.default", function<square>),
      row("aten.std.correction", spread<true>),
      row("aten.std.default", spread<true>),
      row("aten.std.dim", spread<true>),
      row("aten.tan.default", function<turned_there_and_back<hyperbolic_tangent>>),
      row("aten.tanh.default", function<hyperbolic_tangent>),
      row("aten.var.correction", spread<false>),
      row("aten.var.default", spread<false>),
      row("aten.var.dim", spread<false>),
  };
}

}  // namespace dtr::pt2
