// The `deuteron` command: options and exit codes. The only file that sees CLI11, which compiles slowly.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <system_error>

#include "compiler/support/interruption.h"
#include "compiler/support/text.h"
#include "compiler/transforms/pass_manager.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace {

using dtr::Diagnostic;
using dtr::Result;
using dtr::Status;
namespace tools = dtr::tools;

enum ExitCode : int { kGood = 0, kBadInput = 1, kUsage = 2, kBug = 3 };

void report(const tools::CommonOptions& common, const Diagnostic& diagnostic) {
  tools::print_error("{}\n", dtr::EncodedLines{common.json_diagnostics ? to_json(diagnostic) : to_text(diagnostic)});
}

int finish(const tools::CommonOptions& common, const Status& status) {
  if (status) return kGood;
  report(common, status.error());
  return kBadInput;
}

constexpr double kLargest = std::numeric_limits<double>::max(), kSmallest = std::numeric_limits<double>::min();

// A limit that something can be held against: CLI::Range takes "nan".
CLI::Validator number(double low, double high, const std::string& description) {
  const auto check = [low, high](const std::string& text) {
    double value = 0;
    if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is not a number", text);
    return value >= low && value <= high ? std::string() : fmt::format("{} is not a number from {} to {}", text, low, high);
  };
  return {check, description, "number"};
}

// Help of a verb ends with an example that works in the root of the repository.
void example(CLI::App* verb, const std::string& text) { verb->footer("Example:\n  " + text); }

void add_tensor_files(CLI::App* verb, std::vector<std::string>& files) {
  verb->add_option("--tensors", files, "Tensor file (.ptd) with constants that lie outside of the program; may be repeated")
      ->allow_extra_args(false);
}

CLI::App* add_compile(CLI::App& app, tools::CompileOptions& o) {
  CLI::App* verb = app.add_subcommand("compile", "Compile a model for a target: quantize, place, schedule, check, write a .pte");
  verb->add_option("MODEL", o.model, "Model: .pt2 (torch.export), .tflite, or IR text (.ir)")->required();
  verb->add_option("-o,--output", o.output, "Program to write; default: the model's name with .pte");
  verb->add_option("--external-constants", o.external_constants,
                   "Write the constants that kernels of the CPU read into a tensor file (.ptd) instead of the program (docs/runtime.md)");
  verb->add_option("--target", o.target, "Target, see `deuteron targets`")->capture_default_str();
  verb->add_option("--recipe", o.recipe, "Backends, their options and constraints instead of the target's (.json, docs/recipes.md)");
  CLI::Option* converter =
      verb->add_option("--converter", o.converter,
                       "Let NXP's converter make the payloads of the NPU: a command, called with --input, --output and --target behind it "
                       "(docs/recipes.md)")
          ->type_name("CMD")
          ->check(CLI::Validator(
              [](const std::string& text) {
                const auto words = dtr::shell_words(text);
                return std::string(!words ? "a quote in the command has no end" : words->empty() ? "the command is empty" : "");
              },
              "", "command"));
  verb->add_option("--keep-neutron-ir", o.keep_neutron_ir, "Leave what the converter reads and writes in this folder (.tflite)")
      ->type_name("FOLDER")
      ->needs(converter);
  verb->add_option("--converter-seconds", o.converter_seconds, "End a conversion that takes longer")
      ->check(CLI::Range(1, 86400))
      ->needs(converter)
      ->capture_default_str();
  CLI::Option* calibrate = verb->add_option("--calibrate", o.calibration,
                                            "Calibration data (.npz, .npy): arrays named as the inputs, or input, input_0, input_1, ...");
  verb->add_option("--calibrate-random", o.random_samples, "Calibrate on this many samples of noise; the accuracy will be poor")
      ->check(CLI::Range(1, 10000))
      ->excludes(calibrate);
  CLI::Option* load = verb->add_option("--load-calibration", o.load_calibration, "Reuse ranges written by --save-calibration (.json)");
  verb->add_option("--save-calibration", o.save_calibration, "Write the observed ranges (.json)")->excludes(load);
  verb->add_option("--observer", o.observer, "How ranges come from observed values")
      ->check(CLI::IsMember({"histogram", "min-max"}))
      ->excludes(load)
      ->capture_default_str();
  verb->add_option("--io", o.io, "Inputs and outputs of the program: float, or int8 without quantize and dequantize")
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  CLI::Option* no_check =
      verb->add_flag("!--no-check", o.check, "Do not run the program on one sample and compare it with the float model");
  verb->add_option("--min-sqnr", o.min_sqnr, "Refuse the program if an output has fewer dB than this in that comparison (-99: accept any)")
      ->check(number(-99, 99, ""))
      ->excludes(no_check)
      ->capture_default_str();
  verb->add_flag("--row-packing", o.row_packing,
                 "Let convolutions of few channels fill the array from neighbouring columns (an assumption, see docs/npu.md)")
      ->excludes(converter);
  verb->add_option("--schedule", o.schedule,
                   "Kernels and calls of the NPU: Deuteron's own, or like those that NXP's converter lists, for comparison (docs/npu.md)")
      ->check(CLI::IsMember({"own", "nxp-like"}))
      ->excludes(converter)
      ->capture_default_str();
  verb->add_option(
          "--constants", o.constants,
          "Where constants lie when the program starts: in flash, from which the NPU's are copied while it runs, or in SRAM with the "
          "whole program, where nothing waits; default: the recipe's, else the target's (docs/npu.md)")
      ->check(CLI::IsMember({"sram", "flash"}))
      ->excludes(converter);
  verb->add_flag("!--no-debug-map", o.debug_map, "Leave out the map that verify and profile read");
  verb->add_option("--etrecord", o.etrecord,
                   "Write what ExecuTorch's Inspector needs to tell a profile in terms of the model (ETRecord, docs/profiling.md)");
  verb->add_option("--keep-off", o.keep_off, "Keep a node, or every node of an operator, off the NPU (repeatable)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
  verb->add_option("--force-on", o.force_on,
                   "Run a node or operator on the NPU even where handing it over costs more than it saves; an error if it cannot run there "
                   "(repeatable; all: whatever can)")
      ->type_name("NODE|OP")
      ->allow_extra_args(false);
  verb->add_option("--stop-at", o.stop_at, "Compile up to this node: its value becomes the output")->type_name("NODE");
  verb->add_option("--placement", o.placement, "Write why operators are not on the NPU, as JSON (docs/placement.md)");
  verb->add_option("--patterns", o.patterns,
                   "Write which backend quantizes which operator, and what the others said, as JSON (docs/recipes.md)");
  verb->add_flag("--report-quantization", o.report_quantization,
                 "Print range, scale, saturation and SQNR of every tensor, and the error that every operator adds, on up to 8 samples");
  verb->add_option("--quantization-json", o.quantization_json, "Write the same as JSON (docs/quantization.md)");
  verb->add_option("--report-json", o.report_json, "Write operators, cycles, memory and refusals as JSON");
  CLI::Option* emit_ir = verb->add_option("--emit-ir", o.emit_ir, "Write the quantized graph as IR text");
  verb->add_flag("--elide-constants", o.elide_constants,
                 "In --emit-ir, write big constants as seeded<n>: same shapes and costs, other contents")
      ->needs(emit_ir);
  std::vector<std::string> passes{"all"};
  for (const dtr::PassDef* pass : dtr::all_passes()) passes.emplace_back(pass->name);
  verb->add_option("--print-after", o.print_after, "Print the graph after a pass (its name, or all)")
      ->type_name("PASS")
      ->check(CLI::Validator(
          [passes](const std::string& name) {
            return std::ranges::find(passes, name) != passes.end() ? std::string()
                                                                   : "there is no pass " + name + "; docs/passes.md lists them";
          },
          "", "pass"));
  verb->add_flag("-v,--verbose", o.verbose,
                 "Print why passes left operators as they are, such as a batch norm that is not folded, which quantization patterns were "
                 "rejected and where quantizations met");
  verb->add_flag("--time-passes", o.time_passes, "Print the time of every pass and stage");
  example(verb, "deuteron compile models/digits_cnn/float.pt2 --calibrate models/digits_cnn/calibration.npz -o digits.pte");
  return verb;
}

CLI::App* add_run(CLI::App& app, tools::RunOptions& o) {
  CLI::App* verb = app.add_subcommand("run", "Run a program on samples, the NPU simulated bit by bit");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  verb->add_option("--input", o.input, "Samples (.npz, .npy, or .bin: raw, one sample, physical order)")->required();
  verb->add_option("--output", o.output, "Where outputs go (.npz: output_0, ...; .npy or .bin: a single output)");
  verb->add_option("--on", o.on, "host, or qemu: build the firmware, run it there, count its instructions")
      ->check(CLI::IsMember({"host", "qemu", "qemu-an505", "qemu-an547"}))
      ->capture_default_str();
  verb->add_option("--samples", o.samples, "Run only the first N samples (0: all)")->capture_default_str();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--repeat", o.repeat, "Run every sample N times, for timing")->check(CLI::Range(1, 1000000))->capture_default_str();
  verb->add_option("--stats-json", o.stats_json,
                   "Write simulated cycles, memory touched and simulation time as JSON, and on a board the instructions of every step");
  CLI::Option* profile = verb->add_option("--profile", o.profile,
                                          "Write what every operator costs, for `deuteron profile` and ExecuTorch's Inspector (.etdump)");
  verb->add_option("--debug-buffer", o.debug_buffer,
                   "Beside --profile, write what every operator computed, for the Inspector's calculate_numeric_gap (docs/profiling.md)")
      ->needs(profile);
  verb->add_option("--profile-events", o.profile_events,
                   "Room for so many events a run, 16 bytes each; the oldest are kept. A firmware (--on) gets no more than a run has")
      ->needs(profile)
      ->check(CLI::Range(1, 16'777'216))
      ->capture_default_str();
  example(verb, "deuteron run digits.pte --input models/digits_cnn/test.npz --output out.npz");
  return verb;
}

CLI::App* add_eval(CLI::App& app, tools::EvalOptions& o) {
  CLI::App* verb = app.add_subcommand("eval", "Accuracy of a program over a data set, beside the float model's");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  verb->add_option("--data", o.data, "Data set (.npz) with inputs, labels, and float_output if the float model's outputs are known")
      ->required();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--labels", o.labels, "Array of class numbers")->capture_default_str();
  verb->add_option("--against", o.against, "Float model to run on the same data (.pt2, .tflite) instead of float_output");
  verb->add_option("--json", o.json, "Write the figures as JSON");
  example(verb, "deuteron eval digits.pte --data models/digits_cnn/test.npz");
  return verb;
}

CLI::App* add_verify(CLI::App& app, tools::VerifyOptions& o) {
  CLI::App* verb = app.add_subcommand("verify", "Compare a program with its model layer by layer; exit code 1 if a layer is bad");
  verb->add_option("PROGRAM", o.program, "Program (.pte) with debug map")->required();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--against", o.against, "Model it was compiled from (.pt2, .tflite, .ir)")->required();
  verb->add_option("--data", o.data, "Samples (.npz, .npy)")->required();
  verb->add_option("--samples", o.samples, "Number of samples to compare on")->check(CLI::Range(1, 1000000))->capture_default_str();
  verb->add_option("--min-sqnr", o.min_sqnr, "A layer below this many dB is bad")
      ->check(number(-kLargest, kLargest, ""))
      ->capture_default_str();
  verb->add_option("--json", o.json, "Write the table as JSON");
  example(verb, "deuteron verify digits.pte --against models/digits_cnn/float.pt2 --data models/digits_cnn/test.npz");
  return verb;
}

CLI::App* add_compare(CLI::App& app, tools::CompareOptions& o) {
  CLI::App* verb = app.add_subcommand(
      "compare", "How far B is from A: results (.npz, .npy), programs or models; exit code 1 if what is asked for does not hold");
  verb->add_option("A", o.expected, "What is expected: results, a program (.pte), or a model (.pt2, .tflite, .ir)")->required();
  verb->add_option("B", o.actual, "What is held against it")->required();
  verb->add_option("--data", o.data, "Samples to run programs and models on (.npz, .npy)");
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--samples", o.samples, "Compare only the first N samples (0: all)")->capture_default_str();
  verb->add_option("--step", o.step, "Quantization step of float outputs; default: that with which a program dequantizes them")
      ->check(number(kSmallest, kLargest, "POSITIVE"));
  verb->add_option("--rtol", o.rtol, "All close: |a - b| <= atol + rtol * |a| for every element")
      ->check(number(0, kLargest, "NONNEGATIVE"));
  verb->add_option("--atol", o.atol, "The absolute part of it")->check(number(0, kLargest, "NONNEGATIVE"));
  verb->add_option("--max-steps", o.max_steps, "No element is further apart than this many quantization steps")
      ->check(number(0, kLargest, "NONNEGATIVE"));
  verb->add_option("--min-sqnr", o.min_sqnr, "Every output has this many dB or more")->check(number(-kLargest, kLargest, ""));
  verb->add_option("--min-argmax", o.min_argmax, "Share of the samples (0 to 1) whose largest element is the same one")
      ->check(number(0, 1, "0 to 1"));
  verb->add_option("--json", o.json, "Write the figures as JSON");
  example(verb, "deuteron compare models/digits_cnn/float.pt2 digits.pte --data models/digits_cnn/test.npz --min-sqnr 25");
  return verb;
}

CLI::App* add_qat_prepare(CLI::App& app, tools::QatPrepareOptions& o) {
  CLI::App* verb =
      app.add_subcommand("qat-prepare", "Insert fake quantization into a float export, for quantization-aware training in PyTorch");
  verb->add_option("MODEL", o.model, "Float model (.pt2)")->required();
  verb->add_option("-o,--output", o.output, "Export to write, which torch.export.load reads")->required();
  verb->add_option("--target", o.target, "Target whose patterns decide what is quantized, see `deuteron targets`")->capture_default_str();
  verb->add_option("--calibrate", o.calibration, "Data to start the ranges from (.npz, .npy); else the first batch sets them");
  example(verb,
          "deuteron qat-prepare models/digits_cnn/float.pt2 --calibrate models/digits_cnn/calibration.npz -o prepared.pt2\n"
          "  then train, export and compile it: docs/quantization.md");
  return verb;
}

CLI::App* add_profile(CLI::App& app, tools::ProfileOptions& o) {
  CLI::App* verb = app.add_subcommand("profile", "Show where the cycles of a run went, by operator of the model");
  verb->add_option(
          "TRACE", o.trace,
          "Profile (.etdump) that `deuteron run --profile` or ExecuTorch wrote; records that a firmware wrote (profile.bin); or a program "
          "(.pte), which is run then")
      ->required();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("--program", o.program, "Program that was run (.pte): it names the operators");
  verb->add_option("--etrecord", o.etrecord, "Instead of it a record of the program (`deuteron compile --etrecord`, or ExecuTorch's)")
      ->excludes("--program");
  verb->add_option("--by", o.by, "What a line is")->check(CLI::IsMember({"operator", "module", "kernel", "memory"}))->capture_default_str();
  verb->add_option("--sort", o.sort, "Most cycles first, or in the order of the program")
      ->check(CLI::IsMember({"cycles", "program"}))
      ->capture_default_str();
  verb->add_option("--filter", o.filter, "Only lines whose operator, module or kernel has this in its name");
  verb->add_option("--depth", o.depth, "Fold modules below this level (0: show all)")->capture_default_str();
  CLI::Option* compare = verb->add_option("--compare", o.compare,
                                          "Another profile or program to hold beside it: what got slower, what faster (.etdump, .pte)");
  verb->add_option("--compare-program", o.compare_program, "Program of that profile, if it is another one (.pte)")->needs(compare);
  verb->add_option("--compare-etrecord", o.compare_etrecord, "Or its record")->needs(compare)->excludes("--compare-program");
  verb->add_option("--etdump", o.etdump,
                   "Write the trace for ExecuTorch's Inspector (.etdump): what a firmware recorded, or a program that is run");
  verb->add_option("--json", o.json, "Write everything that is known, with --compare of both (.json, docs/profiling.md)");
  verb->add_option("--csv", o.csv, "Write the table, with --compare that of both (.csv)");
  verb->add_option("--perfetto", o.perfetto, "Write the timeline for https://ui.perfetto.dev (.json)")->excludes(compare);
  CLI::Option* html =
      verb->add_option("--html", o.html, "Write a page with timeline, operators, roofline, memory and graph that opens from disk (.html)")
          ->excludes(compare);
  verb->add_option("--compile-report", o.compile_report,
                   "For --html: why operators are not on the NPU, as `deuteron compile --report-json` wrote it")
      ->needs(html);
  verb->add_option("--verify", o.verify, "For --html: errors of layers, as `deuteron verify --json` wrote them")->needs(html);
  example(verb, "deuteron profile digits.pte");
  return verb;
}

CLI::App* add_explain(CLI::App& app, tools::ExplainOptions& o) {
  CLI::App* verb = app.add_subcommand("explain", "Say in words why operators cost what they cost, and what would make them cheaper");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  add_tensor_files(verb, o.tensor_files);
  verb->add_option("OP", o.name, "Only operators that have this in their name, module or kernel");
  verb->add_option("--most", o.most, "So many of them, those with the most cycles")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  example(verb, "deuteron explain digits.pte stem");
  return verb;
}

CLI::App* add_firmware(CLI::App& app, tools::FirmwareOptions& o) {
  CLI::App* verb =
      app.add_subcommand("firmware", "Write a CMake project that runs programs on a board, with just the memory and the kernels they need");
  verb->add_option("PROGRAM", o.programs, "Programs (.pte): several take turns in one arena")->required();
  verb->add_option("-o,--output", o.output, "Folder of the project; what someone changed in it is kept (docs/runtime.md)")->required();
  verb->add_option("--board", o.board, "qemu-an505 (Cortex-M33) or qemu-an547 (Cortex-M55)")->capture_default_str();
  add_tensor_files(verb, o.tensor_files);
  verb->add_flag("--no-checksum", o.no_checksum,
                 "Leave out the check of the programs' checksums at load (docs/performance.md has its cost)");
  example(verb, "deuteron firmware digits.pte --board qemu-an505 -o digits_firmware");
  return verb;
}

// Options of a verb that would do nothing, or whose value is empty (an unset variable of a script): what is wrong, or nothing.
std::string misuse(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& value : option->results())
      if (value.empty()) return fmt::format("{}: its value is empty", option->get_name());
  if (verb.get_name() != "profile") return {};
  const std::string by = verb.get_option("--by")->as<std::string>();
  if (verb.count("--depth") > 0 && by != "module") return "--depth has nothing to do without --by module";
  if (verb.count("--sort") > 0 && by == "module") return "--sort has nothing to do with --by module, whose lines are a tree";
  if (verb.count("--sort") > 0 && verb.count("--compare") > 0)
    return "--sort has nothing to do with --compare, whose lines are in the order of change";
  return {};
}

// The file that a verb was given first.
std::string first_file(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    if (option->get_positional() && option->count() > 0) return option->results().front();
  return {};
}

// Reads the command line and runs its verb.
int command(int argc, char** argv, tools::CommonOptions& common) {
  CLI::App app{
      "Deuteron compiles a model for a microcontroller with an eIQ Neutron NPU, runs it bit-exactly on a simulator, and shows what it "
      "costs.",
      "deuteron"};
  app.set_version_flag("--version", "deuteron " DTR_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  std::string diagnostics = "text";
  app.add_option("--diagnostics", diagnostics, "How messages are written: text, or json (one object a line on standard error)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();

  tools::CompileOptions compile_options;
  tools::RunOptions run_options;
  tools::EvalOptions eval_options;
  tools::VerifyOptions verify_options;
  tools::CompareOptions compare_options;
  tools::QatPrepareOptions qat_prepare_options;
  tools::FirmwareOptions firmware_options;
  tools::ProfileOptions profile_options;
  tools::ExplainOptions explain_options;
  tools::InspectOptions inspect_options;
  bool markdown = false;
  CLI::App* compile = add_compile(app, compile_options);
  const CLI::App* run = add_run(app, run_options);
  CLI::App* eval = add_eval(app, eval_options);
  const CLI::App* verify = add_verify(app, verify_options);
  const CLI::App* compare = add_compare(app, compare_options);
  CLI::App* qat_prepare = add_qat_prepare(app, qat_prepare_options);
  const CLI::App* firmware = add_firmware(app, firmware_options);
  const CLI::App* profile = add_profile(app, profile_options);
  const CLI::App* explain = add_explain(app, explain_options);
  for (CLI::App* verb : {compile, eval, qat_prepare})  // those that run samples of a data set beside each other
    verb->add_option("--threads", common.threads, "Threads to use (0: all); results do not depend on it")->capture_default_str();
  CLI::App* inspect = app.add_subcommand("inspect", "Show a model, a program or data as text");
  inspect->add_option("FILE", inspect_options.file, ".pt2, .tflite, .pte, .ptd, .etdump, .npz, .npy")->required();
  example(inspect, "deuteron inspect digits.pte");
  CLI::App* targets = app.add_subcommand("targets", "List the targets");
  targets->add_flag("--markdown", markdown, "As a page of the documentation");
  example(targets, "deuteron targets");
  CLI::App* ops = app.add_subcommand("ops", "List the operators");
  ops->add_flag("--markdown", markdown, "As a page of the documentation");
  example(ops, "deuteron ops");
  app.footer(
      "Exit codes: 0 good, 1 the input is at fault, 2 usage, 3 a bug of ours.\nExample:\n  deuteron compile model.pt2 --calibrate data.npz "
      "-o model.pte");

  try {  // CLI11 reports by exceptions; nothing else here throws
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kGood : kUsage;
  }
  common.json_diagnostics = diagnostics == "json";
  for (const CLI::App* verb : app.get_subcommands()) {
    common.verb = verb->get_name();
    common.input = first_file(*verb);
    if (const std::string wrong = misuse(*verb); !wrong.empty()) {
      tools::print_error("{}\nRun with --help for more information.\n", wrong);
      return kUsage;
    }
  }

  if (compile->parsed()) return finish(common, tools::compile(common, compile_options));
  if (run->parsed()) return finish(common, tools::run(common, run_options));
  if (eval->parsed()) return finish(common, tools::eval(common, eval_options));
  if (verify->parsed()) {
    const Result<bool> good = tools::verify(common, verify_options);
    return !good ? finish(common, tl::unexpected(good.error())) : *good ? kGood : kBadInput;
  }
  if (compare->parsed()) {
    const Result<bool> good = tools::compare(common, compare_options);
    return !good ? finish(common, tl::unexpected(good.error())) : *good ? kGood : kBadInput;
  }
  if (qat_prepare->parsed()) return finish(common, tools::qat_prepare(common, qat_prepare_options));
  if (profile->parsed()) return finish(common, tools::profile(common, profile_options));
  if (explain->parsed()) return finish(common, tools::explain(common, explain_options));
  if (firmware->parsed()) return finish(common, tools::firmware(common, firmware_options));
  if (inspect->parsed()) return finish(common, tools::inspect(common, inspect_options));
  if (targets->parsed()) return finish(common, tools::targets(markdown));
  return finish(common, tools::ops(markdown));
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommonOptions common;
  int code = kBug;
  const auto without_memory = [&] {
    report(common, dtr::out_of_memory(common.verb.empty() ? "deuteron" : "deuteron " + common.verb, {.file = common.input}));
    return kBadInput;
  };
  try {
    dtr::clean_up_on_signals();
    code = command(argc, argv, common);
  } catch (const std::bad_alloc&) {
    code = without_memory();
  } catch (const std::system_error& error) {  // of a thread, whose stack finds no room
    code = error.code() == std::errc::resource_unavailable_try_again ? without_memory() : kBug;
    if (code == kBug) tools::print_error("deuteron: {}\n", error.what());
  } catch (const std::exception& error) {  // of the standard library, or fmt's, of standard output
    if (std::ferror(stdout) == 0) tools::print_error("deuteron: {}\n", error.what());
  }
  // What was printed is known to have arrived only now.
  const bool lost = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !lost) return code;
  report(common, {.id = dtr::DiagnosticId::kFileNotWritable,
                  .reason = "cannot write what was asked for",
                  .fix = "free some space, or send it elsewhere",
                  .place = {.file = "standard output"}});
  return kBadInput;
}
