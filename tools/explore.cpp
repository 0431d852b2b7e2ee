// deuteron explore
#include <fmt/format.h>

#include "compiler/support/progress.h"
#include "host/commands/explore.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct ExploreArguments : ExploreOptions {
  std::string axis = "sram";
};

const CLI::App* add_explore(CLI::App& app, ExploreArguments& o) {
  CLI::App* verb = app.add_subcommand(
      "explore",
      "Show what less SRAM costs: compile and simulate a model within different budgets");
  CompileOptions& c = o.compile;
  add_model(verb, c.model);
  verb->add_option("--axis", o.axis, "What is varied between the programs: bytes of SRAM")
      ->check(CLI::IsMember({"sram"}))
      ->capture_default_str();
  verb->add_option("--points", o.points, "Number of programs to compile")
      ->check(CLI::Range(2, 200))
      ->capture_default_str();
  add_target(verb, c.target, "Target, see `deuteron targets`");
  add_recipe(verb, c.recipe);
  add_calibration(verb, c.calibration, c.random_samples, c.load_calibration);
  verb->add_option("--io", c.io, "Inputs and outputs of the programs, as for `deuteron compile`")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  verb->add_option("--constants", c.constants,
                   "Memory of the constants when a program starts, as for `deuteron compile`")
      ->check(CLI::IsMember({"sram", "flash"}));
  verb->add_option("--json", o.json, "Write the programs' figures as JSON");
  verb->add_option("--svg", o.svg, "Plot cycles against bytes (.svg)");
  verb->add_option("--html", o.html, "Write the plot and the table as a page (.html)");
  add_threads(verb, c.threads);
  example(verb, "deuteron explore models/mlperf_tiny/kws_dscnn_int8.tflite --io int8 --points 8");
  return verb;
}

Result<void> run_explore(const CommonOptions& common, const ExploreArguments& options) {
  std::optional<TerminalProgress> progress("calibrate");
  const CompileWatch watch{.err = [](std::string_view text) { write_lines(stderr, text); },
                           .json_diagnostics = common.json_diagnostics,
                           .progress = progress->function()};
  const Result<Frontier> frontier = explore(options.compile.model, options, watch);
  progress.reset();  // erases its line
  DTR_TRY(frontier);
  print("{}", EncodedLines{to_text(*frontier)});
  return {};
}

}  // namespace

std::unique_ptr<Verb> explore_verb() {
  return std::make_unique<VerbOf<ExploreArguments, &add_explore, &run_explore>>();
}

}  // namespace dtr::tools
