// deuteron targets
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/targets/target_file.h"
#include "host/commands/compile_options.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

std::string mhz(uint32_t clock_hz) { return fmt::format("{} MHz", clock_hz / 1'000'000); }

std::string npu_text(const TargetDescription& target) {
  if (!has_npu(target)) return "none";
  return fmt::format("{} pipelines x {} MACs, {}", target.npu.pipelines, target.npu.macs,
                     mhz(target.npu.clock_hz));
}
std::string flash_text(const TargetDescription& target) {
  return target.memory.flash_bytes == 0 ? "outside"
                                        : fmt::format("{} KiB", target.memory.flash_bytes / 1024);
}
// The error of a time of the NPU, if published runs resemble the program.
std::string error_text(const TargetDescription& target) {
  if (!has_npu(target)) return "by kernel";
  if (target.published.empty()) return "unknown";
  const PublishedRuns& runs = target.published.front();
  if (runs.error_percent == 0) return "published runs, no band";
  return fmt::format("±{} % where published runs resemble it (--schedule nxp-like), else unknown",
                     runs.error_percent);
}

struct TargetsOptions {
  std::string json;
  bool fields = false, markdown = false;
};

const CLI::App* add_targets(CLI::App& app, TargetsOptions& o) {
  CLI::App* verb = app.add_subcommand("targets", "List the targets");
  verb->add_option("--json", o.json,
                   "Print the target of this name as a file for --target, or check such a file");
  verb->add_flag("--fields", o.fields, "List the fields of a target file");
  verb->add_flag("--markdown", o.markdown, "Print a page of the documentation");
  example(verb, "deuteron targets --json mcxn947 > my.json");
  return verb;
}

Result<void> run_targets(const CommonOptions&, const TargetsOptions& options) {
  if (!options.json.empty()) {
    DTR_ASSIGN(const TargetDescription* target, resolve_target(options.json));
    print("{}", EncodedLines{to_json(*target)});
    return {};
  }
  if (options.fields) {
    print("{}", EncodedLines{target_fields_markdown()});
    return {};
  }
  if (options.markdown)
    print(
        "| target | recipe | NPU | CPU | SRAM | flash | constants | error of a time | what it is "
        "|\n|---|---|---|---|---:|---:|---|---:|---|\n");
  for (const TargetDescription& target : all_targets()) {
    const std::string recipe = fmt::format("{}", fmt::join(target.recipe, ", ")),
                      npu = npu_text(target),
                      cpu = fmt::format("{}, {}{}", target.cpu.name, mhz(target.cpu.clock_hz),
                                        target.cpu.name == "any" ? " assumed" : "");
    const std::string sram = target.memory.sram_bytes == INT32_MAX
                                 ? "any"
                                 : fmt::format("{} KiB", target.memory.sram_bytes / 1024);
    const std::string_view constants = name(target.memory.constants);
    if (options.markdown) {
      print("| `{}` | {} | {} | {} | {} | {} | {} | {} | {} |\n", target.name, recipe, npu, cpu,
            sram, flash_text(target), constants, error_text(target), target.summary);
      continue;
    }
    print("{}\n  {}\n  recipe: {}\n  NPU: {}; CPU: {}\n", target.name, target.summary, recipe, npu,
          cpu);
    print("  SRAM: {}; flash: {}{}; constants in {}; error of a time: {}\n", sram,
          flash_text(target),
          has_npu(target)
              ? fmt::format(", {} bytes per 16 cycles", target.npu.flash_bytes_per_16_cycles)
              : std::string(),
          constants, error_text(target));
  }
  return {};
}

}  // namespace

std::unique_ptr<Verb> targets_verb() {
  return std::make_unique<VerbOf<TargetsOptions, &add_targets, &run_targets>>();
}

}  // namespace dtr::tools
