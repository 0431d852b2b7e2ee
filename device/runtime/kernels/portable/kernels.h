// The portable kernels: plain C++ for what stays off the NPU. Names, argument order and results are
// those of ExecuTorch's operators; every kernel takes tensors in any dimension order. One file an
// operator, but for functions of one tensor, which share unary.cpp.
#pragma once

#include "device/runtime/kernel.h"

namespace dtr::runtime::portable {

#define DTR_KERNEL(function, name, file) Error function(std::span<Value* const> arguments);
#include "device/runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL

// All of them, sorted by name.
KernelTable kernels();

}  // namespace dtr::runtime::portable
