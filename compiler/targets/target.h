// The machines that programs are compiled for, as data: one row each in target.cpp. No field has a
// default, so that every number of a machine is in its row. `compiler/recipes/` resolves the names
// of backends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "device/npu/target.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr {

// Where the constants of a program are when it starts. In flash: the NPU's constants are copied to
// SRAM while it runs. In SRAM: the firmware's startup copies the whole program there, and the NPU
// reads constants in place.
enum class ConstantMemory : uint8_t { kFlash, kSram };
constexpr std::string_view name(ConstantMemory memory) {
  return memory == ConstantMemory::kSram ? "sram" : "flash";
}

struct Cpu {
  std::string_view name;  // "Cortex-M33"
  cortex_m::Core core;    // selects int8 kernels and scratch sizes
  uint32_t clock_hz;
  // Cycles of the portable kernels, which compute in float32, in percent of the instructions that
  // were counted on a Cortex-M33 (compiler/backends/portable/costs.inc). Costs of int8 kernels are
  // in compiler/backends/cortex_m, by core.
  uint32_t float_percent = 100;
};

struct Memories {
  uint32_t sram_bytes;       // available to programs
  uint64_t flash_bytes;      // 0: external, its size depends on the board
  ConstantMemory constants;  // the default; the command line or a recipe can override it
};

// The options with which the NPU's part of a program was compiled.
struct NpuConfiguration {
  bool nxp_like = false;  // --schedule
  ConstantMemory constants = ConstantMemory::kFlash;

  bool operator==(const NpuConfiguration&) const = default;
};

// Published runs of a machine, measured on silicon, all with one configuration; time_error.h
// compares a program with them.
struct PublishedRuns {
  NpuConfiguration configuration;
  std::span<const std::string_view> kernels;  // kinds of kernel calls in them
  uint32_t fewest_calls, most_calls;
  uint64_t fewest_macs, most_macs;
  std::string_view names;
  uint32_t error_percent;  // largest error of the machine's runs, percent of the time that is
                           // printed; 0: the place of their constants is unknown, so is it
};

struct TargetDescription {
  std::string_view name;     // on the command line: "imxrt700"
  std::string_view summary;  // one line for `deuteron targets`
  std::span<const std::string_view>
      recipe;       // backends, first choice first; the last one is the fallback
  npu::Target npu;  // all zeros: the machine has none
  Cpu cpu;
  Memories memory;
  std::span<const PublishedRuns> published;
  bool is_test;  // the machine exists in tests only: pages of the docs leave it out
};

constexpr bool has_npu(const TargetDescription& target) { return target.npu.pipelines > 0; }

// The clock whose cycles a program's time is counted in: the NPU's if the target has one, else the
// CPU's.
constexpr uint32_t clock_hz(const TargetDescription& target) {
  return has_npu(target) ? target.npu.clock_hz : target.cpu.clock_hz;
}
// Converts cycles of the CPU to cycles of `clock_hz`, rounded down.
constexpr uint64_t from_cpu_cycles(const TargetDescription& target, uint64_t cycles) {
  const uint64_t to = clock_hz(target), from = target.cpu.clock_hz;
  return cycles / from * to + cycles % from * to / from;
}

std::span<const TargetDescription> all_targets();
// nullptr if there is no target of this name.
const TargetDescription* find_target(std::string_view name);
// The target of a compilation that names none: the first row.
const TargetDescription& default_target();

// Names of all targets, for messages: "imxrt700, cortex-m33, …".
std::string target_names();

}  // namespace dtr
