// Sixteen bits as floats: IEEE 754's half precision, and the upper half of a float (bfloat16).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace dtr {

inline float from_half(uint16_t bits) {
  const uint32_t exponent = bits >> 10 & 31u, fraction = bits & 1023u;
  const float sign = (bits & 0x8000u) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return std::copysign(std::bit_cast<float>(wide << 23 | fraction << 13), sign);
}

inline float from_bfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

}  // namespace dtr
