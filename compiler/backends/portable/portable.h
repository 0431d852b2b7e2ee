// The backend of last resort: float kernels of the program, and whatever only moves data. Kernels
// are ExecuTorch's portable ones.
#pragma once

#include <memory>

#include "compiler/partitioner/backend.h"
#include "compiler/targets/target.h"

namespace dtr {

// `target`, whose CPU runs the kernels, must outlive the backend.
std::unique_ptr<KernelBackend> make_portable_backend(const TargetDescription& target);
// The same, with nothing but kernels of ExecuTorch 1.4's runtime (portable and quantized).
std::unique_ptr<KernelBackend> make_executorch_backend(const TargetDescription& target);

}  // namespace dtr
