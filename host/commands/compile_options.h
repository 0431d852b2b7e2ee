// `deuteron compile` without its terminal: options in, a program and its report out. The command
// and the bindings call it.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/report.h"
#include "compiler/targets/target.h"
#include "host/accuracy/check.h"
#include "host/tasks/tasks.h"

namespace dtr {

// Options of the command, under their names. Empty paths: not written, not read.
struct CompileOptions {
  std::string model, output;
  std::string external_constants;          // .ptd
  std::string converter, keep_neutron_ir;  // command, folder
  uint32_t converter_seconds = 600;
  unsigned threads = 0;
  std::string etrecord;
  std::string target{default_target().name};
  std::string recipe;                                    // .json, instead of the target's
  std::string calibration;                               // .npz, .npy, folder of them
  size_t calibration_samples = kMostCalibrationSamples;  // at most, of `calibration`
  std::optional<uint32_t> random_samples;                // calibrate on noise
  std::string load_calibration, save_calibration;        // .json
  std::string observer = "histogram";
  bool equalize = false;
  bool rotate = false;
  std::string round_weights = "nearest";  // or "error"
  std::vector<std::string> keep_float;    // nodes or operators
  std::string accuracy = "default";       // or "auto", with the following
  std::string data;                       // labelled samples (.npz)
  std::string labels = "label";           // array of class numbers in `data`
  std::string max_loss;                   // points: "0.5pt", "0.5"
  std::optional<double> seconds;          // of the search; default 60
  std::string io = "float";
  std::vector<std::string> keep_off,
      force_on;                   // nodes or operators; "all" forces whatever the NPU can run
  std::vector<std::string> dims;  // "NAME=N": sizes of open dimensions
  std::string stop_at;            // node
  std::string report_json, placement, patterns, quantization_json, emit_ir, print_after;
  bool report_quantization = false;
  bool check = true;
  std::optional<double> min_sqnr = {};
  bool row_packing = false;
  std::string schedule = "own";
  std::string sram;       // bytes, with K or M; empty: as the recipe or the target has it
  std::string optimize;   // "speed", "balance", "size"; empty: as the recipe has it, else speed
  std::string constants;  // "sram", "flash"; empty: as the recipe or the target has it
  bool debug_map = true;
  bool time_passes = false;
  bool verbose = false;
  bool elide_constants = false;
  TaskExecutor* executor = nullptr;  // compiles and runs the programs of a search; null: `threads`
};

// Receives the lines that options print while the work runs (print_after, time_passes, verbose,
// report_quantization); absent: they are dropped.
struct CompileWatch {
  std::function<void(std::string_view)> out = {};  // results, for standard output
  std::function<void(std::string_view)> err = {};  // messages, for standard error
  bool json_diagnostics = false;
  std::function<void(const Diagnostic&)> on_warning = {};  // absent: a line of err
  ProgressFunction progress = {};                          // of calibration
  std::function<void()> on_quantized = {};                 // calibration is done
  std::function<void(std::string_view)> on_step = {};      // of --accuracy auto: what is tried next
};

struct CompiledModel {
  Compilation compilation;
  CompileReport report;
};

// The options as settings, without hooks. Errors: kTargetUnknown, kRecipeInvalid, kOptionNeedsNpu,
// kSramInvalid; those of read_recipe.
Result<CompileSettings> checked_settings(const CompileOptions& options);

// What `qat_prepare` takes of the options: threads, observer, equalize.
CompileSettings training_settings(const CompileOptions& options);

// Compiles `source`, which `options.model` names in messages, checks the program on a sample, and
// writes every file that the options name: all of them, or none. `samples`, if it is given, takes
// the place of `options.calibration`; `labelled`, with arrays, that of `options.data`. Errors:
// those of compile_model, check_program and report_quantization; kTargetUnknown, kRecipeInvalid,
// kOptionNeedsNpu, kSramInvalid, kCalibrationUnused, kModelUnknown, kNoDebugMap, kAccuracyOptions
// (options that do not fit the model, the target or each other); those of search_accuracy;
// kFileNotWritable.
Result<CompiledModel> compile_with_options(ModelSource source, const CompileOptions& options,
                                           const CompileWatch& watch,
                                           std::optional<SampleSource> samples = std::nullopt,
                                           std::span<const NamedTensor> labelled = {});

// Whether a method can have the name: a word of letters, digits and _ that does not begin with a
// digit, at most 64 long, since names of methods become namespaces of C++; not one as
// `input0_scale`, which tells a quantization (device/pte/io_quantization.h).
bool is_method_name(std::string_view name);

// A model that becomes a method of a program. `options` name the model, and no file to write.
// `source` and `samples`, if they are given, take the place of `options.model` and
// `options.calibration`.
struct MethodModel {
  std::string name;
  CompileOptions options;
  std::optional<ModelSource> source = {};
  std::optional<SampleSource> samples = {};
};
struct CompiledMethods {
  std::deque<CompiledModel> methods;  // not a vector: their moves may throw
  SerializedPte program;
};
// Compiles and checks each model as compile_with_options does, and writes them to `output` as
// methods of one program; an empty `output` writes nothing. They run in turn in one arena; each
// keeps states of its own. Errors: those of compile_with_options and serialize_program;
// kMemoryExceeded, if the states of all methods and the largest arena exceed the SRAM.
Result<CompiledMethods> compile_methods(std::vector<MethodModel> methods, const std::string& output,
                                        const CompileWatch& watch);

// The target of --target: a name, or the path of a target file. Errors: kTargetUnknown, with the
// names of those that are; those of read_target and check_target_recipe.
Result<const TargetDescription*> resolve_target(const std::string& name);

}  // namespace dtr
