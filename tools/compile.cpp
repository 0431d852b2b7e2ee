// deuteron compile
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "compiler/support/encode.h"
#include "compiler/support/progress.h"
#include "compiler/support/text.h"
#include "compiler/transforms/pass.h"
#include "host/commands/compile_options.h"
#include "tools/execution.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct CompileVerb {
  ExecutorOptions executor;
  CompileOptions options;                        // of every method
  std::vector<std::string> models, calibration;  // NAME=FILE, or one FILE
};

// Options stand in the order of the help.
CLI::Option* add_converter_options(CLI::App* verb, CompileOptions& o) {
  CLI::Option* converter =
      verb->add_option(
              "--converter", o.converter,
              "Command of NXP's converter, which then makes the payloads of the NPU: it is "
              "called with --input, --output and --target appended (docs/recipes.md)")
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
                   "Keep the files that the converter reads and writes in this folder (.tflite)")
      ->type_name("FOLDER")
      ->needs(converter);
  verb->add_option("--converter-seconds", o.converter_seconds,
                   "Stop the converter after so many seconds")
      ->check(CLI::Range(1, 86400))
      ->needs(converter)
      ->capture_default_str();
  return converter;
}

void add_calibration_options(CLI::App* verb, std::vector<std::string>& data, CompileOptions& o) {
  CLI::Option* load = add_calibration(verb, data, o.random_samples, o.load_calibration);
  verb->add_option("--calibration-samples", o.calibration_samples,
                   "Calibrate on at most so many of the samples, evenly spaced (of a model with "
                   "states: the first ones)")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->excludes(load)
      ->excludes(verb->get_option("--calibrate-random"));
  verb->add_option("--save-calibration", o.save_calibration, "Write the observed ranges (.json)")
      ->excludes(load);
  verb->add_option("--observer", o.observer,
                   "How the range of a value is computed from the observed values")
      ->check(CLI::IsMember(std::vector<std::string>(QuantSpec::kObserverNames.begin(),
                                                     QuantSpec::kObserverNames.end())))
      ->excludes(load)
      ->capture_default_str();
}

void add_accuracy_options(CLI::App* verb, CompileOptions& o) {
  verb->add_option(
          "--accuracy", o.accuracy,
          "auto: search the settings with which the program is nearest to the float model, "
          "judged on held-out samples in the simulator (docs/quantization.md)")
      ->check(CLI::IsMember({"default", "auto"}))
      ->capture_default_str();
  verb->add_option("--data", o.data,
                   "For --accuracy auto: labelled samples (.npz), inputs and class numbers");
  verb->add_option("--labels", o.labels, "Array of class numbers in --data")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--max-loss", o.max_loss,
                   "For --accuracy auto: keep operators float until the accuracy is at most so "
                   "many points below the float model's (0.5pt); or --min-sqnr, in dB")
      ->type_name("POINTS");
  verb->add_option("--seconds", o.seconds, "End the search of --accuracy auto after so long")
      ->check(number(0, 86400, ""))
      ->default_str("60");
  verb->add_flag("--equalize", o.equalize,
                 "Scale channels of activations against the weights beside them, so that one "
                 "quantization fits all channels");
  verb->add_flag("--rotate", o.rotate,
                 "Mix the channels of residual streams by a rotation that layers take into their "
                 "weights, so that a few far channels cost the others no codes");
  verb->add_option("--round-weights", o.round_weights,
                   "Round each weight to the nearest code, or all of a layer so that the error of "
                   "its results is least")
      ->check(CLI::IsMember({"nearest", "error"}))
      ->capture_default_str();
  verb->add_option(
          "--keep-float", o.keep_float,
          "Do not quantize a node, or every node of an operator (repeatable; all: the whole "
          "model, whose program needs no samples and leaves the NPU out)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
}

void add_program_options(CLI::App* verb, CLI::Option* converter, CompileOptions& o) {
  verb->add_option(
          "--io", o.io,
          "Inputs and outputs of the program: float, or int8 without quantize and dequantize")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  CLI::Option* no_check = verb->add_flag(
      "!--no-check", o.check, "Do not run the program on samples and compare it with the model");
  verb->add_option("--min-sqnr", o.min_sqnr,
                   "Refuse the program if the SQNR of an output in that comparison is below this "
                   "many dB (-99: accept any; default 3, where samples are given); with --accuracy "
                   "auto, the goal of the search")
      ->check(number(-99, 99, ""))
      ->excludes(no_check);
  verb->add_flag("--row-packing", o.row_packing,
                 "Let convolutions with few channels fill the MAC array from neighbouring columns "
                 "(an assumption about the NPU, docs/npu.md)")
      ->excludes(converter);
  verb->add_option("--schedule", o.schedule,
                   "Kernel calls of the NPU: Deuteron's own, or those that NXP's converter would "
                   "list, for comparison (docs/npu.md)")
      ->check(CLI::IsMember({"own", "nxp-like"}))
      ->excludes(converter)
      ->capture_default_str();
  verb->add_option("--sram", o.sram,
                   "Bytes of SRAM that the program may use (64K, 1M); the compiler searches for "
                   "the fastest program within them (docs/memory.md); default: the recipe's, else "
                   "all that the target has")
      ->type_name("BYTES")
      ->excludes(converter);
  verb->add_option("--optimize", o.optimize,
                   "Choose the program without a budget if it fits, else the fastest that is found "
                   "(speed), the smallest with at most 1 % more cycles (balance), or the smallest "
                   "(size); default: the recipe's, else speed")
      ->check(CLI::IsMember({"speed", "balance", "size"}))
      ->excludes(converter);
  verb->add_option(
          "--constants", o.constants,
          "Memory of the constants when the program starts: flash, from which it copies "
          "the NPU's constants while it runs, or SRAM, together with the whole program, so "
          "that no call waits for a copy; default: the recipe's, else the target's "
          "(docs/npu.md)")
      ->check(CLI::IsMember({"sram", "flash"}))
      ->excludes(converter);
  verb->add_flag("!--no-debug-map", o.debug_map, "Leave out the map that verify and profile read");
  verb->add_option("--etrecord", o.etrecord,
                   "Write the record with which ExecuTorch's Inspector maps a profile to the model "
                   "(ETRecord, docs/profiling.md)");
}

void add_placement_options(CLI::App* verb, CompileOptions& o) {
  verb->add_option(
          "--keep-off", o.keep_off,
          "Keep a node, or every node of an operator, off the NPU (repeatable; all: the whole "
          "model)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
  verb->add_option("--force-on", o.force_on,
                   "Run a node or operator on the NPU even if the call costs more cycles than it "
                   "saves; an error if the NPU cannot run it (repeatable; all: everything that the "
                   "NPU can run)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
  verb->add_option("--stop-at", o.stop_at, "Compile up to this node: its value becomes the output")
      ->type_name("NODE");
}

void add_report_options(CLI::App* verb, CompileOptions& o) {
  verb->add_option("--placement", o.placement,
                   "Write why operators are not on the NPU, as JSON (docs/placement.md)");
  verb->add_option("--patterns", o.patterns,
                   "Write which backend quantizes each operator, and why others do not, as JSON "
                   "(docs/recipes.md)");
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
                 "Print why passes did not change an operator, such as a batch norm that is not "
                 "folded, which quantization patterns were rejected, and for which values two "
                 "operators need different quantizations");
  verb->add_flag("--time-passes", o.time_passes, "Print the time of every pass and stage");
}

// A value for one method: METHOD=VALUE.
struct MethodValue {
  std::string method, value;
};
MethodValue split(const std::string& text) {
  const size_t at = text.find('=');
  return at == std::string::npos ? MethodValue{"", text}
                                 : MethodValue{text.substr(0, at), text.substr(at + 1)};
}

// A file may have a `=` in its name.
bool is_one_file(const std::vector<std::string>& models) {
  std::error_code none;
  return models.size() == 1 && (models.front().find('=') == std::string::npos ||
                                std::filesystem::exists(models.front(), none));
}

// What concerns one method; a value without a method is for all. `part`: what the value itself has.
std::vector<std::string> values_of(const std::vector<std::string>& values,
                                   const std::string& method, const std::vector<std::string>& names,
                                   std::string_view part = "") {
  std::vector<std::string> own;
  for (const std::string& text : values) {
    const MethodValue value = split(text);
    const bool of_one = std::ranges::find(names, value.method) != names.end() &&
                        value.value.find(part) != std::string::npos;
    if (!of_one)
      own.push_back(text);
    else if (value.method == method)
      own.push_back(value.value);
  }
  return own;
}

std::vector<std::string> names_of(const std::vector<std::string>& models) {
  std::vector<std::string> names;
  for (const std::string& model : models) names.push_back(split(model).method);
  return names;
}

// Mistakes in the names of methods, and options that are for one model.
std::string misuse_of_compile(const CLI::App& verb) {
  const std::vector<std::string> models = verb.get_option("MODEL")->results();
  const bool searches =
      verb.count("--accuracy") > 0 && verb.get_option("--accuracy")->as<std::string>() == "auto";
  if (verb.count("--processes") > 0 && !searches)
    return "--processes is for --accuracy auto, whose programs they compile and run";
  if (kHasRanks && !(searches && is_one_file(models)))
    return "ranks share the work of --accuracy auto for one model: add it, or call `deuteron`";
  if (is_one_file(models))
    return verb.count("--calibrate") > 1 ? "--calibrate is given more than once" : "";
  const std::vector<std::string> names = names_of(models);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!is_method_name(names[i]))
      return terminal_format(
          "'{}' names no method: give NAME=MODEL, and as NAME a word of letters, digits and _, at "
          "most 64 long, and none as input0_scale",
          models[i]);
    if (std::ranges::count(names, names[i]) > 1) return "two methods are called " + names[i];
  }
  for (const char* option : {"--external-constants", "--load-calibration", "--save-calibration",
                             "--report-json", "--placement", "--patterns", "--quantization-json",
                             "--emit-ir", "--etrecord", "--stop-at", "--data", "--keep-neutron-ir"})
    if (verb.count(option) > 0)
      return std::string(option) + " is for one model: compile that method alone";
  if (verb.count("--output") == 0) return "give the name of the program with -o";
  for (const std::string& name : names)
    if (values_of(verb.get_option("--calibrate")->results(), name, names).size() > 1)
      return "--calibrate is given more than once for the method " + name;
  return {};
}

const CLI::App* add_compile(CLI::App& app, CompileVerb& v) {
  CLI::App* verb = app.add_subcommand(
      "compile", "Compile a model for a target: quantize, place, schedule, check, write a .pte");
  CompileOptions& o = v.options;
  verb->add_option("MODEL", v.models,
                   "Model: .pt2 (torch.export), .tflite, .onnx, or IR text (.ir); NAME=MODEL ... "
                   "makes each a method of one program (docs/methods.md)")
      ->required();
  verb->add_option("--dim", o.dims,
                   "Size of a dimension that the export left open, by its name or its place: "
                   "batch=1, s77=1, x.0=1 (repeatable); default: that of the --calibrate data")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  verb->add_option("-o,--output", o.output,
                   "Program to write; default: the model's name with .pte");
  verb->add_option("--external-constants", o.external_constants,
                   "Write the constants that kernels of the CPU read into a tensor file (.ptd) "
                   "instead of the program (docs/runtime.md)");
  add_target(verb, o.target, "Target, see `deuteron targets`");
  add_recipe(verb, o.recipe);
  CLI::Option* converter = add_converter_options(verb, o);
  add_calibration_options(verb, v.calibration, o);
  add_accuracy_options(verb, o);
  add_program_options(verb, converter, o);
  add_placement_options(verb, o);
  add_report_options(verb, o);
  add_pass_options(verb, o);
  add_executor(verb, v.executor, "Compile and run the programs of --accuracy auto", "program");
  example(verb,
          "deuteron compile models/digits_cnn/float.pt2 --calibrate "
          "models/digits_cnn/calibration.npz -o digits.pte");
  return verb;
}

Result<void> run_methods(const CompileVerb& given, const CompileWatch& watch) {
  const std::vector<std::string> names = names_of(given.models);
  std::vector<MethodModel> methods;
  for (size_t i = 0; i < names.size(); ++i) {
    CompileOptions own = given.options;
    own.output.clear();
    own.model = split(given.models[i]).value;
    const std::vector<std::string> data = values_of(given.calibration, names[i], names);
    if (!data.empty()) own.calibration = data.front();
    own.dims = values_of(own.dims, names[i], names, "=");
    for (std::vector<std::string>* nodes : {&own.keep_float, &own.keep_off, &own.force_on})
      *nodes = values_of(*nodes, names[i], names);
    methods.push_back({.name = names[i], .options = std::move(own)});
  }
  DTR_ASSIGN(const CompiledMethods made,
             compile_methods(std::move(methods), given.options.output, watch));
  for (size_t i = 0; i < names.size(); ++i)
    print("method {}\n{}\n", names[i], EncodedLines{to_text(made.methods[i].report)});
  print("program {}: {} method{}, {} bytes, of them {} constants and payloads\n",
        given.options.output, names.size(), names.size() == 1 ? "" : "s",
        with_thousands(made.program.bytes.size()),
        with_thousands(
            static_cast<uint64_t>(made.program.sizes.constants + made.program.sizes.payloads)));
  return {};
}

Result<void> run_compile(const CommonOptions& common, const CompileVerb& parsed) {
  const std::unique_ptr<TaskExecutor> executor = make_executor(parsed.executor);
  CompileVerb given = parsed;
  given.options.threads = given.executor.threads;
  given.options.executor = executor.get();
  CompileOptions options = given.options;
  const bool one_file = is_one_file(given.models);
  if (one_file) {
    options.model = given.models.front();
    if (!given.calibration.empty()) options.calibration = given.calibration.front();
  }
  if (options.output.empty())
    options.output = std::filesystem::path(options.model).replace_extension(".pte").string();
  std::optional<TerminalProgress> progress("calibrate");
  const CompileWatch watch{.out = [](std::string_view text) { write_lines(stdout, text); },
                           .err = [](std::string_view text) { write_lines(stderr, text); },
                           .json_diagnostics = common.json_diagnostics,
                           .progress = progress->function(),
                           .on_quantized = [&] { progress.reset(); },  // erases its line
                           .on_step =
                               [&](std::string_view step) {
                                 progress.reset();
                                 print_error("try {}\n", step);
                               }};
  if (!one_file) return run_methods(given, watch);
  DTR_ASSIGN(const CompiledModel compiled, compile_with_options(options.model, options, watch));
  const CompileReport& report = compiled.report;
  print("{}program {}\n", EncodedLines{to_text(report)}, options.output);
  if (!options.external_constants.empty())
    print(
        "tensors {}{}\n", options.external_constants,
        report.external_bytes == 0 ? ": none, all constants are in the payloads of delegates" : "");
  return {};
}

}  // namespace

std::unique_ptr<Verb> compile_verb() {
  return std::make_unique<VerbOf<CompileVerb, &add_compile, &run_compile, &misuse_of_compile>>();
}

}  // namespace dtr::tools
