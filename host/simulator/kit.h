// Sets of fast kernels, one for each instruction set of the host, behind the core's table of
// functions. All give the same bytes.
#pragma once

#include <vector>

#include "device/simulator/functional.h"
#include "host/simulator/plan.h"

namespace dtr::simulator {

// Weights and parameters of one convolution in the order of a kit's loops.
struct PackedConvolution {
  bool usable = false;  // else the plain loops run
  Plan plan;
  AlignedVector<std::byte> weights;
  AlignedVector<int32_t> bias, multiplier, left_shift,
      right_shift;            // padded with zeros to whole vectors
  bool one_rounding = false;  // npu::kOneRounding
  // Rounded twice, and weights and biases are so small that nothing can overflow when an
  // accumulator is rescaled: less arithmetic gives the same result.
  bool tame = false;
  AlignedVector<int32_t> rounding;   // if tame: to add before the right shift: half of 2^right, and
                                     // zero_point · 2^right
  AlignedVector<int32_t> sign_mask;  // if tame: −1 where right_shift > 0: there negative values
                                     // round half away from zero
};

struct Kit {
  const char* name;
  Kernels kernels;
  // Null in a kit of plain loops. `parameters` have been found valid.
  void (*pack_conv2d)(const npu::Target&, const npu::Conv2d&, const int8_t* weights,
                      const std::byte* parameters, PackedConvolution&);
  void (*pack_depthwise)(const npu::Target&, const npu::Depthwise&, const int8_t* weights,
                         const std::byte* parameters, PackedConvolution&);
};

// What `Call::context` points to for the kernels of a kit.
struct KitContext {
  std::vector<const PackedConvolution*>
      packed;  // by command; null: pack at run time from what lies in SRAM
  PackedConvolution packed_now;
  AlignedVector<std::byte> band;
  AlignedVector<int8_t> staging;

  std::byte* band_of(size_t bytes) {
    if (band.size() < bytes) band.resize(bytes);
    return band.data();
  }
  int8_t* staging_of(size_t bytes) {
    if (staging.size() < bytes) staging.resize(bytes);
    return staging.data();
  }
};

const Kit& plain_kit();
const Kit&
highway_kit();  // of the best target that Highway finds; honours hwy::SetSupportedTargetsForTest
const Kit* vnni_kit();  // null if the CPU has no AVX-512 VNNI
const Kit& best_kit();

}  // namespace dtr::simulator
