// deuteron targets, deuteron ops
#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/ops.h"
#include "compiler/recipes/recipe.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {

Result<const TargetDescription*> resolve_target(const std::string& name) {
  if (const TargetDescription* target = find_target(name)) return target;
  std::string known;
  for (const TargetDescription& target : all_targets()) known += fmt::format("{}{}", known.empty() ? "" : ", ", target.name);
  return fail(DiagnosticId::kTargetUnknown, fmt::format("`{}` is not a target", name), fmt::format("choose one of: {}", known),
              {.node = name});
}

Status targets(bool markdown) {
  if (markdown) print("| target | recipe | NPU | clock | SRAM | what it is |\n|---|---|---|---:|---:|---|\n");
  for (const TargetDescription& target : all_targets()) {
    std::string recipe;
    for (const std::string_view backend : target.recipe) recipe += fmt::format("{}{}", recipe.empty() ? "" : ", ", backend);
    const npu::Target& npu = target.npu;
    const std::string array = has_npu(target) ? fmt::format("{} pipelines x {} MACs", npu.pipelines, npu.macs) : "none";
    const uint32_t mhz = npu.clock_hz / 1'000'000, kib = npu.sram_bytes / 1024;
    if (markdown) {
      print("| `{}` | {} | {} | {} MHz | {} KiB | {} |\n", target.name, recipe, array, mhz, kib, target.summary);
    } else {
      print("{}\n  {}\n  recipe: {}\n  NPU: {}, {} MHz; SRAM: {} KiB; flash: {} bytes per 16 cycles\n", target.name, target.summary, recipe,
            array, mhz, kib, npu.flash_bytes_per_16_cycles);
    }
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

// Operator × backend: dtypes and conditions, from the functions that decide. Which targets have the backend is in docs/targets.md; where
// its conditions depend on the target's machine, they are those of the first one.
void print_support() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const TargetDescription& target : all_targets())
    for (std::unique_ptr<Backend>& backend : make_recipe(target, recipe_of(target)))
      if (std::ranges::find(backends, backend->name(), [](const auto& known) { return known->name(); }) == backends.end())
        backends.push_back(std::move(backend));
  print("\n| operator | backend | dtype | runs there if |\n|---|---|---|---|\n");
  for (const OpDef* op : all_ops())
    for (const std::unique_ptr<Backend>& backend : backends) {
      const std::optional<OperatorSupport> support = backend->support(*op);
      if (!support) continue;
      std::string conditions;
      for (const std::string& condition : support->conditions) conditions += fmt::format("{}{}", conditions.empty() ? "" : "; ", condition);
      print("| `{}` | {} | {} | {} |\n", op->name, backend->name(), support->dtypes, cell(conditions));
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
