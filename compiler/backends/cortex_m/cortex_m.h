// The int8 kernels of a Cortex-M (device/runtime/kernels/cortex_m): TFLite's integer specification,
// channels-last, one kernel call an operator.
#pragma once

#include <memory>

#include "compiler/partitioner/backend.h"
#include "compiler/targets/target.h"

namespace dtr {

// `target` must outlive the backend: its core chooses kernels, scratch and costs.
std::unique_ptr<KernelBackend> make_cortex_m_backend(const TargetDescription& target);

}  // namespace dtr
