// The verbs of the `deuteron` command: options as the command line gives them, and one function a verb. Each returns the diagnostic
// that ends it; what a user asked to see goes to standard output, everything else to standard error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/reader.h"
#include "compiler/support/result.h"
#include "compiler/targets/target.h"
#include "host/accuracy/check.h"

namespace dtr::tools {

struct CommonOptions {
  bool json_diagnostics = false;
  unsigned threads = 0;  // 0: all of the machine
  std::string verb;      // "compile"
  std::string input;     // its first file, for messages about the whole command
};

struct CompileOptions {
  std::string model, output;
  std::string external_constants;          // .ptd
  std::string converter, keep_neutron_ir;  // command, folder
  uint32_t converter_seconds = 600;
  std::string etrecord;
  std::string target = "imxrt700";
  std::string recipe;                              // .json, instead of the target's
  std::string calibration;                         // .npz, .npy
  std::optional<uint32_t> random_samples;          // calibrate on noise, asked for by name
  std::string load_calibration, save_calibration;  // .json
  std::string observer = "histogram";
  std::string io = "float";
  std::vector<std::string> keep_off, force_on;  // nodes or operators; "all" forces whatever the NPU can run
  std::string stop_at;                          // node
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
Status compile(const CommonOptions& common, const CompileOptions& options);

struct RunOptions {
  std::string program, input, output, stats_json;
  std::string on = "host";
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 0;                   // 0: all
  uint32_t repeat = 1;
  std::string profile, debug_buffer;  // .etdump, and the values beside it
  uint32_t profile_events = 65536;    // room in the profile buffer
};
Status run(const CommonOptions& common, const RunOptions& options);

struct EvalOptions {
  std::string program, data;
  std::vector<std::string> tensor_files;  // .ptd
  std::string labels = "label";
  std::string against;  // a float model to evaluate side by side
  std::string json;
};
Status eval(const CommonOptions& common, const EvalOptions& options);

struct VerifyOptions {
  std::string program, against, data, json;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 1;
  double min_sqnr = 10.0;
};
// Returns false if a layer is bad.
Result<bool> verify(const CommonOptions& common, const VerifyOptions& options);

struct CompareOptions {
  std::string expected, actual, data, json;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 0;                   // 0: all
  double step = 0;                        // of both sides; 0: what is known of them
  // What must hold; absent: is not asked for.
  std::optional<double> rtol, atol, max_steps, min_sqnr, min_argmax;
};
// Returns false if something that must hold does not.
Result<bool> compare(const CommonOptions& common, const CompareOptions& options);

struct QatPrepareOptions {
  std::string model, output;
  std::string target = "imxrt700";
  std::string calibration;  // .npz, .npy
};
Status qat_prepare(const CommonOptions& common, const QatPrepareOptions& options);

struct FirmwareOptions {
  std::vector<std::string> programs;
  std::string output;
  std::string board = "qemu-an505";
  std::vector<std::string> tensor_files;  // .ptd
  bool no_checksum = false;
};
Status firmware(const CommonOptions& common, const FirmwareOptions& options);

struct ProfileOptions {
  std::string trace;  // .etdump, profile.bin, .pte
  std::string program, etrecord;
  std::string compare;                            // another trace
  std::string compare_program, compare_etrecord;  // of that
  std::string by = "operator", sort = "cycles", filter;
  uint32_t depth = 0;
  std::string etdump, json, csv, perfetto, html;
  std::string compile_report, verify;     // for html: files of those commands
  std::vector<std::string> tensor_files;  // .ptd, of programs that are run
};
Status profile(const CommonOptions& common, const ProfileOptions& options);

struct ExplainOptions {
  std::string program, name;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t most = 5;
};
Status explain(const CommonOptions& common, const ExplainOptions& options);

struct InspectOptions {
  std::string file;
};
Status inspect(const CommonOptions& common, const InspectOptions& options);

// Says so where tensor files were given and none of the programs has constants outside.
void note_unused_tensors(const std::vector<std::string>& files, std::initializer_list<const ProgramImage*> programs);

Status targets(bool markdown);
// Errors: kTargetUnknown, with the names of those that are.
Result<const TargetDescription*> resolve_target(const std::string& name);
Status ops(bool markdown);

}  // namespace dtr::tools
