// The parameters of an NPU. `docs/npu.md` explains the machine; compiler/targets/target.cpp has a
// row for each machine, with the source of every number. No field has a default: a row without one
// does not compile. Freestanding.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace dtr::npu {

// All zeros: no NPU.
struct Target {
  // Parameters that microcode depends on (`format_hash`).
  uint32_t pipelines;      // M: dot-product units that share one operand vector
  uint32_t macs;           // N: int8 products a unit adds per cycle
  uint32_t max_reduction;  // limit of KH · KW · round_up(Cin, N) of one accumulation
  uint32_t max_kernel;     // kernel extent, stride and dilation per axis
  // Parameters that only timing depends on.
  uint32_t accumulators;     // A: 32-bit accumulators per unit, each for another output position
  uint32_t activation_port;  // bytes per cycle from SRAM to the shared operand
  uint32_t weight_port;      // bytes per cycle from SRAM to the units' own operands, parameters,
                             // tables, second inputs
  uint32_t write_port;       // bytes per cycle to SRAM
  uint32_t call_npu_cycles;  // start of a kernel call on the NPU: argument fetch, pipeline fill and
                             // drain
  uint32_t call_host_cycles;   // host's blocking cost of a kernel call, in NPU cycles
  uint32_t copy_host_cycles;   // host's cost to start a copy, in NPU cycles
  uint32_t copy_setup_cycles;  // latency of the copy engine before the first byte
  // Parameters of the board.
  uint32_t flash_bytes_per_16_cycles;  // copy bandwidth flash → SRAM
  uint32_t sram_bytes;                 // available to programs
  uint32_t clock_hz;

  constexpr bool operator==(const Target&) const = default;
};

// True if the parameters are plausible: no division by zero, and no sum of a few of them exceeds 32
// bits.
constexpr bool is_machine(const Target& target) {
  constexpr uint32_t kMostLanes = 1024, kMostCycles = 1u << 24, kMostBytes = 1u << 30;
  for (const uint32_t lanes :
       {target.pipelines, target.macs, target.accumulators, target.activation_port,
        target.weight_port, target.write_port, target.flash_bytes_per_16_cycles})
    if (lanes == 0 || lanes > kMostLanes) return false;
  for (const uint32_t cycles : {target.call_npu_cycles, target.call_host_cycles,
                                target.copy_host_cycles, target.copy_setup_cycles})
    if (cycles > kMostCycles) return false;
  return target.max_reduction > 0 && target.max_reduction <= 65536 && target.max_kernel > 0 &&
         target.max_kernel <= 4096 && target.sram_bytes > 0 && target.sram_bytes <= kMostBytes &&
         target.clock_hz > 0;
}

// Identifies the microcode that a machine understands. A program for one machine runs on every
// other of equal hash if it has enough SRAM: boards may differ in clocks, ports, SRAM and flash. A
// machine of another hash rejects it. FNV-1a, with a basis chosen so that programs for 8 × 8 lanes
// keep the hash that they had when it still covered the board.
constexpr uint32_t format_hash(const Target& target) {
  uint32_t state = 0xED2076D8u;
  for (const uint32_t field :
       {target.pipelines, target.macs, target.max_reduction, target.max_kernel})
    for (uint32_t shift = 0; shift < 32; shift += 8)
      state = (state ^ ((field >> shift) & 0xFFu)) * 16777619u;
  return state;
}

constexpr uint32_t div_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
constexpr uint32_t round_up(uint32_t a, uint32_t b) { return div_up(a, b) * b; }

}  // namespace dtr::npu
