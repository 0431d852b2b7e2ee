// The fallback backend: float operators, and operators that only move data, as calls of kernels
// with the names and arguments of ExecuTorch's portable kernels.
#pragma once

#include <memory>

#include "compiler/partitioner/backend.h"
#include "compiler/targets/target.h"

namespace dtr {

// `target`, whose CPU runs the kernels, must outlive the backend.
std::unique_ptr<KernelBackend> make_portable_backend(const TargetDescription& target);
// The same, restricted to kernels of ExecuTorch 1.4's runtime (portable and quantized).
std::unique_ptr<KernelBackend> make_executorch_backend(const TargetDescription& target);

}  // namespace dtr
