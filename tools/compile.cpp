// deuteron compile
#include "compiler/pipeline/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "compiler/ir/printer.h"
#include "compiler/pipeline/pattern_report.h"
#include "compiler/pipeline/placement_report.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "compiler/support/text.h"
#include "compiler/targets/target.h"
#include "host/accuracy/check.h"
#include "host/accuracy/quantization_report.h"
#include "host/profiler/etrecord.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct CompileOptions {
  std::string model, output;
  std::string external_constants;          // .ptd
  std::string converter, keep_neutron_ir;  // command, folder
  uint32_t converter_seconds = 600;
  unsigned threads = 0;
  std::string etrecord;
  std::string target{default_target().name};
  std::string recipe;                              // .json, instead of the target's
  std::string calibration;                         // .npz, .npy
  std::optional<uint32_t> random_samples;          // calibrate on noise, asked for by name
  std::string load_calibration, save_calibration;  // .json
  std::string observer = "histogram";
  std::string io = "float";
  std::vector<std::string> keep_off,
      force_on;         // nodes or operators; "all" forces whatever the NPU can run
  std::string stop_at;  // node
  std::string report_json, placement, patterns, quantization_json, emit_ir, print_after;
  bool report_quantization = false;
  bool check = true;
  double min_sqnr = kLeastCheckDecibels;
  bool row_packing = false;
  std::string schedule = "own";
  std::string constants;  // "sram", "flash"; empty: as the recipe or the target has it
  bool debug_map = true;
  bool time_passes = false;
  bool verbose = false;
  bool elide_constants = false;
};

// Options stand in the order of the help.
CLI::Option* add_converter_options(CLI::App* verb, CompileOptions& o) {
  CLI::Option* converter =
      verb->add_option("--converter", o.converter,
                       "Let NXP's converter make the payloads of the NPU: a command, called with "
                       "--input, --output and --target behind it "
                       "(docs/recipes.md)")
          ->type_name("CMD")
          ->check(CLI::Validator(
              [](const std::string& text) {
                const auto words = shell_words(text);
                return std::string(!words           ? "a quote in the command has no end"
                                   : words->empty() ? "the command is empty"
                                                    : "");
              },
              "", "command"));
  verb->add_option("--keep-neutron-ir", o.keep_neutron_ir,
                   "Leave what the converter reads and writes in this folder (.tflite)")
      ->type_name("FOLDER")
      ->needs(converter);
  verb->add_option("--converter-seconds", o.converter_seconds, "End a conversion that takes longer")
      ->check(CLI::Range(1, 86400))
      ->needs(converter)
      ->capture_default_str();
  return converter;
}

void add_calibration_options(CLI::App* verb, CompileOptions& o) {
  CLI::Option* calibrate = verb->add_option(
      "--calibrate", o.calibration,
      "Calibration data (.npz, .npy): arrays named as the inputs, or input, input_0, input_1, ...");
  verb->add_option("--calibrate-random", o.random_samples,
                   "Calibrate on this many samples of noise; the accuracy will be poor")
      ->check(CLI::Range(1, 10000))
      ->excludes(calibrate);
  CLI::Option* load = verb->add_option("--load-calibration", o.load_calibration,
                                       "Reuse ranges written by --save-calibration (.json)");
  verb->add_option("--save-calibration", o.save_calibration, "Write the observed ranges (.json)")
      ->excludes(load);
  verb->add_option("--observer", o.observer, "How ranges come from observed values")
      ->check(CLI::IsMember({"histogram", "min-max"}))
      ->excludes(load)
      ->capture_default_str();
}

void add_program_options(CLI::App* verb, CLI::Option* converter, CompileOptions& o) {
  verb->add_option(
          "--io", o.io,
          "Inputs and outputs of the program: float, or int8 without quantize and dequantize")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  CLI::Option* no_check =
      verb->add_flag("!--no-check", o.check,
                     "Do not run the program on one sample and compare it with the float model");
  verb->add_option("--min-sqnr", o.min_sqnr,
                   "Refuse the program if an output has fewer dB than this in that comparison "
                   "(-99: accept any)")
      ->check(number(-99, 99, ""))
      ->excludes(no_check)
      ->capture_default_str();
  verb->add_flag("--row-packing", o.row_packing,
                 "Let convolutions of few channels fill the array from neighbouring columns (an "
                 "assumption, see docs/npu.md)")
      ->excludes(converter);
  verb->add_option("--schedule", o.schedule,
                   "Kernels and calls of the NPU: Deuteron's own, or like those that NXP's "
                   "converter lists, for comparison (docs/npu.md)")
      ->check(CLI::IsMember({"own", "nxp-like"}))
      ->excludes(converter)
      ->capture_default_str();
  verb->add_option("--constants", o.constants,
                   "Where constants lie when the program starts: in flash, from which the NPU's "
                   "are copied while it runs, or in SRAM with the "
                   "whole program, where nothing waits; default: the recipe's, else the target's "
                   "(docs/npu.md)")
      ->check(CLI::IsMember({"sram", "flash"}))
      ->excludes(converter);
  verb->add_flag("!--no-debug-map", o.debug_map, "Leave out the map that verify and profile read");
  verb->add_option("--etrecord", o.etrecord,
                   "Write what ExecuTorch's Inspector needs to tell a profile in terms of the "
                   "model (ETRecord, docs/profiling.md)");
}

void add_placement_options(CLI::App* verb, CompileOptions& o) {
  verb->add_option("--keep-off", o.keep_off,
                   "Keep a node, or every node of an operator, off the NPU (repeatable)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
  verb->add_option("--force-on", o.force_on,
                   "Run a node or operator on the NPU even where handing it over costs more than "
                   "it saves; an error if it cannot run there "
                   "(repeatable; all: whatever can)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
  verb->add_option("--stop-at", o.stop_at, "Compile up to this node: its value becomes the output")
      ->type_name("NODE");
}

void add_report_options(CLI::App* verb, CompileOptions& o) {
  verb->add_option("--placement", o.placement,
                   "Write why operators are not on the NPU, as JSON (docs/placement.md)");
  verb->add_option("--patterns", o.patterns,
                   "Write which backend quantizes which operator, and what the others said, as "
                   "JSON (docs/recipes.md)");
  verb->add_flag("--report-quantization", o.report_quantization,
                 "Print range, scale, saturation and SQNR of every tensor, and the error that "
                 "every operator adds, on up to 8 samples");
  verb->add_option("--quantization-json", o.quantization_json,
                   "Write the same as JSON (docs/quantization.md)");
  verb->add_option("--report-json", o.report_json,
                   "Write operators, cycles, memory and refusals as JSON");
  CLI::Option* emit_ir =
      verb->add_option("--emit-ir", o.emit_ir, "Write the quantized graph as IR text");
  verb->add_flag(
          "--elide-constants", o.elide_constants,
          "In --emit-ir, write big constants as seeded<n>: same shapes and costs, other contents")
      ->needs(emit_ir);
}

void add_pass_options(CLI::App* verb, CompileOptions& o) {
  std::vector<std::string> passes{"all"};
  for (const PassDef* pass : all_passes()) passes.emplace_back(pass->name);
  verb->add_option("--print-after", o.print_after,
                   "Print the graph after a pass (its name, or all)")
      ->type_name("PASS")
      ->check(CLI::Validator(
          [passes](const std::string& name) {
            return std::ranges::find(passes, name) != passes.end()
                       ? std::string()
                       : "there is no pass " + name + "; docs/passes.md lists them";
          },
          "", "pass"));
  verb->add_flag("-v,--verbose", o.verbose,
                 "Print why passes left operators as they are, such as a batch norm that is not "
                 "folded, which quantization patterns were "
                 "rejected and where quantizations met");
  verb->add_flag("--time-passes", o.time_passes, "Print the time of every pass and stage");
}

const CLI::App* add_compile(CLI::App& app, CompileOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "compile", "Compile a model for a target: quantize, place, schedule, check, write a .pte");
  verb->add_option("MODEL", o.model, "Model: .pt2 (torch.export), .tflite, or IR text (.ir)")
      ->required();
  verb->add_option("-o,--output", o.output,
                   "Program to write; default: the model's name with .pte");
  verb->add_option("--external-constants", o.external_constants,
                   "Write the constants that kernels of the CPU read into a tensor file (.ptd) "
                   "instead of the program (docs/runtime.md)");
  add_target(verb, o.target, "Target, see `deuteron targets`");
  verb->add_option(
      "--recipe", o.recipe,
      "Backends, their options and constraints instead of the target's (.json, docs/recipes.md)");
  CLI::Option* converter = add_converter_options(verb, o);
  add_calibration_options(verb, o);
  add_program_options(verb, converter, o);
  add_placement_options(verb, o);
  add_report_options(verb, o);
  add_pass_options(verb, o);
  add_threads(verb, o.threads);
  example(verb,
          "deuteron compile models/digits_cnn/float.pt2 --calibrate "
          "models/digits_cnn/calibration.npz -o digits.pte");
  return verb;
}

void watch_passes(const CompileOptions& options, CompileSettings& settings) {
  if (!options.print_after.empty())
    settings.passes.after_pass = [&options](const PassDef& pass, const Program& program,
                                            const Graph& graph, size_t changes) {
      if (options.print_after != pass.name && options.print_after != "all") return;
      print("// after {}: {} changes\n{}\n", pass.name, changes,
            EncodedLines{print(program, graph)});
    };
  if (options.time_passes)
    settings.after_step = [](std::string_view step, double milliseconds) {
      print_error("{:>9.2f} ms  {}\n", milliseconds, step);
    };
}

bool reports(const CompileOptions& options) {
  return options.report_quantization || !options.quantization_json.empty();
}

// What chooses or keeps ranges is for float models. `--calibrate` is not refused: its samples serve
// reports and the check too; noise serves reports alone.
Status check_calibration_is_used(const CompileOptions& options) {
  const std::pair<bool, std::string_view> given[] = {
      {options.random_samples.has_value() && !reports(options), "--calibrate-random"},
      {!options.save_calibration.empty(), "--save-calibration"},
      {!options.load_calibration.empty(), "--load-calibration"},
      {options.observer != CompileOptions().observer, "--observer"}};
  for (const auto& [is_given, option] : given)
    if (is_given)
      return fail(DiagnosticId::kCalibrationUnused,
                  fmt::format("the model comes quantized: {} has nothing to do", option),
                  "leave the option away, or compile the float model", {.file = options.model});
  return {};
}

// Options that say what the NPU is to do.
Status check_npu_is_there(const CompileOptions& options, const CompileSettings& settings) {
  const bool has_npu = uses_npu(recipe_of(settings));
  const std::pair<bool, std::string_view> given[] = {
      {!options.converter.empty(), "--converter"},
      {options.row_packing, "--row-packing"},
      {options.schedule != CompileOptions().schedule, "--schedule"},
      {!options.keep_off.empty(), "--keep-off"},
      {!options.force_on.empty(), "--force-on"}};
  for (const auto& [is_given, option] : given)
    if (is_given && !has_npu)
      return fail(
          DiagnosticId::kOptionNeedsNpu,
          options.recipe.empty()
              ? fmt::format("{} has nothing to do: `{}` has no NPU", option, settings.target->name)
              : fmt::format("{} has nothing to do: no backend of the recipe runs on the NPU",
                            option),
          "leave the option away, or choose a target and a recipe with an NPU",
          {.file = options.recipe});
  return {};
}

// Who runs a program that is not Deuteron's own says where its constants lie.
Status check_constants_are_placed(const CompileOptions& options, const CompileSettings& settings) {
  const RecipeSpec spec = recipe_of(settings);
  const std::string_view placed_by = who_places_constants(spec);
  if (constants_of(*settings.target, spec) == ConstantMemory::kFlash || placed_by.empty())
    return {};
  const bool converted = !spec.options.converter.command.empty();
  return fail(
      DiagnosticId::kRecipeInvalid,
      fmt::format("constants cannot be placed in SRAM: {} those of `{}`",
                  converted ? "NXP's converter and driver place" : "its runtime places", placed_by),
      converted ? "leave `constants` in the recipe away, and give the converter its own "
                  "option (--fetch_constants_to_sram)"
                : "leave --constants, or `constants` in the recipe, away",
      {.file = options.recipe});
}

// What ExecuTorch's Inspector shows of a run are nodes of a graph of PyTorch: other models have
// none.
Status check_has_torch_graph(const CompileOptions& options, FileKind kind) {
  if (kind == FileKind::kTflite || kind == FileKind::kText)
    return fail(DiagnosticId::kModelUnknown,
                fmt::format("--etrecord needs a graph of PyTorch and the model is {}",
                            kind == FileKind::kTflite ? "a .tflite file" : "IR text"),
                "see its profile with `deuteron profile --program`, or give a .pt2",
                {.file = options.model});
  if (!options.debug_map)
    return fail(DiagnosticId::kNoDebugMap,
                "a record says what the debug map says and --no-debug-map leaves that out",
                "leave out --no-debug-map", {.file = options.model});
  return {};
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
  CompileSettings settings{.backend = {.constants = constants,
                                       .row_packing = options.row_packing,
                                       .schedule = schedule,
                                       .converter = converter},
                           .observer = options.observer == "min-max"
                                           ? QuantSpec::Observer::kMinMax
                                           : QuantSpec::Observer::kHistogram,
                           .stop_at = options.stop_at,
                           .io = options.io == "int8" ? Io::kInt8 : Io::kFloat,
                           .keep_off = options.keep_off,
                           .force_on = options.force_on,
                           .debug_map = options.debug_map,
                           .external_constants = !options.external_constants.empty(),
                           .threads = options.threads};
  settings.weigh_costs = std::erase(settings.force_on, "all") == 0;
  if (options.random_samples) settings.samples = NoiseSamples{*options.random_samples};
  if (!options.calibration.empty()) settings.samples = SampleFile{options.calibration};
  if (!options.load_calibration.empty())
    settings.ranges = CalibrationFile{options.load_calibration};
  DTR_ASSIGN(settings.target, resolve_target(options.target));
  if (!options.recipe.empty()) {
    DTR_ASSIGN(settings.recipe, read_recipe(options.recipe, *settings.target));
    settings.recipe->options.row_packing |= options.row_packing;
    settings.recipe->options.schedule = schedule;
    if (!converter.command.empty()) use_converter(*settings.recipe, converter);
    if (constants) settings.recipe->options.constants = constants;
  }
  return settings;
}

// Before the work: what the model's kind and its quantization make of the options.
Status check_read(const CompileOptions& options, const Compilation& model) {
  if (!options.etrecord.empty()) DTR_TRY(check_has_torch_graph(options, model.kind));
  if (model.came_quantized) return check_calibration_is_used(options);
  if (!options.load_calibration.empty() && options.random_samples && !reports(options))
    return fail(DiagnosticId::kCalibrationUnused,
                "the ranges are those of --load-calibration: --calibrate-random has nothing to do",
                "leave one of the options away", {.file = options.load_calibration});
  return {};
}

// What is known before placement: remarks, patterns, the report on quantization, the graph.
Status write_quantized(const CommonOptions& common, const CompileOptions& options,
                       const Compilation& model) {
  if (!options.save_calibration.empty())
    DTR_TRY(save_calibration(options.save_calibration, *model.calibration));
  if (options.verbose)
    for (const Remark& remark : model.remarks.list())
      print_error("{}\n", common.json_diagnostics ? to_json(remark) : to_text(remark));
  if (options.verbose && !common.json_diagnostics)
    print_error("{}", EncodedLines{patterns_text(model)});
  if (!options.patterns.empty()) DTR_TRY(write_file(options.patterns, patterns_json(model)));
  if (reports(options)) {
    DTR_ASSIGN(const QuantizationReport report, report_quantization(model));
    if (options.report_quantization) print("{}\n", EncodedLines{to_text(report)});
    if (!options.quantization_json.empty())
      DTR_TRY(write_file(options.quantization_json, to_json(report)));
  }
  if (options.emit_ir.empty()) return {};
  return write_file(options.emit_ir,
                    print(model.program, {.elide_constants = options.elide_constants}));
}

Result<std::vector<std::byte>> make_etrecord(const CompileOptions& options,
                                             const Compilation& compiled) {
  DTR_ASSIGN(const ProgramImage image, ProgramImage::parse(compiled.pte(), options.model));
  DTR_ASSIGN(const pt2::EdgeProgram edge, pt2::to_edge_program(compiled.model_bytes, options.model,
                                                               debug_handles(*image.debug_map())));
  return to_etrecord(
      image, edge,
      options.calibration.empty() ? std::vector<TensorView>() : compiled.samples()->inputs(0));
}

// The program, whose file is open already, and what belongs to it: all of it is written, or
// nothing.
Status write_outputs(const CompileOptions& options, OutputFile program, const Compilation& compiled,
                     const CompileReport& report) {
  DTR_TRY(program.write(compiled.pte()));
  std::vector<OutputFile> files;
  files.push_back(std::move(program));
  const auto add = [&](const std::string& path, std::span<const std::byte> bytes) -> Status {
    DTR_ASSIGN(OutputFile file, OutputFile::create(path));
    DTR_TRY(file.write(bytes));
    files.push_back(std::move(file));
    return {};
  };
  const auto bytes_of = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  if (!options.external_constants.empty())
    DTR_TRY(add(options.external_constants, compiled.tensor_file()));
  if (!options.etrecord.empty()) {
    DTR_ASSIGN(const std::vector<std::byte> record, make_etrecord(options, compiled));
    DTR_TRY(add(options.etrecord, record));
  }
  if (!options.placement.empty()) DTR_TRY(add(options.placement, bytes_of(placement_json(report))));
  if (!options.report_json.empty()) DTR_TRY(add(options.report_json, bytes_of(to_json(report))));
  return OutputFile::commit(files);
}

Status run_compile(const CommonOptions& common, const CompileOptions& options) {
  DTR_ASSIGN(CompileSettings settings, settings_of(options));
  DTR_TRY(check_npu_is_there(options, settings));
  DTR_TRY(check_constants_are_placed(options, settings));
  const std::string output =
      options.output.empty()
          ? std::filesystem::path(options.model).replace_extension(".pte").string()
          : options.output;
  DTR_TRY(check_outputs(
      {options.model, options.calibration, options.load_calibration, options.recipe},
      {output, options.save_calibration, options.report_json, options.placement, options.patterns,
       options.quantization_json, options.emit_ir, options.external_constants, options.etrecord}));
  // A folder that is not there is better known before the work than after it.
  DTR_ASSIGN(OutputFile file, OutputFile::create(output));

  watch_passes(options, settings);
  std::optional<TerminalProgress> progress("calibrate");
  settings.progress = progress->function();
  settings.on_read = [&](const Compilation& model) { return check_read(options, model); };
  settings.on_quantized = [&](const Compilation& model) {
    progress.reset();  // erases its line
    return write_quantized(common, options, model);
  };
  DTR_ASSIGN(const Compilation compiled, compile_model(options.model, settings));
  // What a converter made runs where NXP's driver is.
  std::optional<CheckFigures> check;
  if (options.check && options.converter.empty()) {
    DTR_ASSIGN(check, check_program(compiled, options.min_sqnr));
  }
  const CompileReport report = compile_report(compiled, check);
  DTR_TRY(write_outputs(options, std::move(file), compiled, report));
  print("{}program {}\n", EncodedLines{to_text(report)}, output);
  if (!options.external_constants.empty())
    print(
        "tensors {}{}\n", options.external_constants,
        report.external_bytes == 0 ? ": none, all constants are in the payloads of delegates" : "");
  return {};
}

}  // namespace

std::unique_ptr<Verb> compile_verb() {
  return std::make_unique<VerbOf<CompileOptions, &add_compile, &run_compile>>();
}

}  // namespace dtr::tools
