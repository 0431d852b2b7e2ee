// Sets of fast kernels, one for each instruction set of the host, with the interface of the core's
// table of functions. All compute the same bytes.
#pragma once

#include <memory>
#include <vector>

#include "device/simulator/functional.h"
#include "host/simulator/add_vbmi.h"
#include "host/simulator/plan.h"

namespace dtr::simulator {

// Shorter ways to requantize, where all channels of a convolution allow it
// (host/simulator/convolution.h): one sum and one shift that rounds down; the same, with ties of
// negative values away from zero.
enum class Fold : uint8_t { kNone, kFloor, kAwayFromZero };

// Weights and parameters of one convolution, packed for the loops of a kernel set.
struct PackedConvolution {
  bool usable = false;  // false: the plain loops run
  ConvolutionPlan plan;
  AlignedVector<std::byte> weights;
  AlignedVector<int32_t> bias, multiplier, left_shift,
      right_shift;            // padded with zeros to whole vectors
  bool one_rounding = false;  // npu::kOneRounding
  // Results are rounded twice, and weights and biases are so small that rescaling an accumulator
  // cannot overflow: fewer operations give the same result (host/simulator/convolution.h).
  bool cannot_overflow = false;
  AlignedVector<int32_t> rounding;  // if cannot_overflow: to add before the right shift: half of
                                    // 2^right, and zero_point · 2^right
  AlignedVector<int32_t> sign_mask;  // if cannot_overflow: −1 where right_shift > 0: there negative
                                     // values round half away from zero
  Fold fold = Fold::kNone;
  // In place of `rounding` and `sign_mask` for the fold, twice as many as there are lanes of a
  // vector, vector by vector (fold_parameters).
  AlignedVector<int32_t> folded;
  std::vector<uint32_t> segments;  // VnniBlock has both
  uint32_t steps = 0;
  // The kernel reads pixels where they are: offsets of the plan count from an image's row of input.
  bool in_place = false;
  bool columns = false;  // packed for vnni_depthwise
};

struct KernelSet {
  const char* name;
  Kernels kernels;
  // Null in the set of plain loops. `parameters` have been checked.
  void (*pack_conv2d)(const npu::Target&, const npu::Conv2d&, const int8_t* weights,
                      const std::byte* parameters, PackedConvolution&);
  void (*pack_depthwise)(const npu::Target&, const npu::Depthwise&, const int8_t* weights,
                         const std::byte* parameters, PackedConvolution&);
};

// `Call::context` of the kernels of a kernel set.
struct KernelSetContext {
  std::vector<const PackedConvolution*> packed;  // by command; null: packed at run time from SRAM
  PackedConvolution packed_now;
  AlignedVector<std::byte> band;
  AlignedVector<int8_t> staging;
  // By command, made when it runs first: its sum, alone or after a convolution; null where VbmiAdd
  // does not take it.
  struct Sum {
    bool tried = false;
    std::unique_ptr<VbmiAdd> add;
  };
  std::vector<Sum> sums;

  std::byte* band_of(size_t bytes) {
    if (band.size() < bytes) band.resize(bytes);
    return band.data();
  }
  int8_t* staging_of(size_t bytes) {
    if (staging.size() < bytes) staging.resize(bytes);
    return staging.data();
  }
};

const KernelSet& plain_kernel_set();
const KernelSet& highway_kernel_set();  // of the best target that Highway finds; honours
                                        // hwy::SetSupportedTargetsForTest
const KernelSet* vnni_kernel_set();     // null if the CPU has no AVX-512 VNNI
const KernelSet& best_kernel_set();

}  // namespace dtr::simulator
