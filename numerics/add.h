// Sum of two int8 values with different quantizations: both are brought to the larger scale with 20 bits of fraction first.
//
// Source: TFLite's ADD (reference_integer_ops), left shift 20.
#pragma once

#include "numerics/requantize.h"

namespace dtr::numerics {

struct AddParameters {
  static constexpr int kLeftShift = 20;
  int32_t zero_point_a = 0;
  int32_t zero_point_b = 0;
  Requantization a;
  Requantization b;
  OutputStage output;

  constexpr int8_t operator()(int32_t qa, int32_t qb) const {
    const int32_t raised_a = requantize((qa - zero_point_a) * (1 << kLeftShift), a);
    const int32_t raised_b = requantize((qb - zero_point_b) * (1 << kLeftShift), b);
    return output(raised_a + raised_b);
  }
};

constexpr AddParameters add_parameters(float scale_a, int32_t zero_point_a, float scale_b, int32_t zero_point_b, float scale,
                                       int32_t zero_point, Range range) {
  const double twice_larger = 2.0 * static_cast<double>(scale_a > scale_b ? scale_a : scale_b);
  return {zero_point_a,
          zero_point_b,
          quantize_multiplier(static_cast<double>(scale_a) / twice_larger),
          quantize_multiplier(static_cast<double>(scale_b) / twice_larger),
          {quantize_multiplier(twice_larger / ((1 << AddParameters::kLeftShift) * static_cast<double>(scale))), zero_point, range}};
}

}  // namespace dtr::numerics
