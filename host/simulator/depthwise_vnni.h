// Depthwise convolution with windows of up to three rows by three columns with AVX-512 VNNI: the
// three values of a column of the window, and a zero, are the four products of a lane.
#pragma once

#include <cstdint>

#include "host/simulator/conv_vnni.h"

namespace dtr::simulator {

constexpr uint32_t kVnniRows = 3, kVnniColumns = 3, kVnniWidestStride = 2;

// A block of 64 channels, or of 32 where no more are left; the last one may have fewer.
struct VnniColumnsBlock {
  bool wide;
  uint32_t first, channels;
  uint32_t lanes() const { return wide ? 64 : 32; }
  // Of a lane, counted through the block's four vectors: interleaving goes by blocks of 128 bits.
  uint32_t channel(uint32_t lane) const {
    const uint32_t vector = lane / (lanes() / 4), at = lane % (lanes() / 4);
    return first + at / 4 * 16 + 4 * vector + at % 4;
  }
};
inline uint32_t vnni_columns_blocks(uint32_t channels) { return (channels + 63) / 64; }
inline VnniColumnsBlock vnni_columns_block(uint32_t channels, uint32_t index) {
  const uint32_t first = index * 64, rest = channels - first;
  return {rest > 32, first, rest < 64 ? rest : 64};
}

// One row of outputs of one block of channels.
struct VnniColumns {
  bool wide;
  uint32_t channels;              // of the block
  const int8_t* rows[kVnniRows];  // of the window, at the block's first channel of column 0
  uint32_t steps[kVnniRows];      // bytes to the next column; 0 where the row is padding
  uint32_t in_columns;
  int32_t first_column;  // of the first window; those outside are padding
  uint32_t stride;       // 1 or 2
  int8_t pad;
  uint32_t outputs;
  const int8_t* weights;  // [column of the window][vector][lane][row of the window, 4]
  const int32_t* bias;    // − 128 · Σ weights folded in; as the rest [vector][lane]
  VnniLanes lanes;
  Fold fold;  // not kNone
  int32_t clamp_low, clamp_high;
  int8_t* output;
  uint32_t output_stride;
};
void vnni_depthwise(const VnniColumns& columns);  // only if vnni_supported()

}  // namespace dtr::simulator
