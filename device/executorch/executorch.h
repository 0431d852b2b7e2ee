// What a backend sees of ExecuTorch, as namespace dtr::executorch: ExecuTorch's own headers where
// DTR_EXECUTORCH_HEADERS is defined, else our declarations of the same.
#pragma once

#ifdef DTR_EXECUTORCH_HEADERS

#include <executorch/runtime/backend/interface.h>

namespace dtr::executorch {

using namespace ::executorch::runtime;  // NOLINT(google-build-using-namespace)
using ::executorch::aten::ScalarType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;

}  // namespace dtr::executorch

#else

#include "device/executorch/abi.h"

#endif
