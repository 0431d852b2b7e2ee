// Windows of signals, their spectra, and filters of these.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/compositions/fourier.h"
#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

constexpr int64_t kMostPoints = 4096;  // of a spectrum

// ---- windows of signals, of a known size

enum class Taper : uint8_t { kHann, kHamming, kBlackman };

template <Taper kTaper>
Result<Values> taper(NodeImport& node) {
  DTR_ASSIGN(const int64_t size, node.integer(0));
  DTR_ASSIGN(const bool periodic, node.flag("periodic", true));
  DTR_ASSIGN(const int64_t stated, node.integer("output_datatype", int64_t{1}));
  const auto dtype = dtype_of(static_cast<int32_t>(stated));
  if (size < 1 || size > 1 << 22 || !dtype) return node.invalid(fmt::format("a size of {}", size));
  std::vector<double> values;
  const double period = static_cast<double>(periodic ? size : std::max<int64_t>(size - 1, 1));
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back(kTaper == Taper::kHann ? 0.5 - 0.5 * std::cos(angle)
                     : kTaper == Taper::kHamming
                         ? 25.0 / 46 - 21.0 / 46 * std::cos(angle)
                         : 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle));
  }
  return only(node.constant(*dtype, values));
}

// The spectrum along a dimension. The last dimension holds the real number, or real and imaginary
// part.
Result<Values> fourier(NodeImport& node) {
  using compositions::Signal;
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const bool inverse, node.flag("inverse"));
  DTR_ASSIGN(const bool onesided, node.flag("onesided"));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  int64_t stated = node.version() < 20 ? 1 : -2;
  if (node.has(2)) {
    DTR_ASSIGN(stated, node.integer(2));
  } else {
    DTR_ASSIGN(stated, node.integer("axis", stated));
  }
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  const Shape shape = node.shape(x);
  const int64_t parts = shape.back();
  const bool to_real = inverse && onesided;  // from the half of a spectrum
  if (rank < 2 || dim == rank - 1 || (parts != 1 && parts != 2) || (to_real && parts != 2))
    return node.unsupported(fmt::format("a spectrum of {}", to_string(shape)));
  int64_t length = shape[static_cast<size_t>(dim)];
  if (to_real) length = 2 * (length - 1);
  if (node.has(1)) {
    DTR_ASSIGN(length, node.integer(1));
  }
  if (length < 1 || length > kMostPoints) return node.unsupported(fmt::format("{} bins", length));
  if (parts == 1) {
    DTR_ASSIGN(x, node.view(x, Shape(shape.begin(), shape.end() - 1)));
  }
  const compositions::Fourier of{.from = to_real      ? Signal::kHalf
                                         : parts == 1 ? Signal::kReal
                                                      : Signal::kComplex,
                                 .to = to_real    ? Signal::kReal
                                       : onesided ? Signal::kHalf
                                                  : Signal::kComplex,
                                 .points = length,
                                 .inverse = inverse,
                                 .factor = inverse ? 1 / static_cast<double>(length) : 1};
  DTR_ASSIGN(x, compositions::fourier(node, x, dim, of));
  if (!to_real) return Values{x};
  Shape with_part = node.shape(x);
  with_part.push_back(1);
  return only(node.view(x, with_part));
}

// The spectra of windows of a real signal (batch, samples), with or without a last dimension of
// one: (batch, windows, bins, 2).
Result<Values> short_time_fourier(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  compositions::ShortTime of;
  DTR_ASSIGN(of.hop, node.integer(1));
  DTR_ASSIGN(of.one_sided, node.flag("onesided", true));
  const Shape shape = node.shape(x);
  if (shape.size() == 3 && shape[2] == 2)
    return node.unsupported("spectra of complex numbers", "transform the real signal");
  if (shape.size() != 2 && (shape.size() != 3 || shape[2] != 1))
    return node.invalid(fmt::format("a signal of {}", to_string(shape)));
  if (node.has(2)) {
    DTR_ASSIGN(of.window, node.known(2));
  }
  if (node.has(3)) {
    DTR_ASSIGN(const int64_t length, node.integer(3));
    if (length < 1 || length > kMostPoints)
      return node.unsupported(fmt::format("windows of {}", length));
    if (of.window.empty()) of.window.assign(static_cast<size_t>(length), 1);
    if (std::ssize(of.window) != length)
      return node.invalid(fmt::format("a window of {} for frames of {}", of.window.size(), length));
  }
  if (of.window.empty()) return node.invalid("neither a window nor frame_length is there");
  if (std::ssize(of.window) > kMostPoints)
    return node.unsupported(fmt::format("windows of {}", of.window.size()));
  DTR_ASSIGN(x, node.view(x, {shape[0], shape[1]}));
  DTR_ASSIGN(x, compositions::short_time_fourier(node, x, of));
  return only(node.permute(x, {0, 2, 1, 3}));
}

// Triangular filters (bins, filters), as far apart on the mel scale. Operands: how many, points of
// the transform, samples a second, lowest and highest frequency.
Result<Values> mel_weights(NodeImport& node) {
  DTR_ASSIGN(const int64_t filters, node.integer(0));
  DTR_ASSIGN(const int64_t points, node.integer(1));
  DTR_ASSIGN(const int64_t rate, node.integer(2));
  DTR_ASSIGN(const double lowest, node.number(3));
  DTR_ASSIGN(const double highest, node.number(4));
  DTR_ASSIGN(const int64_t stated, node.integer("output_datatype", int64_t{1}));
  const auto dtype = dtype_of(static_cast<int32_t>(stated));
  const int64_t bins = points / 2 + 1;
  if (filters < 1 || points < 1 || rate < 1 || !(lowest > -700) || !(highest > lowest) ||
      filters > (1 << 22) / bins || !dtype)
    return node.invalid(fmt::format("{} filters of {} points", filters, points));
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = mel(lowest);
  const double step = (mel(highest) - first) / static_cast<double>(filters + 2);
  // The edges and tops of the triangles.
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < filters + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + first) / 2595) - 1);
    const double bin =
        std::floor(static_cast<double>(points + 1) * hertz / static_cast<double>(rate));
    if (!(bin >= 0 && bin < static_cast<double>(bins)))
      return node.invalid(fmt::format("a filter at {} Hz, beyond the spectrum", hertz));
    corners.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> weights(static_cast<size_t>(bins * filters));
  for (int64_t i = 0; i < filters; ++i) {
    const auto at = [&](int64_t bin) -> double& {
      return weights[static_cast<size_t>(bin * filters + i)];
    };
    const auto corner = corners.begin() + i;
    const int64_t left = corner[0], top = corner[1], right = corner[2];
    for (int64_t bin = left; bin <= top; ++bin)
      at(bin) = top == left ? 1 : static_cast<double>(bin - left) / static_cast<double>(top - left);
    for (int64_t bin = top; bin < right; ++bin)
      at(bin) = static_cast<double>(right - bin) / static_cast<double>(right - top);
  }
  return only(node.constant(*dtype, weights, Shape{bins, filters}));
}

}  // namespace

std::vector<Operator> signal_operators() {
  return {
      row("BlackmanWindow", 1, 1, taper<Taper::kBlackman>),
      row("DFT", 1, 3, fourier),
      row("HammingWindow", 1, 1, taper<Taper::kHamming>),
      row("HannWindow", 1, 1, taper<Taper::kHann>),
      row("MelWeightMatrix", 5, 5, mel_weights),
      row("STFT", 2, 4, short_time_fourier),
  };
}

}  // namespace dtr::onnx
