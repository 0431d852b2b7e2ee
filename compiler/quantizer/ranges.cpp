// Quantization parameters from statistics, ranges and weights.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/quantizer/loops.h"
#include "compiler/quantizer/observer.h"
#include "compiler/quantizer/pattern.h"
#include "compiler/support/diagnostic.h"
#include "device/numerics/requantize.h"

namespace dtr {
namespace {

// Errors of saturation all point inwards and add up in what is computed from them, where errors of
// rounding cancel.
constexpr double kSaturationWeight = 3;

// The elements of the tail on one side: those that are fitted, and the steps and the reach in which
// the end of a range is searched beyond the observed elements, in means.
constexpr double kTailElements = 16;
constexpr double kTailStep = 1.0 / 8;
constexpr int kTailSteps = 64;

// Elements that other samples probably have beyond `end`, the extreme of the observed ones: `count`
// of them, exponential, in the mean at `mean` from it.
struct Tail {
  double end = 0, count = 0, mean = 0;
  // The squares of their distances from an end of the range that lies `room` beyond `end`.
  double squares(double room) const {
    if (count == 0) return 0;
    if (room >= 0) return count * std::exp(-room / mean) * 2 * mean * mean;
    return count * (room * room - 2 * room * mean + 2 * mean * mean);
  }
};

// Sums over the bins, so that the error of any range costs constant time.
class ErrorModel {
 public:
  ErrorModel(const ValueStatistics& statistics, const Histogram& histogram, Expected expected)
      : zeros_(static_cast<double>(statistics.zeros())),
        first_bin_(histogram.first_bin),
        width_(std::ldexp(1.0, histogram.exponent)) {
    const std::span<const int64_t> bins = histogram.bins;
    sums_.resize(bins.size() + 1);
    for (size_t i = 0; i < bins.size(); ++i) {
      const auto n = static_cast<double>(bins[i]);
      const double center = edge(i) + width_ / 2;
      sums_[i + 1] = {sums_[i].n + n, sums_[i].x + n * center, sums_[i].xx + n * center * center};
    }
    const auto count = static_cast<double>(statistics.count());
    if (expected == Expected::kObserved || count < 2 * kTailElements) return;
    size_t first = 0, last = bins.size();
    while (sums_[first].n < kTailElements) ++first;
    while (sums_.back().n - sums_[last].n < kTailElements) --last;
    low_tail_ = fit(sums_[first], edge(first), statistics.range().min);
    high_tail_ = fit(sums_.back() - sums_[last], edge(last), statistics.range().max);
  }

  double edge(size_t bin) const {
    return static_cast<double>(first_bin_ + static_cast<int64_t>(bin)) * width_;
  }
  size_t size() const { return sums_.size() - 1; }
  const Tail& low_tail() const { return low_tail_; }
  const Tail& high_tail() const { return high_tail_; }

  // Expected squared error of all elements when [low, high] gets 256 codes; bins before `first` and
  // from `last` on saturate.
  double operator()(double low, double high, size_t first, size_t last) const {
    const double step = std::max((high - low) / 255, static_cast<double>(0x1p-149F));
    const Sums under = sums_[first];
    const Sums over = sums_.back() - sums_[last];
    const double inside = std::max(0.0, sums_[last].n - under.n - zeros_);
    return inside * step * step / 12 +
           kSaturationWeight *
               (under.squares_about(low) + over.squares_about(high) +
                low_tail_.squares(low_tail_.end - low) + high_tail_.squares(high - high_tail_.end));
  }

 private:
  struct Sums {
    double n = 0, x = 0, xx = 0;
    Sums operator-(const Sums& other) const { return {n - other.n, x - other.x, xx - other.xx}; }
    double squares_about(double at) const { return std::max(0.0, xx - 2 * at * x + at * at * n); }
  };
  // From the elements beyond `from`. No tail where they are nearly equal, as at a bound.
  Tail fit(const Sums& elements, double from, double end) const {
    const double mean = std::abs(elements.x / elements.n - from);
    if (mean <= width_) return {};
    return {end, elements.n * std::exp(-std::abs(end - from) / mean), mean};
  }

  double zeros_;
  int64_t first_bin_;
  double width_;
  std::vector<Sums> sums_;
  Tail low_tail_, high_tail_;
};

// Squared error of the elements, each taken to lie in the middle of its bin, when `range` becomes
// codes.
double quantization_error(const Histogram& histogram, Range range) {
  const Quantization q = affine_quantization(range, std::numeric_limits<float>::min());
  const auto scale = static_cast<double>(q.scale());
  const double low = (q.qmin - q.zero_point()) * scale;
  const double high = (q.qmax - q.zero_point()) * scale;
  const double width = std::ldexp(1.0, histogram.exponent);
  double center = (static_cast<double>(histogram.first_bin) + 0.5) * width;
  double error = 0;
  for (const int64_t n : histogram.bins) {
    const double code = std::floor(std::clamp(center, low, high) / scale + 0.5) * scale;
    const double weight = center < low || center > high ? kSaturationWeight : 1;
    error += weight * static_cast<double>(n) * (center - code) * (center - code);
    center += width;
  }
  return error;
}

}  // namespace

Range best_range(const ValueStatistics& statistics, Expected expected) {
  const Range full = statistics.range();
  const Histogram histogram = statistics.histogram();
  if (histogram.bins.size() < 3) return full;
  const ErrorModel error(statistics, histogram, expected);
  const size_t bins = error.size();
  // Where the range may end, the outermost place first; `bin`: the first bin inside, or behind it.
  struct End {
    double at;
    size_t bin;
  };
  std::vector<End> lows, highs;
  for (int i = error.low_tail().count > 0 ? kTailSteps : 0; i > 0; --i)
    lows.push_back({error.low_tail().end - i * kTailStep * error.low_tail().mean, 0});
  for (int i = error.high_tail().count > 0 ? kTailSteps : 0; i > 0; --i)
    highs.push_back({error.high_tail().end + i * kTailStep * error.high_tail().mean, bins});
  const End least{static_cast<double>(full.min), 0}, most{static_cast<double>(full.max), bins};
  for (size_t bin = 0; bin < bins; ++bin)
    lows.push_back(bin == 0 ? least : End{error.edge(bin), bin});
  for (size_t bin = bins; bin > 0; --bin)
    highs.push_back(bin == bins ? most : End{error.edge(bin), bin});
  // The range stays around zero. Alternately the best upper end for the lower one and the other way
  // round.
  End low = least, high = most;
  double best = error(std::min(low.at, 0.0), std::max(high.at, 0.0), low.bin, high.bin);
  for (bool changed = true; changed;) {
    changed = false;
    for (const End& end : highs) {
      if (end.bin <= low.bin + 1 || end.at <= 0) break;
      const double e = error(std::min(low.at, 0.0), end.at, low.bin, end.bin);
      if (e < best) {
        best = e;
        high = end;
        changed = true;
      }
    }
    for (const End& end : lows) {
      if (end.bin + 1 >= high.bin || end.at >= 0) break;
      const double e = error(end.at, std::max(high.at, 0.0), end.bin, high.bin);
      if (e < best) {
        best = e;
        low = end;
        changed = true;
      }
    }
  }
  const auto finite = [](double x) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(x, -kMost, kMost));
  };
  const Range chosen{finite(low.at), finite(high.at)};
  if (low.at < least.at || high.at > most.at) return chosen;
  // The model takes rounding errors to be uniform, which they are not when most elements share few
  // codes.
  return quantization_error(histogram, chosen) < quantization_error(histogram, full) ? chosen
                                                                                     : full;
}

Quantization affine_quantization(Range range, float eps, int32_t qmin, int32_t qmax) {
  const float low = std::min(range.min, 0.0F);
  const float high = std::max(range.max, 0.0F);
  // Halved before the difference where that would overflow.
  const float width = high - low;
  const auto codes = static_cast<float>(qmax - qmin);
  const float scale =
      std::max(std::isfinite(width) ? width / codes : (high / 2 - low / 2) / codes * 2, eps);
  const float zero = static_cast<float>(qmin) - std::nearbyint(low / scale);
  const int32_t zero_point =
      std::clamp(numerics::saturating_cast<int32_t>(static_cast<double>(zero)), qmin, qmax);
  return Quantization::per_tensor(scale, zero_point, qmin, qmax);
}

namespace {

// std::nearbyint below 2^51, beyond that near enough for what saturates; no call, so that loops
// become SIMD.
double rounded(double x) {
  constexpr double kIntegersOnly = 0x1.8p52;
  return (x + kIntegersOnly) - kIntegersOnly;
}

// What `q` costs: the squared errors of the elements; the square of their sum, spread over all of
// them, because errors of one sign add up in what is computed from the elements; and step²/12 for
// as many elements that are not known (none for exact zeros).
double exact_error(std::span<const ValueStatistics::Element> elements, const Quantization& q) {
  const auto scale = static_cast<double>(q.scale());
  const double low = q.qmin - q.zero_point(), high = q.qmax - q.zero_point();
  double total = 0, unseen = 0, sum = 0, squares = 0;
  for (const auto& [value, count] : elements) {
    const double x = static_cast<double>(value) / scale;
    const double error = x - std::clamp(rounded(x), low, high);
    const auto n = static_cast<double>(count);
    const double weight = x < low - 0.5 || x > high + 0.5 ? kSaturationWeight : 1;
    total += n;
    unseen += value == 0 ? 0 : n;
    sum += n * error;
    squares += weight * n * error * error;
  }
  return (squares + sum * sum / total + unseen / 12) * scale * scale;
}

// The scale with which the codes that the elements have in `q` are nearest to them (least squares);
// 0 if all codes are zero.
double fitted_scale(std::span<const ValueStatistics::Element> elements, const Quantization& q) {
  double products = 0, squares = 0;
  for (const auto& [value, count] : elements) {
    const double code = std::clamp(
        rounded(static_cast<double>(value) / static_cast<double>(q.scale())),
        static_cast<double>(q.qmin - q.zero_point()), static_cast<double>(q.qmax - q.zero_point()));
    products += static_cast<double>(count) * code * static_cast<double>(value);
    squares += static_cast<double>(count) * code * code;
  }
  return squares == 0 ? 0 : products / squares;
}

// Whether the codes of the elements are the elements again in float32, in which comparisons and
// conversions to integers read them.
bool reproduces(std::span<const ValueStatistics::Element> elements, const Quantization& q) {
  return std::ranges::all_of(elements, [&](const ValueStatistics::Element& element) {
    const double code =
        rounded(static_cast<double>(element.value) / static_cast<double>(q.scale()));
    return code >= q.qmin - q.zero_point() && code <= q.qmax - q.zero_point() &&
           static_cast<float>(code) * q.scale() == element.value;
  });
}

// The finest scale for the range, of at most 255, that is a power of two: its multiples are exact.
Quantization power_of_two_quantization(Range range, float eps) {
  const float least = std::max((range.max - range.min) / 255, eps);
  int exponent = 0;
  const float fraction = std::frexp(least, &exponent);  // least = fraction · 2^exponent, from 1/2
  const float scale = std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent);
  const auto lowest = static_cast<int32_t>(std::floor(range.min / scale));
  return Quantization::per_tensor(scale, -128 - lowest, -128, 127);
}

}  // namespace

Quantization best_quantization(const ValueStatistics& statistics, float eps, Expected expected) {
  const Range range = best_range(statistics, expected);
  Quantization best = affine_quantization(range, eps);
  if (!statistics.distinct()) return best;
  const std::span<const ValueStatistics::Element> elements = *statistics.distinct();
  double least = exact_error(elements, best);
  const auto offer = [&](double scale) {
    // The grid is the scale's multiples; where the range ends only says which of them have codes.
    const double low = std::min(range.min, 0.0F), high = std::max(range.max, 0.0F);
    const double slack = 255 * scale - (high - low);
    const double below = low == 0 ? 0 : high == 0 ? slack : slack / 2;
    const double lowest = low - below, highest = high + slack - below;
    if (std::max(-lowest, highest) > static_cast<double>(std::numeric_limits<float>::max()))
      return false;
    const Quantization q =
        affine_quantization({static_cast<float>(lowest), static_cast<float>(highest)}, eps);
    const double error = exact_error(elements, q);
    if (error >= least) return false;
    best = q;
    least = error;
    return true;
  };
  // The error of an outermost element goes up and down once while the scale changes by 1/255. Half
  // a code beyond the range is free.
  constexpr int kSteps = 4096, kNarrowest = -kSteps / 512, kWidest = kSteps / 15;
  const auto start = static_cast<double>(best.scale());
  for (int step = kNarrowest; step <= kWidest; ++step)
    offer(start * (1 + static_cast<double>(step) / kSteps));
  while (offer(fitted_scale(elements, best))) {
  }
  // Integers whose 1 is 63 codes of .015873 and in float32 less than 1.
  const Range whole{std::min(range.min, 0.0F), std::max(range.max, 0.0F)};
  const bool are_integers = std::ranges::all_of(
      elements, [](const auto& element) { return element.value == std::nearbyint(element.value); });
  if (!are_integers || static_cast<double>(whole.max) - static_cast<double>(whole.min) > 255 ||
      reproduces(elements, best))
    return best;
  const Quantization exact = power_of_two_quantization(whole, eps);
  return reproduces(elements, exact) ? exact : best;
}

Quantization symmetric_quantization(Range range, float eps) {
  const float magnitude = std::max({-range.min, range.max, 0.0F});
  return Quantization::per_tensor(std::max(magnitude / 127.0F, eps), 0, -127, 127);
}

Quantization weight_quantization(std::span<const float> values, const Shape& shape, int axis) {
  const auto quantization_of = [](Range range) {
    const bool zero = range == Range{};
    return symmetric_quantization(range,
                                  zero ? std::numeric_limits<float>::epsilon() : kLeastScale);
  };
  if (axis < 0) return quantization_of(finite_range(values).range);
  const auto dim = static_cast<size_t>(axis);
  DTR_CHECK(dim < shape.size());
  const auto channels = static_cast<size_t>(shape[dim]);
  size_t inner = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  Quantization result{
      .zero_points = std::vector<int32_t>(channels, 0), .axis = axis, .qmin = -127, .qmax = 127};
  std::vector<Range> ranges(channels);
  for (size_t at = 0, channel = 0; at < values.size();
       at += inner, channel = (channel + 1) % channels) {
    const Range slice = finite_range(values.subspan(at, inner)).range;
    ranges[channel] = {std::min(ranges[channel].min, slice.min),
                       std::max(ranges[channel].max, slice.max)};
  }
  for (const Range& range : ranges) result.scales.push_back(quantization_of(range).scale());
  return result;
}

namespace {

// The scale with which the codes of weights under scale `with` are nearest to them; 0: all are 0.
double nearest_scale(std::span<const float> weights, double with) {
  double products = 0, squares = 0;
  for (const float weight : weights) {
    const auto x = static_cast<double>(weight);
    const double code = rounded(x / with);
    products += x * code;
    squares += code * code;
  }
  return squares == 0 ? 0 : products / squares;
}

}  // namespace

void fit_weights(std::span<const float> values, const Shape& shape, Quantization& quantization) {
  constexpr size_t kFew = 64;
  constexpr int kSteps = 136;  // the code of the largest weight changes 8 times
  constexpr double kWidest = 1.0 / 15;
  const size_t channels = quantization.scales.size();
  if (values.size() > kFew * channels) return;
  size_t inner = values.size() / channels;
  if (quantization.per_channel()) {
    inner = 1;
    for (size_t i = static_cast<size_t>(quantization.axis) + 1; i < shape.size(); ++i)
      inner *= static_cast<size_t>(shape[i]);
  }
  std::vector<std::vector<float>> elements(channels);
  for (size_t at = 0, c = 0; at < values.size(); at += inner, c = (c + 1) % channels)
    elements[c].insert(elements[c].end(), values.begin() + static_cast<std::ptrdiff_t>(at),
                       values.begin() + static_cast<std::ptrdiff_t>(at + inner));
  std::array<double, kSteps + 1> scales, errors;
  for (size_t c = 0; c < channels; ++c) {
    const auto narrowest = static_cast<double>(quantization.scales[c]);
    const auto allowed = [&](double scale) {
      return static_cast<double>(
          static_cast<float>(std::clamp(scale, narrowest, narrowest * (1 + kWidest))));
    };
    for (int step = 0; step <= kSteps; ++step)
      scales[static_cast<size_t>(step)] = allowed(narrowest * (1 + kWidest * step / kSteps));
    loops::square_errors(elements[c], scales, errors);
    const auto best = std::ranges::min_element(errors) - errors.begin();
    double scale = scales[static_cast<size_t>(best)], error = 0;
    const double nearest = allowed(nearest_scale(elements[c], scale));
    loops::square_errors(elements[c], {&nearest, 1}, {&error, 1});
    if (error < errors[static_cast<size_t>(best)]) scale = nearest;
    quantization.scales[c] = static_cast<float>(scale);
  }
}

}  // namespace dtr
