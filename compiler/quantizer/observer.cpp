#include "compiler/quantizer/observer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/quantizer/loops.h"
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

// Counts the elements that are not zero. Where there are many, in two tables in turn: activations
// repeat, and a counter cannot be added to twice in a row at full speed.
void count_bins(std::span<const float> elements, const loops::Grid& grid,
                std::span<int64_t> counts) {
  constexpr size_t kBlock = 1024;
  constexpr size_t kManyPerBin = 8;  // pay for clearing the tables and adding them up
  std::array<int32_t, kBlock + loops::kBinsBeyond> bins;
  static thread_local std::vector<uint32_t> tables;
  const bool many = elements.size() >= kManyPerBin * counts.size();
  if (many) tables.assign(2 * counts.size(), 0);
  for (size_t at = 0; at < elements.size(); at += kBlock) {
    const size_t n = loops::find_bins(elements.subspan(at, std::min(kBlock, elements.size() - at)),
                                      grid, bins.data());
    size_t i = 0;
    if (many)
      for (; i + 2 <= n; i += 2) {
        ++tables[static_cast<size_t>(bins[i])];
        ++tables[counts.size() + static_cast<size_t>(bins[i + 1])];
      }
    for (; i < n; ++i) ++counts[static_cast<size_t>(bins[i])];
  }
  if (!many) return;
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] += int64_t{tables[i]} + tables[counts.size() + i];
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
  return loops::finite_range(elements);
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
    loops::observe_rows(elements.subspan(at, end - at), partial, low, high);
    for (size_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(partial[c]);
  }
}

Histogram ValueStatistics::histogram() const {
  if (!distinct_ || distinct_->empty()) return histogram_;
  Histogram counted{.exponent = exponent_for(range_)};
  counted.first_bin = bin_of(range_.min, counted.exponent);
  counted.bins.resize(
      static_cast<size_t>(bin_of(range_.max, counted.exponent) - counted.first_bin + 1));
  for (const auto& [value, count] : *distinct_)
    counted.bins[static_cast<size_t>(bin_of(value, counted.exponent) - counted.first_bin)] += count;
  return counted;
}

bool ValueStatistics::restore(Range range, int64_t zeros, int64_t count, Histogram histogram) {
  if (!std::isfinite(range.min) || !std::isfinite(range.max) || range.min > range.max) return false;
  if (count <= 0 || zeros < 0 || zeros > count) return false;
  if (with_histogram_) {
    if (histogram.exponent != exponent_for(range)) return false;
    const int64_t last = bin_of(range.max, histogram.exponent);
    if (histogram.first_bin != bin_of(range.min, histogram.exponent) ||
        static_cast<int64_t>(histogram.bins.size()) != last - histogram.first_bin + 1)
      return false;
    int64_t rest = count;
    for (const int64_t bin : histogram.bins) {
      if (bin < 0 || bin > rest) return false;
      rest -= bin;
    }
    if (rest != 0) return false;
  } else if (!histogram.bins.empty()) {
    return false;
  }
  range_ = range;
  zeros_ = zeros;
  count_ = count;
  histogram_ = with_histogram_ ? std::move(histogram) : Histogram{};
  distinct_.reset();
  return true;
}

bool ValueStatistics::restore(std::span<const Element> distinct) {
  if (!with_histogram_ || distinct.empty() || distinct.size() > kMaxDistinct) return false;
  *this = ValueStatistics();
  int64_t all = 0;
  for (size_t i = 0; i < distinct.size(); ++i) {
    const auto& [value, count] = distinct[i];
    if (!std::isfinite(value) || std::signbit(value) != (value < 0) ||
        (i > 0 && value <= distinct[i - 1].value))
      return false;
    if (count <= 0 || count > std::numeric_limits<int64_t>::max() - all) return false;
    all += count;
    if (value == 0) zeros_ = count;
  }
  range_ = {distinct.front().value, distinct.back().value};
  count_ = all;
  distinct_.emplace(distinct.begin(), distinct.end());
  return true;
}

// From now on only the bins are kept, not the distinct elements.
void ValueStatistics::keep_bins() {
  if (!distinct_) return;
  histogram_ = histogram();
  distinct_.reset();
}

// Merges elements in ascending order with those that are kept. The range includes both already.
void ValueStatistics::add_distinct(std::span<const Element> elements) {
  std::vector<Element> all;
  all.reserve(distinct_->size() + elements.size());
  size_t i = 0;
  for (const Element& element : elements) {
    while (i < distinct_->size() && (*distinct_)[i].value < element.value)
      all.push_back((*distinct_)[i++]);
    all.push_back(element);
    if (i < distinct_->size() && (*distinct_)[i].value == element.value)
      all.back().count += (*distinct_)[i++].count;
  }
  all.insert(all.end(), distinct_->begin() + static_cast<std::ptrdiff_t>(i), distinct_->end());
  distinct_ = std::move(all);
  if (distinct_->size() > kMaxDistinct) keep_bins();
}

void ValueStatistics::widen(Range range) {
  range_ =
      empty() ? range : Range{std::min(range.min, range_.min), std::max(range.max, range_.max)};
}

// Makes the bins those of the range, which was widened, and at least 2^exponent wide.
void ValueStatistics::grow(int exponent) {
  const int wider = std::max(exponent, exponent_for(range_));
  const int64_t first = bin_of(range_.min, wider);
  const auto size = static_cast<size_t>(bin_of(range_.max, wider) - first + 1);
  Histogram& old = histogram_;
  if (wider == old.exponent && first == old.first_bin && size == old.bins.size()) return;
  Histogram grown{.exponent = wider, .first_bin = first, .bins = std::vector<int64_t>(size)};
  const int shift = std::min(wider - old.exponent, 62);
  for (size_t i = 0; i < old.bins.size(); ++i)
    grown.bins[static_cast<size_t>(((old.first_bin + static_cast<int64_t>(i)) >> shift) - first)] +=
        old.bins[i];
  old = std::move(grown);
}

bool ValueStatistics::observe(std::span<const float> elements) {
  const FiniteRange found = finite_range(elements);
  if (!found.finite) return false;
  if (elements.empty()) return true;
  const auto few = distinct_ ? distinct_elements(elements) : std::nullopt;
  if (!few) keep_bins();
  widen(found.range);
  count_ += static_cast<int64_t>(elements.size());
  zeros_ += found.zeros;
  if (few) {
    add_distinct(*few);
  } else if (with_histogram_) {
    grow(kMinExponent);
    const loops::Grid grid{std::ldexp(1.0F, histogram_.exponent),
                           std::ldexp(1.0F, -histogram_.exponent),
                           static_cast<int32_t>(histogram_.first_bin)};
    count_bins(elements, grid, histogram_.bins);
    if (found.zeros > 0) histogram_.bins[static_cast<size_t>(-histogram_.first_bin)] += found.zeros;
  }
  return true;
}

void ValueStatistics::merge(const ValueStatistics& other) {
  if (other.empty()) return;
  DTR_CHECK(with_histogram_ == other.with_histogram_);
  const bool few = distinct_ && other.distinct_;
  if (!few) keep_bins();
  widen(other.range_);
  count_ += other.count_;
  zeros_ += other.zeros_;
  if (few) return add_distinct(*other.distinct_);
  if (!with_histogram_) return;
  const Histogram added = other.histogram();
  grow(added.exponent);
  const int shift = std::min(histogram_.exponent - added.exponent, 62);
  for (size_t i = 0; i < added.bins.size(); ++i)
    histogram_.bins[static_cast<size_t>(((added.first_bin + static_cast<int64_t>(i)) >> shift) -
                                        histogram_.first_bin)] += added.bins[i];
}

}  // namespace dtr
