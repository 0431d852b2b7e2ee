// How far a printed time may be from the truth, and from what that is known. The text reports,
// JSON, pages and scripts all take it from here. The NPU's part is held against latencies that NXP
// publishes (docs/npu.md 6, bench/calibrate.py), the CPU's against instructions that were counted
// under QEMU (docs/targets.md, bench/cortex_m.py), which are not cycles of silicon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"

namespace dtr {

// What a time is of: all that its error depends on.
struct TimedWork {
  struct CpuPart {
    std::string kernel;  // "cortex_m::quantized_conv2d.out"
    uint64_t cycles = 0;
  };

  const TargetDescription* target = nullptr;      // null: not known
  std::optional<NpuConfiguration> configuration;  // none: not known
  bool whole_run = true;                          // not only some operators of one
  uint64_t npu_cycles = 0;  // it computes, the host starts calls and copies, the host waits
  uint32_t npu_calls = 0;
  uint64_t npu_macs = 0;
  std::vector<std::string> npu_kernels;  // of its calls: "Conv2d", perhaps more than once
  std::vector<CpuPart> cpu;
  bool cpu_counted =
      false;  // cycles of the CPU are counted instructions, not the compiler's estimates
};

struct TimeError {
  // Of the NPU's part against silicon, of the CPU's estimates against counted instructions; percent
  // of the part, either way, rounded up. None: there is no such part, or its error is not known.
  std::optional<uint32_t> npu_percent, cpu_percent;
  // Of the whole time, percent, either way: the parts' errors added, weighted by their cycles.
  // None: not compared with silicon.
  std::optional<uint32_t> percent;
  std::string
      known;  // stands behind a time: "simulated ±12 %", "simulated, not compared with silicon"
  std::string reason;  // what was compared with what, or why nothing was; a line
};

// Empty if published runs resemble the NPU's part of the work, else why they do not. They do if all
// of this holds: the work is a run from its start to its end; the machine is the one that they ran
// on; schedule and memory of constants are theirs; it has no kind of kernel call that none of them
// has; its number of calls and of multiply-accumulates are neither below half of the least of
// theirs nor above twice the most.
std::string difference_from_published_runs(const TimedWork& work);

TimeError time_error(const TimedWork& work);

// "0.243 ms simulated, not compared with silicon".
std::string time_text(double milliseconds, const TimeError& error);

}  // namespace dtr
