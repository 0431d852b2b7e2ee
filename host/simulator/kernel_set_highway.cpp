// The kernel set for every instruction set that Highway knows: products of 16-bit pairs, since
// Highway has no product of bytes.
#include <algorithm>
#include <cstring>

#include "device/simulator/functional.h"
#include "host/simulator/convolution.h"
#include "host/simulator/kernel_set.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/simulator/kernel_set_highway.cpp"
#include <hwy/foreach_target.h>
// Highway requires these includes after foreach_target.h.
#include <hwy/highway.h>
#include "host/simulator/binary-inl.h"
#include "host/simulator/convolution-inl.h"
#include "host/simulator/elementwise-inl.h"
#include "host/simulator/matmul-inl.h"
#include "host/simulator/strided-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dtr::simulator {
namespace HWY_NAMESPACE {

const KernelSet* kernel_set() {
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR
  return nullptr;  // the order of channels in a vector is laid out for blocks of 128 bits
#else
  static const KernelSet made = [] {
    Kernels kernels = kPlainKernels;
    kernels.conv2d = convolve<npu::Conv2d>;
    kernels.depthwise = depthwise;
    kernels.pool = pool;
    kernels.binary = binary;
    kernels.lookup = lookup;
    kernels.move = move;
    kernels.reduce = reduce;
    kernels.matmul = matmul;
    return KernelSet{hwy::TargetName(HWY_TARGET), kernels, pack_dense<npu::Conv2d>, pack_depthwise};
  }();
  return &made;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace dtr::simulator
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dtr::simulator {

HWY_EXPORT(kernel_set);

const KernelSet& plain_kernel_set() {
  static const KernelSet made = {"plain", kPlainKernels, nullptr, nullptr};
  return made;
}

const KernelSet& highway_kernel_set() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const KernelSet* found = HWY_DYNAMIC_DISPATCH(kernel_set)();
  return found != nullptr ? *found : plain_kernel_set();
}

}  // namespace dtr::simulator

#endif
