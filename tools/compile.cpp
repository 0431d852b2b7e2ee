// deuteron compile
#include "compiler/pipeline/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "compiler/ir/printer.h"
#include "compiler/pipeline/pattern_report.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/output_file.h"
#include "host/accuracy/check.h"
#include "host/accuracy/quantization_report.h"
#include "host/profiler/etrecord.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

// Calibration data as the options name them.
Result<std::optional<Samples>> read_samples(const Graph& graph, const CompileOptions& options) {
  if (options.random_samples) return Samples::random(graph, *options.random_samples);
  if (options.calibration.empty()) return std::optional<Samples>{};
  DTR_ASSIGN(Samples samples, Samples::read(graph, options.calibration));
  return std::optional<Samples>(std::move(samples));
}

void watch_passes(const CompileOptions& options, const Program& program, CompileSettings& settings) {
  if (!options.print_after.empty())
    settings.passes.after_pass = [&options, &program](const PassDef& pass, const Graph& graph, size_t changes) {
      if (options.print_after != pass.name && options.print_after != "all") return;
      print("// after {}: {} changes\n{}\n", pass.name, changes, EncodedLines{print(program, graph)});
    };
  if (options.time_passes)
    settings.after_stage = [](std::string_view stage, double milliseconds) { print_error("{:>9.2f} ms  {}\n", milliseconds, stage); };
}

bool reports(const CompileOptions& options) { return options.report_quantization || !options.quantization_json.empty(); }

// What chooses or keeps ranges is for float models. `--calibrate` is not refused: its samples serve reports and the check too; noise serves
// reports alone.
Status check_calibration_is_used(const CompileOptions& options) {
  const std::pair<bool, std::string_view> given[] = {{options.random_samples.has_value() && !reports(options), "--calibrate-random"},
                                                     {!options.save_calibration.empty(), "--save-calibration"},
                                                     {!options.load_calibration.empty(), "--load-calibration"},
                                                     {options.observer != CompileOptions().observer, "--observer"}};
  for (const auto& [is_given, option] : given)
    if (is_given)
      return fail(DiagnosticId::kCalibrationUnused, fmt::format("the model comes quantized: {} has nothing to do", option),
                  "leave the option away, or compile the float model", {.file = options.model});
  return {};
}

// Options that say what the NPU is to do.
Status check_npu_is_there(const CompileOptions& options, const CompileSettings& settings) {
  const std::vector<std::string> backends = recipe_of(settings).backends;
  const bool has_npu = std::ranges::find(backends, "neutron") != backends.end();
  const std::pair<bool, std::string_view> given[] = {{!options.converter.empty(), "--converter"},
                                                     {options.row_packing, "--row-packing"},
                                                     {options.schedule != CompileOptions().schedule, "--schedule"},
                                                     {!options.keep_off.empty(), "--keep-off"},
                                                     {!options.force_on.empty(), "--force-on"}};
  for (const auto& [is_given, option] : given)
    if (is_given && !has_npu)
      return fail(DiagnosticId::kOptionNeedsNpu,
                  options.recipe.empty() ? fmt::format("{} has nothing to do: `{}` has no NPU", option, settings.target->name)
                                         : fmt::format("{} has nothing to do: the recipe does not have the backend `neutron`", option),
                  "leave the option away, or choose a target and a recipe with an NPU", {.file = options.recipe});
  return {};
}

// Who runs a program that is not Deuteron's own says where its constants lie.
Status check_constants_are_placed(const CompileOptions& options, const CompileSettings& settings) {
  const RecipeSpec spec = recipe_of(settings);
  const bool executorch = std::ranges::find(spec.backends, "executorch") != spec.backends.end();
  if (constants_of(*settings.target, spec) == ConstantMemory::kFlash || (options.converter.empty() && !executorch)) return {};
  return fail(DiagnosticId::kRecipeInvalid,
              executorch ? "constants cannot be placed in SRAM: ExecuTorch's runtime says where those of its programs lie"
                         : "constants cannot be placed in SRAM: NXP's converter and driver say where those of the NPU lie",
              executorch ? "leave --constants, or `constants` in the recipe, away"
                         : "leave `constants` in the recipe away, and give the converter its own option (--fetch_constants_to_sram)",
              {.file = options.recipe});
}

// What ExecuTorch's Inspector shows of a run are nodes of a graph of PyTorch: other models have none.
Status check_has_torch_graph(const CompileOptions& options) {
  DTR_ASSIGN(const FileKind kind, file_kind(options.model));
  if (kind == FileKind::kTflite || kind == FileKind::kText)
    return fail(
        DiagnosticId::kModelUnknown,
        fmt::format("--etrecord needs a graph of PyTorch and the model is {}", kind == FileKind::kTflite ? "a .tflite file" : "IR text"),
        "see its profile with `deuteron profile --program`, or give a .pt2", {.file = options.model});
  if (!options.debug_map)
    return fail(DiagnosticId::kNoDebugMap, "a record says what the debug map says and --no-debug-map leaves that out",
                "leave out --no-debug-map", {.file = options.model});
  return {};
}

Result<std::vector<std::byte>> make_etrecord(const CompileOptions& options, std::span<const std::byte> model,
                                             const CompiledProgram& compiled, std::span<const TensorView> sample) {
  DTR_ASSIGN(const ProgramImage image, ProgramImage::parse(compiled.pte, options.model));
  DTR_ASSIGN(const pt2::EdgeProgram edge, pt2::to_edge_program(model, options.model, debug_handles(*image.debug_map())));
  return to_etrecord(image, edge, sample);
}

// The program, whose file is open already, and what belongs to it: all of it is written, or nothing.
Status write_outputs(const CompileOptions& options, OutputFile program, std::span<const std::byte> model, const CompiledProgram& compiled,
                     std::span<const TensorView> sample) {
  DTR_TRY(program.write(compiled.pte));
  std::vector<OutputFile> files;
  files.push_back(std::move(program));
  const auto add = [&](const std::string& path, std::span<const std::byte> bytes) -> Status {
    DTR_ASSIGN(OutputFile file, OutputFile::create(path));
    DTR_TRY(file.write(bytes));
    files.push_back(std::move(file));
    return {};
  };
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  if (!options.external_constants.empty()) DTR_TRY(add(options.external_constants, compiled.tensor_file));
  if (!options.etrecord.empty()) {
    DTR_ASSIGN(const std::vector<std::byte> record, make_etrecord(options, model, compiled, sample));
    DTR_TRY(add(options.etrecord, record));
  }
  if (!options.placement.empty()) DTR_TRY(add(options.placement, bytes_of(placement_json(compiled.report))));
  if (!options.report_json.empty()) DTR_TRY(add(options.report_json, bytes_of(to_json(compiled.report))));
  return OutputFile::commit(files);
}

}  // namespace

Status compile(const CommonOptions& common, const CompileOptions& options) {
  const ConverterOptions converter{
      .command = options.converter, .keep = options.keep_neutron_ir, .limit = std::chrono::seconds(options.converter_seconds)};
  const NeutronSchedule schedule = options.schedule == "nxp-like" ? NeutronSchedule::kNxpLike : NeutronSchedule::kOwn;
  std::optional<ConstantMemory> constants;
  if (!options.constants.empty()) constants = options.constants == "sram" ? ConstantMemory::kSram : ConstantMemory::kFlash;
  CompileSettings settings{
      .backend = {.constants = constants, .row_packing = options.row_packing, .schedule = schedule, .converter = converter},
      .io = options.io == "int8" ? Io::kInt8 : Io::kFloat,
      .observer = options.observer == "min-max" ? QuantSpec::Observer::kMinMax : QuantSpec::Observer::kHistogram,
      .keep_off = options.keep_off,
      .force_on = options.force_on,
      .debug_map = options.debug_map,
      .external_constants = !options.external_constants.empty(),
      .threads = common.threads};
  settings.weigh_costs = std::erase(settings.force_on, "all") == 0;
  DTR_ASSIGN(settings.target, resolve_target(options.target));
  if (!options.recipe.empty()) {
    DTR_ASSIGN(settings.recipe, read_recipe(options.recipe, *settings.target));
    settings.recipe->options.row_packing |= options.row_packing;
    settings.recipe->options.schedule = schedule;
    settings.recipe->options.converter = converter;
    if (constants) settings.recipe->options.constants = constants;
  }
  DTR_TRY(check_npu_is_there(options, settings));
  DTR_TRY(check_constants_are_placed(options, settings));
  const std::string output =
      options.output.empty() ? std::filesystem::path(options.model).replace_extension(".pte").string() : options.output;
  DTR_TRY(check_outputs({options.model, options.calibration, options.load_calibration, options.recipe},
                        {output, options.save_calibration, options.report_json, options.placement, options.patterns,
                         options.quantization_json, options.emit_ir, options.external_constants, options.etrecord}));
  if (!options.etrecord.empty()) DTR_TRY(check_has_torch_graph(options));
  // A folder that is not there is better known before the work than after it.
  DTR_ASSIGN(OutputFile file, OutputFile::create(output));

  DTR_ASSIGN(Program program, read_model(options.model));
  if (!options.stop_at.empty()) DTR_TRY(stop_at(program, options.stop_at));
  DTR_TRY(check_model(program, *settings.target));
  DTR_ASSIGN(const FileContents model, FileContents::read(options.model));
  settings.source_hash = content_hash(model.bytes());
  watch_passes(options, program, settings);
  Remarks remarks;
  settings.passes.remarks = &remarks;
  const Graph float_graph = program.forward();
  DTR_ASSIGN(std::optional<Samples> samples, read_samples(float_graph, options));

  std::optional<ConversionReport> conversion;
  const bool comes_quantized = is_quantized(program.forward());
  if (comes_quantized) {
    DTR_TRY(check_calibration_is_used(options));
    DTR_TRY(import_quantization(program, settings));
  } else {
    std::optional<CalibrationResult> calibration;
    if (!options.load_calibration.empty() && options.random_samples && !reports(options))
      return fail(DiagnosticId::kCalibrationUnused, "the ranges are those of --load-calibration: --calibrate-random has nothing to do",
                  "leave one of the options away", {.file = options.load_calibration});
    if (!options.load_calibration.empty()) {
      DTR_ASSIGN(calibration, load_calibration(options.load_calibration));
    }
    TerminalProgress progress("calibrate");
    settings.progress = progress.function();
    DTR_ASSIGN(conversion, quantize_program(program, settings, samples ? &*samples : nullptr, calibration));
    if (!options.save_calibration.empty()) DTR_TRY(save_calibration(options.save_calibration, *calibration));
  }
  if (options.verbose)
    for (const Remark& remark : remarks.list()) print_error("{}\n", common.json_diagnostics ? to_json(remark) : to_text(remark));
  if (conversion && options.verbose && !common.json_diagnostics) print_error("{}", EncodedLines{patterns_text(*conversion)});
  if (!options.patterns.empty()) DTR_TRY(write_file(options.patterns, patterns_json(conversion ? *conversion : ConversionReport{})));
  const Graph quantized_graph = program.forward();
  if (reports(options)) {
    if (!samples)
      return fail(DiagnosticId::kCalibrationMissing, "the report on quantization runs the model on samples and there are none",
                  "give samples of real inputs with --calibrate DATA.npz", {.file = program.file});
    const Graph ideal = conversion ? conversion->float_graph : float_counterpart(quantized_graph);
    DTR_ASSIGN(const QuantizationReport report,
               report_quantization(program, ideal, quantized_graph, *samples, conversion ? conversion->selected : std::vector<ValueId>{}));
    if (options.report_quantization) print("{}\n", EncodedLines{to_text(report)});
    if (!options.quantization_json.empty()) DTR_TRY(write_file(options.quantization_json, to_json(report)));
  }
  if (!options.emit_ir.empty()) DTR_TRY(write_file(options.emit_ir, print(program, {.elide_constants = options.elide_constants})));

  DTR_ASSIGN(CompiledProgram compiled, compile_program(program, settings, conversion ? &*conversion : nullptr));
  // What a converter made runs where NXP's driver is.
  if (options.check && options.converter.empty())
    DTR_TRY(check_program(program, float_graph, quantized_graph, samples ? &*samples : nullptr, compiled, options.min_sqnr));

  DTR_TRY(write_outputs(options, std::move(file), model.bytes(), compiled,
                        options.calibration.empty() ? std::span<const TensorView>() : samples->inputs(0)));
  print("{}program {}\n", EncodedLines{to_text(compiled.report)}, output);
  if (!options.external_constants.empty())
    print("tensors {}{}\n", options.external_constants,
          compiled.report.external_bytes == 0 ? ": none, all constants are in the payloads of delegates" : "");
  return {};
}

}  // namespace dtr::tools
