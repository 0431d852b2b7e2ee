// Keeps a tile of positions × vectors of accumulators in registers while it iterates over the
// segments of the window, then rescales and stores it. Each function has a target attribute, so
// that no other code is compiled for AVX-512.
#include <cstddef>

#include "host/simulator/conv_vnni.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#define DTR_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define DTR_VNNI_INLINE DTR_VNNI __attribute__((always_inline))

namespace dtr::simulator {
namespace {

// Sixteen times numerics::requantize, with the output's zero point and clamp, for any accumulator.
// High multiply: (a · b + 2^30) >> 31 in 64 bits, even and odd lanes apart; b ≥ 0, so it cannot
// saturate. Division by 2^right: shift, plus one where the remainder exceeds half (of a negative
// number: half and one), as numerics::rounding_divide_by_power_of_two. clamp(x + zero_point, low,
// high) = clamp(x, low − zero_point, high − zero_point) + zero_point, which cannot overflow.
struct Rescaler {
  __m512i multiplier, multiplier_odd, left, right, mask, half;
  __m512i low, high, zero_point;

  DTR_VNNI_INLINE void load(const VnniBlock& block, uint32_t vector) {
    multiplier = _mm512_loadu_si512(block.multiplier + vector * kVnniLanes);
    multiplier_odd = _mm512_srli_epi64(multiplier, 32);
    left = _mm512_loadu_si512(block.left_shift + vector * kVnniLanes);
    right = _mm512_loadu_si512(block.right_shift + vector * kVnniLanes);
    const __m512i one = _mm512_set1_epi32(1);
    mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, right), one);
    half = _mm512_srli_epi32(mask, 1);
    low = _mm512_set1_epi32(block.clamp_low - block.zero_point);
    high = _mm512_set1_epi32(block.clamp_high - block.zero_point);
    zero_point = _mm512_set1_epi32(block.zero_point);
  }
  DTR_VNNI_INLINE __m128i operator()(__m512i accumulator) const {
    const __m512i nudge = _mm512_set1_epi64(int64_t{1} << 30);
    const __m512i x = _mm512_sllv_epi32(accumulator, left);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, multiplier), nudge);
    const __m512i odd =
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), multiplier_odd), nudge);
    const __m512i product =
        _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
    const __m512i remainder = _mm512_and_si512(product, mask);
    const __m512i threshold = _mm512_add_epi32(half, _mm512_srli_epi32(product, 31));
    const __mmask16 up = _mm512_cmpgt_epi32_mask(remainder, threshold);
    const __m512i floor = _mm512_srav_epi32(product, right);
    const __m512i rounded = _mm512_mask_sub_epi32(floor, up, floor, _mm512_set1_epi32(-1));
    const __m512i clamped = _mm512_min_epi32(_mm512_max_epi32(rounded, low), high);
    return _mm512_cvtepi32_epi8(_mm512_add_epi32(clamped, zero_point));
  }
};

// The same for accumulators that are cannot_overflow: `host/simulator/convolution.h` has the proof.
struct RescalerWithoutOverflow {
  __m512i multiplier, multiplier_odd, left_and_one, right, rounding;
  __m128i low, high;
  __mmask16 divides;

  DTR_VNNI_INLINE void load(const VnniBlock& block, uint32_t vector) {
    multiplier = _mm512_loadu_si512(block.multiplier + vector * kVnniLanes);
    multiplier_odd = _mm512_srli_epi64(multiplier, 32);
    left_and_one = _mm512_add_epi32(_mm512_loadu_si512(block.left_shift + vector * kVnniLanes),
                                    _mm512_set1_epi32(1));
    right = _mm512_loadu_si512(block.right_shift + vector * kVnniLanes);
    rounding = _mm512_loadu_si512(block.rounding + vector * kVnniLanes);
    divides = _mm512_test_epi32_mask(right, right);
    low = _mm_set1_epi8(static_cast<char>(block.clamp_low));
    high = _mm_set1_epi8(static_cast<char>(block.clamp_high));
  }
  DTR_VNNI_INLINE __m128i operator()(__m512i accumulator) const {
    const __m512i nudge = _mm512_set1_epi64(int64_t{1} << 31);
    const __m512i x = _mm512_sllv_epi32(accumulator, left_and_one);
    const __m512i even = _mm512_add_epi64(_mm512_mul_epi32(x, multiplier), nudge);
    const __m512i odd =
        _mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), multiplier_odd), nudge);
    const __m512i product = _mm512_castps_si512(
        _mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), 0x5555, _mm512_castsi512_ps(even)));
    const __m512i sign = _mm512_maskz_srai_epi32(divides, product, 31);
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(product, rounding), sign);
    const __m128i bytes = _mm512_cvtsepi32_epi8(_mm512_srav_epi32(sum, right));
    return _mm_min_epi8(_mm_max_epi8(bytes, low), high);
  }
};

// Sixteen times numerics::requantize_with_one_rounding, with zero point and clamp as above, in 64
// bits. The shift is at least 1, and |a · b| + half of 2^shift stays below 2^63.
struct OneRoundingRescaler {
  __m512i multiplier, multiplier_odd, shift_even, shift_odd, half_even, half_odd;
  __m512i low, high, zero_point;

  DTR_VNNI_INLINE void load(const VnniBlock& block, uint32_t vector) {
    multiplier = _mm512_loadu_si512(block.multiplier + vector * kVnniLanes);
    multiplier_odd = _mm512_srli_epi64(multiplier, 32);
    const __m512i left = _mm512_loadu_si512(block.left_shift + vector * kVnniLanes);
    const __m512i right = _mm512_loadu_si512(block.right_shift + vector * kVnniLanes);
    const __m512i shift = _mm512_add_epi32(_mm512_sub_epi32(right, left), _mm512_set1_epi32(31));
    const __m512i one = _mm512_set1_epi64(1);
    shift_even = _mm512_and_si512(shift, _mm512_set1_epi64(63));
    shift_odd = _mm512_srli_epi64(shift, 32);
    half_even = _mm512_sllv_epi64(one, _mm512_sub_epi64(shift_even, one));
    half_odd = _mm512_sllv_epi64(one, _mm512_sub_epi64(shift_odd, one));
    low = _mm512_set1_epi64(block.clamp_low - block.zero_point);
    high = _mm512_set1_epi64(block.clamp_high - block.zero_point);
    zero_point = _mm512_set1_epi32(block.zero_point);
  }
  DTR_VNNI_INLINE __m512i round(__m512i product, __m512i half, __m512i shift) const {
    return _mm512_min_epi64(
        _mm512_max_epi64(_mm512_srav_epi64(_mm512_add_epi64(product, half), shift), low), high);
  }
  DTR_VNNI_INLINE __m128i operator()(__m512i accumulator) const {
    const __m512i even = round(_mm512_mul_epi32(accumulator, multiplier), half_even, shift_even);
    const __m512i odd = round(_mm512_mul_epi32(_mm512_srli_epi64(accumulator, 32), multiplier_odd),
                              half_odd, shift_odd);
    const __m512i joined = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    return _mm512_cvtepi32_epi8(_mm512_add_epi32(joined, zero_point));
  }
};

// Positions beyond the last repeat it.
DTR_VNNI_INLINE inline uint32_t existing(const VnniBlock& block, uint32_t position) {
  return position < block.positions ? position : block.positions - 1;
}

// Vectors of output channels, and rows of them for positions, as chains of members instead of
// arrays: the compiler keeps members in registers, but stores an array that a loop indexes in every
// step, even if it unrolls the loop.
template <uint32_t kCount>
struct Vectors {
  __m512i head;
  Vectors<kCount - 1> rest;

  DTR_VNNI_INLINE void load(const void* from) {
    head = _mm512_loadu_si512(from);
    rest.load(static_cast<const char*>(from) + sizeof head);
  }
  DTR_VNNI_INLINE void add_products(__m512i x, const Vectors& weights) {
    head = _mm512_dpbusd_epi32(head, x, weights.head);
    rest.add_products(x, weights.rest);
  }
  DTR_VNNI_INLINE void store(int32_t* to) const {
    _mm512_store_si512(to, head);
    rest.store(to + kVnniLanes);
  }
};
template <>
struct Vectors<0> {
  DTR_VNNI_INLINE void load(const void*) {}
  DTR_VNNI_INLINE void add_products(__m512i, const Vectors&) {}
  DTR_VNNI_INLINE void store(int32_t*) const {}
};

template <uint32_t kRows, uint32_t kVectors>
struct Tile {
  Vectors<kVectors> sums;
  const uint8_t* window;
  Tile<kRows - 1, kVectors> rest;

  DTR_VNNI_INLINE void start(const VnniBlock& block, uint32_t position) {
    window = block.band + block.offsets[existing(block, position)];
    sums.load(block.bias);
    rest.start(block, position + 1);
  }
  DTR_VNNI_INLINE void step(size_t at, const Vectors<kVectors>& weights) {
    int32_t four = 0;
    std::memcpy(&four, window + at, sizeof four);
    sums.add_products(_mm512_set1_epi32(four), weights);
    rest.step(at, weights);
  }
  DTR_VNNI_INLINE void store(int32_t* to) const {
    sums.store(to);
    rest.store(to + kVectors * kVnniLanes);
  }
};
template <uint32_t kVectors>
struct Tile<0, kVectors> {
  DTR_VNNI_INLINE void start(const VnniBlock&, uint32_t) {}
  DTR_VNNI_INLINE void step(size_t, const Vectors<kVectors>&) {}
  DTR_VNNI_INLINE void store(int32_t*) const {}
};

// The sums leave the registers before they are rescaled, which needs many itself.
template <uint32_t kRows, uint32_t kVectors, class AnyRescaler>
DTR_VNNI void convolve_tile(const VnniBlock& block, const AnyRescaler* by, uint32_t position) {
  alignas(64) int32_t sums[kRows * kVectors * kVnniLanes];
  {
    Tile<kRows, kVectors> tile;
    tile.start(block, position);
    const int8_t* weights = block.weights;
    for (uint32_t s = 0; s < block.segment_count; ++s) {
      size_t at = block.segments[s];
      for (uint32_t step = 0; step < block.steps;
           ++step, at += kVnniDepth, weights += size_t{kVectors} * sizeof(__m512i)) {
        Vectors<kVectors> loaded;
        loaded.load(weights);
        tile.step(at, loaded);
      }
    }
    tile.store(sums);
  }
  for (uint32_t n = 0; n < kVectors; ++n) {
    const uint32_t channels = block.channels - n * kVnniLanes;
    const auto mask =
        static_cast<__mmask16>(channels >= kVnniLanes ? 0xFFFFu : (1u << channels) - 1);
    for (uint32_t m = 0; m < kRows; ++m) {
      int8_t* to = block.output + size_t{existing(block, position + m)} * block.output_stride +
                   n * kVnniLanes;
      _mm_mask_storeu_epi8(to, mask,
                           by[n](_mm512_load_si512(&sums[(m * kVectors + n) * kVnniLanes])));
    }
  }
}

template <uint32_t kRows, uint32_t kVectors, class AnyRescaler>
DTR_VNNI void convolve_with(const VnniBlock& block) {
  AnyRescaler by[kVectors];
  for (uint32_t n = 0; n < kVectors; ++n) by[n].load(block, n);
  uint32_t position = 0;
  for (; position + kRows <= block.positions; position += kRows)
    convolve_tile<kRows, kVectors>(block, by, position);
  const uint32_t rest = block.positions - position;
  if (rest == 1) return convolve_tile<1, kVectors>(block, by, position);
  if (rest > 1 && rest <= 3) return convolve_tile<3, kVectors>(block, by, position);
  if (rest > 3) convolve_tile<kRows, kVectors>(block, by, position);
}

template <uint32_t kRows, uint32_t kVectors>
DTR_VNNI void convolve(const VnniBlock& block) {
  if (block.one_rounding) return convolve_with<kRows, kVectors, OneRoundingRescaler>(block);
  return block.cannot_overflow ? convolve_with<kRows, kVectors, RescalerWithoutOverflow>(block)
                               : convolve_with<kRows, kVectors, Rescaler>(block);
}

}  // namespace

bool vnni_supported() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("avx512vnni") != 0;
}

void vnni_convolve(const VnniBlock& block) {
  switch (block.vectors) {
    case 1:
      return convolve<8, 1>(block);
    case 2:
      return convolve<8, 2>(block);
    case 3:
      return convolve<8, 3>(block);
    default:
      return convolve<6, 4>(block);
  }
}

DTR_VNNI void vnni_to_unsigned(const int8_t* from, void* to, size_t count) {
  auto* out = static_cast<uint8_t*>(to);
  const __m512i flip = _mm512_set1_epi8(-128);
  size_t i = 0;
  for (; i + 64 <= count; i += 64)
    _mm512_storeu_si512(out + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), flip));
  if (i == count) return;
  const __mmask64 mask = (__mmask64{1} << (count - i)) - 1;
  _mm512_mask_storeu_epi8(out + i, mask,
                          _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from + i), flip));
}

}  // namespace dtr::simulator

#else

namespace dtr::simulator {

bool vnni_supported() { return false; }
void vnni_convolve(const VnniBlock&) {}
void vnni_to_unsigned(const int8_t*, void*, size_t) {}

}  // namespace dtr::simulator

#endif
