// Requantization of a vector of accumulators, for each of Highway's targets. No include guard of
// the usual kind: compiled once a target.
#if defined(DTR_SIMULATOR_HOST_RESCALE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DTR_SIMULATOR_HOST_RESCALE_INL_H
#undef DTR_SIMULATOR_HOST_RESCALE_INL_H
#else
#define DTR_SIMULATOR_HOST_RESCALE_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if !HWY_HAVE_SCALABLE && HWY_TARGET != HWY_SCALAR

using D32 = hn::ScalableTag<int32_t>;
using V32 = hn::Vec<D32>;
using D16 = hn::Repartition<int16_t, D32>;
using V16 = hn::Vec<D16>;

// Products of even lanes, in 64 bits. Highway's target for WebAssembly takes them for unsigned
// (version 1.0.3).
HWY_INLINE hn::Vec<hn::Repartition<int64_t, D32>> multiply_even(V32 a, V32 b) {
#if HWY_TARGET == HWY_WASM
  const auto even = [](V32 v) HWY_ATTR { return wasm_i64x2_shr(wasm_i64x2_shl(v.raw, 32), 32); };
  return hn::Vec<hn::Repartition<int64_t, D32>>{wasm_i64x2_mul(even(a), even(b))};
#else
  return hn::MulEven(a, b);
#endif
}

// v >> bits of each lane of 64 bits, which Highway's target for WebAssembly lacks.
template <class V>
HWY_INLINE V shift_right(V v, V bits) {
#if HWY_TARGET == HWY_WASM
  const hn::DFromV<V> d64;
  HWY_ALIGN int64_t lanes[hn::MaxLanes(d64)], by[hn::MaxLanes(d64)];
  hn::Store(v, d64, lanes);
  hn::Store(bits, d64, by);
  for (size_t i = 0; i < hn::Lanes(d64); ++i) lanes[i] >>= by[i];
  return hn::Load(d64, lanes);
#else
  return hn::Shr(v, bits);
#endif
}

// numerics::requantize, one lane a value.
//
// High multiply: (a · b + 2^30) >> 31 in 64 bits, even and odd lanes apart; b ≥ 0, so it cannot
// saturate. Division by 2^right: shift, plus one where the remainder exceeds half (of a negative
// number: half and one), as numerics::rounding_divide_by_power_of_two.
struct Rescale {
  V32 multiplier, left, right;

  HWY_INLINE V32 operator()(V32 value) const {
    const D32 d;
    const hn::Repartition<int64_t, D32> d64;
    const hn::Repartition<uint64_t, D32> du64;
    const auto nudge = hn::Set(d64, int64_t{1} << 30);
    const V32 x = hn::Shl(value, left);
    const auto odd_lanes = [&](V32 v) HWY_ATTR {
      return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, v)));
    };
    const auto even = hn::Add(multiply_even(x, multiplier), nudge);
    const auto odd = hn::Add(multiply_even(odd_lanes(x), odd_lanes(multiplier)), nudge);
    const V32 high_even = hn::BitCast(d, hn::ShiftRight<31>(hn::BitCast(du64, even)));
    const V32 high_odd = hn::BitCast(d, hn::ShiftLeft<1>(hn::BitCast(du64, odd)));
    const V32 high = hn::OddEven(high_odd, high_even);
    const V32 one = hn::Set(d, 1);
    const V32 mask = hn::Sub(hn::Shl(one, right), one);
    const V32 half =
        hn::BitCast(d, hn::ShiftRight<1>(hn::BitCast(hn::RebindToUnsigned<D32>(), mask)));
    const V32 threshold = hn::Sub(half, hn::BroadcastSignBit(high));
    const auto up = hn::And(high, mask) > threshold;
    return hn::Sub(hn::Shr(high, right), hn::VecFromMask(d, up));
  }
};

// The same plus the output's zero point for accumulators that are cannot_overflow:
// `host/simulator/convolution.h` has the proof.
struct RescaleWithoutOverflow {
  V32 multiplier, left_and_one, right, rounding, sign_mask;

  HWY_INLINE V32 operator()(V32 value) const {
    const D32 d;
    const hn::Repartition<int64_t, D32> d64;
    const hn::Repartition<uint64_t, D32> du64;
    const auto nudge = hn::Set(d64, int64_t{1} << 31);
    const V32 x = hn::Shl(value, left_and_one);
    const auto upper = [&](V32 v) HWY_ATTR {
      return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, v)));
    };
    const V32 even = hn::BitCast(d, hn::Add(multiply_even(x, multiplier), nudge));
    const V32 odd = hn::BitCast(d, hn::Add(multiply_even(upper(x), upper(multiplier)), nudge));
    const V32 high = hn::OddEven(odd, upper(even));
    return hn::Shr(hn::Add(hn::Add(high, rounding), hn::And(hn::BroadcastSignBit(high), sign_mask)),
                   right);
  }
};

// clamp(x + zero_point, low, high) = clamp(x, low − zero_point, high − zero_point) + zero_point,
// which cannot overflow.
struct Limit {
  int32_t clamp_low, clamp_high, zero_point;
  // Of rescaled values that lack the zero point.
  HWY_INLINE V32 operator()(V32 value) const {
    const D32 d;
    const V32 limited = hn::Min(hn::Max(value, hn::Set(d, clamp_low - zero_point)),
                                hn::Set(d, clamp_high - zero_point));
    return hn::Add(limited, hn::Set(d, zero_point));
  }
  // Of rescaled values with their zero point.
  HWY_INLINE V32 clamp(V32 value) const {
    return hn::Min(hn::Max(value, hn::Set(D32(), clamp_low)), hn::Set(D32(), clamp_high));
  }
};

// Sums of products of neighbouring 16-bit pairs, added to 32-bit lanes.
HWY_INLINE V32 multiply_pairs(V16 a, V16 b, V32 sum) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  V32 unused = sum;
  return hn::ReorderWidenMulAccumulate(D32(), a, b, sum, unused);
#else
  const D32 d;
  const auto even = [&](V16 v) HWY_ATTR {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(d, v)));
  };
  const auto odd = [&](V16 v) HWY_ATTR { return hn::ShiftRight<16>(hn::BitCast(d, v)); };
  return hn::Add(hn::Add(hn::Mul(even(a), even(b)), hn::Mul(odd(a), odd(b))), sum);
#endif
}

// Stores the low bytes of the first `count` lanes.
// numerics::requantize_with_one_rounding, then the zero point and the clamp, in 64 bits, even and
// odd lanes apart: the shift is at least 1, and |x · multiplier| + half of 2^shift stays below
// 2^63.
struct OneRounding {
  V32 multiplier, shift;

  HWY_INLINE V32 operator()(V32 value, const Limit& limit) const {
    const D32 d;
    const hn::Repartition<int64_t, D32> d64;
    const hn::Repartition<uint64_t, D32> du64;
    const auto odd_lanes = [&](V32 v) HWY_ATTR {
      return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, v)));
    };
    const auto low = hn::Set(d64, limit.clamp_low - limit.zero_point),
               high = hn::Set(d64, limit.clamp_high - limit.zero_point);
    const auto rescale = [&](V32 x, V32 by, V32 places) HWY_ATTR {
      const auto wide = hn::And(hn::BitCast(d64, places), hn::Set(d64, 63));
      const auto half = hn::Shl(hn::Set(d64, 1), hn::Sub(wide, hn::Set(d64, 1)));
      return hn::Min(hn::Max(shift_right(hn::Add(multiply_even(x, by), half), wide), low), high);
    };
    const auto even = rescale(value, multiplier, shift);
    const auto odd = rescale(odd_lanes(value), odd_lanes(multiplier), odd_lanes(shift));
    const V32 joined = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(du64, odd))),
                                   hn::BitCast(d, even));
    return hn::Add(joined, hn::Set(d, limit.zero_point));
  }
};

HWY_INLINE void store_int8(V32 values, size_t count, int8_t* to) {
  const hn::Rebind<int8_t, D32> d8;
  const auto bytes = hn::DemoteTo(d8, values);
  if (count >= hn::Lanes(d8)) {
    hn::StoreU(bytes, d8, to);
    return;
  }
  HWY_ALIGN int8_t buffer[hn::MaxLanes(D32())];
  hn::Store(bytes, d8, buffer);
  for (size_t i = 0; i < count; ++i) to[i] = buffer[i];
}

#endif  // fixed-size vectors

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#endif
