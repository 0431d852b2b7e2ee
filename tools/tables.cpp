// deuteron targets, deuteron ops
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/ops/ops.h"
#include "compiler/recipes/recipe.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {

Result<const TargetDescription*> resolve_target(const std::string& name) {
  if (const TargetDescription* target = find_target(name)) return target;
  return fail(DiagnosticId::kTargetUnknown, fmt::format("`{}` is not a target", name), fmt::format("choose one of: {}", target_names()),
              {.node = name});
}

namespace {

std::string joined(std::span<const std::string_view> words) { return fmt::format("{}", fmt::join(words, ", ")); }
std::string mhz(uint32_t clock_hz) { return fmt::format("{} MHz", clock_hz / 1'000'000); }

std::string npu_text(const TargetDescription& target) {
  if (!has_npu(target)) return "none";
  return fmt::format("{} pipelines x {} MACs, {}", target.npu.pipelines, target.npu.macs, mhz(target.npu.clock_hz));
}
std::string flash_text(const TargetDescription& target) {
  return target.memory.flash_bytes == 0 ? "outside" : fmt::format("{} KiB", target.memory.flash_bytes / 1024);
}
// What stands behind a time of the NPU, if published runs resemble the program.
std::string error_text(const TargetDescription& target) {
  return target.published.empty() ? "unknown" : fmt::format("±{} %", target.published.front().error_percent);
}

}  // namespace

Status targets(bool markdown) {
  if (markdown)
    print(
        "| target | recipe | NPU | CPU | SRAM | flash | constants | error of a time | what it is "
        "|\n|---|---|---|---|---:|---:|---|---:|---|\n");
  for (const TargetDescription& target : all_targets()) {
    const std::string recipe = joined(target.recipe), npu = npu_text(target),
                      cpu = fmt::format("{}, {}", target.cpu.name, mhz(target.cpu.clock_hz));
    const uint32_t kib = target.memory.sram_bytes / 1024;
    const std::string_view constants = name(target.memory.constants);
    if (markdown) {
      print("| `{}` | {} | {} | {} | {} KiB | {} | {} | {} | {} |\n", target.name, recipe, npu, cpu, kib, flash_text(target), constants,
            error_text(target), target.summary);
      continue;
    }
    print("{}\n  {}\n  recipe: {}\n  NPU: {}; CPU: {}\n", target.name, target.summary, recipe, npu, cpu);
    print("  SRAM: {} KiB; flash: {}{}; constants in {}; error of a time: {}\n", kib, flash_text(target),
          has_npu(target) ? fmt::format(", {} bytes per 16 cycles", target.npu.flash_bytes_per_16_cycles) : std::string(), constants,
          error_text(target));
  }
  return {};
}

namespace {

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// A backend, and the targets on which it supports the same operators under the same conditions.
struct SupportedOn {
  std::unique_ptr<Backend> backend;
  std::vector<std::string_view> targets;
};

bool equal_support(const Backend& a, const Backend& b) {
  return a.name() == b.name() && std::ranges::all_of(all_ops(), [&](const OpDef* op) { return a.support(*op) == b.support(*op); });
}

// Those of every machine that exists.
std::vector<SupportedOn> supporting_backends() {
  std::vector<SupportedOn> found;
  for (const TargetDescription& target : all_targets()) {
    if (target.is_test) continue;
    for (std::unique_ptr<Backend>& backend : make_recipe(target, recipe_of(target))) {
      const auto same = std::ranges::find_if(found, [&](const SupportedOn& known) { return equal_support(*known.backend, *backend); });
      if (same == found.end())
        found.push_back({std::move(backend), {target.name}});
      else
        same->targets.push_back(target.name);
    }
  }
  return found;
}

// Operator × backend: dtypes and conditions, from the functions that decide. Conditions with numbers of a machine say whose they are.
void print_support() {
  const std::vector<SupportedOn> backends = supporting_backends();
  print("\n| backend | its conditions below are those of |\n|---|---|\n");
  for (const SupportedOn& each : backends) print("| {} | {} |\n", each.backend->name(), joined(each.targets));
  print("\n| operator | backend | dtype | runs there if |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops())
    for (const auto& [backend, targets] : backends) {
      const std::optional<OperatorSupport> support = backend->support(*op);
      if (!support) continue;
      const bool differs = std::ranges::count(backends, backend->name(), [](const SupportedOn& each) { return each.backend->name(); }) > 1;
      print("| `{}` | {}{} | {} | {} |\n", op->name, backend->name(), differs ? fmt::format(" ({})", joined(targets)) : std::string(),
            support->dtypes, cell(fmt::format("{}", fmt::join(support->conditions, "; "))));
    }
}

}  // namespace

Status ops(bool markdown) {
  if (markdown) print("| operator | what it is | quantized | traits |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops()) {
    std::string traits;
    const auto add = [&](OpTrait trait, std::string_view text) {
      if (op->has_trait(trait)) traits += fmt::format("{}{}", traits.empty() ? "" : ", ", text);
    };
    add(kElementwise, "elementwise");
    add(kMovesData, "moves data");
    add(kCommutative, "commutative");
    const std::string_view quantized = op->evaluate_integer != nullptr ? "yes" : "no";
    if (markdown) {
      print("| `{}` | {} | {} | {} |\n", op->name, cell(op->summary), quantized, traits);
    } else {
      print("{:<38} {}{}\n", op->name, op->summary, op->evaluate_integer != nullptr ? "" : " (float only)");
    }
  }
  if (markdown) print_support();
  return {};
}

}  // namespace dtr::tools
