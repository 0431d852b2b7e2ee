// Vectors of accumulators with AVX-512, 64 and 32 bytes wide, and their requantization; for the
// VNNI kernels alone. Each function has a target attribute, so that no other code is compiled for
// AVX-512.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

#include "host/simulator/conv_vnni.h"

#define DTR_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define DTR_VNNI_INLINE DTR_VNNI __attribute__((always_inline)) inline

namespace dtr::simulator::vnni {

// The operations that the kernels need of both widths.
struct Wide {
  using Vector = __m512i;
  static constexpr uint32_t kLanes = 16;
  static constexpr uint32_t kBytes = 64;
  DTR_VNNI_INLINE static Vector load(const void* from) { return _mm512_loadu_si512(from); }
  DTR_VNNI_INLINE static Vector load(const void* from, uint64_t mask) {
    return _mm512_maskz_loadu_epi8(mask, from);
  }
  DTR_VNNI_INLINE static void store(void* to, Vector v) { _mm512_storeu_si512(to, v); }
  DTR_VNNI_INLINE static void store(void* to, uint64_t mask, Vector v) {
    _mm512_mask_storeu_epi8(to, mask, v);
  }
  DTR_VNNI_INLINE static Vector zero() { return _mm512_setzero_si512(); }
  DTR_VNNI_INLINE static Vector bytes(int8_t value) { return _mm512_set1_epi8(value); }
  DTR_VNNI_INLINE static Vector flip(Vector v) { return _mm512_xor_si512(v, bytes(-128)); }
  DTR_VNNI_INLINE static Vector products(Vector sum, Vector x, Vector weights) {
    return _mm512_dpbusd_epi32(sum, x, weights);
  }
  DTR_VNNI_INLINE static Vector low8(Vector a, Vector b) { return _mm512_unpacklo_epi8(a, b); }
  DTR_VNNI_INLINE static Vector high8(Vector a, Vector b) { return _mm512_unpackhi_epi8(a, b); }
  DTR_VNNI_INLINE static Vector low16(Vector a, Vector b) { return _mm512_unpacklo_epi16(a, b); }
  DTR_VNNI_INLINE static Vector high16(Vector a, Vector b) { return _mm512_unpackhi_epi16(a, b); }
  DTR_VNNI_INLINE static Vector pack32(Vector a, Vector b) { return _mm512_packs_epi32(a, b); }
  DTR_VNNI_INLINE static Vector pack16(Vector a, Vector b) { return _mm512_packs_epi16(a, b); }
  DTR_VNNI_INLINE static Vector limit(Vector v, Vector low, Vector high) {
    return _mm512_min_epi8(_mm512_max_epi8(v, low), high);
  }
  DTR_VNNI_INLINE static Vector odd(Vector v) { return _mm512_srli_epi64(v, 32); }
  DTR_VNNI_INLINE static Vector multiply(Vector a, Vector b) { return _mm512_mul_epi32(a, b); }
  DTR_VNNI_INLINE static Vector add64(Vector a, Vector b) { return _mm512_add_epi64(a, b); }
  DTR_VNNI_INLINE static Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  DTR_VNNI_INLINE static Vector plus(Vector v, int32_t to) {
    return _mm512_add_epi32(v, _mm512_set1_epi32(to));
  }
  DTR_VNNI_INLINE static Vector times_four(Vector v) { return _mm512_slli_epi32(v, 2); }
  DTR_VNNI_INLINE static Vector shift(Vector v, Vector by) { return _mm512_srav_epi32(v, by); }
  // The upper halves of 64-bit lanes, those of `even` in even lanes.
  DTR_VNNI_INLINE static Vector upper(Vector even, Vector odd) {
    return _mm512_castps_si512(
        _mm512_mask_movehdup_ps(_mm512_castsi512_ps(odd), 0x5555, _mm512_castsi512_ps(even)));
  }
  // v + to where x < 0.
  DTR_VNNI_INLINE static Vector add_if_negative(Vector v, Vector x, Vector to) {
    return _mm512_mask_add_epi32(v, _mm512_movepi32_mask(x), v, to);
  }
};

struct Narrow {
  using Vector = __m256i;
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kBytes = 32;
  DTR_VNNI_INLINE static Vector load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  DTR_VNNI_INLINE static Vector load(const void* from, uint64_t mask) {
    return _mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from);
  }
  DTR_VNNI_INLINE static void store(void* to, Vector v) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), v);
  }
  DTR_VNNI_INLINE static void store(void* to, uint64_t mask, Vector v) {
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), v);
  }
  DTR_VNNI_INLINE static Vector zero() { return _mm256_setzero_si256(); }
  DTR_VNNI_INLINE static Vector bytes(int8_t value) { return _mm256_set1_epi8(value); }
  DTR_VNNI_INLINE static Vector flip(Vector v) { return _mm256_xor_si256(v, bytes(-128)); }
  DTR_VNNI_INLINE static Vector products(Vector sum, Vector x, Vector weights) {
    return _mm256_dpbusd_epi32(sum, x, weights);
  }
  DTR_VNNI_INLINE static Vector low8(Vector a, Vector b) { return _mm256_unpacklo_epi8(a, b); }
  DTR_VNNI_INLINE static Vector high8(Vector a, Vector b) { return _mm256_unpackhi_epi8(a, b); }
  DTR_VNNI_INLINE static Vector low16(Vector a, Vector b) { return _mm256_unpacklo_epi16(a, b); }
  DTR_VNNI_INLINE static Vector high16(Vector a, Vector b) { return _mm256_unpackhi_epi16(a, b); }
  DTR_VNNI_INLINE static Vector pack32(Vector a, Vector b) { return _mm256_packs_epi32(a, b); }
  DTR_VNNI_INLINE static Vector pack16(Vector a, Vector b) { return _mm256_packs_epi16(a, b); }
  DTR_VNNI_INLINE static Vector limit(Vector v, Vector low, Vector high) {
    return _mm256_min_epi8(_mm256_max_epi8(v, low), high);
  }
  DTR_VNNI_INLINE static Vector odd(Vector v) { return _mm256_srli_epi64(v, 32); }
  DTR_VNNI_INLINE static Vector multiply(Vector a, Vector b) { return _mm256_mul_epi32(a, b); }
  DTR_VNNI_INLINE static Vector add64(Vector a, Vector b) { return _mm256_add_epi64(a, b); }
  DTR_VNNI_INLINE static Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  DTR_VNNI_INLINE static Vector plus(Vector v, int32_t to) {
    return _mm256_add_epi32(v, _mm256_set1_epi32(to));
  }
  DTR_VNNI_INLINE static Vector times_four(Vector v) { return _mm256_slli_epi32(v, 2); }
  DTR_VNNI_INLINE static Vector shift(Vector v, Vector by) { return _mm256_srav_epi32(v, by); }
  DTR_VNNI_INLINE static Vector upper(Vector even, Vector odd) {
    return _mm256_castps_si256(
        _mm256_mask_movehdup_ps(_mm256_castsi256_ps(odd), 0x55, _mm256_castsi256_ps(even)));
  }
  DTR_VNNI_INLINE static Vector add_if_negative(Vector v, Vector x, Vector to) {
    return _mm256_mask_add_epi32(v, _mm256_movepi32_mask(x), v, to);
  }
};

// Requantized accumulators of one vector with their zero point, which saturating to int8 and the
// clamp complete: `host/simulator/convolution.h` has the proofs. Fold::kFloor.
template <class T>
struct FloorRescaler {
  typename T::Vector multiplier, multiplier_odd, even, odd, right;

  DTR_VNNI_INLINE void load(const VnniLanes& lanes, uint32_t vector) {
    multiplier = T::load(lanes.multiplier + vector * T::kLanes);
    multiplier_odd = T::odd(multiplier);
    even = T::load(lanes.folded + size_t{vector} * 2 * T::kLanes);
    odd = T::load(lanes.folded + (size_t{vector} * 2 + 1) * T::kLanes);
    right = T::plus(T::load(lanes.right_shift + vector * T::kLanes), -1);
  }
  DTR_VNNI_INLINE typename T::Vector operator()(typename T::Vector sum) const {
    return T::shift(T::upper(T::add64(T::multiply(sum, multiplier), even),
                             T::add64(T::multiply(T::odd(sum), multiplier_odd), odd)),
                    right);
  }
};

// Fold::kAwayFromZero.
template <class T>
struct AwayFromZeroRescaler {
  typename T::Vector multiplier, multiplier_odd, added, negative, right;

  DTR_VNNI_INLINE void load(const VnniLanes& lanes, uint32_t vector) {
    multiplier = T::load(lanes.multiplier + vector * T::kLanes);
    multiplier_odd = T::odd(multiplier);
    added = T::load(lanes.folded + size_t{vector} * 2 * T::kLanes);
    negative = T::load(lanes.folded + (size_t{vector} * 2 + 1) * T::kLanes);
    right = T::plus(T::load(lanes.right_shift + vector * T::kLanes), 1);
  }
  DTR_VNNI_INLINE typename T::Vector operator()(typename T::Vector sum) const {
    const typename T::Vector x = T::times_four(sum);
    const typename T::Vector halves =
        T::upper(T::multiply(x, multiplier), T::multiply(T::odd(x), multiplier_odd));
    return T::shift(T::add_if_negative(T::add(halves, added), x, negative), right);
  }
};

}  // namespace dtr::simulator::vnni

#endif
