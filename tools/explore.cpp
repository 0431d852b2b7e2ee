// deuteron explore
#include <fmt/format.h>

#include "compiler/support/progress.h"
#include "host/commands/explore.h"
#include "host/commands/explore_accuracy.h"
#include "tools/execution.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

constexpr uint32_t kDefaultPoints = 20;

struct ExploreArguments {
  CompileOptions compile;
  std::string axis = "sram";
  std::optional<uint32_t> points;
  FrontierPaths files;
  ExecutorOptions executor;
};

const CLI::App* add_explore(CLI::App& app, ExploreArguments& o) {
  CLI::App* verb = app.add_subcommand(
      "explore",
      "Show what less SRAM, or less error, costs in cycles: compile and simulate many "
      "programs of one model");
  CompileOptions& c = o.compile;
  add_model(verb, c.model);
  verb->add_option(
          "--axis", o.axis,
          "What is held against cycles: bytes of SRAM, or the outputs' error (as --accuracy "
          "auto searches, without a goal)")
      ->check(CLI::IsMember({"sram", "accuracy"}))
      ->capture_default_str();
  verb->add_option("--points", o.points,
                   fmt::format("Number of programs to compile [{}] (--axis sram)", kDefaultPoints))
      ->check(CLI::Range(2, 200));
  verb->add_option("--seconds", c.seconds, "Limit of the search [60] (--axis accuracy)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--data", c.data,
                   "Labelled samples (.npz), whose accuracy is shown too (--axis accuracy)");
  verb->add_option("--labels", c.labels, "Array of class numbers in --data")->capture_default_str();
  add_target(verb, c.target, "Target, see `deuteron targets`");
  add_recipe(verb, c.recipe);
  add_calibration(verb, c.calibration, c.random_samples, c.load_calibration);
  verb->add_option("--io", c.io, "Inputs and outputs of the programs, as for `deuteron compile`")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  verb->add_option("--constants", c.constants,
                   "Memory of the constants when a program starts, as for `deuteron compile`")
      ->check(CLI::IsMember({"sram", "flash"}));
  verb->add_option("--json", o.files.json, "Write the programs' figures as JSON");
  verb->add_option("--svg", o.files.svg, "Plot cycles against bytes or dB (.svg)");
  verb->add_option("--html", o.files.html, "Write the plot and the table as a page (.html)");
  add_executor(verb, o.executor, "Compile and run programs", "program");
  example(verb, "deuteron explore models/mlperf_tiny/kws_dscnn_int8.tflite --io int8 --points 8");
  return verb;
}

Result<void> check_axis(const ExploreArguments& o) {
  const bool on_sram = o.axis == "sram";
  const std::pair<bool, std::string_view> given[] = {
      {on_sram && o.compile.seconds.has_value(), "--seconds"},
      {on_sram && !o.compile.data.empty(), "--data"},
      {o.compile.data.empty() && o.compile.labels != CompileOptions().labels, "--labels"},
      {!on_sram && o.points.has_value(), "--points"},
      {!on_sram && !o.compile.load_calibration.empty(), "--load-calibration"}};
  for (const auto& [is_given, option] : given)
    if (is_given)
      return fail(DiagnosticId::kAccuracyOptions,
                  fmt::format("{} has no effect with --axis {}{}", option, o.axis,
                              option == "--labels" ? " and no --data" : ""),
                  "leave the option out", {.file = o.compile.model});
  return {};
}

Result<std::string> explored(const ExploreArguments& o, const CompileWatch& watch) {
  const std::unique_ptr<TaskExecutor> executor = make_executor(o.executor);
  CompileOptions compile = o.compile;
  compile.threads = o.executor.threads;
  compile.executor = executor.get();
  if (o.axis == "accuracy")
    return explore_accuracy(compile.model, compile, o.files, watch).map([](const auto& frontier) {
      return to_text(frontier);
    });
  const ExploreOptions options{
      .compile = compile, .points = o.points.value_or(kDefaultPoints), .files = o.files};
  return explore(compile.model, options, watch).map([](const auto& frontier) {
    return to_text(frontier);
  });
}

Result<void> run_explore(const CommonOptions& common, const ExploreArguments& options) {
  DTR_TRY(check_axis(options));
  std::optional<TerminalProgress> progress("calibrate");
  const CompileWatch watch{.err = [](std::string_view text) { write_lines(stderr, text); },
                           .json_diagnostics = common.json_diagnostics,
                           .progress = progress->function(),
                           .on_step =
                               [&](std::string_view step) {
                                 progress.reset();  // erases its line
                                 print_error("try {}\n", step);
                               }};
  const Result<std::string> text = explored(options, watch);
  progress.reset();
  DTR_TRY(text);
  print("{}", EncodedLines{*text});
  return {};
}

}  // namespace

std::unique_ptr<Verb> explore_verb() {
  return std::make_unique<VerbOf<ExploreArguments, &add_explore, &run_explore>>();
}

}  // namespace dtr::tools
