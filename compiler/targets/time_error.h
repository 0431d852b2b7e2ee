// The time of an inference, its error and the source of that error, as text reports, JSON, pages
// and scripts print them. The NPU's part is compared with latencies that NXP
// publishes (docs/npu.md 6, bench/calibrate.py), the CPU's part with instructions counted under
// QEMU (docs/targets.md, bench/cortex_m.py), which are not cycles of silicon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/targets/target.h"

namespace dtr {

// The work that a time was estimated for: everything that its error depends on.
struct TimedWork {
  struct CpuPart {
    std::string kernel;  // "cortex_m::quantized_conv2d.out"
    uint64_t cycles = 0;
  };

  const TargetDescription* target = nullptr;      // null: unknown
  std::optional<NpuConfiguration> configuration;  // none: unknown
  bool whole_run = true;                          // false: only some operators of a run
  uint64_t npu_cycles = 0;  // computing, the host's starts of calls and copies, and stalls
  uint32_t npu_calls = 0;
  uint64_t npu_macs = 0;
  std::vector<std::string> npu_kernels;  // of its calls: "Conv2d"; may repeat
  std::vector<CpuPart> cpu;
  uint64_t cpu_macs = 0;
  bool cpu_known = true;  // false: kernels of the CPU run, but their cycles are unknown
  bool cpu_counted =
      false;  // the CPU's cycles are counted instructions, not estimates of the compiler
};

// How far what was counted or measured may be from a figure, in percent of that figure, rounded up.
struct ErrorBounds {
  uint32_t below = 0, above = 0;
  bool operator==(const ErrorBounds&) const = default;
};
// "±44 %" or "-15/+70 %"; above 100 two digits.
std::string to_text(const ErrorBounds& bounds);
// "[-15, 70]"; "null" without a value.
std::string to_json(const std::optional<ErrorBounds>& bounds);

struct TimeError {
  // Error of the NPU's part relative to silicon, and of the CPU's estimates relative to counted
  // instructions, if each layer is as far off as the worst of its kernel. No value: there is no
  // such part, or its error is unknown.
  std::optional<ErrorBounds> npu, cpu;
  // Of the CPU's estimates in whole programs that resemble this one; no value: none does.
  std::optional<ErrorBounds> cpu_programs;
  // Error of the whole time: the parts' errors, weighted by their cycles. No value: not compared
  // with silicon.
  std::optional<ErrorBounds> whole;
  std::string
      known;  // printed after a time: "simulated ±12 %", "simulated, not compared with silicon"
  std::string reason;  // what was compared, or why nothing was; one line
};

// The error of one CPU kernel's estimate on this machine; no value: it was not counted.
std::optional<ErrorBounds> cpu_error(const TargetDescription& target, std::string_view kernel);

// Empty if published runs resemble the NPU's part of the work, else the difference. They resemble
// it if the work is a whole run, the machine, schedule and memory of constants are the same, every
// kind of kernel call occurs in a published run, and the numbers of calls and of
// multiply-accumulates are between half of the least and twice the most of the published runs.
std::string difference_from_published_runs(const TimedWork& work);

// The error of the time of this work, with its reason.
TimeError time_error(const TimedWork& work);

// "0.243 ms simulated, not compared with silicon".
std::string time_text(double milliseconds, const TimeError& error);

// The sum of the CPU's cycles.
uint64_t cpu_cycles(const TimedWork& work);
// One inference, in the same words for every verb: "76,089 cycles with the NPU + 6,564 with the CPU
// = 82,653 = 0.255 ms simulated, not compared with silicon, at 324 MHz". Without the time if
// `clock_hz`, whose cycles are counted, is 0.
std::string inference_text(const TimedWork& work, uint64_t clock_hz);
// The same as fields of a JSON object, without its braces: clock_hz, cpu_cycles, total_cycles,
// milliseconds, the errors in percent (to_json), time_known, time_error_reason. Null: not known.
std::string inference_json(const TimedWork& work, uint64_t clock_hz);

}  // namespace dtr
