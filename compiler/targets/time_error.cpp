#include "compiler/targets/time_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

constexpr uint64_t kReach =
    2;  // below half of the least and above twice the most nothing resembles

// Largest difference between estimate and counted instructions of a layer, in percent of the
// estimate, by kernel and core; 0: not counted.
struct CpuError {
  std::string_view kernel;
  uint32_t dsp, mve;
};
constexpr CpuError kCpuErrors[] = {
#define DTR_CPU_ERROR(kernel, dsp, mve) {kernel, dsp, mve},
#include "compiler/targets/cpu_errors.inc"
#undef DTR_CPU_ERROR
};

uint32_t cpu_error(const TimedWork& work, std::string_view kernel) {
  const auto* row = std::ranges::find(kCpuErrors, kernel, &CpuError::kernel);
  if (row == std::end(kCpuErrors) || work.target == nullptr) return 0;
  return work.target->cpu.core == cortex_m::Core::kMve ? row->mve : row->dsp;
}

// The CPU's part: cycles, and how far off they may be. Real numbers: sums of the cycles that a
// damaged trace claims may not fit an integer, and an error stays in proportion to them.
struct CpuPart {
  double cycles = 0;
  double error = 0;                         // in cycles
  std::set<std::string_view> not_compared;  // kernels
};
CpuPart cpu_part(const TimedWork& work) {
  CpuPart part;
  for (const TimedWork::CpuPart& kernel : work.cpu) {
    part.cycles += static_cast<double>(kernel.cycles);
    if (kernel.cycles == 0 || work.cpu_counted) continue;
    const uint32_t percent = cpu_error(work, kernel.kernel);
    if (percent == 0) part.not_compared.insert(kernel.kernel);
    part.error += static_cast<double>(kernel.cycles) * percent / 100;
  }
  return part;
}

uint32_t percent_of(double error, double cycles) {
  return static_cast<uint32_t>(std::ceil(100 * error / cycles - 1e-9));
}

// No time is below zero: an error of more than the time itself is one upwards, and its last digit
// tells nothing.
std::string band(uint32_t percent) {
  return percent < 100 ? fmt::format("±{} %", percent)
                       : fmt::format("-100 to +{} %", (percent + 9) / 10 * 10);
}

double milliseconds(uint64_t cycles, uint64_t clock_hz) {
  return static_cast<double>(cycles) / static_cast<double>(clock_hz) * 1e3;
}

std::string in_millions(uint64_t count) {
  return fmt::format("{:.1f}", static_cast<double>(count) / 1e6);
}

bool within_reach(uint64_t value, uint64_t least, uint64_t most) {
  return value >= least / kReach && value <= most * kReach;
}

std::string cpu_reason(const TimedWork& work, const CpuPart& part, const TimeError& error) {
  if (work.cpu_counted) return "CPU: instructions counted in QEMU, which are not cycles";
  if (error.cpu_percent)
    return *error.cpu_percent < 100
               ? fmt::format("CPU: within {} % of instructions counted in QEMU", *error.cpu_percent)
               : fmt::format(
                     "CPU: instructions counted in QEMU are up to {:.1f} times the estimate",
                     std::ceil((100 + *error.cpu_percent) / 10.0) / 10);
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
    return "its schedule and the place of its constants are not known: the program says them";
  const NpuConfiguration& own = *work.configuration;
  const std::span<const PublishedRuns> published = work.target->published;
  if (published.empty()) return fmt::format("no figure is published for {}", work.target->name);
  if (published.front().error_percent == 0)
    return fmt::format("the place of constants in published runs ({}) is unknown: no band",
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

TimeError time_error(const TimedWork& work) {
  TimeError error;
  const CpuPart cpu = cpu_part(work);
  const auto npu_cycles = static_cast<double>(work.npu_cycles);
  std::vector<std::string> reasons;
  if (work.npu_cycles > 0) {
    const std::string unlike = difference_from_published_runs(work);
    if (unlike.empty()) error.npu_percent = runs_like(work)->error_percent;
    reasons.push_back(unlike.empty()
                          ? fmt::format("NPU: ±{} % by published runs", *error.npu_percent)
                          : "NPU: " + unlike);
  }
  if (!work.cpu_known) {
    reasons.emplace_back("CPU: without its debug map the program does not say what kernels cost");
  } else if (cpu.cycles > 0) {
    if (cpu.not_compared.empty() && !work.cpu_counted)
      error.cpu_percent = percent_of(cpu.error, cpu.cycles);
    reasons.push_back(cpu_reason(work, cpu, error));
  }
  const bool cpu_is_known = work.cpu_known && cpu.not_compared.empty();
  if (error.npu_percent && cpu_is_known)
    error.percent =
        percent_of(npu_cycles * *error.npu_percent / 100 + cpu.error, npu_cycles + cpu.cycles);

  if (error.percent) {
    error.known = fmt::format("simulated {}", band(*error.percent));
  } else if (work.npu_cycles > 0) {
    error.known = "simulated, not compared with silicon";
  } else {
    error.known = (work.cpu_counted    ? std::string("of counted instructions")
                   : error.cpu_percent ? fmt::format("estimated {} of counted instructions",
                                                     band(*error.cpu_percent))
                                       : std::string("estimated")) +
                  ", not compared with silicon";
  }
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
    text +=
        fmt::format(" = {}, at {} MHz", time_text(milliseconds(total, clock_hz), time_error(work)),
                    clock_hz / 1'000'000);
  return work.cpu_known ? text : text + "; cycles of the CPU not known (no debug map)";
}

std::string inference_json(const TimedWork& work, uint64_t clock_hz) {
  const uint64_t cpu = cpu_cycles(work), total = work.npu_cycles + cpu;
  const TimeError error = time_error(work);
  const auto or_null = [](bool known, auto value) {
    return known ? fmt::to_string(value) : std::string("null");
  };
  const auto percent = [&](std::optional<uint32_t> value) {
    return or_null(value.has_value(), value.value_or(0));
  };
  return fmt::format(
      "\"clock_hz\": {}, \"cpu_cycles\": {}, \"total_cycles\": {}, \"milliseconds\": {}, "
      "\"time_error_percent\": {}, \"npu_error_percent\": {}, \"cpu_error_percent\": {}, "
      "\"time_known\": {}, \"time_error_reason\": {}",
      or_null(clock_hz > 0, clock_hz), or_null(work.cpu_known, cpu), or_null(work.cpu_known, total),
      work.cpu_known && clock_hz > 0 ? fmt::format("{:.6f}", milliseconds(total, clock_hz))
                                     : "null",
      percent(error.percent), percent(error.npu_percent), percent(error.cpu_percent),
      json_quote(error.known), json_quote(error.reason));
}

}  // namespace dtr
