// deuteron run
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "compiler/ir/npz.h"
#include "compiler/ir/reorder.h"
#include "compiler/ir/samples.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "device/pte/program_generated.h"
#include "host/firmware/qemu_session.h"
#include "host/profiler/etdump.h"
#include "host/profiler/report.h"
#include "host/session/recorder.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

// A raw file is one sample of the only input, as it lies in the program's memory.
Result<std::vector<NamedTensor>> read_raw(const Graph& signature, const std::string& path) {
  const Type& type = signature.type(signature.inputs().front());
  DTR_ASSIGN(const FileContents file, FileContents::read(path));
  if (signature.inputs().size() != 1 || file.bytes().size() != static_cast<size_t>(type.bytes()))
    return fail(DiagnosticId::kDataShape,
                fmt::format("the file has {} bytes, the program takes {} input(s), the first of {} bytes", file.bytes().size(),
                            signature.inputs().size(), type.bytes()),
                "give one raw tensor of the input's size, or a .npz", {.file = path});
  std::vector<NamedTensor> arrays;
  Tensor tensor(type.dtype, type.shape);
  to_logical(type, file.bytes().data(), tensor.view().data);
  arrays.push_back({"input", std::move(tensor)});
  return arrays;
}

// One array an output, the samples along a new first axis; a batch axis of 1 is that axis.
std::vector<NamedTensor> stacked(std::vector<std::vector<Tensor>>& by_sample) {
  std::vector<NamedTensor> arrays;
  for (size_t output = 0; output < by_sample.front().size(); ++output) {
    const Tensor& first = by_sample.front()[output];
    Shape shape = first.shape();
    if (!shape.empty() && shape[0] == 1) shape.erase(shape.begin());
    shape.insert(shape.begin(), static_cast<int64_t>(by_sample.size()));
    Tensor all(first.dtype(), shape);
    for (size_t i = 0; i < by_sample.size(); ++i) {
      const auto bytes = by_sample[i][output].bytes();
      std::memcpy(all.view().data + i * bytes.size(), bytes.data(), bytes.size());
    }
    arrays.push_back({fmt::format("output_{}", output), std::move(all)});
  }
  return arrays;
}

// The ending says what is written. What is no file (/dev/stdout, a pipe) gets a .npz.
Status check_ending(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension();
  std::error_code none;
  if (path.empty() || extension == ".npz" || extension == ".npy" || extension == ".bin" || std::filesystem::is_character_file(path, none) ||
      std::filesystem::is_fifo(path, none))
    return {};
  return fail(DiagnosticId::kFileNotWritable, fmt::format("the ending `{}` does not say what to write", extension),
              "give a name that ends in .npz, .npy or .bin", {.file = path});
}

Status write_outputs(const std::string& path, const std::vector<NamedTensor>& arrays) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension != ".npy" && extension != ".bin") return write_npz(path, arrays);
  if (arrays.size() != 1)
    return fail(DiagnosticId::kFileNotWritable, fmt::format("the program has {} outputs, a {} file holds one", arrays.size(), extension),
                "write a .npz", {.file = path});
  return extension == ".npy" ? write_npy(path, arrays[0].tensor.view()) : write_file(path, arrays[0].tensor.bytes());
}

// The kernel or delegate of each step of the program.
std::vector<std::string> step_names(const ProgramImage& image) {
  const pte::ExecutionPlan& plan = *image.file().program().execution_plan()->Get(0);
  std::vector<std::string> names;
  for (const pte::Instruction* step : *plan.chains()->Get(0)->instructions()) {
    const auto* call = step->instr_args_as_KernelCall();
    names.push_back(call != nullptr
                        ? plan.operators()->Get(static_cast<uint32_t>(call->op_index()))->name()->str()
                        : plan.delegates()->Get(static_cast<uint32_t>(step->instr_args_as_DelegateCall()->delegate_index()))->id()->str());
  }
  return names;
}

std::string stats_json(const ProgramImage& image, const RunStats& stats, size_t samples) {
  std::vector<double> times = stats.milliseconds;
  std::sort(times.begin(), times.end());
  std::string steps;
  if (!stats.instructions.empty()) {
    const std::vector<std::string> names = step_names(image);
    for (size_t i = 0; i < stats.instructions.size(); ++i)
      steps += fmt::format("{}{{\"kernel\": {}, \"instructions\": {}}}", i == 0 ? "" : ", ", json_quote(names[i]), stats.instructions[i]);
    steps = fmt::format(", \"steps\": [{}]", steps);
  }
  return fmt::format(
      "{{\"samples\": {}, \"runs\": {}, \"simulation_ms\": {{\"best\": {:.6f}, \"median\": {:.6f}}}, \"npu_calls\": {}, "
      "\"npu_busy_cycles\": {}, \"npu_host_cycles\": {}, "
      "\"npu_stall_cycles\": {}, \"npu_total_cycles\": {}, \"copied_bytes\": {}, \"sram_touched_bytes\": {}{}}}\n",
      samples, stats.runs, times.front(), times[times.size() / 2], stats.npu_calls, stats.busy_cycles, stats.host_cycles,
      stats.stall_cycles, stats.total_cycles, stats.copied_bytes, stats.sram_touched_bytes, steps);
}

Result<std::unique_ptr<Session>> open_session(const RunOptions& options) {
  if (options.on == "host") return Session::open(options.program, options.tensor_files);
  return open_on_qemu(options.program, options.on, options.tensor_files, options.profile.empty() ? kNoProfile : options.profile_events);
}

// Where the instructions of a run go, a line a step.
void print_instructions(const ProgramImage& image, const RunStats& stats) {
  const std::vector<std::string> names = step_names(image);
  uint64_t total = 0;
  for (size_t i = 0; i < stats.instructions.size(); ++i) {
    print("{:>4}  {:<50} {:>14} instructions\n", i, names[i], stats.instructions[i]);
    total += stats.instructions[i];
  }
  print("      {:<50} {:>14}\n", "total", total);
}

// NaN becomes some number where it is quantized. Each input that holds it is said once.
void warn_of_nan(const CommonOptions& common, const Graph& signature, const Samples& samples, size_t count, const std::string& file) {
  for (size_t input = 0; input < signature.inputs().size(); ++input) {
    size_t found = 0, values = 0;
    for (size_t i = 0; i < count; ++i) {
      const TensorView view = samples.inputs(i)[input];
      if (view.dtype != DType::kFloat32) break;
      const std::span<const float> data = view.values<float>();
      found += static_cast<size_t>(std::ranges::count_if(data, [](float value) { return std::isnan(value); }));
      values += data.size();
    }
    if (found == 0) continue;
    const Diagnostic warning{
        .id = DiagnosticId::kRunInputNan,
        .reason = fmt::format("{} of {} values are NaN, of which a quantized program makes an ordinary number", found, values),
        .fix = "look for what makes them; results that depend on them mean nothing",
        .place = {.file = file, .node = signature.value(signature.inputs()[input]).name},
        .severity = Severity::kWarning};
    print_error("{}\n", EncodedLines{common.json_diagnostics ? to_json(warning) : to_text(warning)});
  }
}

// What the last run left in the profile, and what that cost.
void print_recording(const Trace& trace) {
  const TraceRun& run = trace.runs.back();
  if (run.lost > 0) print("profile: the oldest {} events, {} had no room: give more with --profile-events\n", run.events.size(), run.lost);
  print("{}", EncodedLines{recording_cost(make_profile(trace, {}, {}))});
}

}  // namespace

Status run(const CommonOptions& common, const RunOptions& options) {
  DTR_TRY(check_outputs({options.program, options.input}, {options.output, options.stats_json, options.profile, options.debug_buffer}));
  DTR_TRY(check_ending(options.output));
  if (options.on != "host" && !options.debug_buffer.empty())
    return fail(DiagnosticId::kFirmwareRun, "values between operators are captured on the host, whose results are the board's",
                "leave out --on, or --debug-buffer", {.file = options.program});
  DTR_ASSIGN(const std::unique_ptr<Session> session, open_session(options));
  note_unused_tensors(options.tensor_files, {&session->image()});
  const bool is_raw = std::filesystem::path(options.input).extension() == ".bin";
  std::vector<NamedTensor> raw;
  if (is_raw) {
    DTR_ASSIGN(raw, read_raw(session->signature(), options.input));
  }
  DTR_ASSIGN(const Samples samples,
             is_raw ? Samples::bind(session->signature(), raw, options.input) : Samples::read(session->signature(), options.input));
  const size_t count = options.samples == 0 ? samples.size() : std::min<size_t>(options.samples, samples.size());

  warn_of_nan(common, session->signature(), samples, count, options.input);

  RunStats stats;
  std::optional<TraceRecorder> recorder;
  if (!options.profile.empty()) recorder.emplace(*session, options.profile_events);
  std::optional<ValueRecorder> values;
  std::optional<OutputFile> debug_buffer;
  if (!options.debug_buffer.empty()) {
    DTR_ASSIGN(values, ValueRecorder::create(session->image()));
    DTR_ASSIGN(debug_buffer, OutputFile::create(options.debug_buffer));
  }
  const auto write_profile = [&]() -> Status {
    if (recorder && !recorder->empty()) DTR_TRY(write_file(options.profile, to_etdump(recorder->trace())));
    if (debug_buffer) DTR_TRY(debug_buffer->commit());
    return {};
  };
  std::vector<std::vector<Tensor>> outputs;
  TerminalProgress progress("run");
  for (size_t i = 0; i < count; ++i) {
    for (uint32_t repeat = 0; repeat < options.repeat; ++repeat) {
      Result<std::vector<Tensor>> out = recorder
                                            ? recorder->run(samples.inputs(i), stats, values ? &*values : nullptr, static_cast<int32_t>(i))
                                            : session->run(samples.inputs(i), &stats);
      if (values) DTR_TRY(debug_buffer->write(values->take_bytes()));
      if (!out) {
        DTR_TRY(write_profile());  // what there is of it
        return tl::unexpected(std::move(out.error()));
      }
      if (repeat == 0) outputs.push_back(*std::move(out));
    }
    progress.update(i + 1, count);
  }
  DTR_TRY(write_profile());
  if (!options.output.empty()) DTR_TRY(write_outputs(options.output, stacked(outputs)));
  if (!options.stats_json.empty()) DTR_TRY(write_file(options.stats_json, stats_json(session->image(), stats, count)));
  if (!stats.instructions.empty()) {
    print_instructions(session->image(), stats);
    print("{} sample{} on {}, {} NPU cycles each{}\n", count, count == 1 ? "" : "s", options.on, stats.total_cycles,
          options.output.empty() ? "" : ", outputs in " + options.output);
    if (recorder) print_recording(recorder->trace());
    return {};
  }
  const std::string npu = stats.npu_calls == 0
                              ? "nothing on the NPU"
                              : fmt::format("{} kernel calls and {} NPU cycles each, simulated (deuteron profile adds the CPU's)",
                                            stats.npu_calls, stats.total_cycles);
  print("{} sample{}, {}{}\n", count, count == 1 ? "" : "s", npu, options.output.empty() ? "" : "; outputs in " + options.output);
  if (recorder) print_recording(recorder->trace());
  return {};
}

}  // namespace dtr::tools
