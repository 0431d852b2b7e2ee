// Sets of fast kernels, one for each instruction set of the host, with the interface of the core's
// table of functions. All compute the same bytes.
#pragma once

#include <memory>
#include <vector>

#include "device/simulator/functional.h"
#include "host/simulator/add_vbmi.h"
#include "host/simulator/crew.h"
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
  // Who shares large calls; null: nobody. Each helper has a context of its own, without packed_now.
  Crew* crew = nullptr;
  std::vector<std::unique_ptr<KernelSetContext>> helpers;

  std::byte* band_of(size_t bytes) {
    if (band.size() < bytes) band.resize(bytes);
    return band.data();
  }
  int8_t* staging_of(size_t bytes) {
    if (staging.size() < bytes) staging.resize(bytes);
    return staging.data();
  }
  // The crew must outlive the context.
  void share_with(Crew* members) {
    crew = members;
    helpers.clear();
    for (size_t member = 1; crew != nullptr && member < crew->members(); ++member) {
      helpers.push_back(std::make_unique<KernelSetContext>());
      helpers.back()->packed = packed;
    }
  }
};

// Calls work(call, first, end) for ranges that together are [0, units), perhaps beside each other;
// each such call has a context of its own. `products` of the whole decide whether that is worth it.
template <class Work>
void in_parts(const Call& call, uint32_t units, uint64_t products, const Work& work) {
  constexpr uint64_t kWorthSharing = 300'000;  // some microseconds
  constexpr uint32_t kPartsOfMember = 3;       // so that all end at about the same time
  auto& context = *static_cast<KernelSetContext*>(call.context);
  if (context.crew == nullptr || units < 2 || products < kWorthSharing)
    return work(call, uint32_t{0}, units);
  const auto members = static_cast<uint32_t>(context.helpers.size() + 1);
  const uint32_t parts = units < members * kPartsOfMember ? units : members * kPartsOfMember;
  context.crew->run(parts, [&](size_t member, uint32_t part) {
    const Call own{call.target, call.command,
                   member == 0 ? call.context : context.helpers[member - 1].get()};
    work(own, static_cast<uint32_t>(uint64_t{units} * part / parts),
         static_cast<uint32_t>(uint64_t{units} * (part + 1) / parts));
  });
}
// A product of a depthwise convolution takes as long as so many of another one.
constexpr uint32_t kDepthwiseCost = 4;
// The products of a convolution with so many at each tap of a window.
inline uint64_t products_of(const npu::Window& w, uint32_t at_tap) {
  return uint64_t{w.batch} * w.out_height * w.out_width * w.out_channels * w.kernel_height *
         w.kernel_width * at_tap;
}

const KernelSet& plain_kernel_set();
const KernelSet& highway_kernel_set();  // of the best target that Highway finds; honours
                                        // hwy::SetSupportedTargetsForTest
const KernelSet* vnni_kernel_set();     // null if the CPU has no AVX-512 VNNI
const KernelSet& best_kernel_set();

}  // namespace dtr::simulator
