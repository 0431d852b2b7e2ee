#include "compiler/targets/target.h"

#include <array>

namespace dtr {
namespace {

constexpr std::array<std::string_view, 2> kNeutron{"neutron", "portable"};
constexpr std::array<std::string_view, 3> kNeutronAndCortexM{"neutron", "cortex_m", "portable"};
constexpr std::array<std::string_view, 2> kCortexM{"cortex_m", "portable"};

constexpr std::array<std::string_view, 1> kExecutorch{"executorch"};

constexpr npu::Target no_npu(uint32_t clock_hz, uint32_t sram_bytes) {
  npu::Target target;
  target.pipelines = target.macs = 0;
  target.clock_hz = clock_hz;
  target.sram_bytes = sram_bytes;
  return target;
}

// One row per target. docs/npu.md gives the source of the machine's constants; what a row leaves out is the default there.
constexpr std::array kTargets{
    TargetDescription{.name = "imxrt700",
                      .summary = "i.MX RT700: eIQ Neutron N3-64 beside a Cortex-M33, 324 MHz, 7 MiB SRAM for the program",
                      .npu = {},
                      .recipe = kNeutron},
    TargetDescription{.name = "imxrt700cm",
                      .summary = "the same, int8 kernels of the Cortex-M33 for what the NPU does not run",
                      .npu = {},
                      .recipe = kNeutronAndCortexM},
    TargetDescription{.name = "cortex-m33",
                      .summary = "a Cortex-M33 with DSP extension alone; clock and SRAM of Arm's AN505 board",
                      .npu = no_npu(20'000'000, 4u << 20),
                      .recipe = kCortexM},
    TargetDescription{.name = "cortex-m55",
                      .summary = "a Cortex-M55 with MVE alone; clock and SRAM of Arm's AN547 board",
                      .npu = no_npu(32'000'000, 4u << 20),
                      .recipe = kCortexM,
                      .core = cortex_m::Core::kMve},
    TargetDescription{.name = "executorch",
                      .summary = "ExecuTorch 1.4's own runtime on any machine, with its portable and quantized kernels",
                      .npu = no_npu(1'000'000'000, INT32_MAX),
                      .recipe = kExecutorch},
};

}  // namespace

std::span<const TargetDescription> all_targets() { return kTargets; }

const TargetDescription* find_target(std::string_view name) {
  for (const TargetDescription& target : kTargets)
    if (target.name == name) return &target;
  return nullptr;
}

}  // namespace dtr
