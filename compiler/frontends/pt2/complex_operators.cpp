// Arithmetic, shapes and Fourier transforms of complex numbers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>

#include "compiler/compositions/attention.h"
#include "compiler/compositions/fourier.h"
#include "compiler/compositions/tiling.h"
#include "compiler/frontends/pt2/complex_operators.h"
#include "compiler/ops/define.h"

namespace dtr::pt2 {
namespace {

using compositions::Signal;

// ---- parts

template <int kPart>
Result<Values> take_part(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return one(part_of(node, x, kPart));
}

Result<Values> unchanged(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return Values{x};
}

Result<ValueId> conjugated(NodeImport& node, ValueId x) {
  constexpr double kSigns[] = {1, -1};
  DTR_ASSIGN(const ValueId signs, node.GraphBuilder::constant(node.type(x).dtype, kSigns));
  return node.emit("aten.mul.Tensor", {x, signs});
}
Result<Values> conjugate(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return one(conjugated(node, x));
}

Result<Values> join_parts(NodeImport& node) {
  DTR_ASSIGN(const ValueId real, node.tensor("real"));
  DTR_ASSIGN(const ValueId imaginary, node.tensor("imag"));
  DTR_ASSIGN(const Values both, compositions::broadcast_together(node, {real, imaginary}));
  return one(with_parts(node, both[0], both[1]));
}

Result<Values> polar(NodeImport& node) {
  DTR_ASSIGN(const ValueId length, node.tensor("abs"));
  DTR_ASSIGN(const ValueId angle, node.tensor("angle"));
  DTR_ASSIGN(const Parts parts, at_angle(node, length, angle));
  return one(joined(node, parts));
}

// ---- arithmetic

template <const char* kOp, bool kReversed = false>
Result<Values> add(NodeImport& node) {
  DTR_ASSIGN(const Parts a, parts_of(node, kReversed ? "other" : "self"));
  DTR_ASSIGN(const Parts b, parts_of(node, kReversed ? "self" : "other"));
  DTR_ASSIGN(const std::complex<double> alpha,
             node.has("alpha") ? node.complex_number("alpha") : std::complex<double>(1));
  if (alpha.imag() != 0) return node.unsupported("a complex alpha", "multiply in front of the sum");
  const auto sum = [&](ValueId x, ValueId y) {
    return node.emit(kOp, {x, y}, {{"alpha", alpha.real()}});
  };
  // A real number has no imaginary part to add, in the shape that the sum has.
  DTR_ASSIGN(const ValueId real, sum(a.real, b.real));
  ValueId of_a = a.imaginary, of_b = b.imaginary;
  if (!of_a.valid()) {
    DTR_ASSIGN(of_a, zeros_like(node, a.real));
  }
  if (!of_b.valid()) {
    DTR_ASSIGN(of_b, zeros_like(node, b.real));
  }
  DTR_ASSIGN(const ValueId imaginary, sum(of_a, of_b));
  return one(with_parts(node, real, imaginary));
}
constexpr char kAdd[] = "aten.add.Tensor", kSub[] = "aten.sub.Tensor";

template <const char* kOp, const char* kFirst, const char* kSecond>
Result<Values> multiplied(NodeImport& node) {
  DTR_ASSIGN(const Parts a, parts_of(node, kFirst));
  DTR_ASSIGN(const Parts b, parts_of(node, kSecond));
  DTR_ASSIGN(const Parts result, multiply(node, a, b, [&](ValueId x, ValueId y) {
               return node.emit(kOp, {x, y});
             }));
  return one(joined(node, result));
}
constexpr char kMul[] = "aten.mul.Tensor", kDiv[] = "aten.div.Tensor";
constexpr char kSelf[] = "self", kOther[] = "other";

// x · number or x / number, both parts at once.
Result<Values> by_real(NodeImport& node, std::string_view op, double number) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return one(with_number(node, op, x, number));
}
Result<Values> scaled(NodeImport& node) {
  DTR_ASSIGN(const std::complex<double> factor, node.complex_number("other"));
  if (factor.imag() != 0 || !node.is_complex("self")) return multiplied<kMul, kSelf, kOther>(node);
  return by_real(node, kMul, factor.real());
}
Result<Values> negated(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return one(node.emit("aten.neg", {x}));
}

// By a real number, each part; by a complex one, times its conjugate by its square.
Result<Values> divided(NodeImport& node) {
  if (!node.has_tensor("other") && node.is_complex("self")) {
    DTR_ASSIGN(const std::complex<double> divisor, node.complex_number("other"));
    if (divisor.imag() == 0) return by_real(node, kDiv, divisor.real());
  }
  DTR_ASSIGN(const Parts b, parts_of(node, "other"));
  if (b.imaginary.valid()) {
    DTR_ASSIGN(const Parts a, both_parts_of(node, "self"));
    DTR_ASSIGN(const Parts result, quotient(node, a, b));
    return one(joined(node, result));
  }
  DTR_ASSIGN(const Parts a, parts_of(node, "self"));
  DTR_ASSIGN(const ValueId real, node.emit(kDiv, {a.real, b.real}));
  DTR_ASSIGN(const ValueId imaginary, node.emit(kDiv, {a.imaginary, b.real}));
  return one(with_parts(node, real, imaginary));
}

// The sum over all choices of a part of each operand; i to the number of imaginary ones decides to
// which part of the result a product belongs, and its sign.
Result<Values> einsum(NodeImport& node) {
  DTR_ASSIGN(const std::string_view equation, node.string("equation"));
  DTR_ASSIGN(const Values operands, node.tensors("tensors"));
  const std::vector<bool> complex = node.are_complex("tensors");
  constexpr size_t kMost = 6;
  if (operands.size() > kMost)
    return node.unsupported(fmt::format("{} complex operands", operands.size()),
                            "multiply a few of them at a time");
  ValueId sums[2];
  for (size_t choice = 0; choice < size_t{1} << operands.size(); ++choice) {
    Values parts;
    size_t turns = 0;  // by i
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool imaginary = (choice >> i & 1) != 0;
      if (imaginary && !complex[i]) break;
      turns += imaginary ? 1 : 0;
      DTR_ASSIGN(parts.emplace_back(), complex[i] ? part_of(node, operands[i], imaginary ? 1 : 0)
                                                  : Result<ValueId>(operands[i]));
    }
    if (parts.size() != operands.size()) continue;
    DTR_ASSIGN(ValueId term, compositions::einsum(node, equation, parts));
    ValueId& sum = sums[turns % 2];
    const bool minus = turns % 4 > 1;
    if (sum.valid()) {
      DTR_ASSIGN(sum, node.emit(minus ? kSub : kAdd, {sum, term}));
    } else if (minus) {
      DTR_ASSIGN(sum, node.emit("aten.neg", {term}));
    } else {
      sum = term;
    }
  }
  return one(with_parts(node, sums[0], sums[1]));
}

template <const char* kOp>
Result<Values> reduced(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Ints dims, node.dims("dim", node.type(x).rank() - 1));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  return one(node.emit(kOp, {x}, {{"dim", std::move(dims)}, {"keepdim", keepdim}}));
}
constexpr char kSum[] = "aten.sum.dim_IntList", kMean[] = "aten.mean.dim";

// ---- shapes: the dimension of the parts stays the last one

// The shape that the file states for the result, with that dimension.
Result<Values> as_stated(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.stated_shape();
  shape.push_back(2);
  return one(node.view(x, shape));
}
Result<Values> expanded(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.stated_shape(), aligned = node.type(x).shape;
  shape.push_back(2);
  aligned.insert(aligned.begin(), shape.size() - std::min(shape.size(), aligned.size()), 1);
  DTR_ASSIGN(const ValueId viewed, node.view(x, aligned));
  return one(node.expand(viewed, shape));
}

Result<Values> permuted(NodeImport& node, Ints order) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const auto rank = static_cast<int64_t>(node.type(x).rank()) - 1;
  for (int64_t& dim : order)
    if (dim < 0) dim += rank;
  order.push_back(rank);
  return one(node.permute(x, order));
}
Result<Values> permute(NodeImport& node) {
  DTR_ASSIGN(Ints order, node.ints("dims"));
  return permuted(node, std::move(order));
}
Result<Values> exchanged(NodeImport& node, size_t rank, size_t a, size_t b) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[a], order[b]);
  return permuted(node, std::move(order));
}
Result<Values> transpose(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank() - 1;
  DTR_ASSIGN(const int64_t a, node.dim("dim0", rank));
  DTR_ASSIGN(const int64_t b, node.dim("dim1", rank));
  return exchanged(node, rank, static_cast<size_t>(a), static_cast<size_t>(b));
}

// Of each matrix, conjugated.
Result<Values> adjoint(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank() - 1;
  if (rank < 2) return conjugate(node);
  DTR_ASSIGN(const Values turned, exchanged(node, rank, rank - 2, rank - 1));
  return one(conjugated(node, turned[0]));
}

// The numbers of complex ones, or complex ones of so many numbers.
Result<Values> in_other_dtype(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.stated_shape();
  if (node.gives_complex(0)) shape.push_back(2);
  return one(node.view(x, shape));
}

Result<Values> slice(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank() - 1, 0));
  DTR_ASSIGN(const int64_t start, node.integer("start", 0));
  DTR_ASSIGN(const int64_t end, node.integer("end", INT64_MAX));
  DTR_ASSIGN(const int64_t step, node.integer("step", 1));
  return one(node.slice(x, dim, start, end, step));
}

Result<Values> select(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  shape.pop_back();
  DTR_ASSIGN(const NodeImport::Selection at, node.selection(shape));
  DTR_ASSIGN(const ValueId taken, node.slice(x, at.dim, at.index, at.index + 1));
  shape.erase(shape.begin() + at.dim);
  shape.push_back(2);
  return one(node.view(taken, shape));
}

// A dimension that is not the parts. Lists keep their order, unlike those of reductions.
Result<int64_t> own_dim(NodeImport& node, int64_t dim, size_t rank) {
  const auto found = ops::normalize_dim(dim, rank);
  if (!found) return node.unsupported(fmt::format("dimension {} of {}", dim, rank));
  return static_cast<int64_t>(*found);
}

// Dimensions that are not the parts, in the order in which they are named.
Result<Ints> own_dims(NodeImport& node, ValueId x) {
  DTR_ASSIGN(Ints dims, node.ints("dims", Ints{}));
  for (int64_t& dim : dims) {
    DTR_ASSIGN(dim, own_dim(node, dim, node.type(x).rank() - 1));
  }
  return dims;
}

Result<Values> flip(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, own_dims(node, x));
  return one(node.flip(x, dims));
}

// Without dimensions in the order of all elements.
Result<Values> roll(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const Ints shifts, node.ints("shifts"));
  DTR_ASSIGN(Ints dims, own_dims(node, x));
  if (dims.empty()) {
    dims = {0};
    DTR_ASSIGN(x, node.view(x, {element_count(shape) / 2, 2}));
  }
  DTR_ASSIGN(x, compositions::roll(node, x, shifts, dims));
  return one(node.view(x, shape));
}
template <bool kBack>
Result<Values> shift_frequencies(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank() - 1));
  return one(compositions::shift_frequencies(node, x, dims, kBack));
}

// ---- transforms

// The factor of a transform of so many points in all.
Result<double> factor_of(NodeImport& node, bool inverse, double points) {
  DTR_ASSIGN(const std::string_view norm, node.string("norm", "backward"));
  if (norm == "ortho") return 1 / std::sqrt(points);
  return (norm == "backward") == inverse ? 1 / points : 1.0;
}

struct Axis {
  int64_t dim, points;
};

// Transforms each of the axes; the last one is the one that turns real numbers into complex ones,
// or complex ones into real ones.
Result<ValueId> transform(NodeImport& node, ValueId x, const std::vector<Axis>& axes, Signal from,
                          Signal to, bool inverse, double factor) {
  const auto along = [&](const Axis& axis, Signal in, Signal out, double by) -> Result<void> {
    DTR_ASSIGN(
        x, compositions::fourier(
               node, x, axis.dim,
               {.from = in, .to = out, .points = axis.points, .inverse = inverse, .factor = by}));
    return {};
  };
  const bool first_is_last = from == Signal::kReal;
  if (first_is_last) DTR_TRY(along(axes.back(), from, to, factor));
  for (size_t i = axes.size() - 1; i-- > 0;)
    DTR_TRY(along(axes[i], Signal::kComplex, Signal::kComplex, 1));
  if (!first_is_last) DTR_TRY(along(axes.back(), from, to, factor));
  return x;
}

// torch.fft.*: over one dimension, the last two, or those that are named. `half` says that the
// spectrum of a real signal has only its first half. `hermitian`: the signal is the one that has
// only half of its elements, and its spectrum is real; that is the inverse of the conjugate.
Result<Values> fft(NodeImport& node, size_t most_axes, bool half, bool inverse, bool hermitian) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  bool complex = node.is_complex("self");
  if (!complex) {
    DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  }
  const size_t rank = node.type(x).rank() - (complex ? 1 : 0);
  if (rank == 0) return node.unsupported("a transform of a scalar");
  const bool to_real = half && inverse;
  if (to_real && !complex) {  // numbers without an imaginary part
    DTR_ASSIGN(const ValueId zero, zeros_like(node, x));
    DTR_ASSIGN(x, with_parts(node, x, zero));
    complex = true;
  }
  if (hermitian && to_real) {
    DTR_ASSIGN(x, conjugated(node, x));
  }
  const std::string_view sizes = most_axes == 1 ? "n" : "s";
  DTR_ASSIGN(const Ints points, node.ints(sizes, Ints{}));
  Ints dims;
  if (node.has("dim")) {
    DTR_ASSIGN(dims, node.ints("dim"));
  } else {
    const size_t count = most_axes > 0 ? most_axes : points.empty() ? rank : points.size();
    for (size_t i = 0; i < count; ++i)
      dims.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(count));
  }
  if (dims.empty() || dims.size() > rank || (!points.empty() && points.size() != dims.size()))
    return node.unsupported(fmt::format("a transform over {} of {} dimensions", dims.size(), rank));
  std::vector<Axis> axes;
  double all = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    DTR_ASSIGN(const int64_t dim, own_dim(node, dims[i], rank));
    const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
    const bool is_half = to_real && i + 1 == dims.size();
    const int64_t own = is_half ? 2 * (extent - 1) : extent;
    axes.push_back({dim, points.empty() || points[i] == -1 ? own : points[i]});
    all *= static_cast<double>(axes.back().points);
  }
  DTR_ASSIGN(const double factor, factor_of(node, inverse != hermitian, all));
  const Signal from = to_real ? Signal::kHalf : complex ? Signal::kComplex : Signal::kReal;
  const Signal to = to_real ? Signal::kReal : half ? Signal::kHalf : Signal::kComplex;
  DTR_ASSIGN(const ValueId result, transform(node, x, axes, from, to, inverse, factor));
  return hermitian && !to_real ? one(conjugated(node, result)) : Values{result};
}
template <size_t kAxes, bool kHalf, bool kInverse, bool kHermitian = false>
Result<Values> fft(NodeImport& node) {
  return fft(node, kAxes, kHalf, kInverse, kHermitian);
}

// The transforms that those are made of: _fft_r2c, _fft_c2c, _fft_c2r.
Result<Values> plain_fft(NodeImport& node, Signal from, Signal to, bool inverse) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank() - (from == Signal::kReal ? 0 : 1);
  DTR_ASSIGN(const Ints dims, node.ints("dim"));
  DTR_ASSIGN(const int64_t normalization, node.integer("normalization"));
  std::vector<Axis> axes;
  double all = 1;
  for (const int64_t each : dims) {
    DTR_ASSIGN(const int64_t dim, own_dim(node, each, rank));
    axes.push_back({dim, node.type(x).shape[static_cast<size_t>(dim)]});
    if (to == Signal::kReal && axes.size() == dims.size()) {
      DTR_ASSIGN(axes.back().points, node.integer("last_dim_size"));
    }
    all *= static_cast<double>(axes.back().points);
  }
  if (axes.empty()) return Values{x};
  const double factor = normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(all) : 1 / all;
  return one(transform(node, x, axes, from, to, inverse, factor));
}
Result<Values> from_real(NodeImport& node) {
  DTR_ASSIGN(const bool one_sided, node.boolean("onesided"));
  return plain_fft(node, Signal::kReal, one_sided ? Signal::kHalf : Signal::kComplex, false);
}
Result<Values> of_complex(NodeImport& node) {
  DTR_ASSIGN(const bool forward, node.boolean("forward"));
  return plain_fft(node, Signal::kComplex, Signal::kComplex, !forward);
}
Result<Values> to_real(NodeImport& node) {
  return plain_fft(node, Signal::kHalf, Signal::kReal, true);
}

// The argument `window`, without one ones, in the middle of so many points.
Result<std::vector<double>> window_of(NodeImport& node, int64_t length, int64_t points) {
  std::vector<double> own(static_cast<size_t>(length), 1);
  if (node.has("window")) {
    DTR_ASSIGN(own, node.constant_elements("window"));
  }
  if (own.size() != static_cast<size_t>(length))
    return node.unsupported(fmt::format("a window of {} elements", own.size()));
  std::vector<double> window(static_cast<size_t>(points), 0);
  std::ranges::copy(own, window.begin() + (points - length) / 2);
  return window;
}

Result<Values> stft(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t points, node.integer("n_fft"));
  DTR_ASSIGN(const int64_t hop, node.integer("hop_length", points / 4));
  DTR_ASSIGN(const int64_t length, node.integer("win_length", points));
  DTR_ASSIGN(const bool normalized, node.boolean("normalized", false));
  DTR_ASSIGN(const bool one_sided, node.boolean("onesided", true));
  DTR_ASSIGN(const bool return_complex, node.boolean("return_complex", true));
  DTR_TRY(node.boolean("align_to_window", false));
  if (!return_complex)
    return node.unsupported("return_complex=False", "call torch.view_as_real on the result");
  if (points < 1 || length < 1 || length > points)
    return node.unsupported(fmt::format("a window of {} for {} points", length, points));
  DTR_ASSIGN(std::vector<double> window, window_of(node, length, points));
  compositions::ShortTime of{.window = std::move(window),
                             .hop = hop,
                             .one_sided = one_sided,
                             .factor = normalized ? 1 / std::sqrt(static_cast<double>(points)) : 1};
  return one(compositions::short_time_fourier(node, x, of));
}

Result<Values> istft(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t points, node.integer("n_fft"));
  DTR_ASSIGN(const int64_t hop, node.integer("hop_length", points / 4));
  DTR_ASSIGN(const int64_t length, node.integer("win_length", points));
  DTR_ASSIGN(const bool center, node.boolean("center", true));
  DTR_ASSIGN(const bool normalized, node.boolean("normalized", false));
  DTR_ASSIGN(const bool one_sided, node.boolean("onesided", true));
  DTR_ASSIGN(const bool return_complex, node.boolean("return_complex", false));
  if (return_complex) return node.unsupported("return_complex=True", "take the signal's real part");
  const Shape shape = node.type(x).shape;
  if (points < 1 || points > (int64_t{1} << 24) || length < 1 || length > points || hop < 1 ||
      hop > points || shape.size() < 3)
    return node.unsupported(fmt::format("a window of {} for {} points", length, points));
  DTR_ASSIGN(std::vector<double> window, window_of(node, length, points));
  const double root = std::sqrt(static_cast<double>(points));
  compositions::ShortTime of{.window = std::move(window),
                             .hop = hop,
                             .one_sided = one_sided,
                             .factor = normalized ? 1 / root : 1 / static_cast<double>(points)};
  const int64_t samples = points + hop * (shape[shape.size() - 2] - 1);
  const int64_t from = center ? points / 2 : 0;
  int64_t to = center ? samples - points / 2 : samples;
  if (node.has("length")) {
    DTR_ASSIGN(const int64_t wanted, node.integer("length"));
    to = from + wanted;
  }
  return one(compositions::inverse_short_time_fourier(node, x, of, from, to));
}

}  // namespace

std::vector<Operator> complex_operators() {
  const auto row = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, kMul, build);
  };
  // Of what else they say the file states the effect.
  const auto shaped = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return tensor_row(target, "", build);
  };
  const auto view = [](std::string_view target, Result<Values> (*build)(NodeImport&)) {
    return view_row(target, "", build);
  };
  return {
      row("aten.real.default", take_part<0>),
      view("aten.imag.default", take_part<1>),
      view("aten.view_as_real.default", unchanged),
      view("aten.view_as_complex.default", unchanged),
      shaped("aten.alias.default", unchanged),
      shaped("aten.clone.default", unchanged),
      shaped("aten.contiguous.default", unchanged),
      shaped("aten.detach.default", unchanged),
      shaped("aten.resolve_conj.default", unchanged),
      shaped("aten.resolve_neg.default", unchanged),
      view("aten.conj.default", conjugate),
      view("aten._conj.default", conjugate),
      view("aten.adjoint.default", adjoint),
      view("aten.mH.default", adjoint),
      view("aten.view.dtype", in_other_dtype),
      row("aten._conj_physical.default", conjugate),
      row("aten.conj_physical.default", conjugate),
      row("aten.complex.default", join_parts),
      row("aten.polar.default", polar),
      row("aten.neg.default", negated),
      row("aten.add.Tensor", add<kAdd>),
      row("aten.add.Scalar", add<kAdd>),
      row("aten.rsub.Scalar", add<kSub, true>),
      row("aten.rsub.Tensor", add<kSub, true>),
      row("aten.sub.Scalar", add<kSub>),
      row("aten.sub.Tensor", add<kSub>),
      row("aten.mul.Tensor", multiplied<kMul, kSelf, kOther>),
      row("aten.mul.Scalar", scaled),
      row("aten.div.Tensor", divided),
      row("aten.div.Scalar", divided),
      row("aten.einsum.default", einsum),
      row("aten.sum.dim_IntList", reduced<kSum>),
      row("aten.mean.dim", reduced<kMean>),

      shaped("aten._unsafe_view.default", as_stated),
      shaped("aten.flatten.using_ints", as_stated),
      shaped("aten.reshape.default", as_stated),
      shaped("aten.squeeze.default", as_stated),
      shaped("aten.squeeze.dim", as_stated),
      shaped("aten.squeeze.dims", as_stated),
      shaped("aten.unflatten.int", as_stated),
      shaped("aten.unsqueeze.default", as_stated),
      shaped("aten.view.default", as_stated),
      shaped("aten.expand.default", expanded),
      row("aten.permute.default", permute),
      row("aten.transpose.int", transpose),
      row("aten.slice.Tensor", slice),
      row("aten.select.int", select),
      row("aten.flip.default", flip),
      row("aten.roll.default", roll),

      row("aten.fft_fftshift.default", shift_frequencies<false>),
      row("aten.fft_ifftshift.default", shift_frequencies<true>),
      row("aten.fft_fft.default", fft<1, false, false>),
      row("aten.fft_ifft.default", fft<1, false, true>),
      row("aten.fft_rfft.default", fft<1, true, false>),
      row("aten.fft_irfft.default", fft<1, true, true>),
      row("aten.fft_hfft.default", fft<1, true, true, true>),
      row("aten.fft_ihfft.default", fft<1, true, false, true>),
      row("aten.fft_fft2.default", fft<2, false, false>),
      row("aten.fft_ifft2.default", fft<2, false, true>),
      row("aten.fft_rfft2.default", fft<2, true, false>),
      row("aten.fft_irfft2.default", fft<2, true, true>),
      row("aten.fft_hfft2.default", fft<2, true, true, true>),
      row("aten.fft_ihfft2.default", fft<2, true, false, true>),
      row("aten.fft_fftn.default", fft<0, false, false>),
      row("aten.fft_ifftn.default", fft<0, false, true>),
      row("aten.fft_rfftn.default", fft<0, true, false>),
      row("aten.fft_irfftn.default", fft<0, true, true>),
      row("aten.fft_hfftn.default", fft<0, true, true, true>),
      row("aten.fft_ihfftn.default", fft<0, true, false, true>),
      row("aten._fft_r2c.default", from_real),
      row("aten._fft_c2c.default", of_complex),
      row("aten._fft_c2r.default", to_real),
      row("aten.stft.default", stft),
      row("aten.istft.default", istft),
  };
}

}  // namespace dtr::pt2
