// Look-up tables of int8 functions, made on the host in floating point: entry q + 128 is the result for the quantized value q.
//
// Source: TFLite's LUTPopulate: float arithmetic, 1/scale_out as a float factor, rounded half away from zero.
#pragma once

#include <array>
#include <cmath>

#include "numerics/requantize.h"

namespace dtr::numerics {

using Table = std::array<int8_t, 256>;

template <class Function>
Table make_table(float scale_in, int32_t zero_point_in, float scale_out, int32_t zero_point_out, Range range, Function function) {
  Table table{};
  const float inverse_scale = 1.0F / scale_out;
  for (int32_t q = -128; q <= 127; ++q) {
    const float real = function(scale_in * static_cast<float>(q - zero_point_in));
    table[static_cast<uint8_t>(q + 128)] =
        static_cast<int8_t>(range.clamp(saturating_add(round_half_away(real * inverse_scale), zero_point_out)));
  }
  return table;
}

inline float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace dtr::numerics
