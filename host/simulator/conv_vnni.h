// Convolution with AVX-512 VNNI (vpdpbusd): products of unsigned activations (q + 128) and signed
// weights, four per lane.
#pragma once

#include <cstdint>

#include "host/simulator/kernel_set.h"

namespace dtr::simulator {

// Output channels of one vector, and input values of one step.
constexpr uint32_t kVnniLanes = 16;
constexpr uint32_t kVnniDepth = 4;
constexpr uint32_t kVnniMostVectors = 4;  // in a block of output channels
// The same of a convolution with one position, so that many sums are under way.
constexpr uint32_t kVnniMostVectorsOfOnePosition = 8;

// Parameters of requantization, in the order of lanes.
struct VnniLanes {
  const int32_t* multiplier;
  const int32_t* left_shift;
  const int32_t* right_shift;
  const int32_t* folded;  // as in PackedConvolution, unless its fold is kNone
};

// One block of output channels over the positions of a band.
struct VnniBlock {
  const uint8_t* band;
  bool signed_input;        // `band` is the input itself, as int8
  const uint32_t* offsets;  // of each position
  uint32_t positions;
  const uint32_t* segments;  // runs of consecutive bytes of a window, as offsets from its position
  uint32_t segment_count;
  uint32_t steps;         // of kVnniDepth bytes, in each segment
  uint32_t vectors;       // of output channels; more than kVnniMostVectors for one position only
  const int8_t* weights;  // [segment][step][vector][lane][depth]
  const int32_t* bias;    // − 128 · Σ weights folded in; as the next three [vector][lane]
  VnniLanes lanes;
  Fold fold;
  bool one_rounding;  // as in PackedConvolution
  int32_t zero_point, clamp_low, clamp_high;
  int8_t* output;  // of the first position and the block's first channel
  uint32_t output_stride;
  uint32_t channels;  // valid channels, ≤ vectors · kVnniLanes
};

bool vnni_supported();
void vnni_convolve(const VnniBlock& block);  // only if supported
void vnni_to_unsigned(const int8_t* from, void* to, size_t count);

}  // namespace dtr::simulator
