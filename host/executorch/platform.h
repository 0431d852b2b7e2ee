// Simulated machines for `DeuteronBackend` in a process that runs ExecuTorch's own runtime, and its
// registration there.
#pragma once

#include <string>

#include "device/executorch/backend.h"

namespace dtr {

// Each opened program has a simulated NPU of its own: that of the target for which it was compiled.
// Its bytes are copied. Programs that plan more memory than their target has are refused. Reasons
// go to ExecuTorch's log.
const executorch::Platform& simulated_platform();

// Registers the backend under its name (a literal) with each library of ExecuTorch in `folder` that
// is loaded now and has a registry, once. Returns how many registries have it; a registry that has
// another backend of that name is left as it is. Which of them answers depends on the order in
// which the libraries were loaded.
size_t register_with_executorch(const std::string& folder, const char* name,
                                executorch::BackendInterface& backend);

}  // namespace dtr
