// What a program is compiled for: machines as data, one row each in target.cpp. No field has a
// default, so that every number of a machine stands in its row. `compiler/recipes/` resolves the
// names of backends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "device/npu/target.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr {

// Where the constants of a program lie when it starts. In flash: the NPU's are copied to SRAM while
// it runs. In SRAM: all of the program is placed there by the firmware's start, and the NPU reads
// its constants where they are.
enum class ConstantMemory : uint8_t { kFlash, kSram };
constexpr std::string_view name(ConstantMemory memory) {
  return memory == ConstantMemory::kSram ? "sram" : "flash";
}

// What the float kernels take, in cycles of the CPU. Int8 kernels have theirs in
// compiler/backends/cortex_m, by core.
struct FloatCosts {
  uint32_t element;     // of a result that is computed
  uint32_t move;        // of a result that is only moved
  uint32_t quantize;    // an element
  uint32_t dequantize;  // an element
  uint32_t product;     // a multiply-accumulate
};

struct Cpu {
  std::string_view name;  // "Cortex-M33"
  cortex_m::Core core;    // which int8 kernels and scratch sizes are its own
  uint32_t clock_hz;
  FloatCosts costs;
};

struct Memories {
  uint32_t sram_bytes;       // that programs may use
  uint64_t flash_bytes;      // 0: outside of the chip, whatever the board has
  ConstantMemory constants;  // unless the command or a recipe asks for the other
};

// How the NPU's part of a program was compiled.
struct NpuConfiguration {
  bool nxp_like = false;  // --schedule
  ConstantMemory constants = ConstantMemory::kFlash;

  bool operator==(const NpuConfiguration&) const = default;
};

// Runs of a machine that somebody timed on silicon, all with one configuration: time_error.h
// compares a program with them.
struct PublishedRuns {
  NpuConfiguration configuration;
  std::span<const std::string_view> kernels;  // kinds of calls that occur
  uint32_t fewest_calls, most_calls;
  uint64_t fewest_macs, most_macs;
  std::string_view names;
  uint32_t error_percent;  // largest error of all published runs of the machine, in percent of the
                           // time that is printed
};

struct TargetDescription {
  std::string_view name;     // as the command line takes it: "imxrt700"
  std::string_view summary;  // one line for `deuteron targets`
  std::span<const std::string_view>
      recipe;       // backends, first choice first; the last takes everything
  npu::Target npu;  // zeros: there is none
  Cpu cpu;
  Memories memory;
  std::span<const PublishedRuns> published;
  bool is_test;  // no such machine exists
};

constexpr bool has_npu(const TargetDescription& target) { return target.npu.pipelines > 0; }

// The clock in whose cycles a program's time is counted: the NPU's where there is one, else the
// CPU's.
constexpr uint32_t clock_hz(const TargetDescription& target) {
  return has_npu(target) ? target.npu.clock_hz : target.cpu.clock_hz;
}
// Cycles of the CPU in those of `clock_hz`, rounded down.
constexpr uint64_t from_cpu_cycles(const TargetDescription& target, uint64_t cycles) {
  const uint64_t to = clock_hz(target), from = target.cpu.clock_hz;
  return cycles / from * to + cycles % from * to / from;
}

std::span<const TargetDescription> all_targets();
const TargetDescription* find_target(std::string_view name);
// The target of a compilation that names none: the first row.
const TargetDescription& default_target();

// Names of all targets, for messages: "imxrt700, cortex-m33, …".
std::string target_names();

}  // namespace dtr
