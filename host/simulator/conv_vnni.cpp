// Keeps a tile of positions × vectors of accumulators in registers while it iterates over the
// segments of the window, and rescales and packs it there: a tile has at most 16 accumulators, so
// that half of the registers are left for that. Each function has a target attribute, so that no
// other code is compiled for AVX-512.
#include <cstddef>

#include "host/simulator/conv_vnni.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>

#include "host/simulator/vnni_vectors.h"

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
  template <uint32_t kIndex>
  DTR_VNNI_INLINE __m512i& at() {
    if constexpr (kIndex == 0) {
      return head;
    } else {
      return rest.template at<kIndex - 1>();
    }
  }
};
template <>
struct Vectors<0> {
  DTR_VNNI_INLINE void load(const void*) {}
  DTR_VNNI_INLINE void add_products(__m512i, const Vectors&) {}
};

template <uint32_t kRows, uint32_t kVectors>
struct Tile {
  Vectors<kVectors> sums;
  const uint8_t* window;
  Tile<kRows - 1, kVectors> rest;

  // Positions beyond the last repeat it.
  DTR_VNNI_INLINE void start(const VnniBlock& block, uint32_t position) {
    window =
        block.band + block.offsets[position < block.positions ? position : block.positions - 1];
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
  template <uint32_t kVector, class AnyRescaler>
  DTR_VNNI_INLINE void rescale(const AnyRescaler& by) {
    sums.template at<kVector>() = by(sums.template at<kVector>());
    rest.template rescale<kVector>(by);
  }
  template <uint32_t kRow, uint32_t kVector>
  DTR_VNNI_INLINE __m512i& at() {
    if constexpr (kRow == 0) {
      return sums.template at<kVector>();
    } else {
      return rest.template at<kRow - 1, kVector>();
    }
  }
};
template <uint32_t kVectors>
struct Tile<0, kVectors> {
  DTR_VNNI_INLINE void start(const VnniBlock&, uint32_t) {}
  template <bool kSigned>
  DTR_VNNI_INLINE void step(size_t, const Vectors<kVectors>&) {}
  template <uint32_t kVector, class AnyRescaler>
  DTR_VNNI_INLINE void rescale(const AnyRescaler&) {}
};

template <uint32_t kVector, class AnyRescaler, uint32_t kRows, uint32_t kVectors>
DTR_VNNI_INLINE void rescale_from(const VnniBlock& block, Tile<kRows, kVectors>& tile) {
  if constexpr (kVector < kVectors) {
    AnyRescaler by;
    by.load(block, kVector);
    tile.template rescale<kVector>(by);
    rescale_from<kVector + 1, AnyRescaler>(block, tile);
  }
}

// What is needed to store rescaled sums as bytes, four vectors at a time. Packing goes by blocks of
// 128 bits: four channels of each vector lie in one.
struct Packer {
  __m512i order, lowest, highest;

  DTR_VNNI_INLINE explicit Packer(const VnniBlock& block)
      : order(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
        lowest(_mm512_set1_epi8(static_cast<char>(block.clamp_low))),
        highest(_mm512_set1_epi8(static_cast<char>(block.clamp_high))) {}
  DTR_VNNI_INLINE __m512i operator()(__m512i a, __m512i b, __m512i c, __m512i d) const {
    const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    return vnni::Wide::limit(_mm512_permutexvar_epi32(order, packed), lowest, highest);
  }
};

// Stores the bytes of one position.
template <uint32_t kVectors>
DTR_VNNI_INLINE void store_position(const VnniBlock& block, __m512i bytes, int8_t* to) {
  const uint64_t mask = ~uint64_t{0} >> (64 - block.channels);
  if constexpr (kVectors == 1) {
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), _mm512_castsi512_si128(bytes));
  } else if constexpr (kVectors == 2) {
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), _mm512_castsi512_si256(bytes));
  } else if (kVectors == 4 && block.channels == 64) {
    _mm512_storeu_si512(to, bytes);
  } else {
    _mm512_mask_storeu_epi8(to, mask, bytes);
  }
}

// Vector `kIndex` of the rows of a tile from `kRow` on; what is not there repeats the last.
template <uint32_t kRow, uint32_t kIndex, uint32_t kRows, uint32_t kVectors>
DTR_VNNI_INLINE __m512i nth(Tile<kRows, kVectors>& tile) {
  constexpr uint32_t kInRow = kVectors == 3 ? 4 : kVectors;
  return tile.template at<std::min(kRow + kIndex / kInRow, kRows - 1),
                          std::min(kIndex % kInRow, kVectors - 1)>();
}

// Stores the rows of a tile from `kRow` on, `positions` of which exist.
template <uint32_t kRow, uint32_t kRows, uint32_t kVectors>
DTR_VNNI_INLINE void store_from(const VnniBlock& block, const Packer& pack, int8_t* to,
                                uint32_t positions, Tile<kRows, kVectors>& tile) {
  if constexpr (kVectors > 4) {
    static_assert(kRows == 1);
    _mm512_storeu_si512(to,
                        pack(nth<0, 0>(tile), nth<0, 1>(tile), nth<0, 2>(tile), nth<0, 3>(tile)));
    Tile<1, kVectors - 4> rest;
    rest.sums = tile.sums.rest.rest.rest.rest;
    VnniBlock of_rest = block;
    of_rest.channels = block.channels - 4 * kVnniLanes;
    store_from<0>(of_rest, pack, to + 4 * kVnniLanes, positions, rest);
  } else if constexpr (kRow < kRows) {
    constexpr uint32_t kTogether = kVectors >= 3 ? 1 : 4 / kVectors;  // positions in one vector
    const __m512i bytes =
        pack(nth<kRow, 0>(tile), nth<kRow, 1>(tile), nth<kRow, 2>(tile), nth<kRow, 3>(tile));
    const size_t stride = block.output_stride;
    if (kTogether > 1 && positions >= kTogether && stride == kVectors * kVnniLanes &&
        block.channels == stride) {
      _mm512_storeu_si512(to, bytes);
    } else if constexpr (kTogether <= 2) {
      if (positions > 0) store_position<kVectors>(block, bytes, to);
      if (kTogether == 2 && positions > 1)
        store_position<kVectors>(block, _mm512_castsi256_si512(_mm512_extracti64x4_epi64(bytes, 1)),
                                 to + stride);
    } else {
      const auto quarter = [&](uint32_t index, __m128i part) DTR_VNNI {
        if (positions > index)
          store_position<kVectors>(block, _mm512_castsi128_si512(part), to + index * stride);
      };
      quarter(0, _mm512_castsi512_si128(bytes));
      quarter(1, _mm512_extracti32x4_epi32(bytes, 1));
      quarter(2, _mm512_extracti32x4_epi32(bytes, 2));
      quarter(3, _mm512_extracti32x4_epi32(bytes, 3));
    }
    store_from<kRow + kTogether>(block, pack, to + kTogether * stride,
                                 positions > kTogether ? positions - kTogether : 0, tile);
  }
}

// Convolves kRows positions; `positions` of them exist, at least one.
template <uint32_t kRows, uint32_t kVectors, bool kSigned, class AnyRescaler>
DTR_VNNI_INLINE void convolve_tile(const VnniBlock& block, const Packer& pack, uint32_t position,
                                   uint32_t positions) {
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
  rescale_from<0, AnyRescaler>(block, tile);
  store_from<0>(block, pack, block.output + size_t{position} * block.output_stride, positions,
                tile);
}

// All positions in tiles of kRows; a few that are left in one of kFew, which costs less.
template <uint32_t kRows, uint32_t kFew, uint32_t kVectors, bool kSigned, class AnyRescaler>
DTR_VNNI void convolve_with(const VnniBlock& block) {
  const Packer pack(block);
  uint32_t position = 0;
  for (; position + kRows <= block.positions; position += kRows)
    convolve_tile<kRows, kVectors, kSigned, AnyRescaler>(block, pack, position, kRows);
  const uint32_t rest = block.positions - position;
  if (rest == 0) return;
  if constexpr (kFew < kRows)
    if (rest <= kFew)
      return convolve_tile<kFew, kVectors, kSigned, AnyRescaler>(block, pack, position, rest);
  convolve_tile<kRows, kVectors, kSigned, AnyRescaler>(block, pack, position, rest);
}

template <uint32_t kRows, uint32_t kFew, uint32_t kVectors, bool kSigned>
DTR_VNNI void convolve(const VnniBlock& block) {
  using vnni::Wide;
  if (block.fold == Fold::kFloor)
    return convolve_with<kRows, kFew, kVectors, kSigned, FoldedRescaler<vnni::FloorRescaler<Wide>>>(
        block);
  if (block.fold == Fold::kAwayFromZero)
    return convolve_with<kRows, kFew, kVectors, kSigned,
                         FoldedRescaler<vnni::AwayFromZeroRescaler<Wide>>>(block);
  block.one_rounding ? convolve_with<kRows, kFew, kVectors, kSigned, OneRoundingRescaler>(block)
                     : convolve_with<kRows, kFew, kVectors, kSigned, Rescaler>(block);
}

template <uint32_t kRows, uint32_t kFew, uint32_t kVectors>
void convolve(const VnniBlock& block) {
  block.signed_input ? convolve<kRows, kFew, kVectors, true>(block)
                     : convolve<kRows, kFew, kVectors, false>(block);
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
      return convolve<12, 4, 1>(block);
    case 2:
      return convolve<8, 2, 2>(block);
    case 3:
      return convolve<5, 1, 3>(block);
    case 4:
      return convolve<4, 1, 4>(block);
    case 5:
      return convolve<1, 1, 5>(block);
    case 6:
      return convolve<1, 1, 6>(block);
    case 7:
      return convolve<1, 1, 7>(block);
    default:
      return convolve<1, 1, kVnniMostVectorsOfOnePosition>(block);
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
