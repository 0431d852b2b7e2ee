// Selects `Loops`, the inner loops for the core of this build.
#pragma once

#include <array>

#include "device/numerics/cortex_m_scratch.h"
#include "device/runtime/kernels/cortex_m/loops_dsp.h"
#include "device/runtime/kernels/cortex_m/loops_mve.h"

namespace dtr::runtime::cortex_m {

// The cores whose programs run here: scratch must have the size for one of them. DTR_DSP_LOOPS: on
// a host, the loops of the DSP extension with emulated instructions, for tests.
#if defined(__ARM_FEATURE_MVE)
using Loops = MveLoops;
inline constexpr std::array kCores{dtr::cortex_m::Core::kMve};
#elif defined(__ARM_FEATURE_DSP) || defined(DTR_DSP_LOOPS)
using Loops = DspLoops;
inline constexpr std::array kCores{dtr::cortex_m::Core::kDsp};
#else
using Loops = PortableLoops;
inline constexpr std::array kCores{dtr::cortex_m::Core::kDsp, dtr::cortex_m::Core::kMve};
#endif

}  // namespace dtr::runtime::cortex_m
