// Affine quantization as PyTorch's quantized_decomposed operators define it.
#pragma once

#include <cmath>
#include <cstdint>

namespace dtr::runtime::portable {

// float → integer: q = clamp(rint(x · (1 / scale)) + zero_point, qmin, qmax), rounded half to even,
// in float32 arithmetic. NaN gives the zero point.
class Quantizer {
 public:
  Quantizer(double scale, int64_t zero_point, int64_t qmin, int64_t qmax)
      : inverse_(1.0f / static_cast<float>(scale)),
        zero_point_(static_cast<int32_t>(zero_point)),
        low_(static_cast<float>(qmin - zero_point)),
        high_(static_cast<float>(qmax - zero_point)) {}

  int32_t operator()(float x) const {
#if defined(__SSE2__)
    // Without branches and without an instruction to round, which SSE2 lacks, so that compilers
    // make vectors of it: limited first, since the bounds are integers; beside 1.5 · 2^23 no
    // fraction fits, and the low bits of the sum are the integer.
    constexpr float kNoFraction = 12582912.0f;
    const float q = x * inverse_;
    const float above = q > low_ ? q : low_;
    const float within = above < high_ ? above : high_;
    const int32_t rounded = __builtin_bit_cast(int32_t, within + kNoFraction) -
                            __builtin_bit_cast(int32_t, kNoFraction);
    return (rounded & (q == q ? -1 : 0)) + zero_point_;
#elif defined(__ARM_ARCH) && __ARM_ARCH >= 8
    // An instruction each, where comparisons are three.
    const float q = x * inverse_;
    const float within = __builtin_fminf(__builtin_fmaxf(q, low_), high_);
    return static_cast<int32_t>(__builtin_rintf(q == q ? within : 0.0f)) + zero_point_;
#else
    const float q = __builtin_rintf(x * inverse_);
    const float limited = q < low_ ? low_ : q > high_ ? high_ : q == q ? q : 0.0f;
    return static_cast<int32_t>(limited) + zero_point_;
#endif
  }

 private:
  float inverse_;
  int32_t zero_point_;
  float low_, high_;  // bounds before the zero point is added
};

// Calls map(f), f(q) = (q - zero_point) · scale for integers q of type T. Differences that fit are
// of 32 bits, which a core converts with one instruction; for 64 bits it calls a function.
template <class T, class Map>
void map_dequantized(int32_t zero_point, float scale, Map map) {
  constexpr int32_t kFits = 1 << 30;
  if (sizeof(T) < sizeof(int32_t) && zero_point > -kFits && zero_point < kFits) {
    map([=](T q) { return static_cast<float>(static_cast<int32_t>(q) - zero_point) * scale; });
  } else {
    map([=](T q) { return static_cast<float>(int64_t{q} - zero_point) * scale; });
  }
}

// True if scale and range are valid for integers of type T, so that Quantizer's arithmetic does not
// overflow.
template <class T>
bool quantization_fits(double scale, int64_t zero_point, int64_t qmin, int64_t qmax) {
  constexpr auto kLow = int64_t{std::numeric_limits<T>::min()};
  constexpr auto kHigh = int64_t{std::numeric_limits<T>::max()};
  return scale > 0 && std::isfinite(scale) && static_cast<float>(scale) > 0 && qmin >= kLow &&
         qmax <= kHigh && qmin <= qmax && zero_point >= kLow && zero_point <= kHigh;
}

}  // namespace dtr::runtime::portable
