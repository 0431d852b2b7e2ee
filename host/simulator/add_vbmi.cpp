#include "host/simulator/add_vbmi.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "device/numerics/binary.h"
#include "host/simulator/convolution.h"

#if defined(__x86_64__)

#include "host/simulator/vnni_vectors.h"

#define DTR_VBMI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")))
#define DTR_VBMI_INLINE DTR_VBMI __attribute__((always_inline)) inline

namespace dtr::simulator {
namespace {

using vnni::Wide;

// Four vectors of 16 values; value l of vector n is that of element l / 4 · 16 + 4 · n + l % 4.
struct Values {
  __m512i at[4];
};

DTR_VBMI_INLINE Values look_up(const uint8_t (*bytes)[256], __m512i index) {
  const __mmask64 upper = _mm512_movepi8_mask(index);
  __m512i found[4];
  for (int byte = 0; byte < 4; ++byte) {
    const uint8_t* const table = bytes[byte];
    const __m512i low =
        _mm512_permutex2var_epi8(_mm512_load_si512(table), index, _mm512_load_si512(table + 64));
    const __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(table + 128), index,
                                                  _mm512_load_si512(table + 192));
    found[byte] = _mm512_mask_blend_epi8(upper, low, high);
  }
  const __m512i low_01 = _mm512_unpacklo_epi8(found[0], found[1]),
                high_01 = _mm512_unpackhi_epi8(found[0], found[1]),
                low_23 = _mm512_unpacklo_epi8(found[2], found[3]),
                high_23 = _mm512_unpackhi_epi8(found[2], found[3]);
  return {{_mm512_unpacklo_epi16(low_01, low_23), _mm512_unpackhi_epi16(low_01, low_23),
           _mm512_unpacklo_epi16(high_01, high_23), _mm512_unpackhi_epi16(high_01, high_23)}};
}

template <class AnyRescaler>
DTR_VBMI void add(const AnyRescaler& by, const uint8_t (*table_a)[256],
                  const uint8_t (*table_b)[256], int8_t low, int8_t high, const int8_t* a,
                  const int8_t* b, size_t count, int8_t* output) {
  const __m512i lowest = _mm512_set1_epi8(low), highest = _mm512_set1_epi8(high);
  for (size_t i = 0; i < count; i += 64) {
    const __mmask64 mask = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    const Values x = look_up(table_a, _mm512_maskz_loadu_epi8(mask, a + i));
    const Values y = look_up(table_b, _mm512_maskz_loadu_epi8(mask, b + i));
    __m512i sums[4];
    for (int n = 0; n < 4; ++n) sums[n] = by(_mm512_add_epi32(x.at[n], y.at[n]));
    const __m512i bytes =
        Wide::limit(Wide::pack16(Wide::pack32(sums[0], sums[1]), Wide::pack32(sums[2], sums[3])),
                    lowest, highest);
    if (mask == ~__mmask64{0}) {
      _mm512_storeu_si512(output + i, bytes);
    } else {
      _mm512_mask_storeu_epi8(output + i, mask, bytes);
    }
  }
}

DTR_VBMI void add_floor(int32_t multiplier, int64_t added, int32_t right,
                        const uint8_t (*table_a)[256], const uint8_t (*table_b)[256], int8_t low,
                        int8_t high, const int8_t* a, const int8_t* b, size_t count,
                        int8_t* output) {
  const __m512i m = _mm512_set1_epi32(multiplier), c = _mm512_set1_epi64(added);
  const vnni::FloorRescaler<Wide> by{m, m, c, c, _mm512_set1_epi32(right - 1)};
  add(by, table_a, table_b, low, high, a, b, count, output);
}
DTR_VBMI void add_away(int32_t multiplier, int32_t added, int32_t negative, int32_t right,
                       const uint8_t (*table_a)[256], const uint8_t (*table_b)[256], int8_t low,
                       int8_t high, const int8_t* a, const int8_t* b, size_t count,
                       int8_t* output) {
  const __m512i m = _mm512_set1_epi32(multiplier);
  const vnni::AwayFromZeroRescaler<Wide> by{
      m, m, _mm512_set1_epi32(added), _mm512_set1_epi32(negative), _mm512_set1_epi32(right + 1)};
  add(by, table_a, table_b, low, high, a, b, count, output);
}

}  // namespace

bool vbmi_supported() { return vnni_supported() && __builtin_cpu_supports("avx512vbmi") != 0; }

void VbmiAdd::fill(Table& table, int32_t zero_point, npu::Rescale by, bool negate) const {
  constexpr int kLeftShift = numerics::BinaryParameters::kLeftShift;
  table.largest = 0;
  for (int32_t q = -128; q <= 127; ++q) {
    const int32_t x =
        numerics::requantize((q - zero_point) * (1 << kLeftShift), {by.multiplier, by.shift});
    table.largest = std::max(table.largest, std::abs(int64_t{x}));
    const auto value = static_cast<uint32_t>(negate ? -static_cast<uint32_t>(x) : x);
    for (uint32_t byte = 0; byte < kBytes; ++byte)
      table.bytes[byte][static_cast<uint8_t>(q)] = static_cast<uint8_t>(value >> 8 * byte);
  }
}

bool VbmiAdd::prepare(npu::BinaryKind kind, const npu::BinaryArguments& arguments) {
  const npu::Rescale by = arguments.output;
  const int32_t right = -by.shift, zero_point = arguments.zero_point_out;
  if (right < 0 || right > 22) return false;
  floor_ = right >= 1 && zero_point <= arguments.clamp_low;
  if (!floor_ && right > 21) return false;
  fill(tables_[0], arguments.zero_point_0, arguments.input_0, false);
  fill(tables_[1], arguments.zero_point_1, arguments.input_1, kind == npu::BinaryKind::kSubtract);
  if (tables_[0].largest + tables_[1].largest >= int64_t{1} << 29) return false;
  multiplier_ = by.multiplier;
  right_ = right;
  const Folded folded(floor_ ? Fold::kFloor : Fold::kAwayFromZero, right, zero_point, false);
  floor_added_ = folded.floor;
  added_ = folded.added;
  negative_ = folded.negative;
  clamp_low_ = static_cast<int8_t>(arguments.clamp_low);
  clamp_high_ = static_cast<int8_t>(arguments.clamp_high);
  return true;
}

void VbmiAdd::run(const int8_t* a, const int8_t* b, size_t count, int8_t* output) const {
  floor_ ? add_floor(multiplier_, floor_added_, right_, tables_[0].bytes, tables_[1].bytes,
                     clamp_low_, clamp_high_, a, b, count, output)
         : add_away(multiplier_, added_, negative_, right_, tables_[0].bytes, tables_[1].bytes,
                    clamp_low_, clamp_high_, a, b, count, output);
}

}  // namespace dtr::simulator

#else

namespace dtr::simulator {

bool vbmi_supported() { return false; }
bool VbmiAdd::prepare(npu::BinaryKind, const npu::BinaryArguments&) { return false; }
void VbmiAdd::run(const int8_t*, const int8_t*, size_t, int8_t*) const {}

}  // namespace dtr::simulator

#endif
