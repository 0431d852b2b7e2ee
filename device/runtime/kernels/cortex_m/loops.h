// `Loops`: the inner loops of the core that is compiled for, and what follows from them.
#pragma once

#include <array>

#include "device/numerics/cortex_m_scratch.h"
#include "device/runtime/kernels/cortex_m/loops_dsp.h"
#include "device/runtime/kernels/cortex_m/loops_mve.h"

namespace dtr::runtime::cortex_m {

// Programs for these cores run: scratch has the size that one of them wants. DTR_DSP_LOOPS: on a
// host, those of the DSP extension on its stand-ins, for tests.
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
