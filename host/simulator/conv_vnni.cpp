// Keeps a tile of positions × vectors of accumulators in registers while it iterates over the
// segments of the window, then rescales and stores it. Each function has a target attribute, so
// that no other code is compiled for AVX-512.
#include <cstddef>

#include "host/simulator/conv_vnni.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include "host/simulator/vnni_vectors.h"

namespace dtr::simulator {
namespace {

constexpr uint32_t kMostRows = 8;  // positions of a tile

// Sixteen times numerics::requantize, with the output's zero point and clamp, for any accumulator.
// High multiply: (a · b + 2^30) >> 31 in 64 bits, even and odd lanes apart; b ≥ 0, so it cannot
// saturate. Division by 2^right: shift, plus one where the remainder exceeds half (of a negative
// number: half and one), as numerics::rounding_divide_by_power_of_two. clamp(x + zero_point, low,
// high) = clamp(x, low − zero_point, high − zero_point) + zero_point, which cannot overflow.
struct Rescaler {
  __m512i multiplier, multiplier_odd, left, right, mask, half;
  __m512i low, high, zero_point;

  DTR_VNNI_INLINE void load(const VnniBlock& block, uint32_t vector) {
    multiplier = _mm512_loadu_si512(block.lanes.multiplier + vector * kVnniLanes);
    multiplier_odd = _mm512_srli_epi64(multiplier, 32);
    left = _mm512_loadu_si512(block.lanes.left_shift + vector * kVnniLanes);
    right = _mm512_loadu_si512(block.lanes.right_shift + vector * kVnniLanes);
    const __m512i one = _mm512_set1_epi32(1);
    mask = _mm512_sub_epi32(_mm512_sllv_epi32(one, right), one);
    half = _mm512_srli_epi32(mask, 1);
    low = _mm512_set1_epi32(block.clamp_low - block.zero_point);
    high = _mm512_set1_epi32(block.clamp_high - block.zero_point);
    zero_point = _mm512_set1_epi32(block.zero_point);
  }
  DTR_VNNI_INLINE __m512i operator()(__m512i accumulator) const {
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
    return _mm512_add_epi32(clamped, zero_point);
  }
};

// Sixteen times numerics::requantize_with_one_rounding, with zero point and clamp as above, in 64
// bits. The shift is at least 1, and |a · b| + half of 2^shift stays below 2^63.
struct OneRoundingRescaler {
  __m512i multiplier, multiplier_odd, shift_even, shift_odd, half_even, half_odd;
  __m512i low, high, zero_point;

  DTR_VNNI_INLINE void load(const VnniBlock& block, uint32_t vector) {
    multiplier = _mm512_loadu_si512(block.lanes.multiplier + vector * kVnniLanes);
    multiplier_odd = _mm512_srli_epi64(multiplier, 32);
    const __m512i left = _mm512_loadu_si512(block.lanes.left_shift + vector * kVnniLanes);
    const __m512i right = _mm512_loadu_si512(block.lanes.right_shift + vector * kVnniLanes);
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
  DTR_VNNI_INLINE __m512i operator()(__m512i accumulator) const {
    const __m512i even = round(_mm512_mul_epi32(accumulator, multiplier), half_even, shift_even);
    const __m512i odd = round(_mm512_mul_epi32(_mm512_srli_epi64(accumulator, 32), multiplier_odd),
                              half_odd, shift_odd);
    const __m512i joined = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    return _mm512_add_epi32(joined, zero_point);
  }
};

// The other two, from where their parameters lie in a block.
template <class Folded>
struct FoldedRescaler : Folded {
  DTR_VNNI_INLINE void load(const VnniBlock& block, uint32_t vector) {
    Folded::load(block.lanes, vector);
  }
};

// Positions beyond the last repeat it.
DTR_VNNI_INLINE uint32_t existing(const VnniBlock& block, uint32_t position) {
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
  template <bool kSigned>
  DTR_VNNI_INLINE void step(size_t at, const Vectors<kVectors>& weights) {
    int32_t four = 0;
    std::memcpy(&four, window + at, sizeof four);
    const __m512i x = _mm512_set1_epi32(four);
    sums.add_products(kSigned ? vnni::Wide::flip(x) : x, weights);
    rest.template step<kSigned>(at, weights);
  }
  DTR_VNNI_INLINE void store(int32_t* to) const {
    sums.store(to);
    rest.store(to + kVectors * kVnniLanes);
  }
};
template <uint32_t kVectors>
struct Tile<0, kVectors> {
  DTR_VNNI_INLINE void start(const VnniBlock&, uint32_t) {}
  template <bool kSigned>
  DTR_VNNI_INLINE void step(size_t, const Vectors<kVectors>&) {}
  DTR_VNNI_INLINE void store(int32_t*) const {}
};

template <uint32_t kRows, uint32_t kVectors, bool kSigned>
DTR_VNNI void accumulate(const VnniBlock& block, uint32_t position, int32_t* sums) {
  Tile<kRows, kVectors> tile;
  tile.start(block, position);
  const int8_t* weights = block.weights;
  for (uint32_t s = 0; s < block.segment_count; ++s) {
    size_t at = block.segments[s];
    for (uint32_t step = 0; step < block.steps;
         ++step, at += kVnniDepth, weights += size_t{kVectors} * sizeof(__m512i)) {
      Vectors<kVectors> loaded;
      loaded.load(weights);
      tile.template step<kSigned>(at, loaded);
    }
  }
  tile.store(sums);
}

// Rescales the sums of a tile, which have left the registers before that needs many itself, two
// vectors of channels at a time, and stores their bytes a position at a time.
template <uint32_t kVectors, class AnyRescaler>
DTR_VNNI void finish(const VnniBlock& block, const int32_t* sums, uint32_t position,
                     uint32_t rows) {
  constexpr uint32_t kPairs = (kVectors + 1) / 2;
  alignas(64) int16_t halves[kMostRows * kPairs * 2 * kVnniLanes];
  for (uint32_t pair = 0; pair < kPairs; ++pair) {
    const uint32_t first = 2 * pair, second = std::min(first + 1, kVectors - 1);
    AnyRescaler by_first, by_second;
    by_first.load(block, first);
    by_second.load(block, second);
    for (uint32_t m = 0; m < rows; ++m) {
      const int32_t* from = sums + m * kVectors * kVnniLanes;
      const __m512i low = by_first(_mm512_load_si512(from + first * kVnniLanes));
      const __m512i high =
          second == first ? low : by_second(_mm512_load_si512(from + second * kVnniLanes));
      _mm512_store_si512(halves + (m * kPairs + pair) * 2 * kVnniLanes,
                         _mm512_packs_epi32(low, high));
    }
  }
  // Packing goes by blocks of 128 bits: four channels of each vector lie in one.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i lowest = _mm512_set1_epi8(static_cast<char>(block.clamp_low));
  const __m512i highest = _mm512_set1_epi8(static_cast<char>(block.clamp_high));
  const __mmask64 mask = ~__mmask64{0} >> (64 - block.channels);
  int8_t* to = block.output + size_t{position} * block.output_stride;
  for (uint32_t m = 0; m < rows; ++m, to += block.output_stride) {
    const int16_t* from = halves + m * kPairs * 2 * kVnniLanes;
    const __m512i packed = _mm512_packs_epi16(
        _mm512_load_si512(from), _mm512_load_si512(from + (kPairs - 1) * 2 * kVnniLanes));
    const __m512i bytes =
        vnni::Wide::limit(_mm512_permutexvar_epi32(order, packed), lowest, highest);
    if (kVectors == 4 && block.channels == 64) {
      _mm512_storeu_si512(to, bytes);
    } else if (kVectors == 2 && block.channels == 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(bytes));
    } else if (kVectors == 1 && block.channels == 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_castsi512_si128(bytes));
    } else {
      _mm512_mask_storeu_epi8(to, mask, bytes);
    }
  }
}

template <uint32_t kRows, uint32_t kVectors, bool kSigned, class AnyRescaler>
DTR_VNNI void convolve_with(const VnniBlock& block) {
  static_assert(kRows <= kMostRows);
  alignas(64) int32_t sums[kRows * kVectors * kVnniLanes];
  uint32_t position = 0;
  for (; position + kRows <= block.positions; position += kRows) {
    accumulate<kRows, kVectors, kSigned>(block, position, sums);
    finish<kVectors, AnyRescaler>(block, sums, position, kRows);
  }
  const uint32_t rest = block.positions - position;
  if (rest == 0) return;
  rest == 1   ? accumulate<1, kVectors, kSigned>(block, position, sums)
  : rest <= 3 ? accumulate<3, kVectors, kSigned>(block, position, sums)
              : accumulate<kRows, kVectors, kSigned>(block, position, sums);
  finish<kVectors, AnyRescaler>(block, sums, position, rest);
}

template <uint32_t kRows, uint32_t kVectors, bool kSigned>
DTR_VNNI void convolve(const VnniBlock& block) {
  using vnni::Wide;
  if (block.fold == Fold::kFloor)
    return convolve_with<kRows, kVectors, kSigned, FoldedRescaler<vnni::FloorRescaler<Wide>>>(
        block);
  if (block.fold == Fold::kAwayFromZero)
    return convolve_with<kRows, kVectors, kSigned,
                         FoldedRescaler<vnni::AwayFromZeroRescaler<Wide>>>(block);
  block.one_rounding ? convolve_with<kRows, kVectors, kSigned, OneRoundingRescaler>(block)
                     : convolve_with<kRows, kVectors, kSigned, Rescaler>(block);
}

template <uint32_t kRows, uint32_t kVectors>
void convolve(const VnniBlock& block) {
  block.signed_input ? convolve<kRows, kVectors, true>(block)
                     : convolve<kRows, kVectors, false>(block);
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
