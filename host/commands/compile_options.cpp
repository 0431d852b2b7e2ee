#include "host/commands/compile_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "compiler/ir/printer.h"
#include "compiler/pipeline/pattern_report.h"
#include "compiler/pipeline/placement_report.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/pipeline/sample_warnings.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/encode.h"
#include "compiler/support/output_file.h"
#include "compiler/support/text.h"
#include "compiler/targets/target_file.h"
#include "device/pte/io_quantization.h"
#include "device/pte/program_generated.h"
#include "host/accuracy/accuracy_search.h"
#include "host/accuracy/quantization_report.h"
#include "host/accuracy/search_tasks.h"
#include "host/commands/cpu_alternative.h"
#include "host/profiler/etrecord.h"

namespace dtr {
namespace {

void print_time(const CompileWatch& watch, std::string_view step, double milliseconds) {
  watch.err(fmt::format("{:>9.2f} ms  {}\n", milliseconds, step));
}

// Prints the time of what compile_with_options does around compile_model.
class StepTimes {
 public:
  StepTimes(const CompileOptions& options, const CompileWatch& watch)
      : watch_(options.time_passes && watch.err ? &watch : nullptr) {}

  // What happened since the last call or skip().
  void end(std::string_view step) {
    const auto now = Clock::now();
    const std::chrono::duration<double, std::milli> taken = now - start_;
    if (watch_ != nullptr) print_time(*watch_, step, taken.count());
    start_ = now;
  }
  void skip() { start_ = Clock::now(); }

 private:
  using Clock = std::chrono::steady_clock;
  const CompileWatch* watch_;
  Clock::time_point start_ = Clock::now();
};

void watch_passes(const CompileOptions& options, const CompileWatch& watch,
                  CompileSettings& settings) {
  if (!options.print_after.empty() && watch.out)
    settings.passes.after_pass = [&options, &watch](const PassDef& pass, const Module& module,
                                                    const Graph& graph, size_t changes) {
      if (options.print_after != pass.name && options.print_after != "all") return;
      watch.out(
          fmt::format("// after {}: {} changes\n{}\n", pass.name, changes, print(module, graph)));
    };
  if (options.time_passes && watch.err)
    settings.after_step = [&watch](std::string_view step, double milliseconds) {
      print_time(watch, step, milliseconds);
    };
}

// Whether --min-sqnr is more than the bound of the check.
bool has_goal(const CompileOptions& options) {
  return options.min_sqnr && *options.min_sqnr > kLeastCheckDecibels;
}

bool reports(const CompileOptions& options) {
  return options.report_quantization || !options.quantization_json.empty();
}

bool is_auto(const CompileOptions& options) { return options.accuracy == "auto"; }

tl::unexpected<Diagnostic> contradiction(const CompileOptions& options, std::string reason,
                                         std::string fix) {
  return fail(DiagnosticId::kAccuracyOptions, std::move(reason), std::move(fix),
              {.file = options.model});
}

// The points of --max-loss as a share.
Result<double> loss_of(const CompileOptions& options) {
  std::string_view text = options.max_loss;
  if (text.ends_with("pt")) text.remove_suffix(2);
  double points = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), points);
  if (error != std::errc() || end != text.data() + text.size() || !(points >= 0 && points <= 100))
    return contradiction(
        options, fmt::format("`{}` is not a number of points of accuracy", options.max_loss),
        "give points from 0 to 100: --max-loss 0.5pt");
  return points / 100;
}

// Options of the search, without it or beside others that it cannot have.
Result<void> check_accuracy_options(const CompileOptions& options, bool has_samples,
                                    bool has_labelled) {
  const bool chooses_constants = options.equalize || options.rotate || is_auto(options);
  const std::string_view which = is_auto(options)   ? "--accuracy auto"
                                 : options.equalize ? "--equalize"
                                                    : "--rotate";
  if (chooses_constants && !options.load_calibration.empty())
    return contradiction(options,
                         fmt::format("{} changes the ranges: those of --load-calibration are of "
                                     "the model as it is",
                                     which),
                         "give the samples with --calibrate instead");
  if (chooses_constants && !options.save_calibration.empty())
    return contradiction(options,
                         fmt::format("{} changes the ranges: those that --save-calibration would "
                                     "write fit no other compilation",
                                     which),
                         "leave --save-calibration out");
  if (!is_auto(options)) {
    const std::pair<bool, std::string_view> given[] = {
        {!options.data.empty() || has_labelled, "--data"},
        {options.labels != CompileOptions().labels, "--labels"},
        {!options.max_loss.empty(), "--max-loss"},
        {options.seconds.has_value(), "--seconds"}};
    for (const auto& [is_given, option] : given)
      if (is_given)
        return contradiction(options, fmt::format("{} is for --accuracy auto", option),
                             "add --accuracy auto, or leave the option out");
    return {};
  }
  if (options.random_samples)
    return contradiction(options, "--accuracy auto would choose the program that is best on noise",
                         "give samples of real inputs with --calibrate DATA.npz");
  if (!has_samples)
    return contradiction(options, "--accuracy auto judges programs on samples and there are none",
                         "give samples of real inputs with --calibrate DATA.npz");
  if (!options.converter.empty())
    return contradiction(options,
                         "--accuracy auto runs programs in the simulator, which does not run what "
                         "--converter makes",
                         "search without --converter, then compile with the steps that it kept");
  if (options.max_loss.empty()) return {};
  if (options.data.empty() && !has_labelled)
    return contradiction(options, "--max-loss is of accuracy, which needs labelled samples",
                         "give inputs and an array `label` with --data, or ask for decibels with "
                         "--min-sqnr");
  if (has_goal(options))
    return contradiction(options, "--max-loss and --min-sqnr are both given",
                         "give the one that the program must reach");
  return loss_of(options).map([](double) {});
}

// What chooses or keeps ranges is for float models. `--calibrate` is not refused: its samples serve
// reports and the check too; noise serves reports alone.
Result<void> check_calibration_is_used(const CompileOptions& options) {
  const std::pair<bool, std::string_view> given[] = {
      {options.random_samples.has_value() && !reports(options), "--calibrate-random"},
      {!options.save_calibration.empty(), "--save-calibration"},
      {!options.load_calibration.empty(), "--load-calibration"},
      {options.observer != CompileOptions().observer, "--observer"},
      {options.equalize, "--equalize"},
      {options.rotate, "--rotate"},
      {options.round_weights != CompileOptions().round_weights, "--round-weights"},
      {!options.keep_float.empty(), "--keep-float"},
      {is_auto(options), "--accuracy auto"}};
  for (const auto& [is_given, option] : given)
    if (is_given)
      return fail(DiagnosticId::kCalibrationUnused,
                  fmt::format("the model comes quantized: {} has no effect, as its ranges and its "
                              "rounded weights are fixed in it",
                              option),
                  "omit the option, or compile the float model", {.file = options.model});
  return {};
}

// Rejects options for the NPU if the target or the recipe has none.
Result<void> check_npu_is_there(const CompileOptions& options, const CompileSettings& settings) {
  const bool has_npu = uses_npu(recipe_of(settings));
  const std::pair<bool, std::string_view> given[] = {
      {!options.converter.empty(), "--converter"},
      {options.row_packing, "--row-packing"},
      {options.schedule != CompileOptions().schedule, "--schedule"},
      {!options.optimize.empty(), "--optimize"},
      {!options.keep_off.empty(), "--keep-off"},
      {!options.force_on.empty(), "--force-on"}};
  for (const auto& [is_given, option] : given)
    if (is_given && !has_npu)
      return fail(
          DiagnosticId::kOptionNeedsNpu,
          options.recipe.empty()
              ? fmt::format("{} has no effect: `{}` has no NPU", option, settings.target->name)
              : fmt::format("{} has no effect: no backend of the recipe runs on the NPU", option),
          "omit the option, or choose a target and a recipe with an NPU", {.file = options.recipe});
  return {};
}

// Rejects constants in SRAM if another runtime than Deuteron's runs the program and places them.
Result<void> check_constants_are_placed(const CompileOptions& options,
                                        const CompileSettings& settings) {
  const RecipeSpec spec = recipe_of(settings);
  const std::string_view placed_by = who_places_constants(spec);
  if (constants_of(*settings.target, spec) == ConstantMemory::kFlash || placed_by.empty())
    return {};
  const bool converted = !spec.options.converter.command.empty();
  return fail(
      DiagnosticId::kRecipeInvalid,
      fmt::format("constants cannot be placed in SRAM: {} those of `{}`",
                  converted ? "NXP's converter and driver place" : "its runtime places", placed_by),
      converted ? "remove `constants` from the recipe, and give the converter its own option "
                  "(--fetch_constants_to_sram)"
                : "omit --constants, or remove `constants` from the recipe",
      {.file = options.recipe});
}

// What ExecuTorch's Inspector shows of a run are nodes of a graph of PyTorch: other models have
// none.
Result<void> check_has_torch_graph(const CompileOptions& options, FileKind kind) {
  if (kind != FileKind::kPt2)
    return fail(
        DiagnosticId::kModelUnknown,
        fmt::format("--etrecord needs a graph of PyTorch and the model is {}", name_of(kind)),
        "see its profile with `deuteron profile --program`, or give a .pt2",
        {.file = options.model});
  if (!options.debug_map)
    return fail(DiagnosticId::kNoDebugMap,
                "a record is made from the debug map, which --no-debug-map leaves out",
                "omit --no-debug-map", {.file = options.model});
  return {};
}

QuantSpec::Observer observer_of(const CompileOptions& options) {
  return static_cast<QuantSpec::Observer>(
      std::ranges::find(QuantSpec::kObserverNames, options.observer) -
      QuantSpec::kObserverNames.begin());
}

// The options as settings, without hooks.
Result<CompileSettings> settings_of(const CompileOptions& options) {
  const ConverterOptions converter{.command = options.converter,
                                   .keep = options.keep_neutron_ir,
                                   .limit = std::chrono::seconds(options.converter_seconds)};
  const NeutronSchedule schedule =
      options.schedule == "nxp-like" ? NeutronSchedule::kNxpLike : NeutronSchedule::kOwn;
  std::optional<ConstantMemory> constants;
  if (!options.constants.empty())
    constants = options.constants == "sram" ? ConstantMemory::kSram : ConstantMemory::kFlash;
  std::optional<uint64_t> sram;
  if (!options.sram.empty()) {
    DTR_ASSIGN(sram, parse_sram_bytes(options.sram));
  }
  const std::optional<Optimize> optimize = optimize_of(options.optimize);
  CompileSettings settings{
      .backend = {.sram_bytes = sram,
                  .optimize = optimize,
                  .constants = constants,
                  .row_packing = options.row_packing,
                  .schedule = schedule,
                  .converter = converter},
      .observer = observer_of(options),
      .equalize = options.equalize,
      .rotate = options.rotate,
      .rounding = options.round_weights == "error" ? Rounding::kError : Rounding::kNearest,
      .keep_float = options.keep_float,
      .stop_at = options.stop_at,
      .io = options.io == "int8" ? Io::kInt8 : Io::kFloat,
      .keep_off = options.keep_off,
      .force_on = options.force_on,
      .debug_map = options.debug_map,
      .external_constants = !options.external_constants.empty(),
      .threads = options.threads};
  for (const std::string& text : options.dims) {
    DTR_ASSIGN(settings.dims.emplace_back(), parse_dimension(text));
  }
  settings.weigh_costs = std::erase(settings.force_on, kAllNodes) == 0;
  if (!settings.weigh_costs &&
      std::ranges::find(settings.keep_off, kAllNodes) != settings.keep_off.end())
    return fail(DiagnosticId::kNodeUnknown, "every node is both kept off the NPU and forced on it",
                "give `all` once: with --keep-off or with --force-on", {.file = options.model});
  if (options.random_samples) settings.samples = NoiseSamples{*options.random_samples};
  if (!options.calibration.empty())
    settings.samples = SampleFile{options.calibration, options.calibration_samples};
  if (!options.load_calibration.empty())
    settings.ranges = CalibrationFile{options.load_calibration};
  DTR_ASSIGN(settings.target, resolve_target(options.target));
  if (!options.recipe.empty()) {
    DTR_ASSIGN(settings.recipe, read_recipe(options.recipe, *settings.target));
    settings.recipe->options.row_packing |= options.row_packing;
    settings.recipe->options.schedule = schedule;
    if (!converter.command.empty()) use_converter(*settings.recipe, converter);
    if (constants) settings.recipe->options.constants = constants;
    if (sram) settings.recipe->options.sram_bytes = sram;
    if (optimize) settings.recipe->options.optimize = optimize;
  }
  return settings;
}

// Before the work: what the model's kind and its quantization make of the options.
Result<void> check_read(const CompileOptions& options, const Compilation& model) {
  if (!options.etrecord.empty()) DTR_TRY(check_has_torch_graph(options, model.kind));
  if (model.came_quantized) return check_calibration_is_used(options);
  if (!options.load_calibration.empty() && options.random_samples && !reports(options))
    return fail(DiagnosticId::kCalibrationUnused,
                "the ranges are those of --load-calibration: --calibrate-random has no effect",
                "omit one of the two options", {.file = options.load_calibration});
  return {};
}

// What is known before placement: remarks, patterns, the report on quantization, the graph.
Result<void> write_quantized(const CompileOptions& options, const CompileWatch& watch,
                             const Compilation& model) {
  if (!options.save_calibration.empty())
    DTR_TRY(save_calibration(options.save_calibration, *model.calibration));
  if (options.verbose && watch.err) {
    for (const Remark& remark : model.remarks.list())
      watch.err((watch.json_diagnostics ? to_json(remark) : to_text(remark)) + "\n");
    if (!watch.json_diagnostics) watch.err(patterns_text(model));
  }
  if (!options.patterns.empty()) DTR_TRY(write_file(options.patterns, patterns_json(model)));
  if (reports(options)) {
    DTR_ASSIGN(const QuantizationReport report, report_quantization(model, {.shares = true}));
    if (options.report_quantization && watch.out) watch.out(to_text(report) + "\n");
    if (!options.quantization_json.empty())
      DTR_TRY(write_file(options.quantization_json, to_json(report)));
  }
  if (options.emit_ir.empty()) return {};
  return write_file(options.emit_ir,
                    print(model.module, {.elide_constants = options.elide_constants}));
}

Result<std::vector<std::byte>> make_etrecord(const CompileOptions& options,
                                             const CompileSettings& settings,
                                             const Compilation& compiled) {
  DTR_ASSIGN(const PteFile pte_file, PteFile::borrow(compiled.pte(), options.model));
  DTR_ASSIGN(const pt2::EdgeExport edge, pt2::to_edge_export(compiled.model_bytes, options.model,
                                                             debug_handles(*pte_file.debug_map())));
  const bool has_real_samples = !std::holds_alternative<NoSamples>(settings.samples) &&
                                !std::holds_alternative<NoiseSamples>(settings.samples);
  return to_etrecord(pte_file, edge,
                     has_real_samples ? compiled.samples()->inputs(0) : std::vector<TensorView>());
}

void print(const CompileWatch& watch, const Diagnostic& diagnostic) {
  if (watch.on_warning && diagnostic.severity == Severity::kWarning)
    watch.on_warning(diagnostic);
  else if (watch.err)
    watch.err((watch.json_diagnostics ? to_json(diagnostic) : to_text(diagnostic)) + "\n");
}

void warn_of_skipped_layers(const CompileWatch& watch, const Compilation& compiled) {
  if (!compiled.rounding || compiled.rounding->skipped.empty()) return;
  const RoundingReport& rounding = *compiled.rounding;
  print(watch,
        {.id = DiagnosticId::kRoundingSkipped,
         .reason = fmt::format("weights of {} of {} layers are rounded to the nearest ({})",
                               rounding.skipped.size(), rounding.skipped.size() + rounding.layers,
                               fmt::join(rounding.skipped, "; ")),
         .fix = "nothing, if the accuracy is enough: these layers are as without the option",
         .place = {.file = compiled.module.file},
         .severity = Severity::kWarning});
}

void warn_of_noise(const CompileWatch& watch, const Compilation& compiled) {
  if (!compiled.calibrated_on_noise()) return;
  const Diagnostic warning{
      .id = DiagnosticId::kCalibrationNoise,
      .reason = compiled.samples_are_noise
                    ? "ranges were chosen on noise, on which the check ran too: on real inputs the "
                      "program may compute something else, whatever the check says"
                    : "ranges were chosen on noise by the run that saved them: on real inputs the "
                      "program "
                      "may compute something else",
      .fix =
          "calibrate with real samples (--calibrate DATA.npz) and look at the accuracy with "
          "`deuteron eval`",
      .place = {.file = compiled.module.file},
      .severity = Severity::kWarning};
  print(watch, warning);
}

void warn_of_flash(const CompileWatch& watch, const TargetDescription& target, uint64_t bytes,
                   const std::string& file) {
  if (target.memory.flash_bytes == 0 || bytes <= target.memory.flash_bytes) return;
  print(watch, {.id = DiagnosticId::kFlashExceeded,
                .reason = fmt::format("the program takes {} bytes, the flash of {} has {}",
                                      with_thousands(bytes), target.name,
                                      with_thousands(target.memory.flash_bytes)),
                .fix = "use a smaller model, or keep the program in memory beside the chip: "
                       "figures of time are for the chip's own flash",
                .place = {.file = file},
                .severity = Severity::kWarning});
}

// What the samples and the conversion tell about the ranges.
Result<void> warn_of_ranges(const CompileWatch& watch, const Compilation& compiled) {
  DTR_ASSIGN(const std::vector<Diagnostic> warnings, sample_warnings(compiled));
  for (const Diagnostic& warning : warnings) print(watch, warning);
  if (!compiled.conversion) return {};
  // Samples that are constant explain values that are zero.
  const bool constant = std::ranges::find(warnings, DiagnosticId::kCalibrationConstant,
                                          &Diagnostic::id) != warnings.end();
  for (const Diagnostic& note : compiled.conversion->notes)
    if (!constant || note.id != DiagnosticId::kCalibrationEmpty) print(watch, note);
  return {};
}

Result<AccuracySearchResult> search_with_options(const ModelSource& source,
                                                 const CompileOptions& options,
                                                 const CompileWatch& watch,
                                                 CompileSettings settings,
                                                 std::span<const NamedTensor> labelled) {
  AccuracySearchOptions search{.data = options.data,
                               .arrays = labelled,
                               .labels = options.labels,
                               .executor = options.executor,
                               .on_step = watch.on_step};
  if (!options.max_loss.empty()) {
    DTR_ASSIGN(search.max_loss, loss_of(options));
  }
  if (has_goal(options)) search.min_sqnr = options.min_sqnr;
  if (options.seconds) search.seconds = *options.seconds;
  settings.on_read = [&](const Compilation& model) { return check_read(options, model); };
  settings.progress = watch.progress;
  return search_accuracy(source, settings, search);
}

void warn_of_search(const CompileOptions& options, const CompileWatch& watch,
                    const AccuracySummary& summary) {
  if (summary.unlike) print(watch, *summary.unlike);
  if (!summary.cut.empty())
    print(watch, {.id = DiagnosticId::kAccuracyCut,
                  .reason = fmt::format("the search ended early: {}; the program is the best of {} "
                                        "that were tried",
                                        summary.cut, summary.steps.size() + 1),
                  .fix = "give it more time with --seconds",
                  .place = {.file = options.model},
                  .severity = Severity::kWarning});
  if (!summary.met)
    print(watch,
          {.id = DiagnosticId::kAccuracyUnmet,
           .reason = fmt::format("no program reaches {}: the best has {:.1f} dB{}", summary.goal,
                                 summary.result.sqnr_db,
                                 summary.result.accuracy ? fmt::format(" and an accuracy of {:.4f}",
                                                                       *summary.result.accuracy)
                                                         : ""),
           .fix = "train it with quantization (docs/quantization.md), or give more "
                  "calibration samples",
           .place = {.file = options.model},
           .severity = Severity::kWarning});
}

// The program, if its file is open, and what belongs to it: all of it is written, or nothing.
Result<void> write_outputs(const CompileOptions& options, const CompileSettings& settings,
                           std::optional<OutputFile> program, const Compilation& compiled,
                           const CompileReport& report) {
  std::vector<OutputFile> files;
  if (program) {
    DTR_TRY(program->write(compiled.pte()));
    files.push_back(*std::move(program));
  }
  const auto add = [&](const std::string& path, std::span<const std::byte> bytes) -> Result<void> {
    DTR_ASSIGN(OutputFile file, OutputFile::create(path));
    DTR_TRY(file.write(bytes));
    files.push_back(std::move(file));
    return {};
  };
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  if (!options.external_constants.empty())
    DTR_TRY(add(options.external_constants, compiled.tensor_file()));
  if (!options.etrecord.empty()) {
    DTR_ASSIGN(const std::vector<std::byte> record, make_etrecord(options, settings, compiled));
    DTR_TRY(add(options.etrecord, record));
  }
  if (!options.placement.empty()) DTR_TRY(add(options.placement, bytes_of(placement_json(report))));
  if (!options.report_json.empty()) DTR_TRY(add(options.report_json, bytes_of(to_json(report))));
  return OutputFile::commit(files);
}

}  // namespace

Result<const TargetDescription*> resolve_target(const std::string& name) {
  if (const TargetDescription* target = find_target(name)) return target;
  if (is_target_file(name)) {
    DTR_ASSIGN(const TargetDescription* target, read_target(name));
    DTR_TRY(check_target_recipe(*target, name));
    return target;
  }
  return fail(DiagnosticId::kTargetUnknown, fmt::format("`{}` is not a target", name),
              fmt::format("choose one of: {}; or give a target file: my.json", target_names()),
              {.node = name});
}

Result<CompileSettings> checked_settings(const CompileOptions& options) {
  DTR_ASSIGN(CompileSettings settings, settings_of(options));
  DTR_TRY(check_npu_is_there(options, settings));
  DTR_TRY(check_constants_are_placed(options, settings));
  return settings;
}

Result<CompiledModel> compile_with_options(ModelSource source, const CompileOptions& options,
                                           const CompileWatch& watch,
                                           std::optional<SampleSource> samples,
                                           std::span<const NamedTensor> labelled) {
  StepTimes times(options, watch);
  DTR_TRY(
      check_accuracy_options(options, samples || !options.calibration.empty(), !labelled.empty()));
  DTR_ASSIGN(CompileSettings settings, checked_settings(options));
  if (samples) settings.samples = *std::move(samples);
  DTR_TRY(
      check_outputs({options.model, options.calibration, options.load_calibration, options.recipe,
                     options.data, is_target_file(options.target) ? options.target : std::string()},
                    {options.output, options.save_calibration, options.report_json,
                     options.placement, options.patterns, options.quantization_json,
                     options.emit_ir, options.external_constants, options.etrecord}));
  // The output's name may follow from the model's: a wrong path of the model is told as one.
  if (const auto* path = std::get_if<std::string>(&source)) DTR_TRY(file_kind(*path));
  // A folder that is not there is better known before the work than after it.
  std::optional<OutputFile> file;
  const bool writes = options.executor == nullptr || options.executor->is_coordinator();
  if (!options.output.empty() && writes) {
    DTR_ASSIGN(file, OutputFile::create(options.output));
  }
  std::optional<AccuracySearchResult> search;
  if (is_auto(options)) {
    DTR_ASSIGN(search, search_with_options(source, options, watch, settings, labelled));
    settings = search->settings;
  }
  times.end(search ? "search" : "check options");
  watch_passes(options, watch, settings);
  settings.progress = watch.progress;
  settings.keep_statistics = false;  // write_quantized saves them
  settings.on_read = [&](const Compilation& model) {
    for (const Diagnostic& note : model.module.notes) print(watch, note);
    return check_read(options, model);
  };
  settings.on_quantized = [&](const Compilation& model) {
    if (watch.on_quantized) watch.on_quantized();
    return write_quantized(options, watch, model);
  };
  // A search has weighed programs by accuracy, and says which.
  std::optional<ModelSource> again;
  if (!search && !std::holds_alternative<Module>(source)) again = copy_of(source);
  DTR_ASSIGN(Compilation compiled, compile_model(std::move(source), settings));
  times.skip();  // its steps are printed one by one
  // A payload of NXP's converter runs with NXP's driver only, which is not here.
  std::optional<CheckFigures> check;
  if (options.check && options.converter.empty()) {
    // A goal of the search that no program reaches is a warning.
    std::optional<double> least = options.min_sqnr;
    if (is_auto(options) && has_goal(options)) least = kLeastCheckDecibels;
    DTR_ASSIGN(check, check_program(compiled, least, options.threads));
    times.end("check program");
  }
  DTR_TRY(warn_of_ranges(watch, compiled));
  warn_of_skipped_layers(watch, compiled);
  warn_of_noise(watch, compiled);
  warn_of_flash(watch, *settings.target,
                compiled.written.bytes.size() + compiled.written.tensor_file.size(),
                compiled.module.file);
  if (check)
    if (const auto warning =
            accuracy_warning(check->outputs, options.min_sqnr, compiled.module.file))
      print(watch, *warning);
  CompileReport report = compile_report(compiled, check);
  if (search) {
    warn_of_search(options, watch, search->summary);
    report.accuracy = std::move(search->summary);
  }
  times.end("report");
  if (again) {
    if (const auto cheaper = cheaper_on_cpu(*again, settings, compiled, report))
      print(watch, *cheaper);
    times.end("compare with the CPU");
  }
  DTR_TRY(write_outputs(options, settings, std::move(file), compiled, report));
  times.end("write files");
  return CompiledModel{std::move(compiled), std::move(report)};
}

namespace {

// The payloads of the plan, which writing the program of this method alone has freed.
Result<void> restore_payloads(Compilation& compiled) {
  DTR_ASSIGN(const PteFile written, PteFile::borrow(compiled.pte(), compiled.module.file, false));
  uint32_t delegate = 0;
  for (PlanCall& call : compiled.emitted.plan.calls)
    if (auto* planned = std::get_if<DelegateCallPlan>(&call)) {
      const auto payload = written.file().payload(*written.plan().delegates()->Get(delegate++));
      planned->payload.assign(payload.begin(), payload.end());
    }
  return {};
}

// The states of methods have memories of their own, also those of one name.
void note_states(const CompileWatch& watch, const CompiledMethods& made) {
  if (!watch.err) return;
  std::map<std::string, std::vector<std::string>> kept;  // by state: the methods that have it
  for (const CompiledModel& compiled : made.methods) {
    const MethodPlan& plan = compiled.compilation.emitted.plan;
    for (const PlanTensor& tensor : plan.tensors)
      if (tensor.initial_state) kept[tensor.name].push_back(plan.method);
  }
  for (const auto& [state, methods] : kept)
    if (methods.size() > 1)
      watch.err(terminal_format(
          "note: {} methods keep a state `{}` ({}, {}{}): each has its own, what one writes the "
          "others do not read\n",
          methods.size(), state, methods[0], methods[1], methods.size() > 2 ? ", …" : ""));
}

Result<void> check_fits(const CompiledMethods& made, const std::string& output) {
  int64_t arena = 0, states = 0;
  uint64_t constants = 0, budget = UINT64_MAX;
  for (const CompiledModel& compiled : made.methods) {
    const MethodPlan& plan = compiled.compilation.emitted.plan;
    const SramUse sram = sram_use(compiled.compilation);
    arena = std::max(arena, plan.arena_bytes);
    states += plan.state_bytes;
    if (sram.program_bytes > 0) constants = made.program.bytes.size();
    budget = std::min(budget, sram.budget_bytes);
  }
  const uint64_t total = static_cast<uint64_t>(arena + states) + constants;
  if (total <= budget) return {};
  return fail(
      DiagnosticId::kMemoryExceeded,
      fmt::format("the methods take {} bytes of SRAM: {} for tensors of the largest, {} for "
                  "the states of all, {} for the program; there are {}",
                  with_thousands(total), with_thousands(static_cast<uint64_t>(arena)),
                  with_thousands(static_cast<uint64_t>(states)), with_thousands(constants),
                  with_thousands(budget)),
      "compile fewer or smaller methods into one program", {.file = output});
}

}  // namespace

CompileSettings training_settings(const CompileOptions& options) {
  return {
      .observer = observer_of(options), .equalize = options.equalize, .threads = options.threads};
}

bool is_method_name(std::string_view name) {
  constexpr size_t kLongest = 64;
  const auto is_letter = [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && name.size() <= kLongest && is_letter(name.front()) &&
         pte::io_method_of(name).empty() &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

Result<CompiledMethods> compile_methods(std::vector<MethodModel> methods, const std::string& output,
                                        const CompileWatch& watch) {
  for (const MethodModel& method : methods)
    DTR_TRY(check_outputs({method.options.model, method.options.calibration}, {output}));
  std::optional<OutputFile> file;
  if (!output.empty()) {
    DTR_ASSIGN(file, OutputFile::create(output));
  }
  CompiledMethods made;
  for (MethodModel& method : methods) {
    ModelSource source = method.source ? *std::move(method.source) : method.options.model;
    DTR_ASSIGN(CompiledModel compiled,
               compile_with_options(std::move(source), method.options, watch,
                                    std::exchange(method.samples, std::nullopt)));
    DTR_TRY(restore_payloads(compiled.compilation));
    compiled.compilation.emitted.plan.method = method.name;
    made.methods.push_back(std::move(compiled));
  }
  std::vector<MethodToWrite> plans;
  for (const CompiledModel& compiled : made.methods)
    plans.push_back({&compiled.compilation.emitted.plan, &compiled.compilation.memory});
  DTR_ASSIGN(made.program,
             serialize_program(plans, {.debug_map = methods.front().options.debug_map}));
  DTR_TRY(check_fits(made, output));
  note_states(watch, made);
  warn_of_flash(watch, *made.methods.front().compilation.target, made.program.bytes.size(), output);
  if (file) {
    DTR_TRY(file->write(made.program.bytes));
    DTR_TRY(file->commit());
  }
  return made;
}

}  // namespace dtr
