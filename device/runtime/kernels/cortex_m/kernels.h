// Kernels on int8 tensors for a Cortex-M, to TFLite's integer specification. Names `cortex_m::…`,
// argument order and results are those of ExecuTorch's Cortex-M operators; kernels without a
// counterpart there are `deuteron::…`. Convolutions and pools take channels-last images, the others
// any dimension order unless stated otherwise. A scratch operand must have exactly the size of
// device/numerics/cortex_m_scratch.h.
#pragma once

#include "device/runtime/kernel.h"

namespace dtr::runtime::cortex_m {

#define DTR_KERNEL(function, name, file) Error function(std::span<Value* const> arguments);
#include "device/runtime/kernels/cortex_m/kernels.inc"
#undef DTR_KERNEL

// All of them, sorted by name.
KernelTable kernels();

}  // namespace dtr::runtime::cortex_m
