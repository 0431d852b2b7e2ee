#include "compiler/quantizer/loops.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compiler/quantizer/loops.cpp"
#include <hwy/foreach_target.h>
// Highway requires this include after foreach_target.h.
#include <hwy/highway.h>

// The loops are plain where the compiler makes vectors of them, in the instructions of each
// namespace.
HWY_BEFORE_NAMESPACE();
namespace dtr::loops {
namespace HWY_NAMESPACE {
namespace {

constexpr double kRounds = 0x1.8p52;  // added and taken off again: to the nearest, ties to even

// Lanes that do not depend on each other, so that the loop becomes SIMD without reordering
// floating-point sums.
FiniteRange range_of(std::span<const float> elements) {
  constexpr size_t kLanes = 32;
  float low[kLanes], high[kLanes], poison[kLanes] = {};
  int32_t zero_count[kLanes] = {};
  std::fill_n(low, kLanes, elements[0]);
  std::fill_n(high, kLanes, elements[0]);
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
    for (int32_t& lane : zero_count) {
      zeros += lane;
      lane = 0;
    }
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

float greatest_of(std::span<const float> elements, float sign) {
  constexpr size_t kLanes = 32;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float most[kLanes];
  std::fill_n(most, kLanes, -kInfinity);
  size_t i = 0;
  for (; i + kLanes <= elements.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float x = sign * elements[i + lane];
      most[lane] = x > most[lane] ? x : most[lane];
    }
  for (; i < elements.size(); ++i) most[0] = std::max(most[0], sign * elements[i]);
  return *std::max_element(most, most + kLanes);
}

void clip_all(std::span<const float> elements, float sign, float low, float high, float* clipped) {
  for (size_t i = 0; i < elements.size(); ++i) {
    const float x = sign * elements[i];
    const float below = x > high ? high : x;
    clipped[i] = sign * (x < low ? low : below);
  }
}

void rows(const float* row, const float* end, size_t channels, float* sums, float* low,
          float* high) {
  for (; row != end; row += channels)
    for (size_t c = 0; c < channels; ++c) {
      sums[c] += row[c];
      low[c] = row[c] < low[c] ? row[c] : low[c];
      high[c] = row[c] > high[c] ? row[c] : high[c];
    }
}

// Exact: factors are powers of two, and truncation is mended to floor by comparing with the bin's
// own edge, which holds for elements so small that the quotient underflows, too.
size_t bins_of(std::span<const float> elements, const Grid& grid, int32_t* bins) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, kBinsBeyond> floats;
  const hn::RebindToSigned<decltype(floats)> integers;
  const auto width = hn::Set(floats, grid.width);
  const auto inverse_width = hn::Set(floats, grid.inverse_width);
  const auto first = hn::Set(integers, grid.first);
  size_t count = 0, i = 0;
  for (; i + hn::Lanes(floats) <= elements.size(); i += hn::Lanes(floats)) {
    const auto x = hn::LoadU(floats, &elements[i]);
    const auto truncated = hn::ConvertTo(integers, hn::Mul(x, inverse_width));
    const auto above = hn::Gt(hn::Mul(hn::ConvertTo(floats, truncated), width), x);
    // A mask is -1 where it is true.
    const auto floored =
        hn::Add(truncated, hn::VecFromMask(integers, hn::RebindMask(integers, above)));
    const auto counted = hn::RebindMask(integers, hn::Ne(x, hn::Zero(floats)));
    // Not CompressStore, whose instruction takes a hundred cycles on some processors.
    hn::StoreU(hn::Compress(hn::Sub(floored, first), counted), integers, bins + count);
    count += hn::CountTrue(integers, counted);
  }
  for (; i < elements.size(); ++i) {
    const float x = elements[i];
    const auto truncated = static_cast<int32_t>(x * grid.inverse_width);
    bins[count] = truncated - (static_cast<float>(truncated) * grid.width > x ? 1 : 0) - grid.first;
    count += x == 0.0F ? 0 : 1;
  }
  return count;
}

void errors_of(std::span<const float> weights, const double* scales, size_t count, double* errors) {
  std::fill_n(errors, count, 0.0);
  for (const float weight : weights) {
    const auto x = static_cast<double>(weight);
    for (size_t i = 0; i < count; ++i) {
      const double error = x - (x / scales[i] + kRounds - kRounds) * scales[i];
      errors[i] += error * error;
    }
  }
}

// Bounded before it is rounded, which is the same for bounds that are integers, so that the sum
// with kRounds is exact.
void codes_of(std::span<const float> elements, double scale, double zero_point, double low,
              double high, int8_t* codes) {
  for (size_t i = 0; i < elements.size(); ++i) {
    double code = static_cast<double>(elements[i]) / scale;
    code = code < low - zero_point ? low - zero_point : code;
    code = code > high - zero_point ? high - zero_point : code;
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(code + kRounds - kRounds + zero_point));
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dtr::loops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dtr::loops {
namespace {

HWY_EXPORT(range_of);
HWY_EXPORT(greatest_of);
HWY_EXPORT(clip_all);
HWY_EXPORT(rows);
HWY_EXPORT(bins_of);
HWY_EXPORT(errors_of);
HWY_EXPORT(codes_of);

}  // namespace

FiniteRange finite_range(std::span<const float> elements) {
  return HWY_DYNAMIC_DISPATCH(range_of)(elements);
}

float greatest(std::span<const float> elements, float sign) {
  return HWY_DYNAMIC_DISPATCH(greatest_of)(elements, sign);
}

void clip(std::span<const float> elements, float sign, float low, float high, float* clipped) {
  HWY_DYNAMIC_DISPATCH(clip_all)(elements, sign, low, high, clipped);
}

void observe_rows(std::span<const float> all, std::span<float> sums, std::span<float> low,
                  std::span<float> high) {
  HWY_DYNAMIC_DISPATCH(rows)
  (all.data(), all.data() + all.size(), sums.size(), sums.data(), low.data(), high.data());
}

size_t find_bins(std::span<const float> elements, const Grid& grid, int32_t* bins) {
  return HWY_DYNAMIC_DISPATCH(bins_of)(elements, grid, bins);
}

void square_errors(std::span<const float> weights, std::span<const double> scales,
                   std::span<double> errors) {
  HWY_DYNAMIC_DISPATCH(errors_of)(weights, scales.data(), scales.size(), errors.data());
}

void nearest_codes(std::span<const float> elements, double scale, int32_t zero_point,
                   numerics::Range range, int8_t* codes) {
  HWY_DYNAMIC_DISPATCH(codes_of)
  (elements, scale, zero_point, range.low, range.high, codes);
}

}  // namespace dtr::loops

#endif
