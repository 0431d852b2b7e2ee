// Elementwise functions of two int8 values with different quantizations.
//
// Sources: TFLite's reference_integer_ops ADD, SUB (left shift 20), MUL, PRELU. TFLite's MAXIMUM
// and MINIMUM want one quantization for all; here each operand is rescaled to the result's steps
// first, which changes nothing where the quantizations are equal.
#pragma once

#include "device/numerics/requantize.h"

namespace dtr::numerics {

enum class BinaryKind : uint32_t {
  kAdd = 0,
  kSubtract = 1,
  kMultiply = 2,
  kMaximum = 3,
  kMinimum = 4,
  kPrelu = 5
};

// With x = qa − zero_point_a and y = qb − zero_point_b, of which every product and sum stays inside
// 32 bits:
//   add, subtract       output(a(x · 2^20) ± b(y · 2^20))
//   multiply            output(x · y)
//   maximum, minimum    a(x) or b(y), plus the zero point
//   prelu               a(x) plus the zero point where x ≥ 0, else output(x · y)
struct BinaryParameters {
  static constexpr int kLeftShift = 20;
  BinaryKind kind = BinaryKind::kAdd;
  int32_t zero_point_a = 0;
  int32_t zero_point_b = 0;
  Requantization a;
  Requantization b;
  OutputStage output;

  constexpr int8_t operator()(int32_t qa, int32_t qb) const {
    const int32_t x = qa - zero_point_a, y = qb - zero_point_b;
    switch (kind) {
      case BinaryKind::kAdd:
        return output(requantize(x * (1 << kLeftShift), a) + requantize(y * (1 << kLeftShift), b));
      case BinaryKind::kSubtract:
        return output(requantize(x * (1 << kLeftShift), a) - requantize(y * (1 << kLeftShift), b));
      case BinaryKind::kMultiply:
        return output(x * y);
      case BinaryKind::kMaximum:
      case BinaryKind::kMinimum: {
        const int32_t on_output_a = requantize(x, a), on_output_b = requantize(y, b);
        return output.finish((on_output_a > on_output_b) == (kind == BinaryKind::kMaximum)
                                 ? on_output_a
                                 : on_output_b);
      }
      case BinaryKind::kPrelu:
        return x >= 0 ? output.finish(requantize(x, a)) : output(x * y);
    }
    return 0;
  }
};

// Scale and zero point of a tensor.
struct Affine {
  float scale = 1;
  int32_t zero_point = 0;
};

// The multiplier of a factor, at most `most`: beyond it results leave int8 anyway, and 32 bits
// could overflow on the way.
constexpr Requantization bounded_multiplier(double factor, double most, bool unshifted = false) {
  const double bounded = factor < most ? factor : most;
  return unshifted ? unshifted_multiplier(bounded) : quantize_multiplier(bounded);
}

// As TFLite computes them, or with multipliers that round once. The second rounding of a sum is
// 2^-19 of a step and less.
constexpr BinaryParameters binary_parameters(BinaryKind kind, Affine a, Affine b, Affine out,
                                             Range range, bool unshifted = false) {
  constexpr double kMostOfValue = 0x1p20;    // times 255
  constexpr double kMostOfProduct = 0x1p14;  // times 255 · 255
  const auto product = static_cast<double>(a.scale * b.scale / out.scale);
  BinaryParameters result{kind, a.zero_point, b.zero_point, {}, {}, {{}, out.zero_point, range}};
  switch (kind) {
    case BinaryKind::kAdd:
    case BinaryKind::kSubtract: {
      const double twice_larger = 2.0 * static_cast<double>(a.scale > b.scale ? a.scale : b.scale);
      result.a = quantize_multiplier(static_cast<double>(a.scale) / twice_larger);
      result.b = quantize_multiplier(static_cast<double>(b.scale) / twice_larger);
      result.output.by = quantize_multiplier(
          twice_larger / ((1 << BinaryParameters::kLeftShift) * static_cast<double>(out.scale)));
      break;
    }
    case BinaryKind::kMultiply:
      result.output.by = bounded_multiplier(product, kMostOfProduct, unshifted);
      break;
    case BinaryKind::kMaximum:
    case BinaryKind::kMinimum:
      result.a = bounded_multiplier(static_cast<double>(a.scale) / static_cast<double>(out.scale),
                                    kMostOfValue, unshifted);
      result.b = bounded_multiplier(static_cast<double>(b.scale) / static_cast<double>(out.scale),
                                    kMostOfValue, unshifted);
      break;
    case BinaryKind::kPrelu:
      result.a =
          bounded_multiplier(static_cast<double>(a.scale / out.scale), kMostOfValue, unshifted);
      result.output.by = bounded_multiplier(product, kMostOfProduct, unshifted);
      break;
  }
  return result;
}

}  // namespace dtr::numerics
