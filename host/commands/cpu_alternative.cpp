#include "host/commands/cpu_alternative.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/pipeline/compilation.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/text.h"
#include "compiler/targets/time_error.h"
#include "host/accuracy/search_tasks.h"

namespace dtr {
namespace {

// A program is cheaper from so many percent of the cycles downwards: less is not worth a warning.
constexpr uint64_t kMostPercent = 95;

bool is_cheaper(uint64_t cycles, uint64_t than) { return cycles * 100 <= than * kMostPercent; }

// The cycles of the ops of a graph on the CPU, each by itself on the first backend that runs it.
// Changes of layout, and conversions where an op runs in float, are not counted: they come on top.
uint64_t cycles_of_ops(const Recipe& recipe, const Graph& graph) {
  uint64_t cycles = 0;
  for (const OpId op : graph.ops()) {
    const auto runs = std::ranges::find_if(recipe, [&](const std::unique_ptr<Backend>& backend) {
      return backend->as_kernels() != nullptr && !backend->refuse(graph, op);
    });
    if (runs != recipe.end()) cycles += (*runs)->cost(graph, op);
  }
  return cycles;
}

// Whether a backend of the CPU other than the last one, which computes in float, is in the recipe.
bool has_int8_kernels(const Recipe& recipe) {
  return std::ranges::count_if(recipe, [](const std::unique_ptr<Backend>& backend) {
           return backend->as_kernels() != nullptr;
         }) > 1;
}

bool is_placed_by_user(const CompileSettings& settings, const RecipeSpec& recipe) {
  return !settings.keep_off.empty() || !settings.force_on.empty() || !settings.weigh_costs ||
         !recipe.constraints.empty();
}

// A way to compile the model for the CPU alone.
struct Way {
  std::string_view option;  // of `deuteron compile`, with kAllNodes
  std::string_view makes;
  std::vector<std::string> CompileSettings::*names;
  const Graph* graph;  // whose ops the CPU would run
};

std::vector<Way> ways_of(const CompileSettings& settings, const Compilation& compiled) {
  std::vector<Way> ways;
  if (compiled.came_quantized || settings.io == Io::kInt8 || has_int8_kernels(compiled.recipe))
    ways.push_back(
        {"--keep-off", "nothing on the NPU", &CompileSettings::keep_off, &compiled.quantized});
  if (compiled.conversion && settings.io == Io::kFloat)
    ways.push_back({"--keep-float", "everything in float on the CPU", &CompileSettings::keep_float,
                    &compiled.conversion->float_graph});
  return ways;
}

std::optional<uint64_t> cycles_of_program(const CompileReport& report) {
  const std::optional<TimedWork> work = timed_work(report);
  if (!work) return std::nullopt;
  return work->npu_cycles + cpu_cycles(*work);
}

}  // namespace

std::optional<Diagnostic> cheaper_on_cpu(const ModelSource& source, const CompileSettings& settings,
                                         const Compilation& compiled, const CompileReport& report) {
  const std::optional<uint64_t> with_npu = cycles_of_program(report);
  if (!with_npu || report.partitions == 0 || is_placed_by_user(settings, compiled.recipe_spec))
    return std::nullopt;
  uint64_t fewest = 0;
  const Way* best = nullptr;
  const std::vector<Way> ways = ways_of(settings, compiled);
  for (const Way& way : ways) {
    if (!is_cheaper(cycles_of_ops(compiled.recipe, *way.graph), *with_npu)) continue;
    CompileSettings other = settings;
    other.*way.names = {std::string(kAllNodes)};
    other.on_read = other.on_quantized = {};
    other.after_step = {};
    other.passes = {};
    other.progress = {};
    const Result<Compilation> made = compile_model(copy_of(source), other);
    if (!made) continue;
    const std::optional<uint64_t> cycles = cycles_of_program(compile_report(*made));
    if (!cycles || !is_cheaper(*cycles, *with_npu) || (best != nullptr && *cycles >= fewest))
      continue;
    best = &way, fewest = *cycles;
  }
  if (best == nullptr) return std::nullopt;
  return Diagnostic{
      .id = DiagnosticId::kCpuIsCheaper,
      .reason = fmt::format("the program takes {} cycles; one for the CPU alone takes {}, {} % "
                            "fewer by the same estimates (docs/placement.md)",
                            with_thousands(*with_npu), with_thousands(fewest),
                            (*with_npu - fewest) * 100 / *with_npu),
      .fix = fmt::format("compile with {} {}: {}; or keep the NPU, where the CPU has other work",
                         best->option, kAllNodes, best->makes),
      .place = {.file = compiled.module.file},
      .severity = Severity::kWarning};
}

}  // namespace dtr
