// The NPU as parameters. `docs/npu.md` explains the machine and gives the source of every number. Freestanding.
#pragma once

#include <cstdint>

namespace dtr::npu {

struct Target {
  uint32_t pipelines = 8;                   // M: dot-product units that share one operand vector
  uint32_t macs = 8;                        // N: int8 products a unit adds per cycle
  uint32_t accumulators = 8;                // A: 32-bit accumulators per unit, each for another output position
  uint32_t activation_port = 8;             // bytes per cycle from SRAM to the shared operand
  uint32_t weight_port = 8;                 // bytes per cycle from SRAM to the units' own operands, parameters, tables, second inputs
  uint32_t write_port = 8;                  // bytes per cycle to SRAM
  uint32_t call_npu_cycles = 64;            // start of a kernel call on the NPU: argument fetch, pipeline fill and drain
  uint32_t call_host_cycles = 8000;         // host's blocking cost of a kernel call, in NPU cycles
  uint32_t copy_host_cycles = 400;          // host's cost to start a copy
  uint32_t copy_setup_cycles = 200;         // latency of the copy engine before the first byte
  uint32_t flash_bytes_per_16_cycles = 10;  // copy bandwidth flash → SRAM
  uint32_t sram_bytes = 7u << 20;           // of 7.5 MB: 0.5 MB stay with the host's firmware and stack
  uint32_t clock_hz = 324'000'000;
  uint32_t max_reduction = 65535;  // limit of KH · KW · round_up(Cin, N) of one accumulation
  uint32_t max_kernel = 4096;      // kernel extent, stride and dilation per axis

  constexpr bool operator==(const Target&) const = default;
};

// FNV-1a over the fields: a program compiled for another machine is refused.
constexpr uint32_t hash(const Target& target) {
  const uint32_t fields[] = {target.pipelines,
                             target.macs,
                             target.accumulators,
                             target.activation_port,
                             target.weight_port,
                             target.write_port,
                             target.call_npu_cycles,
                             target.call_host_cycles,
                             target.copy_host_cycles,
                             target.copy_setup_cycles,
                             target.flash_bytes_per_16_cycles,
                             target.sram_bytes,
                             target.clock_hz,
                             target.max_reduction,
                             target.max_kernel};
  uint32_t state = 2166136261u;
  for (const uint32_t field : fields)
    for (uint32_t shift = 0; shift < 32; shift += 8) state = (state ^ ((field >> shift) & 0xFFu)) * 16777619u;
  return state;
}

constexpr uint32_t div_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
constexpr uint32_t round_up(uint32_t a, uint32_t b) { return div_up(a, b) * b; }

}  // namespace dtr::npu
