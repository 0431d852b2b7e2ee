// The backend of last resort: float kernels of the program, and whatever only moves data. Kernels are ExecuTorch's portable ones.
#pragma once

#include <memory>

#include "partitioner/backend.h"

namespace dtr {

std::unique_ptr<Backend> make_portable_backend();

}  // namespace dtr
