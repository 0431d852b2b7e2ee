// Look-up tables of int8 functions, made on the host in floating point: entry q + 128 is the result
// for the quantized value q.
//
// Source: TFLite's LUTPopulate: float arithmetic, 1/scale_out as a float factor, rounded half away
// from zero.
#pragma once

#include <array>
#include <cmath>

#include "device/numerics/requantize.h"

namespace dtr::numerics {

using Table = std::array<int8_t, 256>;

// Infinite values are the end of the range. Where the function is not a number it has the value of
// the nearest code where it is one (the lower of two); the zero point if it is none anywhere.
template <class Function>
Table make_table(float scale_in, int32_t zero_point_in, float scale_out, int32_t zero_point_out,
                 Range range, Function function) {
  std::array<float, 256> reals{};
  for (int32_t q = -128; q <= 127; ++q)
    reals[static_cast<size_t>(q) + 128] =
        function(scale_in * static_cast<float>(q - zero_point_in));
  const float inverse_scale = 1.0F / scale_out;
  Table table{};
  for (size_t i = 0; i < table.size(); ++i) {
    float real = reals[i];
    for (size_t distance = 1; std::isnan(real) && distance < table.size(); ++distance) {
      if (i >= distance) real = reals[i - distance];
      if (std::isnan(real) && i + distance < table.size()) real = reals[i + distance];
    }
    table[i] = static_cast<int8_t>(
        range.clamp(saturating_add(round_half_away(real * inverse_scale), zero_point_out)));
  }
  return table;
}

inline float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace dtr::numerics
