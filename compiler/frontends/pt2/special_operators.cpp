// Special functions that no operator of ours is: the gamma function's logarithm and derivatives,
// Bessel functions, the scaled complementary error function and inverses; a number's fraction and
// exponent; the divisors of integers. All are sequences of a fixed length of elementwise operators.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Writes formulas: after the first error it adds nothing, and `result` returns that error.
class Formula {
 public:
  explicit Formula(NodeImport& node) : node_(node) {}

  // The argument of that name, in float32.
  ValueId argument(std::string_view name) {
    return keep(node_.tensor(name), [&](ValueId x) { return node_.cast(x, DType::kFloat32); });
  }
  ValueId number(double value) {
    return take(node_.constant(DType::kFloat32, {}, value, "number"));
  }
  ValueId of(std::string_view op, std::vector<ValueId> operands,
             const Attributes& attributes = {}) {
    if (!failed_) return take(node_.emit(op, std::move(operands), attributes));
    return {};
  }
  ValueId add(ValueId a, ValueId b) { return of("aten.add.Tensor", {a, b}); }
  ValueId add(ValueId a, double b) { return add(a, number(b)); }
  ValueId subtract(ValueId a, ValueId b) { return of("aten.sub.Tensor", {a, b}); }
  ValueId subtract(double a, ValueId b) { return subtract(number(a), b); }
  ValueId multiply(ValueId a, ValueId b) { return of("aten.mul.Tensor", {a, b}); }
  ValueId multiply(ValueId a, double b) { return multiply(a, number(b)); }
  ValueId divide(ValueId a, ValueId b) { return of("aten.div.Tensor", {a, b}); }
  ValueId divide(double a, ValueId b) { return divide(number(a), b); }
  ValueId is_less(ValueId a, double b) { return of("aten.lt.Tensor", {a, number(b)}); }
  ValueId is_equal(ValueId a, double b) { return of("aten.eq.Tensor", {a, number(b)}); }
  ValueId choose(ValueId condition, ValueId a, ValueId b) {
    return of("aten.where.self", {condition, a, b});
  }
  ValueId choose(ValueId condition, ValueId a, double b) { return choose(condition, a, number(b)); }
  ValueId choose(ValueId condition, double a, ValueId b) { return choose(condition, number(a), b); }

  // coefficients[0] + coefficients[1] · x + …
  ValueId polynomial(ValueId x, const std::vector<double>& coefficients) {
    ValueId sum = number(coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) sum = add(multiply(sum, x), coefficients[i]);
    return sum;
  }
  // f(x, numbers[i]) · weights[i], summed over i.
  template <class Function>
  ValueId sum_over(ValueId x, const std::vector<double>& numbers,
                   const std::vector<double>& weights, Function f) {
    if (failed_) return {};
    Shape shape = node_.type(x).shape;
    shape.push_back(1);
    const ValueId column = take(node_.view(x, shape));
    const ValueId each = f(column, row(numbers));
    const ValueId weighted = multiply(each, row(weights));
    return of("aten.sum.dim_IntList", {weighted},
              {{"dim", Ints{static_cast<int64_t>(shape.size()) - 1}}, {"keepdim", false}});
  }

  Result<Values> results(Values values) {
    if (failed_) return tl::unexpected(std::move(*failed_));
    return values;
  }
  Result<Values> result(ValueId value) { return results({value}); }

 private:
  ValueId row(const std::vector<double>& numbers) {
    return take(node_.GraphBuilder::constant(DType::kFloat32, numbers));
  }
  ValueId take(Result<ValueId> value) {
    if (value) return *value;
    if (!failed_) failed_ = std::move(value).error();
    return {};
  }
  template <class Then>
  ValueId keep(Result<ValueId> value, Then then) {
    const ValueId found = take(std::move(value));
    return failed_ ? ValueId{} : take(then(found));
  }

  NodeImport& node_;
  std::optional<Diagnostic> failed_;
};

double factorial(int64_t n) {
  double product = 1;
  for (int64_t i = 2; i <= n; ++i) product *= static_cast<double>(i);
  return product;
}

// x − the nearest integer, whose trigonometric functions of πx are those of x up to their signs.
ValueId beside_integer(Formula& f, ValueId x) { return f.subtract(x, f.of("aten.round", {x})); }

// ---- gamma function

// log |Γ(x)|. From 0 to 8.5 by the series of log Γ(2 + z) around z = 0, to which the factors of Γ
// lead; Stirling's from there on; Γ(x) Γ(1 − x) = π / sin(πx) for negative numbers.
Result<Values> log_gamma(NodeImport& node) {
  Formula f(node);
  const ValueId x = f.argument("self");
  const ValueId negative = f.is_less(x, 0);
  const ValueId y = f.choose(negative, f.subtract(1, x), f.of("aten.abs", {x}));
  ValueId t = y, above = f.number(1);
  for (int i = 0; i < 6; ++i) {
    const ValueId is_above = f.of("aten.ge.Tensor", {t, f.number(2.5)});
    t = f.choose(is_above, f.add(t, -1), t);
    above = f.choose(is_above, f.multiply(above, t), above);
  }
  ValueId below = f.number(1);
  for (int i = 0; i < 2; ++i) {
    const ValueId is_below = f.is_less(t, 1.5);
    below = f.choose(is_below, f.multiply(below, t), below);
    t = f.choose(is_below, f.add(t, 1), t);
  }
  // (−1)^k (ζ(k) − 1) / k of z^k, from k = 2 on.
  constexpr double kZetaLessOne[] = {
      0.644934066848,    0.20205690316,     0.0823232337111,   0.0369277551434,   0.0173430619844,
      0.00834927738192,  0.00407735619794,  0.00200839282608,  0.000994575127818, 0.000494188604119,
      0.000246086553308, 0.000122713347578, 0.0000612481350587};
  std::vector<double> series{0, 1 - std::numbers::egamma};
  for (const double zeta : kZetaLessOne) {
    const auto k = static_cast<double>(series.size());
    series.push_back((series.size() % 2 == 0 ? zeta : -zeta) / k);
  }
  ValueId small = f.polynomial(f.add(t, -2), series);
  small = f.add(small, f.of("aten.log", {f.divide(above, below)}));
  const ValueId is_large = f.of("aten.ge.Tensor", {y, f.number(8.5)});
  const ValueId z = f.choose(is_large, y, 8.5);
  const ValueId inverse = f.divide(1, z);
  ValueId large = f.multiply(f.add(z, -0.5), f.add(f.of("aten.log", {z}), -1));
  large = f.add(large, 0.5 * std::log(2 * std::numbers::pi) - 0.5);
  const ValueId rest = f.polynomial(f.multiply(inverse, inverse), {1. / 12, -1. / 360, 1. / 1260});
  large = f.add(large, f.multiply(inverse, rest));
  const ValueId positive = f.choose(is_large, large, small);
  ValueId sine = f.of("aten.sin", {f.multiply(beside_integer(f, x), std::numbers::pi)});
  sine = f.of("aten.log", {f.of("aten.abs", {sine})});
  ValueId mirrored = f.subtract(f.subtract(std::log(std::numbers::pi), sine), positive);
  // From −2²³ on all numbers are integers.
  mirrored = f.choose(f.is_less(x, -0x1p23), kInfinite, mirrored);
  return f.result(f.choose(negative, mirrored, positive));
}

// P of the n-th derivative of π cot(πx), πⁿ⁺¹ P(cot πx): d cot / du = −(1 + cot²).
std::vector<double> derivative_of_cotangent(int64_t n) {
  std::vector<double> of{0, 1};
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> next(of.size() + 1, 0);
    for (size_t k = 1; k < of.size(); ++k) {
      const double slope = static_cast<double>(k) * of[k];
      next[k - 1] -= slope;
      next[k + 1] -= slope;
    }
    of = std::move(next);
  }
  return of;
}

// The n-th derivative of the logarithm of Γ, from the first on, which is n = 0: by its sum up to an
// argument where the series for large ones is exact, and mirrored at ½.
Result<Values> polygamma_of(NodeImport& node, int64_t n) {
  constexpr int64_t kMost = 20;  // πⁿ⁺¹ n! and powers of cot exceed float32 soon after
  if (n < 0 || n > kMost)
    return node.unsupported(fmt::format("the derivative {} of the digamma function", n),
                            fmt::format("take one from 0 to {}", kMost));
  constexpr double kBernoulli[] = {1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66};
  Formula f(node);
  const ValueId x = f.argument("self");
  const ValueId is_mirrored = f.is_less(x, 0.5);
  const ValueId y = f.choose(is_mirrored, f.subtract(1, x), x);
  const double sign = n % 2 == 0 ? -1 : 1;
  const auto order = static_cast<double>(n);
  const int64_t steps = 8 + n;
  std::vector<double> added(static_cast<size_t>(steps)), weights(added.size(), 0);
  for (size_t i = 0; i < added.size(); ++i) {
    added[i] = static_cast<double>(i);
    weights[i] = sign * factorial(n);
  }
  ValueId value = f.sum_over(y, added, weights, [&](ValueId column, ValueId row) {
    return f.of("aten.pow.Tensor_Scalar", {f.add(column, row)}, {{"exponent", -order - 1}});
  });
  const ValueId z = f.add(y, static_cast<double>(steps));
  const ValueId inverse = f.divide(1, z);
  std::vector<double> rest;
  for (int64_t k = 1; k <= 5; ++k)
    rest.push_back(kBernoulli[k - 1] * factorial(2 * k + n - 1) / factorial(2 * k));
  ValueId far = f.multiply(f.polynomial(f.multiply(inverse, inverse), rest), inverse);
  far = f.multiply(f.add(far, factorial(n) / 2), inverse);
  if (n == 0) {
    value = f.add(value, f.subtract(f.of("aten.log", {z}), far));
  } else {
    far = f.add(far, factorial(n - 1));
    const ValueId power = f.of("aten.pow.Tensor_Scalar", {z}, {{"exponent", -order}});
    value = f.add(value, f.multiply(f.multiply(far, power), sign));
  }
  const ValueId angle = f.multiply(beside_integer(f, x), std::numbers::pi);
  const ValueId cotangent = f.divide(f.of("aten.cos", {angle}), f.of("aten.sin", {angle}));
  std::vector<double> turned = derivative_of_cotangent(n);
  for (double& each : turned) each *= std::pow(std::numbers::pi, order + 1);
  const ValueId mirrored = f.subtract(f.multiply(value, -sign), f.polynomial(cotangent, turned));
  value = f.choose(is_mirrored, mirrored, value);
  // The poles: at 0 the sign of zero decides for n = 0, at negative integers neither side is right.
  const ValueId is_whole = f.of("aten.eq.Tensor", {x, f.of("aten.floor", {x})});
  const ValueId is_pole =
      f.of("aten.logical_and", {is_whole, f.of("aten.le.Tensor", {x, f.number(0)})});
  if (n > 0) return f.result(f.choose(is_pole, sign * kInfinite, value));
  const ValueId at_zero = f.divide(-1, x);
  const ValueId at_pole =
      f.choose(f.is_equal(x, 0), at_zero, std::numeric_limits<double>::quiet_NaN());
  return f.result(f.choose(is_pole, at_pole, value));
}
Result<Values> digamma(NodeImport& node) { return polygamma_of(node, 0); }
Result<Values> polygamma(NodeImport& node) {
  DTR_ASSIGN(const int64_t n, node.integer("n"));
  return polygamma_of(node, n);
}

// ---- Bessel functions

// The modified ones of order 0 and 1, over e^|x| with `scaled`: their integral over an angle by the
// trapezoidal rule, whose error falls faster than any power; the series for large arguments from 20
// on.
template <int order, bool scaled>
Result<Values> modified_bessel(NodeImport& node) {
  constexpr int kPoints = 32, kTerms = 6;
  constexpr double kLarge = 20;
  Formula f(node);
  const ValueId x = f.argument("self");
  const ValueId size = f.of("aten.abs", {x});
  std::vector<double> cosines, weights;  // of half a turn; the other half has the same
  for (int i = 0; i <= kPoints / 2; ++i) {
    const double cosine = std::cos(2 * std::numbers::pi * i / kPoints);
    cosines.push_back(cosine - 1);
    weights.push_back((i == 0 || i == kPoints / 2 ? 1. : 2.) / kPoints * (order == 0 ? 1 : cosine));
  }
  const ValueId is_large = f.of("aten.gt.Tensor", {size, f.number(kLarge)});
  const ValueId bounded = f.of("aten.minimum", {size, f.number(kLarge)});
  const ValueId small = f.sum_over(bounded, cosines, weights, [&](ValueId column, ValueId row) {
    return f.of("aten.exp", {f.multiply(column, row)});
  });
  std::vector<double> series{1};
  for (int k = 1; k <= kTerms; ++k)
    series.push_back(-series.back() * (4 * order - (2 * k - 1) * (2 * k - 1)) / (8. * k));
  const ValueId inverse = f.divide(1, f.of("aten.maximum", {size, f.number(kLarge)}));
  const ValueId root = f.of("aten.sqrt", {f.multiply(inverse, 0.5 / std::numbers::pi)});
  const ValueId large = f.multiply(f.polynomial(inverse, series), root);
  ValueId value = f.choose(is_large, large, small);
  if (!scaled) {
    // In two halves: e^x exceeds float32 before the function does.
    const ValueId half = f.of("aten.exp", {f.multiply(size, 0.5)});
    value = f.multiply(f.multiply(value, half), half);
  }
  if (order == 1) value = f.multiply(value, f.of("aten.sign", {x}));
  return f.result(value);
}

// The ones of order 0 and 1: the mean of cos(x cos t), or of sin(x cos t) cos t, over an angle;
// from 25 on Hankel's series for large arguments.
template <int order>
Result<Values> bessel(NodeImport& node) {
  constexpr int kPoints = 64, kTerms = 8;
  constexpr double kLarge = 25;
  Formula f(node);
  const ValueId x = f.argument("self");
  const ValueId size = f.of("aten.abs", {x});
  std::vector<double> cosines, weights;  // of a quarter turn; the others have the same
  for (int i = 0; i <= kPoints / 4; ++i) {
    const double cosine = std::cos(2 * std::numbers::pi * i / kPoints);
    cosines.push_back(cosine);
    weights.push_back((i == 0 || i == kPoints / 4 ? 2. : 4.) / kPoints * (order == 0 ? 1 : cosine));
  }
  const ValueId bounded = f.of("aten.minimum", {size, f.number(kLarge)});
  const ValueId small = f.sum_over(bounded, cosines, weights, [&](ValueId column, ValueId row) {
    return f.of(order == 0 ? "aten.cos" : "aten.sin", {f.multiply(column, row)});
  });
  std::vector<double> even, odd;  // of 1 / x²
  double term = 1;
  for (int k = 0; k < kTerms; ++k) {
    const double sign = k / 2 % 2 == 0 ? 1 : -1;
    (k % 2 == 0 ? even : odd).push_back(sign * term);
    term *= (4 * order - (2 * k + 1) * (2 * k + 1)) / (8. * (k + 1));
  }
  const ValueId far = f.of("aten.maximum", {size, f.number(kLarge)});
  const ValueId inverse = f.divide(1, far);
  const ValueId square = f.multiply(inverse, inverse);
  const ValueId phase = f.add(far, -(2 * order + 1) * std::numbers::pi / 4);
  const ValueId in_phase = f.multiply(f.of("aten.cos", {phase}), f.polynomial(square, even));
  const ValueId beside =
      f.multiply(f.multiply(f.of("aten.sin", {phase}), inverse), f.polynomial(square, odd));
  const ValueId root = f.of("aten.sqrt", {f.multiply(inverse, 2 / std::numbers::pi)});
  const ValueId large = f.multiply(f.subtract(in_phase, beside), root);
  ValueId value = f.choose(f.of("aten.gt.Tensor", {size, f.number(kLarge)}), large, small);
  if (order == 1) value = f.multiply(value, f.of("aten.sign", {x}));
  return f.result(value);
}

// ---- error function

// e^(x²) · (1 − erf x): (1 + 2x) times it is a polynomial of (x − 3) / (x + 3) for positive x, with
// an error below 2e-9 (the Chebyshev series, cut); 2 e^(x²) less that of −x for others.
ValueId error_rest_of(Formula& f, ValueId x) {
  const ValueId size = f.of("aten.abs", {x});
  // 1 − 6 / (x + 3), which is 1 at infinity.
  const ValueId t = f.subtract(1, f.divide(6, f.add(size, 3)));
  const ValueId top = f.polynomial(
      t, {1.25300805825, -0.135621069405, -0.0475622927563, 0.129644114428, -0.119273690578,
          0.0683165673846, -0.0237703378764, 0.00249911747073, 0.00188811888148, -0.000726453925394,
          -0.000104135748117, 7.73101927058e-5, 3.86338297929e-6});
  const ValueId positive = f.divide(top, f.add(f.multiply(size, 2), 1));
  const ValueId grown = f.multiply(f.of("aten.exp", {f.multiply(x, x)}), 2);
  return f.choose(f.is_less(x, 0), f.subtract(grown, positive), positive);
}
Result<Values> scaled_error_rest(NodeImport& node) {
  Formula f(node);
  return f.result(error_rest_of(f, f.argument("self")));
}

// The logarithm of the share of a normal distribution below x: with the scaled function above, both
// far below zero, where the share is no float32, and far above, where it is almost one.
Result<Values> log_normal_share(NodeImport& node) {
  Formula f(node);
  const ValueId x = f.argument("self");
  const ValueId size = f.multiply(f.of("aten.abs", {x}), std::sqrt(0.5));
  const ValueId half_square = f.multiply(f.multiply(x, x), 0.5);
  const ValueId rest = f.multiply(error_rest_of(f, size), 0.5);
  const ValueId below = f.subtract(f.of("aten.log", {rest}), half_square);
  // log(1 − y) of a small y, to whose rounding beside 1 the sum of its series is not subject.
  const ValueId y = f.multiply(rest, f.of("aten.exp", {f.multiply(half_square, -1)}));
  const ValueId series =
      f.multiply(f.polynomial(y, {1, 1. / 2, 1. / 3, 1. / 4}), f.multiply(y, -1));
  const ValueId plain = f.of("aten.log", {f.subtract(1, y)});
  const ValueId above = f.choose(f.is_less(y, 0.02), series, plain);
  return f.result(f.choose(f.is_less(x, 0), below, above));
}

// The inverse of the error function, of an x with 1 − x² = `rest`: x times a polynomial of −log of
// that rest, or of its root (M. Giles, Approximating the erfinv function, single precision).
ValueId inverse_error_of(Formula& f, ValueId x, ValueId rest) {
  const ValueId w = f.multiply(f.of("aten.log", {rest}), -1);
  const ValueId near = f.polynomial(
      f.add(w, -2.5), {1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.000218580870,
                       -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08});
  const ValueId far =
      f.polynomial(f.add(f.of("aten.sqrt", {f.of("aten.maximum", {w, f.number(5)})}), -3),
                   {2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
                    -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257});
  const ValueId value = f.multiply(f.choose(f.is_less(w, 5), near, far), x);
  // At the ends, where the rest is 0; outside of them its logarithm is no number.
  const ValueId end = f.multiply(f.of("aten.sign", {x}), kInfinite);
  return f.choose(f.is_equal(rest, 0), end, value);
}
Result<Values> inverse_error(NodeImport& node) {
  Formula f(node);
  const ValueId x = f.argument("self");
  return f.result(inverse_error_of(f, x, f.multiply(f.subtract(1, x), f.add(x, 1))));
}
// Far below zero, where that polynomial ends: x − log x / x with x² = −2 log p, less a quotient of
// polynomials of 1 / x (S. Moshier, Cephes).
ValueId far_normal_share(Formula& f, ValueId p) {
  const ValueId x = f.of("aten.sqrt", {f.multiply(f.of("aten.log", {p}), -2)});
  const ValueId z = f.divide(1, x);
  const ValueId near =
      f.divide(f.polynomial(z, {-8.57456785154685e-4, -0.0350424626827848, -0.140256079171354,
                                2.18663306850790, 14.6849561928858, 44.0805073893201,
                                57.1628192246421, 31.5251094599894, 4.05544892305962}),
               f.polynomial(z, {-9.33259480895457e-4, -0.0380806407691578, -0.142182922854788,
                                2.50464946208309, 15.0425385692908, 41.3172038254672,
                                45.3907635128879, 15.7799883256467, 1}));
  const ValueId far =
      f.divide(f.polynomial(z, {6.23974539184983e-9, 2.65806974686738e-6, 3.01581553508235e-4,
                                0.0123716634817820, 0.201485389549179, 1.33303460815808,
                                3.93881025292474, 6.91522889068984, 3.23774891776946}),
               f.polynomial(z, {6.79019408009981e-9, 2.89247864745381e-6, 3.28014464682128e-4,
                                0.0134204006088543, 0.216236993594497, 1.37702099489081,
                                3.67983563856161, 6.02427039364742, 1}));
  const ValueId rest = f.add(f.of("aten.log", {x}), f.choose(f.is_less(x, 8), near, far));
  return f.subtract(f.multiply(rest, z), x);
}
// x below which the share p of a normal distribution is: √2 times the inverse of 2p − 1, whose rest
// is 4p (1 − p).
Result<Values> inverse_normal_share(NodeImport& node) {
  Formula f(node);
  const ValueId p = f.argument("self");
  const ValueId rest = f.multiply(f.multiply(p, f.subtract(1, p)), 4);
  const ValueId x = f.add(f.multiply(p, 2), -1);
  const ValueId plain = f.multiply(inverse_error_of(f, x, rest), std::numbers::sqrt2);
  const ValueId is_far =
      f.of("aten.logical_and", {f.is_less(p, 1e-6), f.of("aten.gt.Tensor", {p, f.number(0)})});
  return f.result(f.choose(is_far, far_normal_share(f, p), plain));
}

// ---- numbers apart

// x = fraction · 2^exponent, with a fraction from ½ to 1: by multiplications with powers of two,
// which are exact.
Result<Values> fraction_and_exponent(NodeImport& node) {
  Formula f(node);
  const ValueId x = f.argument("self");
  ValueId fraction = x, exponent = f.number(0);
  for (const int step : {64, 64, 32, 16, 8, 4, 2, 1})
    for (const int sign : {1, -1}) {
      const double power = std::ldexp(1, sign * step);
      const ValueId size = f.of("aten.abs", {fraction});
      const ValueId applies = sign > 0 ? f.of("aten.ge.Tensor", {size, f.number(power)})
                                       : f.is_less(size, 2 * power);  // stays at 1 or above
      fraction = f.choose(applies, f.multiply(fraction, 1 / power), fraction);
      exponent = f.choose(applies, f.add(exponent, sign * step), exponent);
    }
  fraction = f.multiply(fraction, 0.5);
  exponent = f.add(exponent, 1);
  // Of zero, infinity and NaN: themselves, and no power.
  const ValueId size = f.of("aten.abs", {x});
  const ValueId none = f.of("aten.logical_not",
                            {f.of("aten.logical_and", {f.of("aten.gt.Tensor", {size, f.number(0)}),
                                                       f.is_less(size, kInfinite)})});
  fraction = f.choose(none, x, fraction);
  exponent = f.choose(none, 0, exponent);
  exponent = f.of("convert", {exponent}, {{"dtype", std::string(name(DType::kInt32))}});
  return f.results({fraction, exponent});
}

// Euclid's algorithm, with as many steps as the dtype's greatest Fibonacci numbers take: a
// remainder by 0 is the dividend, so that two numbers of which one is 0 stay what they are.
Result<std::pair<ValueId, std::pair<ValueId, ValueId>>> greatest_divisor(NodeImport& node) {
  DTR_ASSIGN(auto both, node.pair("self", "other"));
  const DType dtype = node.type(both.first).dtype;
  if (is_float(dtype) || dtype == DType::kBool)
    return node.unsupported(fmt::format("divisors of {}", name(dtype)), "convert to an integer");
  const size_t bits = 8 * byte_size(dtype);
  const int steps = static_cast<int>(1.45 * static_cast<double>(bits)) + 1;
  DTR_ASSIGN(ValueId a, node.emit("aten.abs", {both.first}));
  DTR_ASSIGN(ValueId b, node.emit("aten.abs", {both.second}));
  for (int i = 0; i < steps; ++i) {
    DTR_ASSIGN(const ValueId rest, node.emit("aten.fmod.Tensor", {a, b}));
    a = std::exchange(b, rest);
  }
  DTR_ASSIGN(const ValueId divisor, node.emit("aten.maximum", {a, b}));
  return std::pair(divisor, both);
}
Result<Values> greatest_common_divisor(NodeImport& node) {
  DTR_ASSIGN(const auto found, greatest_divisor(node));
  return Values{found.first};
}
// |a / gcd · b|; 0 of two zeros, as a quotient by 0 is here.
Result<Values> least_common_multiple(NodeImport& node) {
  DTR_ASSIGN(const auto found, greatest_divisor(node));
  DTR_ASSIGN(const ValueId share,
             node.emit("aten.div.Tensor_mode", {found.second.first, found.first},
                       {{"rounding_mode", std::string("trunc")}}));
  DTR_ASSIGN(const ValueId product, node.emit("aten.mul.Tensor", {share, found.second.second}));
  return one(node.emit("aten.abs", {product}));
}

}  // namespace

std::vector<Operator> special_operators() {
  const auto row = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, "aten.mul.Tensor", build);
  };
  return {
      row("aten.digamma.default", exact<digamma>),
      row("aten.erfinv.default", exact<inverse_error>),
      row("aten.frexp.Tensor", exact<fraction_and_exponent>),
      row("aten.gcd.default", greatest_common_divisor),
      row("aten.i0.default", exact<modified_bessel<0, false>>),
      row("aten.lcm.default", least_common_multiple),
      row("aten.lgamma.default", exact<log_gamma>),
      row("aten.polygamma.default", exact<polygamma>),
      row("aten.special_bessel_j0.default", exact<bessel<0>>),
      row("aten.special_bessel_j1.default", exact<bessel<1>>),
      row("aten.special_erfcx.default", exact<scaled_error_rest>),
      row("aten.special_i0e.default", exact<modified_bessel<0, true>>),
      row("aten.special_i1.default", exact<modified_bessel<1, false>>),
      row("aten.special_i1e.default", exact<modified_bessel<1, true>>),
      row("aten.special_log_ndtr.default", exact<log_normal_share>),
      row("aten.special_ndtri.default", exact<inverse_normal_share>),
  };
}

}  // namespace dtr::pt2
