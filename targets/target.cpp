#include "targets/target.h"

#include <array>

namespace dtr {
namespace {

constexpr std::array<std::string_view, 2> kNeutronThenPortable{"neutron", "portable"};

// One row per target. docs/npu.md gives the source of the machine's constants; what a row leaves out is the default there.
constexpr std::array kTargets{
    TargetDescription{.name = "imxrt700",
                      .summary = "i.MX RT700: eIQ Neutron N3-64 beside a Cortex-M33, 324 MHz, 7 MiB SRAM for the program",
                      .npu = {},
                      .recipe = kNeutronThenPortable},
};

}  // namespace

std::span<const TargetDescription> all_targets() { return kTargets; }

const TargetDescription* find_target(std::string_view name) {
  for (const TargetDescription& target : kTargets)
    if (target.name == name) return &target;
  return nullptr;
}

}  // namespace dtr
