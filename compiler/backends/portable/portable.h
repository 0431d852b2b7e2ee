// The backend of last resort: float kernels of the program, and whatever only moves data. Kernels are ExecuTorch's portable ones.
#pragma once

#include <memory>

#include "compiler/partitioner/backend.h"

namespace dtr {

std::unique_ptr<Backend> make_portable_backend();
// The same, with nothing but kernels of ExecuTorch 1.4's runtime (portable and quantized).
std::unique_ptr<Backend> make_executorch_backend();

}  // namespace dtr
