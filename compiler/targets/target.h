// What a program is compiled for: machine constants and the recipe, an ordered list of backends. Data only; `compiler/` resolves
// the names.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "device/npu/target.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr {

// Where the constants of a program lie when it starts. In flash: the NPU's are copied to SRAM while it runs. In SRAM: all of the program is
// placed there by the firmware's start, and the NPU reads its constants where they are.
enum class ConstantMemory : uint8_t { kFlash, kSram };
constexpr std::string_view name(ConstantMemory memory) { return memory == ConstantMemory::kSram ? "sram" : "flash"; }

struct TargetDescription {
  std::string_view name;                     // as the command line takes it: "imxrt700"
  std::string_view summary;                  // one line for `deuteron targets`
  npu::Target npu;                           // without pipelines: clock and SRAM of a machine that has no NPU
  std::span<const std::string_view> recipe;  // backends, first choice first; the last takes everything
  cortex_m::Core core = cortex_m::Core::kDsp;
  ConstantMemory constants = ConstantMemory::kFlash;  // unless the command or a recipe asks for the other
};

inline bool has_npu(const TargetDescription& target) { return target.npu.pipelines > 0; }

std::span<const TargetDescription> all_targets();
const TargetDescription* find_target(std::string_view name);

}  // namespace dtr
