// The portable kernels: plain C++ for operators that do not run on the NPU. Names, argument order
// and results are those of ExecuTorch's operators; every kernel takes tensors in any dimension
// order. There is a file for each operator; functions of one tensor share unary.cpp.
#pragma once

#include "device/runtime/kernel.h"

namespace dtr::runtime::portable {

#define DTR_KERNEL(function, name, file) Error function(std::span<Value* const> arguments);
#include "device/runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL

// All of them, sorted by name.
KernelTable kernels();

}  // namespace dtr::runtime::portable
