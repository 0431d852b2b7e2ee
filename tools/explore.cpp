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
      "explore", "What less SRAM costs: compile and simulate a model within different budgets");
  CompileOptions& c = o.compile;
  verb->add_option("MODEL", c.model, "Model: .pt2 (torch.export), .tflite, .onnx, or IR text (.ir)")
      ->required();
  verb->add_option("--axis", o.axis, "What the programs differ in: bytes of SRAM")
      ->check(CLI::IsMember({"sram"}))
      ->capture_default_str();
  verb->add_option("--points", o.points, "Compile so many programs")
      ->check(CLI::Range(2, 200))
      ->capture_default_str();
  add_target(verb, c.target, "Target, see `deuteron targets`");
  verb->add_option("--recipe", c.recipe,
                   "Backends, their options and constraints instead of the target's (.json, "
                   "docs/recipes.md)");
  CLI::Option* calibrate = verb->add_option(
      "--calibrate", c.calibration,
      "Calibration data (.npz, .npy): arrays named as the inputs, or input, input_0, input_1, ...");
  verb->add_option("--calibrate-random", c.random_samples,
                   "Calibrate on this many samples of noise")
      ->check(CLI::Range(1, 10000))
      ->excludes(calibrate);
  verb->add_option("--load-calibration", c.load_calibration,
                   "Reuse ranges written by --save-calibration (.json)");
  verb->add_option("--io", c.io, "Inputs and outputs of the programs, as for `deuteron compile`")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  verb->add_option("--constants", c.constants,
                   "Where constants lie when a program starts, as for `deuteron compile`")
      ->check(CLI::IsMember({"sram", "flash"}));
  verb->add_option("--json", o.json, "Write the programs' figures as JSON");
  verb->add_option("--svg", o.svg, "Draw cycles against bytes (.svg)");
  verb->add_option("--html", o.html, "Write the drawing and the table as a page (.html)");
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
