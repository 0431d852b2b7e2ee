// x · relu6(x + 3) / 6 of an int8 value in 16-bit fixed point.
//
// Source: TFLite's HARD_SWISH for int8 (reference_ops::HardSwish): the input is raised by 7 bits,
// multiplied once to the output's scale and once to a scale on which relu6(x + 3) / 6 saturates by
// itself; their product is rounded to the output.
#pragma once

#include "device/numerics/requantize.h"

namespace dtr::numerics {

struct HardswishParameters {
  int32_t zero_point_in = 0;
  int32_t zero_point_out = 0;
  int32_t output_multiplier = 0;  // 16 bits
  int32_t output_exponent = 0;
  int32_t gate_multiplier = 0;  // 16 bits
  int32_t gate_exponent = 0;
  Range range;
};

// The upper 16 bits of a 32-bit multiplier, rounded; saturates.
constexpr int32_t multiplier_16(int32_t multiplier) {
  return multiplier >= INT32_MAX - (1 << 15) ? INT16_MAX : (multiplier + (1 << 15)) >> 16;
}

constexpr HardswishParameters hardswish_parameters(float scale_in, int32_t zero_point_in,
                                                   float scale_out, int32_t zero_point_out,
                                                   Range range) {
  const float raised_scale = 0.0078125F * scale_in;
  const Requantization output = quantize_multiplier(static_cast<double>(raised_scale / scale_out));
  const Requantization gate =
      quantize_multiplier(static_cast<double>(raised_scale / (3.0F / 32768.0F)));
  return {zero_point_in,
          zero_point_out,
          multiplier_16(output.multiplier),
          output.shift,
          multiplier_16(gate.multiplier),
          gate.shift,
          range};
}

constexpr int8_t hardswish(int8_t q, const HardswishParameters& by) {
  constexpr Range k16{INT16_MIN, INT16_MAX};
  const auto shift_left = [&](int32_t x,
                              int32_t amount) {  // amounts over 15 saturate everything but 0
    return k16.clamp(amount > 15 ? (x > 0 ? INT16_MAX : x < 0 ? INT16_MIN : 0) : x * (1 << amount));
  };
  const auto high_mul = [&](int32_t a, int32_t b) {
    return k16.clamp((a * b + (1 << 14)) >> 15);
  };  // ties towards plus infinity

  const int32_t raised = (q - by.zero_point_in) * 128;  // 16 bits: |q − zero_point| ≤ 255
  const int32_t on_output = high_mul(raised, by.output_multiplier);
  int32_t gate = raised;
  if (by.gate_exponent > 0) gate = shift_left(gate, by.gate_exponent - 1);
  gate = high_mul(gate, by.gate_multiplier);
  if (by.gate_exponent > 0) gate = shift_left(gate, 1);
  if (by.gate_exponent < 0) gate = rounding_divide_by_power_of_two(gate, -by.gate_exponent);
  gate = (gate + (1 << 15)) >> 1;  // from [−1, 1] to [0, 1]
  const int32_t product = gate * on_output / (1 << 15);
  const int32_t result = by.output_exponent > 0
                             ? shift_left(product, by.output_exponent)
                             : rounding_divide_by_power_of_two(product, -by.output_exponent);
  return static_cast<int8_t>(by.range.clamp(result + by.zero_point_out));
}

}  // namespace dtr::numerics
