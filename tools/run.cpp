// deuteron run
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "compiler/ir/npz.h"
#include "compiler/ir/reorder.h"
#include "compiler/ir/samples.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "compiler/support/text.h"
#include "compiler/support/thread_pool.h"
#include "host/commands/inference.h"
#include "host/commands/run_results.h"
#include "host/commands/sample_runs.h"
#include "host/firmware/qemu_session.h"
#include "host/profiler/etdump.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "tools/print.h"
#include "tools/verb.h"

namespace dtr::tools {
namespace {

struct RunOptions {
  std::string program, input, output, stats_json;
  std::string on = "host";
  std::string method;
  std::vector<std::string> tensor_files;  // .ptd
  uint32_t samples = 0;                   // 0: all
  uint32_t repeat = 1;
  unsigned threads = 0;
  std::string profile, debug_buffer;  // .etdump, and the values beside it
  uint32_t profile_events = 65536;    // room in the profile buffer
};

const CLI::App* add_run(CLI::App& app, RunOptions& o) {
  CLI::App* verb =
      app.add_subcommand("run", "Run a program on samples, the NPU simulated bit by bit");
  verb->add_option("PROGRAM", o.program, "Program (.pte)")->required();
  verb->add_option("--input", o.input,
                   "Samples (.npz, .npy, or .bin: raw, one sample, physical order). A program with "
                   "states, which it keeps between runs, takes them as one stream, in this order")
      ->required();
  verb->add_option("--output", o.output,
                   "Where outputs go (.npz: output_0, ...; .npy or .bin: a single output)");
  verb->add_option("--on", o.on,
                   "host, or qemu: build the firmware, run it there, count its instructions")
      ->check(CLI::IsMember({"host", "qemu", "qemu-an505", "qemu-an547"}))
      ->capture_default_str();
  verb->add_option("--samples", o.samples, "Run only the first N samples (0: all)")
      ->capture_default_str();
  add_tensor_files(verb, o.tensor_files);
  add_method(verb, o.method);
  verb->add_option("--repeat", o.repeat, "Run every sample N times, for timing")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--threads", o.threads,
                   "Number of threads for samples, and for the operators of few (0: one for each "
                   "processor; with --repeat or --on one thread, with --profile always); results "
                   "do not depend on it")
      ->check(CLI::Range(0U, kMostThreads))
      ->capture_default_str();
  add_checked(verb);
  verb->add_option("--stats-json", o.stats_json,
                   "Write cycles and time of one inference, memory touched and simulation time as "
                   "JSON, and on a board the instructions of every step");
  CLI::Option* profile = verb->add_option("--profile", o.profile,
                                          "Write what every operator costs, for `deuteron profile` "
                                          "and ExecuTorch's Inspector (.etdump)")
                             ->excludes("--threads");
  verb->add_option("--debug-buffer", o.debug_buffer,
                   "Beside --profile, write what every operator computed, for the Inspector's "
                   "calculate_numeric_gap (docs/profiling.md)")
      ->needs(profile);
  verb->add_option("--profile-events", o.profile_events,
                   "Most events that a run records, 16 bytes each; of more, the oldest are kept. A "
                   "firmware (--on) reserves no more than a run needs")
      ->needs(profile)
      ->check(CLI::Range(1, 16'777'216))
      ->capture_default_str();
  example(verb, "deuteron run digits.pte --input models/digits_cnn/test.npz --output out.npz");
  return verb;
}

// A raw file is one sample of the only input, as it lies in the program's memory.
Result<std::vector<NamedTensor>> read_raw(const Graph& signature, const std::string& path) {
  const Type& type = signature.type(signature.inputs().front());
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  if (signature.inputs().size() != 1 || file.bytes().size() != static_cast<size_t>(type.bytes()))
    return fail(
        DiagnosticId::kDataShape,
        fmt::format("the file has {} bytes, the program takes {} input(s), the first of {} bytes",
                    file.bytes().size(), signature.inputs().size(), type.bytes()),
        "give one raw tensor of the input's size, or a .npz", {.file = path});
  std::vector<NamedTensor> arrays;
  Tensor tensor(type.dtype, type.shape);
  to_logical(type, file.bytes().data(), tensor.view().data);
  arrays.push_back({"input", std::move(tensor)});
  return arrays;
}

// The file's extension selects the format. A target that is not a regular file (/dev/stdout, a
// pipe) gets a .npz.
Result<void> check_ending(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  std::error_code none;
  if (path.empty() || extension == ".npz" || extension == ".npy" || extension == ".bin" ||
      std::filesystem::is_character_file(path, none) || std::filesystem::is_fifo(path, none))
    return {};
  return fail(DiagnosticId::kFileNotWritable,
              fmt::format("the ending `{}` names no format", extension),
              "give a name that ends in .npz, .npy or .bin", {.file = path});
}

Result<void> write_outputs(const std::string& path, const std::vector<NamedTensor>& arrays) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension != ".npy" && extension != ".bin") return write_npz(path, arrays);
  if (arrays.size() != 1)
    return fail(
        DiagnosticId::kFileNotWritable,
        fmt::format("the program has {} outputs, a {} file holds one", arrays.size(), extension),
        "write a .npz", {.file = path});
  return extension == ".npy" ? write_npy(path, arrays[0].tensor.view())
                             : write_file(path, arrays[0].tensor.bytes());
}

Result<std::unique_ptr<Session>> open_session(const RunOptions& options) {
  DTR_ASSIGN(std::unique_ptr<Session> host,
             Session::open(options.program, options.tensor_files, options.method));
  if (options.on == "host") return host;
  return open_on_qemu(std::move(host), options.on,
                      options.profile.empty() ? kNoProfile : options.profile_events);
}

// Where the instructions of a run go, a line a step.
void print_instructions(const PteFile& pte_file, const RunStats& stats) {
  const std::vector<std::string> names = step_names(pte_file);
  uint64_t total = 0;
  for (size_t i = 0; i < stats.instructions.size(); ++i) {
    print("{:>4}  {:<50} {:>14} instructions{}\n", i, names[i],
          with_thousands(stats.instructions[i]),
          names[i].find("::") == std::string::npos ? " of the NPU's simulator" : "");
    total += stats.instructions[i];
  }
  print("      {:<50} {:>14}\n", "total", with_thousands(total));
}

// What the options record of the runs.
class RunRecording {
 public:
  static Result<RunRecording> start(Session& session, const RunOptions& options) {
    RunRecording recording(options);
    if (!options.profile.empty()) recording.trace_.emplace(session, options.profile_events);
    if (!options.debug_buffer.empty()) {
      DTR_ASSIGN(recording.values_, ValueRecorder::create(session.pte_file()));
      DTR_ASSIGN(recording.debug_buffer_, OutputFile::create(options.debug_buffer));
    }
    return recording;
  }

  bool records() const { return trace_.has_value(); }

  // Records a run.
  Result<std::vector<Tensor>> run(const Samples& samples, size_t sample, RunStats& stats) {
    Result<std::vector<Tensor>> outputs = trace_->run(
        samples.inputs(sample), stats, values_ ? &*values_ : nullptr, static_cast<int32_t>(sample));
    if (values_) DTR_TRY(debug_buffer_->write(values_->take_bytes()));
    return outputs;
  }

  Result<void> write() {
    if (trace_ && !trace_->empty())
      DTR_TRY(write_file(options_.profile, to_etdump(trace_->trace())));
    if (debug_buffer_) DTR_TRY(debug_buffer_->commit());
    return {};
  }

  // What the last run left in the profile, and what that cost.
  void print_cost() const {
    if (!trace_) return;
    const Trace& trace = trace_->trace();
    const TraceRun& run = trace.runs.back();
    if (run.lost > 0)
      print("profile: the oldest {} events, {} had no room: raise --profile-events\n",
            run.events.size(), run.lost);
    print("{}", EncodedLines{recording_cost(make_profile(trace, {}, {}))});
  }

 private:
  explicit RunRecording(const RunOptions& options) : options_(options) {}
  const RunOptions& options_;
  std::optional<TraceRecorder> trace_;
  std::optional<ValueRecorder> values_;
  std::optional<OutputFile> debug_buffer_;
};

Result<void> check_run_options(const RunOptions& options) {
  DTR_TRY(check_outputs({options.program, options.input}, {options.output, options.stats_json,
                                                           options.profile, options.debug_buffer}));
  DTR_TRY(check_ending(options.output));
  if (options.on == "host" || options.debug_buffer.empty()) return {};
  return fail(DiagnosticId::kFirmwareRun,
              "values between operators are captured on the host, whose results are the board's",
              "leave out --on, or --debug-buffer", {.file = options.program});
}

Result<std::vector<NamedTensor>> read_inputs(const Graph& signature, const std::string& path) {
  if (std::filesystem::path(path).extension() == ".bin") return read_raw(signature, path);
  return read_tensors(
      path, [&](std::string_view array) { return Samples::is_input_array(signature, array); });
}

// The outputs of the first run of each sample, in one thread. What was recorded is written, also if
// a run fails.
Result<std::vector<std::vector<Tensor>>> record_samples(const Samples& samples, size_t count,
                                                        const RunOptions& options,
                                                        RunRecording& recording, RunStats& stats,
                                                        const ProgressFunction& progress) {
  std::vector<std::vector<Tensor>> outputs;
  for (size_t i = 0; i < count; ++i) {
    for (uint32_t repeat = 0; repeat < options.repeat; ++repeat) {
      Result<std::vector<Tensor>> out = recording.run(samples, i, stats);
      if (!out) {
        DTR_TRY(recording.write());
        return tl::unexpected(std::move(out.error()));
      }
      if (repeat == 0) outputs.push_back(*std::move(out));
    }
    progress(i + 1, count);
  }
  DTR_TRY(recording.write());
  return outputs;
}

Result<SampleRuns> run_and_record(Session& session, const Samples& samples, size_t count,
                                  const RunOptions& options, RunRecording& recording) {
  TerminalProgress progress("run");
  if (recording.records()) {  // a trace is a sequence
    SampleRuns runs;
    DTR_ASSIGN(runs.outputs,
               record_samples(samples, count, options, recording, runs.stats, progress.function()));
    return runs;
  }
  // Runs beside each other disturb their times, and each board of QEMU takes a build.
  const bool one = options.threads == 0 && (options.repeat > 1 || options.on != "host");
  const std::unique_ptr<TaskExecutor> executor = make_thread_executor(one ? 1 : options.threads);
  return run_samples(session, samples, count, options.repeat, *executor, progress.function());
}

void print_result(const PteFile& pte_file, const RunStats& stats, size_t count,
                  const RunOptions& options) {
  const std::string samples = fmt::format("{} sample{}", count, count == 1 ? "" : "s");
  const std::string outputs = options.output.empty() ? "" : "outputs in " + options.output;
  const Inference inference = inference_of(pte_file, stats);
  if (!stats.instructions.empty()) print_instructions(pte_file, stats);
  print("{}{}, each: {}{}{}\n", samples, stats.instructions.empty() ? "" : " on " + options.on,
        inference_text(inference.work, inference.clock_hz), outputs.empty() ? "" : "; ", outputs);
}

Result<void> run_run(const CommonOptions& common, const RunOptions& options) {
  DTR_TRY(check_run_options(options));
  DTR_ASSIGN(const std::unique_ptr<Session> session, open_session(options));
  DTR_TRY(check_repeat(*session, options.repeat));
  note_unused_tensors(options.tensor_files, {&session->pte_file()});
  DTR_ASSIGN(const std::vector<NamedTensor> arrays,
             read_inputs(session->signature(), options.input));
  DTR_ASSIGN(const Samples samples, Samples::bind(session->signature(), arrays, options.input));
  const size_t count =
      options.samples == 0 ? samples.size() : std::min<size_t>(options.samples, samples.size());
  for (const Diagnostic& warning :
       nan_warnings(session->signature(), samples, count, options.input))
    print_error("{}\n",
                EncodedLines{common.json_diagnostics ? to_json(warning) : to_text(warning)});
  DTR_ASSIGN(RunRecording recording, RunRecording::start(*session, options));
  DTR_ASSIGN(const SampleRuns runs, run_and_record(*session, samples, count, options, recording));
  const RunStats& stats = runs.stats;
  if (!options.output.empty()) DTR_TRY(write_outputs(options.output, stacked(runs.outputs)));
  if (!options.stats_json.empty())
    DTR_TRY(write_file(options.stats_json, stats_json(session->pte_file(), stats, count)));
  print_result(session->pte_file(), stats, count, options);
  recording.print_cost();
  return {};
}

}  // namespace

std::unique_ptr<Verb> run_verb() {
  return std::make_unique<VerbOf<RunOptions, &add_run, &run_run>>();
}

}  // namespace dtr::tools
