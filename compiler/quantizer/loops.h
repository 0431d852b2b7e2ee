// The inner loops of calibration and of rounding weights, compiled for each set of vector
// instructions and chosen for this processor. Every set gives the same bits: no sum is reordered.
#pragma once

#include <cstdint>
#include <span>

#include "compiler/quantizer/observer.h"
#include "device/numerics/requantize.h"

namespace dtr::loops {

// FiniteRange of at least one element.
FiniteRange finite_range(std::span<const float> elements);

// The greatest sign·x of the elements; those that are NaN do not count. -infinity if there is none.
float greatest(std::span<const float> elements, float sign);

// Writes each x of the elements, with sign·x moved to `low` or `high` if it is beyond them. NaN
// stays.
void clip(std::span<const float> elements, float sign, float low, float high, float* clipped);

// Adds rows of `sums.size()` channels to `sums`, row by row, and widens `low` and `high`.
void observe_rows(std::span<const float> rows, std::span<float> sums, std::span<float> low,
                  std::span<float> high);

// Bins of a power of two, counted from `first`.
struct Grid {
  float width;
  float inverse_width;
  int32_t first;
};

// Writes the bins of the elements that are not zero, relative to `first` and in their order, and
// returns how many there are. `bins` has room for kBinsBeyond more than there are elements.
constexpr size_t kBinsBeyond = 64;
size_t find_bins(std::span<const float> elements, const Grid& grid, int32_t* bins);

// The squared error of weights under each of several symmetric scales, under which they have codes
// below 2^31: Σ (x − round(x / scale)·scale)², ties to even, in the order of the weights.
void square_errors(std::span<const float> weights, std::span<const double> scales,
                   std::span<double> errors);

// numerics::nearest_code of finite elements, the range within int8.
void nearest_codes(std::span<const float> elements, double scale, int32_t zero_point,
                   numerics::Range range, int8_t* codes);

}  // namespace dtr::loops
