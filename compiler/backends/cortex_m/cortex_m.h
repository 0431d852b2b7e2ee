// The int8 kernels of a Cortex-M (device/runtime/kernels/cortex_m): TFLite's integer specification, channels-last, one kernel call an
// operator.
#pragma once

#include <memory>

#include "compiler/partitioner/backend.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr {

std::unique_ptr<Backend> make_cortex_m_backend(cortex_m::Core core);

}  // namespace dtr
