#include "compiler/compositions/fourier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace dtr::compositions {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 24;

int64_t numbers_of(Signal signal, int64_t points) {
  return signal == Signal::kHalf ? points / 2 + 1 : points;
}
int64_t parts_of(Signal signal) { return signal == Signal::kReal ? 1 : 2; }

// An angle of `turns` of `points`, reduced first, so that large products lose nothing.
double angle(int64_t turns, int64_t points) {
  return 2 * std::numbers::pi * static_cast<double>(turns % points) / static_cast<double>(points);
}

// The matrix of a transform: a row for each number of the result, real parts before imaginary ones
// of each complex number, a column for each of the operand.
std::vector<double> matrix_of(const Fourier& of) {
  const int64_t inputs = numbers_of(of.from, of.points), outputs = numbers_of(of.to, of.points);
  const int64_t in_parts = parts_of(of.from), out_parts = parts_of(of.to);
  const double sign = of.inverse ? 1 : -1;
  std::vector<double> matrix;
  matrix.reserve(static_cast<size_t>(inputs * in_parts * outputs * out_parts));
  for (int64_t to = 0; to < outputs; ++to)
    for (int64_t out_part = 0; out_part < out_parts; ++out_part)
      for (int64_t from = 0; from < inputs; ++from) {
        // The other half of the spectrum of a real signal mirrors this one.
        const bool is_own_mirror = from == 0 || 2 * from == of.points;
        const double weight =
            of.from == Signal::kHalf && !is_own_mirror ? 2 * of.factor : of.factor;
        const double cosine = weight * std::cos(angle(to * from, of.points));
        const double sine = sign * weight * std::sin(angle(to * from, of.points));
        matrix.push_back(out_part == 0 ? cosine : sine);
        if (in_parts == 2) matrix.push_back(out_part == 0 ? -sine : cosine);
      }
  return matrix;
}

}  // namespace

Result<ValueId> fourier(GraphBuilder& builder, ValueId x, int64_t dim, const Fourier& of) {
  const int64_t inputs = numbers_of(of.from, of.points) * parts_of(of.from);
  const int64_t outputs = numbers_of(of.to, of.points) * parts_of(of.to);
  if (of.points < 1 || inputs > kMostElements / outputs)
    return builder.unsupported(fmt::format("a transform of {} points", of.points),
                               "transform fewer points at a time");
  // The dimension behind all others, then cut or filled, with its parts made one with it.
  const bool parted = of.from != Signal::kReal;
  const auto rank = static_cast<int64_t>(builder.type(x).rank()) - (parted ? 1 : 0);
  Ints order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(dim)], order.back());  // its own inverse
  Ints with_parts = order;
  with_parts.push_back(rank);
  DTR_ASSIGN(x, builder.permute(x, parted ? with_parts : order));
  const int64_t wanted = numbers_of(of.from, of.points);
  const int64_t extent = builder.type(x).shape[static_cast<size_t>(rank) - 1];
  if (extent > wanted) {
    DTR_ASSIGN(x, builder.slice(x, rank - 1, 0, wanted));
  } else if (extent < wanted) {
    Ints zeros{0, wanted - extent};
    if (parted) zeros.insert(zeros.begin(), {0, 0});
    DTR_ASSIGN(x, builder.pad(x, zeros, 0));
  }
  Shape shape = builder.type(x).shape;
  shape.resize(static_cast<size_t>(rank));
  shape.back() = inputs;
  DTR_ASSIGN(x, builder.view(x, shape));
  DTR_ASSIGN(const ValueId weight,
             builder.constant(DType::kFloat32, matrix_of(of), Shape{outputs, inputs}));
  DTR_ASSIGN(x, builder.emit("aten.linear", {x, weight}));
  shape.back() = numbers_of(of.to, of.points);
  if (of.to == Signal::kReal) return builder.permute(x, order);
  shape.push_back(2);
  DTR_ASSIGN(x, builder.view(x, shape));
  return builder.permute(x, with_parts);
}

Result<ValueId> short_time_fourier(GraphBuilder& builder, ValueId x, const ShortTime& of) {
  const auto points = static_cast<int64_t>(of.window.size());
  const int64_t frequencies = of.one_sided ? points / 2 + 1 : points;
  const Shape shape = builder.type(x).shape;
  if (points < 1 || of.hop < 1 || shape.empty() || shape.back() < points ||
      points > kMostElements / (2 * frequencies))
    return builder.unsupported(
        fmt::format("spectra of {} samples, {} apart, of {}", points, of.hop, to_string(shape)));
  std::vector<double> matrix = matrix_of({.from = Signal::kReal,
                                          .to = of.one_sided ? Signal::kHalf : Signal::kComplex,
                                          .points = points,
                                          .factor = of.factor});
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] *= of.window[i % of.window.size()];
  const int64_t signals = element_count(Shape(shape.begin(), shape.end() - 1));
  DTR_ASSIGN(x, builder.view(x, {signals, 1, shape.back()}));
  DTR_ASSIGN(const ValueId weight,
             builder.constant(DType::kFloat32, matrix, Shape{2 * frequencies, 1, points}));
  DTR_ASSIGN(x, builder.emit("aten.convolution", {x, weight},
                             {{"transposed", false},
                              {"stride", Ints{of.hop}},
                              {"padding", Ints{0}},
                              {"dilation", Ints{1}},
                              {"output_padding", Ints{0}},
                              {"groups", int64_t{1}}}));
  const int64_t frames = builder.type(x).shape.back();
  DTR_ASSIGN(x, builder.view(x, {signals, frequencies, 2, frames}));
  DTR_ASSIGN(x, builder.permute(x, {0, 1, 3, 2}));
  Shape result(shape.begin(), shape.end() - 1);
  result.insert(result.end(), {frequencies, frames, 2});
  return builder.view(x, result);
}

// A transposed convolution, whose weight is the matrix of the inverse transform.
Result<ValueId> inverse_short_time_fourier(GraphBuilder& builder, ValueId spectra,
                                           const ShortTime& of, int64_t from, int64_t to) {
  const auto points = static_cast<int64_t>(of.window.size());
  const int64_t frequencies = of.one_sided ? points / 2 + 1 : points;
  const Shape shape = builder.type(spectra).shape;
  const int64_t frames = shape.size() < 3 ? 0 : shape[shape.size() - 2];
  if (points < 1 || of.hop < 1 || frames < 1 || shape[shape.size() - 3] != frequencies ||
      from < 0 || to <= from || to > kMostElements || frames > kMostElements / of.hop ||
      points > kMostElements / (2 * frequencies))
    return builder.unsupported(fmt::format("the signal of spectra of {} points, {} apart, of {}",
                                           points, of.hop, to_string(shape)));
  const std::vector<double> matrix =
      matrix_of({.from = of.one_sided ? Signal::kHalf : Signal::kComplex,
                 .to = Signal::kReal,
                 .points = points,
                 .inverse = true,
                 .factor = of.factor});
  std::vector<double> weights(matrix.size());
  for (int64_t number = 0; number < 2 * frequencies; ++number)
    for (int64_t t = 0; t < points; ++t)
      weights[static_cast<size_t>(number * points + t)] =
          matrix[static_cast<size_t>(t * 2 * frequencies + number)] *
          of.window[static_cast<size_t>(t)];
  const int64_t samples = points + of.hop * (frames - 1), end = std::min(to, samples);
  std::vector<double> shares(static_cast<size_t>(samples));
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t t = 0; t < points; ++t)
      shares[static_cast<size_t>(frame * of.hop + t)] +=
          of.window[static_cast<size_t>(t)] * of.window[static_cast<size_t>(t)];
  std::vector<double> factors;
  for (int64_t i = from; i < end; ++i) {
    const double share = shares[static_cast<size_t>(i)];
    if (share < 1e-11)
      return builder.unsupported("windows that leave samples without weight",
                                 "take a window and a hop length whose windows overlap");
    factors.push_back(1 / share);
  }
  if (factors.empty()) return builder.unsupported("no sample is left");
  const int64_t signals = element_count(Shape(shape.begin(), shape.end() - 3));
  DTR_ASSIGN(ValueId x, builder.view(spectra, {signals, frequencies, frames, 2}));
  DTR_ASSIGN(x, builder.permute(x, {0, 1, 3, 2}));
  DTR_ASSIGN(x, builder.view(x, {signals, 2 * frequencies, frames}));
  DTR_ASSIGN(const ValueId weight,
             builder.constant(DType::kFloat32, weights, Shape{2 * frequencies, 1, points}));
  DTR_ASSIGN(x, builder.emit("aten.convolution", {x, weight},
                             {{"transposed", true},
                              {"stride", Ints{of.hop}},
                              {"padding", Ints{0}},
                              {"dilation", Ints{1}},
                              {"output_padding", Ints{0}},
                              {"groups", int64_t{1}}}));
  DTR_ASSIGN(x, builder.view(x, {signals, samples}));
  DTR_ASSIGN(x, builder.slice(x, 1, from, end));
  DTR_ASSIGN(const ValueId factor, builder.constant(DType::kFloat32, factors));
  DTR_ASSIGN(x, builder.emit("aten.mul.Tensor", {x, factor}));
  if (end < to) {
    DTR_ASSIGN(x, builder.pad(x, {0, to - end}, 0));
  }
  Shape result(shape.begin(), shape.end() - 3);
  result.push_back(to - from);
  return builder.view(x, result);
}

Result<ValueId> squared_magnitude(GraphBuilder& builder, ValueId x) {
  DTR_ASSIGN(const ValueId squares,
             builder.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", 2.0}}));
  const auto last = static_cast<int64_t>(builder.type(x).rank()) - 1;
  return builder.emit("aten.sum.dim_IntList", {squares}, {{"dim", Ints{last}}, {"keepdim", false}});
}

Result<ValueId> magnitude(GraphBuilder& builder, ValueId x) {
  DTR_ASSIGN(const ValueId square, squared_magnitude(builder, x));
  return builder.emit("aten.sqrt", {square});
}

}  // namespace dtr::compositions
