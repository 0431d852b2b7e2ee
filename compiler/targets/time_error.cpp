#include "compiler/targets/time_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/plugins/plugins.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

constexpr uint64_t kReach =
    2;  // below half of the least and above twice the most nothing resembles

// By kernel and core; no error at all: not counted. See cpu_errors.inc.
struct CpuError {
  std::string_view kernel;
  ErrorBounds dsp, mve;
};
constexpr CpuError kCpuErrors[] = {
#define DTR_CPU_ERROR(kernel, dsp_below, dsp_above, mve_below, mve_above) \
  {kernel, {dsp_below, dsp_above}, {mve_below, mve_above}},
#define DTR_CPU_PROGRAMS(...)
#define DTR_CPU_PROGRAM_KERNEL(kernel)
#include "compiler/targets/cpu_errors.inc"
#undef DTR_CPU_PROGRAM_KERNEL
#undef DTR_CPU_PROGRAMS
#undef DTR_CPU_ERROR
};

// Whole programs whose instructions were counted: errors of their estimates, and what they are.
struct CountedPrograms {
  ErrorBounds dsp, mve;
  uint64_t fewest_macs, most_macs;
};
constexpr CountedPrograms kPrograms =
#define DTR_CPU_ERROR(...)
#define DTR_CPU_PROGRAMS(dsp_below, dsp_above, mve_below, mve_above, fewest, most) \
  {{dsp_below, dsp_above}, {mve_below, mve_above}, fewest, most};
#define DTR_CPU_PROGRAM_KERNEL(kernel)
#include "compiler/targets/cpu_errors.inc"
#undef DTR_CPU_PROGRAM_KERNEL
#undef DTR_CPU_PROGRAMS
#undef DTR_CPU_ERROR
    constexpr std::string_view kProgramKernels[] = {
#define DTR_CPU_ERROR(...)
#define DTR_CPU_PROGRAMS(...)
#define DTR_CPU_PROGRAM_KERNEL(kernel) kernel,
#include "compiler/targets/cpu_errors.inc"
#undef DTR_CPU_PROGRAM_KERNEL
#undef DTR_CPU_PROGRAMS
#undef DTR_CPU_ERROR
};

// A target that is any machine has a clock for the sake of its figures, and kernels of others:
// ExecuTorch's have the names of those that were counted.
bool is_assumed(const TargetDescription& target) { return target.cpu.name == "any"; }

const ErrorBounds& of_core(const TargetDescription& target, const ErrorBounds& dsp,
                           const ErrorBounds& mve) {
  return target.cpu.core == cortex_m::Core::kMve ? mve : dsp;
}

// Whose instructions were counted (bench/cortex_m.py), where that is not the target's CPU:
// " of a Cortex-M33" for a Cortex-M7, which has the same kernels.
std::string of_counted_core(const TargetDescription& target) {
  const std::string_view counted =
      target.cpu.core == cortex_m::Core::kMve ? "Cortex-M55" : "Cortex-M33";
  return target.cpu.name == counted ? "" : fmt::format(" of a {}", counted);
}

// An error in units of what it is of. Real numbers: sums of the cycles that a damaged trace claims
// may not fit an integer, and an error stays in proportion to them.
struct Error {
  double below = 0, above = 0;

  void add(double cycles, const ErrorBounds& bounds) {
    below += cycles * bounds.below / 100;
    above += cycles * bounds.above / 100;
  }
  ErrorBounds percent_of(double cycles) const {
    const auto percent = [&](double part) {
      return static_cast<uint32_t>(std::ceil(100 * part / cycles - 1e-9));
    };
    return {percent(below), percent(above)};
  }
};

// The CPU's part: cycles, and how far off they may be.
struct CpuPart {
  double cycles = 0;
  Error error;
  std::set<std::string_view> not_compared;  // kernels
  std::set<std::string_view> of_plugins;    // kernels, whose cycles are not known
};
CpuPart cpu_part(const TimedWork& work) {
  CpuPart part;
  for (const TimedWork::CpuPart& kernel : work.cpu) {
    const auto cycles = static_cast<double>(kernel.cycles);
    part.cycles += cycles;
    if (work.cpu_counted) continue;
    if (find_plugin_kernel(kernel.kernel) != nullptr) part.of_plugins.insert(kernel.kernel);
    if (kernel.cycles == 0) continue;
    const std::optional<ErrorBounds> bounds =
        work.target == nullptr ? std::nullopt : cpu_error(*work.target, kernel.kernel);
    if (bounds)
      part.error.add(cycles, *bounds);
    else
      part.not_compared.insert(kernel.kernel);
  }
  return part;
}

bool within_reach(uint64_t value, uint64_t least, uint64_t most) {
  return value >= least / kReach && value <= most * kReach;
}

// Whether the programs that were counted as a whole resemble this one: it runs on the CPU alone,
// with their kernels, and with as many multiply-accumulates.
bool resembles_counted_programs(const TimedWork& work) {
  return work.whole_run && work.target != nullptr && work.npu_cycles == 0 && !work.cpu_counted &&
         within_reach(work.cpu_macs, kPrograms.fewest_macs, kPrograms.most_macs) &&
         std::ranges::all_of(work.cpu, [](const TimedWork::CpuPart& part) {
           return part.cycles == 0 ||
                  std::ranges::find(kProgramKernels, part.kernel) != std::end(kProgramKernels);
         });
}

double milliseconds(uint64_t cycles, uint64_t clock_hz) {
  return static_cast<double>(cycles) / static_cast<double>(clock_hz) * 1e3;
}

std::string in_millions(uint64_t count) {
  return fmt::format("{:.1f}", static_cast<double>(count) / 1e6);
}

std::string cpu_reason(const TimedWork& work, const CpuPart& part, const TimeError& error) {
  if (work.cpu_counted) return "CPU: instructions counted in QEMU, which are not cycles";
  if (!part.of_plugins.empty())
    return fmt::format("CPU: the cost of {} is not known and not counted: a plug-in's kernel",
                       fmt::join(part.of_plugins, ", "));
  if (error.cpu)
    return fmt::format("CPU: {} by instructions{} counted in QEMU, each layer at its worst{}",
                       to_text(*error.cpu), of_counted_core(*work.target),
                       error.cpu_programs ? fmt::format("; whole programs like it {}",
                                                        to_text(*error.cpu_programs))
                                          : "");
  if (work.target == nullptr) return "CPU: its core is not known";
  const size_t more = part.not_compared.size() - 1;
  return fmt::format("CPU: the estimate of {}{} was never held against a count",
                     *part.not_compared.begin(),
                     more == 0 ? "" : fmt::format(" (and {} more)", more));
}

// With the work's configuration on its machine; null: none.
const PublishedRuns* runs_like(const TimedWork& work) {
  const auto row =
      std::ranges::find(work.target->published, *work.configuration, &PublishedRuns::configuration);
  return row == work.target->published.end() ? nullptr : &*row;
}

}  // namespace

std::string difference_from_published_runs(const TimedWork& work) {
  if (!work.whole_run) return "published figures are of whole runs, not of operators";
  if (work.target == nullptr) return "its target is not known";
  if (!work.configuration)
    return "its schedule and the memory of its constants are not known without the program";
  const NpuConfiguration& own = *work.configuration;
  const std::span<const PublishedRuns> published = work.target->published;
  if (published.empty()) return fmt::format("no figure is published for {}", work.target->name);
  if (published.front().error_percent == 0)
    return fmt::format("what published runs ({}) include is unknown: no band",
                       published.front().names);
  const PublishedRuns* row = runs_like(work);
  if (row == nullptr)
    return own.nxp_like
               ? fmt::format("no published run has its constants in {}", name(own.constants))
               : "no published run has Deuteron's own schedule";
  for (const std::string& kernel : work.npu_kernels)
    if (std::ranges::find(row->kernels, kernel) == row->kernels.end())
      return fmt::format("NXP published no time for a program with a {} kernel", kernel);
  if (!within_reach(work.npu_calls, row->fewest_calls, row->most_calls))
    return fmt::format("published runs ({}) have {} to {} calls, this one has {}", row->names,
                       row->fewest_calls, row->most_calls, work.npu_calls);
  if (!within_reach(work.npu_macs, row->fewest_macs, row->most_macs))
    return fmt::format(
        "published runs ({}) have {} to {} million multiply-accumulates, this one has {}",
        row->names, in_millions(row->fewest_macs), in_millions(row->most_macs),
        in_millions(work.npu_macs));
  return {};
}

std::string to_text(const ErrorBounds& bounds) {
  const auto rounded = [](uint32_t percent) {
    uint32_t unit = 1;
    while (percent / unit >= 100) unit *= 10;
    return (percent + unit - 1) / unit * unit;
  };
  return bounds.below == bounds.above
             ? fmt::format("±{} %", rounded(bounds.below))
             : fmt::format("-{}/+{} %", rounded(bounds.below), rounded(bounds.above));
}

std::string to_json(const std::optional<ErrorBounds>& bounds) {
  return bounds ? fmt::format("[-{}, {}]", bounds->below, bounds->above) : "null";
}

std::optional<ErrorBounds> cpu_error(const TargetDescription& target, std::string_view kernel) {
  const auto* row = std::ranges::find(kCpuErrors, kernel, &CpuError::kernel);
  if (row == std::end(kCpuErrors) || is_assumed(target)) return std::nullopt;
  const ErrorBounds& bounds = of_core(target, row->dsp, row->mve);
  return bounds == ErrorBounds{} ? std::nullopt : std::optional(bounds);
}

TimeError time_error(const TimedWork& work) {
  TimeError error;
  const CpuPart cpu = cpu_part(work);
  const auto npu_cycles = static_cast<double>(work.npu_cycles);
  std::vector<std::string> reasons;
  if (work.npu_cycles > 0) {
    const std::string unlike = difference_from_published_runs(work);
    if (unlike.empty()) {
      const uint32_t percent = runs_like(work)->error_percent;
      error.npu = ErrorBounds{percent, percent};
    }
    reasons.push_back(error.npu ? fmt::format("NPU: {} by published runs", to_text(*error.npu))
                                : "NPU unknown: " + unlike);
  }
  if (!work.cpu_known) {
    reasons.emplace_back("CPU: the cost of kernels is not known without the program's debug map");
  } else if (cpu.cycles > 0 || !cpu.of_plugins.empty()) {
    if (cpu.not_compared.empty() && cpu.of_plugins.empty() && !work.cpu_counted) {
      error.cpu = cpu.error.percent_of(cpu.cycles);
      if (resembles_counted_programs(work))
        error.cpu_programs = of_core(*work.target, kPrograms.dsp, kPrograms.mve);
    }
    reasons.push_back(cpu_reason(work, cpu, error));
  }
  const bool cpu_is_known = work.cpu_known && cpu.not_compared.empty() && cpu.of_plugins.empty();
  if (error.npu && cpu_is_known) {
    Error sum = cpu.error;
    sum.add(npu_cycles, *error.npu);
    error.whole = sum.percent_of(npu_cycles + cpu.cycles);
  }

  if (error.whole) {
    error.known = fmt::format("simulated {}", to_text(*error.whole));
  } else if (work.npu_cycles > 0) {
    error.known = "simulated, not compared with silicon";
  } else {
    error.known = work.cpu_counted ? "of counted instructions" : "estimated";
    if (error.cpu && !work.cpu_counted)
      error.known += fmt::format(" {} by counted instructions{}", to_text(*error.cpu),
                                 of_counted_core(*work.target));
    error.known += ", not compared with silicon";
  }
  if (!cpu.of_plugins.empty())
    error.known += ", without plug-ins' kernels, whose cost is not known";
  error.reason = fmt::format("{}", fmt::join(reasons, "; "));
  return error;
}

std::string time_text(double milliseconds, const TimeError& error) {
  return fmt::format("{:.3f} ms {}", milliseconds, error.known);
}

uint64_t cpu_cycles(const TimedWork& work) {
  uint64_t sum = 0;
  for (const TimedWork::CpuPart& kernel : work.cpu) sum += kernel.cycles;
  return sum;
}

std::string inference_text(const TimedWork& work, uint64_t clock_hz) {
  const uint64_t cpu = cpu_cycles(work), total = work.npu_cycles + cpu;
  if (work.npu_cycles == 0 && !work.cpu_known) return "cycles not known (no debug map)";
  std::string text;
  if (work.npu_cycles == 0)
    text = fmt::format("{}{} cycles", work.cpu_counted ? "" : "about ", with_thousands(total));
  else if (cpu == 0)
    text = fmt::format("{} cycles with the NPU", with_thousands(total));
  else
    text = fmt::format("{} cycles with the NPU + {} with the CPU = {}",
                       with_thousands(work.npu_cycles), with_thousands(cpu), with_thousands(total));
  if (clock_hz > 0)
    text += fmt::format(
        " = {}, at {} MHz{}", time_text(milliseconds(total, clock_hz), time_error(work)),
        clock_hz / 1'000'000, work.target != nullptr && is_assumed(*work.target) ? " assumed" : "");
  return work.cpu_known ? text : text + "; cycles of the CPU not known (no debug map)";
}

std::string inference_json(const TimedWork& work, uint64_t clock_hz) {
  const uint64_t cpu = cpu_cycles(work), total = work.npu_cycles + cpu;
  const TimeError error = time_error(work);
  const auto or_null = [](bool known, auto value) {
    return known ? fmt::to_string(value) : std::string("null");
  };
  return fmt::format(
      "\"clock_hz\": {}, \"cpu_cycles\": {}, \"total_cycles\": {}, \"milliseconds\": {}, "
      "\"time_error_percent\": {}, \"npu_error_percent\": {}, \"cpu_error_percent\": {}, "
      "\"time_known\": {}, \"time_error_reason\": {}",
      or_null(clock_hz > 0, clock_hz), or_null(work.cpu_known, cpu), or_null(work.cpu_known, total),
      work.cpu_known && clock_hz > 0 ? fmt::format("{:.6f}", milliseconds(total, clock_hz))
                                     : "null",
      to_json(error.whole), to_json(error.npu), to_json(error.cpu), json_quote(error.known),
      json_quote(error.reason));
}

}  // namespace dtr
