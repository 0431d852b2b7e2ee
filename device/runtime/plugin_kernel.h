// Calls kernels of plug-ins (device/runtime/deuteron_kernel.h).
#pragma once

#include <span>

#include "device/runtime/deuteron_kernel.h"
#include "device/runtime/kernel.h"
#include "device/runtime/program.h"

namespace dtr::runtime {

// NAME(operands, options, result…, results): a list of tensors, a string, an out tensor a result,
// and the result once more or the list of them. All tensors are contiguous. Without any value the
// kernel is only looked for. Errors: kMissingKernel; kKernelArguments; kKernelFailed with the
// kernel's own code.
Status run_plugin_kernel(std::span<const dtr_plugin* const> plugins, const OperatorName& name,
                         std::span<Value* const> values);

}  // namespace dtr::runtime
