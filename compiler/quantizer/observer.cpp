#include "compiler/quantizer/observer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/support/diagnostic.h"
#include "device/numerics/requantize.h"

namespace dtr {
namespace {

// Smallest exponent: its powers 2^±e are ordinary floats.
constexpr int kMinExponent = -120;

int64_t bin_of(float x, int exponent) {
  return static_cast<int64_t>(std::floor(std::ldexp(static_cast<double>(x), -exponent)));
}

// The narrowest bins with which `range` takes at most kMaxBins, all of them at indices that a float
// counts exactly.
int exponent_for(Range range) {
  const float magnitude = std::max(-range.min, range.max);
  const float width = range.max - range.min;  // may be infinite; then the magnitude decides
  int exponent = kMinExponent;
  if (magnitude > 0) exponent = std::max(exponent, std::ilogb(magnitude) - 22);
  if (width > 0 && std::isfinite(width)) exponent = std::max(exponent, std::ilogb(width) - 12);
  while (bin_of(range.max, exponent) - bin_of(range.min, exponent) >= ValueStatistics::kMaxBins)
    ++exponent;
  return exponent;
}

struct Grid {
  float width;
  float inverse_width;
  int32_t first;
};

// Writes the bin of each element, relative to `first`. Exact: factors are powers of two, and
// truncation is mended to floor by comparing with the bin's own edge, which holds for elements so
// small that the quotient underflows, too.
void find_bins(std::span<const float> elements, const Grid& grid, int32_t* bins) {
  for (size_t i = 0; i < elements.size(); ++i) {
    const float x = elements[i];
    const auto truncated = static_cast<int32_t>(x * grid.inverse_width);
    bins[i] = truncated - (static_cast<float>(truncated) * grid.width > x ? 1 : 0) - grid.first;
  }
}

constexpr size_t kBlock = 1024;

// Four tables in turn, because activations repeat (zeros of a ReLU) and a counter cannot be added
// to twice in a row at full speed.
void count_many(std::span<const float> elements, const Grid& grid, std::span<int64_t> counts) {
  constexpr size_t kTables = 4;
  static thread_local std::vector<uint32_t> tables;
  const size_t stride = counts.size();
  tables.assign(kTables * stride, 0);
  std::array<int32_t, kBlock> bins;
  for (size_t at = 0; at < elements.size(); at += kBlock) {
    const size_t n = std::min(kBlock, elements.size() - at);
    find_bins(elements.subspan(at, n), grid, bins.data());
    size_t i = 0;
    for (; i + kTables <= n; i += kTables)
      for (size_t t = 0; t < kTables; ++t) ++tables[t * stride + static_cast<size_t>(bins[i + t])];
    for (; i < n; ++i) ++tables[static_cast<size_t>(bins[i])];
  }
  for (size_t t = 0; t < kTables; ++t)
    for (size_t i = 0; i < stride; ++i) counts[i] += tables[t * stride + i];
}

void count_few(std::span<const float> elements, const Grid& grid, std::span<int64_t> counts) {
  std::array<int32_t, kBlock> bins;
  for (size_t at = 0; at < elements.size(); at += kBlock) {
    const size_t n = std::min(kBlock, elements.size() - at);
    find_bins(elements.subspan(at, n), grid, bins.data());
    for (size_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(bins[i])];
  }
}

// The distinct elements, in ascending order, with their counts; nullopt if there are more than
// kMaxDistinct.
std::optional<std::vector<ValueStatistics::Element>> distinct_elements(
    std::span<const float> elements) {
  constexpr size_t kSlots = 4 * ValueStatistics::kMaxDistinct;
  static thread_local std::vector<uint16_t> slots;  // 1 + index in `found`; 0: free
  slots.assign(kSlots, 0);
  std::vector<ValueStatistics::Element> found;
  for (const float x : elements) {
    const float value = x + 0.0F;  // -0 is 0
    size_t slot = (std::bit_cast<uint32_t>(value) * 2654435769U) >> 20;
    while (slots[slot] != 0 && found[slots[slot] - 1U].value != value) slot = (slot + 1) % kSlots;
    if (slots[slot] == 0) {
      if (found.size() == ValueStatistics::kMaxDistinct) return std::nullopt;
      found.push_back({value, 0});
      slots[slot] = static_cast<uint16_t>(found.size());
    }
    ++found[slots[slot] - 1U].count;
  }
  std::ranges::sort(found, {}, &ValueStatistics::Element::value);
  return found;
}

}  // namespace

FiniteRange finite_range(std::span<const float> elements) {
  if (elements.empty()) return {};
  // Lanes that do not depend on each other, so that the loop becomes SIMD without reordering
  // floating-point sums.
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> low, high, poison{};
  std::array<int32_t, kLanes> zero_count{};
  low.fill(elements[0]);
  high.fill(elements[0]);
  int64_t zeros = 0;
  size_t i = 0;
  while (i + kLanes <= elements.size()) {
    const size_t stop =
        std::min(elements.size(), i + (size_t{1} << 24));  // zero_count cannot overflow
    for (; i + kLanes <= stop; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const float x = elements[i + lane];
        low[lane] = x < low[lane] ? x : low[lane];
        high[lane] = x > high[lane] ? x : high[lane];
        poison[lane] += x * 0.0F;  // NaN from the first NaN or infinity on
        zero_count[lane] += x == 0.0F ? 1 : 0;
      }
    }
    for (int32_t& lane : zero_count) zeros += std::exchange(lane, 0);
  }
  for (; i < elements.size(); ++i) {
    low[0] = std::min(low[0], elements[i]);
    high[0] = std::max(high[0], elements[i]);
    poison[0] += elements[i] * 0.0F;
    zeros += elements[i] == 0.0F ? 1 : 0;
  }
  FiniteRange result{.range = {low[0], high[0]}, .zeros = zeros};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    result.range.min = std::min(result.range.min, low[lane]);
    result.range.max = std::max(result.range.max, high[lane]);
    result.finite = result.finite && poison[lane] == 0.0F;
  }
  result.range.min += 0.0F;  // -0 and 0 are one bound, whichever came first
  result.range.max += 0.0F;
  return result;
}

void observe_channels(const TensorView& tensor, size_t axis, std::span<double> sums,
                      std::span<float> low, std::span<float> high) {
  const size_t channels = sums.size();
  size_t inner = 1;  // elements that lie together in one channel
  for (size_t i = axis + 1; i < tensor.shape.size(); ++i)
    inner *= static_cast<size_t>(tensor.shape[i]);
  const std::span<const float> elements = tensor.values<float>();
  if (inner > 1) {
    for (size_t at = 0, c = 0; at < elements.size(); at += inner, c = (c + 1) % channels) {
      const std::span<const float> plane = elements.subspan(at, inner);
      const Range range = finite_range(plane).range;
      low[c] = std::min(low[c], range.min);
      high[c] = std::max(high[c], range.max);
      for (const float x : plane) sums[c] += static_cast<double>(x);
    }
    return;
  }
  // Row by row over all channels; float sums over few rows keep the loop narrow.
  constexpr size_t kRows = 64;
  std::vector<float> partial(channels);
  for (size_t at = 0; at < elements.size(); at += kRows * channels) {
    const size_t end = std::min(elements.size(), at + kRows * channels);
    std::ranges::fill(partial, 0.0F);
    for (const float* row = elements.data() + at; row != elements.data() + end; row += channels)
      for (size_t c = 0; c < channels; ++c) {
        partial[c] += row[c];
        low[c] = row[c] < low[c] ? row[c] : low[c];
        high[c] = row[c] > high[c] ? row[c] : high[c];
      }
    for (size_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(partial[c]);
  }
}

bool ValueStatistics::restore(Range range, int64_t zeros, int64_t count, int exponent,
                              int64_t first_bin, std::vector<int64_t> bins) {
  if (!std::isfinite(range.min) || !std::isfinite(range.max) || range.min > range.max) return false;
  if (count <= 0 || zeros < 0 || zeros > count) return false;
  if (with_histogram_) {
    if (exponent != exponent_for(range)) return false;
    const int64_t last = bin_of(range.max, exponent);
    if (first_bin != bin_of(range.min, exponent) ||
        static_cast<int64_t>(bins.size()) != last - first_bin + 1)
      return false;
    int64_t rest = count;
    for (const int64_t bin : bins) {
      if (bin < 0 || bin > rest) return false;
      rest -= bin;
    }
    if (rest != 0) return false;
  } else if (!bins.empty()) {
    return false;
  }
  range_ = range;
  zeros_ = zeros;
  count_ = count;
  exponent_ = with_histogram_ ? exponent : 0;
  first_bin_ = with_histogram_ ? first_bin : 0;
  bins_ = std::move(bins);
  distinct_.reset();
  return true;
}

bool ValueStatistics::restore(std::span<const Element> distinct) {
  if (!with_histogram_ || distinct.empty() || distinct.size() > kMaxDistinct) return false;
  *this = ValueStatistics();
  for (size_t i = 0; i < distinct.size(); ++i) {
    const auto& [value, count] = distinct[i];
    if (!std::isfinite(value) || std::signbit(value) != (value < 0) ||
        (i > 0 && value <= distinct[i - 1].value))
      return false;
    if (count <= 0 || count > std::numeric_limits<int64_t>::max() - count_) return false;
    count_ += count;
    if (value == 0) zeros_ = count;
  }
  grow({distinct.front().value, distinct.back().value}, kMinExponent);
  for (const auto& [value, count] : distinct)
    bins_[static_cast<size_t>(bin_of(value, exponent_) - first_bin_)] += count;
  distinct_.emplace(distinct.begin(), distinct.end());
  return true;
}

// Adds what stands in ascending order to what stands in ascending order.
void ValueStatistics::add_distinct(std::span<const Element> elements) {
  std::vector<Element> all;
  size_t i = 0;
  for (const Element& element : elements) {
    while (i < distinct_->size() && (*distinct_)[i].value < element.value)
      all.push_back((*distinct_)[i++]);
    all.push_back(element);
    if (i < distinct_->size() && (*distinct_)[i].value == element.value)
      all.back().count += (*distinct_)[i++].count;
  }
  all.insert(all.end(), distinct_->begin() + static_cast<std::ptrdiff_t>(i), distinct_->end());
  if (all.size() > kMaxDistinct) {
    distinct_.reset();
  } else {
    distinct_ = std::move(all);
  }
}

// Widens range and bins to hold `range` as well, with bins of at least 2^exponent.
void ValueStatistics::grow(Range range, int exponent) {
  const Range both =
      empty() ? range : Range{std::min(range.min, range_.min), std::max(range.max, range_.max)};
  if (with_histogram_) {
    const int wider = std::max(exponent, exponent_for(both));
    const int64_t first = bin_of(both.min, wider);
    const auto size = static_cast<size_t>(bin_of(both.max, wider) - first + 1);
    if (bins_.empty() || wider != exponent_ || first != first_bin_ || size != bins_.size()) {
      std::vector<int64_t> bins(size);
      const int shift = std::min(wider - exponent_, 62);
      for (size_t i = 0; i < bins_.size(); ++i)
        bins[static_cast<size_t>(((first_bin_ + static_cast<int64_t>(i)) >> shift) - first)] +=
            bins_[i];
      bins_ = std::move(bins);
      exponent_ = wider;
      first_bin_ = first;
    }
  }
  range_ = both;
}

bool ValueStatistics::observe(std::span<const float> elements) {
  const FiniteRange found = finite_range(elements);
  if (!found.finite) return false;
  if (elements.empty()) return true;
  grow(found.range, kMinExponent);
  count_ += static_cast<int64_t>(elements.size());
  zeros_ += found.zeros;
  if (with_histogram_) {
    const Grid grid{std::ldexp(1.0F, exponent_), std::ldexp(1.0F, -exponent_),
                    static_cast<int32_t>(first_bin_)};
    const auto count = elements.size() >= 4 * bins_.size() ? count_many : count_few;
    count(elements, grid, bins_);
  }
  if (distinct_) {
    if (const auto few = distinct_elements(elements)) {
      add_distinct(*few);
    } else {
      distinct_.reset();
    }
  }
  return true;
}

void ValueStatistics::merge(const ValueStatistics& other) {
  if (other.empty()) return;
  DTR_CHECK(with_histogram_ == other.with_histogram_);
  if (distinct_ && other.distinct_) {
    add_distinct(*other.distinct_);
  } else {
    distinct_.reset();
  }
  grow(other.range_, other.exponent_);
  count_ += other.count_;
  zeros_ += other.zeros_;
  const int shift = std::min(exponent_ - other.exponent_, 62);
  for (size_t i = 0; i < other.bins_.size(); ++i)
    bins_[static_cast<size_t>(((other.first_bin_ + static_cast<int64_t>(i)) >> shift) -
                              first_bin_)] += other.bins_[i];
}

namespace {

// Errors of saturation all point inwards and add up in what is computed from them, where errors of
// rounding cancel.
constexpr double kSaturationWeight = 3;

// Sums over the bins, so that the error of any range costs constant time.
class ErrorModel {
 public:
  explicit ErrorModel(const ValueStatistics& statistics)
      : statistics_(statistics), width_(std::ldexp(1.0, statistics.exponent())) {
    const std::span<const int64_t> bins = statistics.bins();
    sums_.resize(bins.size() + 1);
    for (size_t i = 0; i < bins.size(); ++i) {
      const auto n = static_cast<double>(bins[i]);
      const double center = edge(i) + width_ / 2;
      sums_[i + 1] = {sums_[i].n + n, sums_[i].x + n * center, sums_[i].xx + n * center * center};
    }
  }

  double edge(size_t bin) const {
    return static_cast<double>(statistics_.first_bin() + static_cast<int64_t>(bin)) * width_;
  }
  size_t size() const { return sums_.size() - 1; }

  // Expected squared error of all elements when [low, high] gets 256 codes; bins before `first` and
  // from `last` on saturate.
  double operator()(double low, double high, size_t first, size_t last) const {
    const double step = std::max((high - low) / 255, static_cast<double>(0x1p-149F));
    const Sums under = sums_[first];
    const Sums over = sums_.back() - sums_[last];
    const double inside =
        std::max(0.0, sums_[last].n - under.n - static_cast<double>(statistics_.zeros()));
    return inside * step * step / 12 +
           kSaturationWeight * (under.squares_about(low) + over.squares_about(high));
  }

 private:
  struct Sums {
    double n = 0, x = 0, xx = 0;
    Sums operator-(const Sums& other) const { return {n - other.n, x - other.x, xx - other.xx}; }
    double squares_about(double at) const { return std::max(0.0, xx - 2 * at * x + at * at * n); }
  };
  const ValueStatistics& statistics_;
  double width_;
  std::vector<Sums> sums_;
};

}  // namespace

namespace {

// Squared error of the elements, each taken to lie in the middle of its bin, when `range` becomes
// codes.
double quantization_error(const ValueStatistics& statistics, Range range) {
  const Quantization q = affine_quantization(range, std::numeric_limits<float>::min());
  const auto scale = static_cast<double>(q.scale());
  const double low = (q.qmin - q.zero_point()) * scale;
  const double high = (q.qmax - q.zero_point()) * scale;
  const double width = std::ldexp(1.0, statistics.exponent());
  double center = (static_cast<double>(statistics.first_bin()) + 0.5) * width;
  double error = 0;
  for (const int64_t n : statistics.bins()) {
    const double code = std::floor(std::clamp(center, low, high) / scale + 0.5) * scale;
    const double weight = center < low || center > high ? kSaturationWeight : 1;
    error += weight * static_cast<double>(n) * (center - code) * (center - code);
    center += width;
  }
  return error;
}

}  // namespace

Range best_range(const ValueStatistics& statistics) {
  const Range full = statistics.range();
  if (statistics.bins().size() < 3) return full;
  const ErrorModel error(statistics);
  const size_t bins = error.size();
  const auto low_at = [&](size_t first) {
    return first == 0 ? static_cast<double>(full.min) : error.edge(first);
  };
  const auto high_at = [&](size_t last) {
    return last == bins ? static_cast<double>(full.max) : error.edge(last);
  };
  // Bounds in bins: the range stays around zero. Alternately the best upper end for the lower one
  // and the other way round.
  size_t first = 0, last = bins;
  double best = error(std::min(low_at(0), 0.0), std::max(high_at(bins), 0.0), 0, bins);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t candidate = bins; candidate > first + 1 && high_at(candidate) > 0; --candidate) {
      const double e = error(std::min(low_at(first), 0.0), high_at(candidate), first, candidate);
      if (e < best) {
        best = e;
        last = candidate;
        changed = true;
      }
    }
    for (size_t candidate = 0; candidate + 1 < last && low_at(candidate) < 0; ++candidate) {
      const double e = error(low_at(candidate), std::max(high_at(last), 0.0), candidate, last);
      if (e < best) {
        best = e;
        first = candidate;
        changed = true;
      }
    }
  }
  // The model takes rounding errors to be uniform, which they are not when most elements share few
  // codes.
  const Range clipped{static_cast<float>(low_at(first)), static_cast<float>(high_at(last))};
  return quantization_error(statistics, clipped) < quantization_error(statistics, full) ? clipped
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

}  // namespace

Quantization best_quantization(const ValueStatistics& statistics, float eps) {
  const Range range = best_range(statistics);
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
  return best;
}

Quantization symmetric_quantization(Range range, float eps) {
  const float magnitude = std::max({-range.min, range.max, 0.0F});
  return Quantization::per_tensor(std::max(magnitude / 127.0F, eps), 0, -127, 127);
}

Quantization weight_quantization(std::span<const float> values, const Shape& shape, int axis) {
  constexpr float kEps = std::numeric_limits<float>::epsilon();
  if (axis < 0) return symmetric_quantization(finite_range(values).range, kEps);
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
  for (const Range& range : ranges)
    result.scales.push_back(symmetric_quantization(range, kEps).scale());
  return result;
}

namespace {

// What a symmetric scale does to weights: their squared error, and the scale with which the same
// codes are nearest to them.
struct WeightFit {
  double error = 0, scale = 0;

  WeightFit(std::span<const float> weights, double with) {
    double products = 0, squares = 0;
    for (const float weight : weights) {
      const auto x = static_cast<double>(weight);
      const double code = rounded(x / with);
      error += (x - code * with) * (x - code * with);
      products += x * code;
      squares += code * code;
    }
    scale = squares == 0 ? 0 : products / squares;
  }
};

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
  for (size_t c = 0; c < channels; ++c) {
    const auto narrowest = static_cast<double>(quantization.scales[c]);
    double least = WeightFit(elements[c], narrowest).error;
    const auto offer = [&](double scale) {
      const auto narrow =
          static_cast<float>(std::clamp(scale, narrowest, narrowest * (1 + kWidest)));
      const double error = WeightFit(elements[c], static_cast<double>(narrow)).error;
      if (error >= least) return;
      least = error;
      quantization.scales[c] = narrow;
    };
    for (int step = 1; step <= kSteps; ++step) offer(narrowest * (1 + kWidest * step / kSteps));
    offer(WeightFit(elements[c], static_cast<double>(quantization.scales[c])).scale);
  }
}

}  // namespace dtr
