#include "host/commands/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ir/quantized_values.h"
#include "compiler/support/file_contents.h"
#include "device/numerics/crc32.h"
#include "device/pte/program_generated.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/labels.h"
#include "host/commands/run_results.h"
#include "host/tasks/packing.h"
#include "host/tasks/tasks.h"

namespace dtr {
namespace {

const Tensor* find_array(std::span<const NamedTensor> arrays, std::string_view name) {
  for (const NamedTensor& array : arrays)
    if (array.name == name) return &array.tensor;
  return nullptr;
}

std::string names_of(std::span<const NamedTensor> arrays) {
  std::vector<std::string_view> names;
  for (const NamedTensor& array : arrays) names.push_back(array.name);
  return fmt::format("`{}`", fmt::join(names, "`, `"));
}

bool has_nan(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return std::isnan(value); });
}

Result<std::vector<int64_t>> read_labels(std::span<const NamedTensor> arrays, size_t samples,
                                         const EvaluateOptions& options) {
  if (const Tensor* array = find_array(arrays, options.labels))
    return class_numbers(*array, samples, {.file = options.data.path, .node = options.labels});
  if (options.labels == "label") return std::vector<int64_t>();
  return tl::unexpected(no_labels(options.labels, options.data.arrays, options.data.path,
                                  "name the array of class numbers with --labels"));
}

// What one sample adds to the score, and what its run costs. A result of a task: without padding,
// so that its bytes depend on the values alone.
struct SampleScore {
  uint8_t has_class = 0, right = 0, float_nan = 0, float_right = 0, agrees = 0;
  uint8_t unused[7] = {};
  uint32_t npu_calls = 0;
  Sqnr sqnr;
  uint64_t total_cycles = 0;
};

// What the outputs are compared with. All threads read it.
struct Judge {
  const Samples& samples;
  const std::vector<int64_t>& labels;  // empty: none
  size_t output = 0;                   // number of the one that is judged
  const Tensor* stored = nullptr;      // float_output of the data
  const Module* against = nullptr;
  const Samples* against_samples = nullptr;
  bool has_expected() const { return stored != nullptr || against != nullptr; }
};

class EvaluationWorker final : public TaskWorker {
 public:
  // `float_model`: null without --against; other workers run it too.
  EvaluationWorker(SharedProgram::Lease session, const Judge& judge, Executor* float_model)
      : session_(std::move(session)), judge_(judge), float_model_(float_model) {}

  Result<std::vector<std::byte>> run(size_t task, std::span<const std::byte> /*input*/) override {
    std::optional<Tensor> computed;
    if (float_model_ != nullptr) {
      DTR_ASSIGN(std::vector<Tensor> outputs,
                 float_model_->run(judge_.against_samples->inputs(task)));
      computed = std::move(outputs[judge_.output]);
    }
    RunStats stats;
    // The cost is the same for every sample.
    DTR_ASSIGN(const std::vector<Tensor> outputs,
               session_->run(judge_.samples.inputs(task), task == 0 ? &stats : nullptr));
    const Tensor output =
        real_values(outputs[judge_.output].view(), session_->output_type(judge_.output));
    const auto elements = static_cast<size_t>(output.elements());
    const std::span<const float> expected =
        computed ? computed->values<float>()
        : judge_.stored != nullptr
            ? judge_.stored->values<float>().subspan(task * elements, elements)
            : std::span<const float>();
    Packer packer;
    packer.add(score(task, output, expected, stats));
    return packer.take();
  }

 private:
  SampleScore score(size_t sample, const Tensor& output, std::span<const float> expected,
                    const RunStats& stats) const {
    const auto is_label = [&](std::span<const float> values) {
      return !judge_.labels.empty() &&
             static_cast<int64_t>(argmax(values)) == judge_.labels[sample];
    };
    SampleScore score;
    score.total_cycles = stats.total_cycles;
    score.npu_calls = stats.npu_calls;
    const auto actual = output.values<float>();
    score.has_class = !has_nan(actual);
    score.right = score.has_class != 0 && is_label(actual);
    if (!judge_.has_expected()) return score;
    score.float_nan = has_nan(expected);
    score.float_right = is_label(expected);
    score.agrees = score.has_class != 0 && argmax(expected) == argmax(actual);
    const Tensor wanted = Tensor::copy_of(DType::kFloat32, output.shape(), std::as_bytes(expected));
    score.sqnr.add(wanted.view(), output.view());
    return score;
  }

  SharedProgram::Lease session_;
  const Judge& judge_;
  Executor* float_model_;
};

void add(const SampleScore& sample, Score& score) {
  if (sample.float_nan != 0 && score.nan_samples++ == 0) score.first_nan = score.samples;
  ++score.samples;
  score.without_class += sample.has_class == 0 ? 1 : 0;
  score.program_right += sample.right;
  score.float_right += sample.float_right;
  score.agree += sample.agrees;
  score.sqnr.add(sample.sqnr);
}

// The number of the output that is judged.
Result<size_t> find_output(const std::vector<std::string>& names, const EvaluateOptions& options) {
  if (names.empty())
    return fail(DiagnosticId::kDataShape, "the program has no output",
                "give a program that classifies", {.file = options.program.path});
  if (options.output.empty()) return size_t{0};
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == options.output || std::to_string(i) == options.output) return i;
  return fail(DiagnosticId::kDataMissingArray,
              fmt::format("the program has no output `{}`", options.output),
              fmt::format("name one of its outputs: {}", fmt::join(names, ", ")),
              {.file = options.program.path});
}

Result<void> check_output(const Session& session, const Judge& judge,
                          const EvaluateOptions& options) {
  const Type type = session.output_type(judge.output);
  if (judge.against != nullptr && judge.against->forward().outputs().size() <= judge.output)
    return fail(
        DiagnosticId::kDataShape,
        fmt::format("the float model has {} outputs, and number {} of the program is judged",
                    judge.against->forward().outputs().size(), judge.output),
        "give the model that the program was made from", {.file = options.against.path});
  if (!judge.labels.empty())
    DTR_TRY(check_labels(judge.labels, static_cast<size_t>(type.elements()),
                         {.file = options.data.path, .node = options.labels}));
  if (type.dtype != DType::kFloat32 && !has_real_values(type))
    return fail(
        DiagnosticId::kDataDtype,
        fmt::format("the program gives {} outputs and does not tell their scale", name(type.dtype)),
        "compile it again, or with --io float", {.file = options.program.path});
  const auto needed = static_cast<int64_t>(judge.samples.size()) * type.elements();
  if (judge.stored == nullptr || judge.stored->elements() == needed) return {};
  return fail(DiagnosticId::kDataShape,
              fmt::format("float_output has {} elements, {} outputs of {} are needed",
                          judge.stored->elements(), judge.samples.size(), type.elements()),
              "store the outputs of all samples", {.file = options.data.path});
}

// Equal for evaluations whose results are equal: of all that they read, and of the form of a
// result.
Result<uint64_t> identity_of(const Session& session, std::span<const NamedTensor> arrays,
                             const EvaluateOptions& options) {
  const auto with_text = [](std::string_view text, uint32_t crc) {
    return crc32(std::as_bytes(std::span(text)), crc);
  };
  uint32_t of_program = with_text(
      fmt::format("{} {} {} {}", DTR_VERSION, sizeof(SampleScore), options.labels, options.output),
      0);
  of_program = crc32(session.pte_file().bytes(), of_program);
  for (const PtdFile& file : session.tensor_files()) of_program = crc32(file.bytes(), of_program);
  if (!options.against.bytes.empty()) {
    of_program = crc32(options.against.bytes, of_program);
  } else if (options.against.given()) {
    DTR_ASSIGN(const FileContents model, FileContents::read(options.against.path));
    of_program = crc32(model.bytes(), of_program);
  }
  uint32_t of_data = 0;
  for (const NamedTensor& array : arrays) {
    if (array.tensor.bytes().data() == nullptr) continue;  // no input: it was not read
    of_data = with_text(fmt::format("{} {} {}", array.name, name(array.tensor.dtype()),
                                    to_string(array.tensor.shape())),
                        of_data);
    of_data = crc32(array.tensor.bytes(), of_data);
  }
  return uint64_t{of_program} << 32 | of_data;
}

// The score of all samples. `stats`: the NPU's cycles in one inference.
Result<Score> score_samples(Session& first, const Judge& judge, std::span<const NamedTensor> arrays,
                            const EvaluateOptions& options, RunStats& stats) {
  std::once_flag made;
  std::optional<Result<std::unique_ptr<Executor>>> float_model;
  TaskJob job{.count = judge.samples.size(), .is_stream = first.has_states()};
  if (judge.against != nullptr && judge.against->forward().state_count() > 0) job.is_stream = true;
  SharedProgram program(first, options.executor.threads_for_each(job.count, job.is_stream));
  job.open = [&]() -> Result<std::unique_ptr<TaskWorker>> {
    DTR_ASSIGN(SharedProgram::Lease session, program.open());
    if (judge.against == nullptr)
      return std::make_unique<EvaluationWorker>(std::move(session), judge, nullptr);
    // All threads of a process share it. It is made here because libraries behind it may start
    // threads, which a child process does not inherit.
    std::call_once(
        made, [&] { float_model = make_model_executor(*judge.against, judge.against->forward()); });
    if (!*float_model) return tl::unexpected(float_model->error());
    return std::make_unique<EvaluationWorker>(std::move(session), judge, (*float_model)->get());
  };
  Score score;
  const TakeResult take = [&](size_t task, std::span<const std::byte> result) -> Result<void> {
    SampleScore sample;
    Unpacker unpacker(result);
    if (!unpacker.take(sample) || !unpacker.at_end())  // of a checkpoint that somebody wrote
      return fail(DiagnosticId::kCheckpointDamaged,
                  fmt::format("the result of sample {} is damaged", task), "evaluate without it",
                  {.file = options.checkpoint.path});
    if (task == 0) {
      stats.total_cycles = sample.total_cycles;
      stats.npu_calls = sample.npu_calls;
    }
    add(sample, score);
    return {};
  };
  if (options.checkpoint.path.empty() || !options.executor.is_coordinator()) {
    DTR_TRY(options.executor.run(job, take, options.progress));
    return score;
  }
  CheckpointOptions checkpoint = options.checkpoint;
  DTR_ASSIGN(checkpoint.identity, identity_of(first, arrays, options));
  const std::unique_ptr<TaskExecutor> executor =
      with_checkpoint(options.executor, std::move(checkpoint), options.note);
  DTR_TRY(executor->run(job, take, options.progress));
  return score;
}

Result<void> check_finite(const Score& score, const EvaluateOptions& options) {
  if (score.nan_samples == 0) return {};
  return fail(DiagnosticId::kDataNotFinite,
              fmt::format("the float model's outputs hold NaN in {} of {} samples, the first is {}",
                          score.nan_samples, score.samples, score.first_nan),
              "leave these samples out, or look for the cause in the float model",
              {.file = options.against.given() ? options.against.path : options.data.path});
}

double share(const EvaluationResult& evaluation, size_t count) {
  return static_cast<double>(count) / static_cast<double>(evaluation.score.samples);
}

}  // namespace

Result<EvaluationResult> evaluate(const EvaluateOptions& options, Session& first) {
  std::optional<Module> model;
  if (options.against.given()) {
    DTR_ASSIGN(model, options.against.read(options.data.sizes()));
  }
  const std::vector<std::string> outputs = io_names(first.pte_file().plan(), true);
  DTR_ASSIGN(const size_t output, find_output(outputs, options));
  const std::string stored_output = fmt::format("float_output_{}", output);
  const auto is_used =
      [&](std::string_view array) {  // the inputs of the model may have other names
        return array == options.labels || Samples::is_input_array(first.signature(), array) ||
               (model ? Samples::is_input_array(model->forward(), array)
                      : array == "float_output" || array == stored_output);
      };
  std::vector<NamedTensor> read;
  if (!options.data.in_memory()) {
    DTR_ASSIGN(read, read_tensors(options.data.path, is_used));
  }
  const std::span<const NamedTensor> arrays =
      options.data.in_memory() ? options.data.arrays : std::span<const NamedTensor>(read);
  DTR_ASSIGN(const Samples samples, Samples::bind(first.signature(), arrays, options.data.path));
  DTR_ASSIGN(const std::vector<int64_t> labels, read_labels(arrays, samples.size(), options));
  Judge judge{.samples = samples, .labels = labels, .output = output};
  std::optional<Samples> against_samples;
  if (model) {
    DTR_ASSIGN(against_samples, Samples::bind(model->forward(), arrays, options.data.path));
    judge.against = &*model;
    judge.against_samples = &*against_samples;
  } else {
    judge.stored = find_array(arrays, stored_output);
    if (judge.stored == nullptr && output == 0) judge.stored = find_array(arrays, "float_output");
  }
  if (labels.empty() && !judge.has_expected())
    return fail(DiagnosticId::kDataMissingArray,
                "the data have neither labels nor outputs of the float model: there is nothing to "
                "compare with",
                fmt::format("add an array `label`, or name yours with --labels; add `{}`, or give "
                            "the model with --against; the data have {}",
                            output == 0 ? "float_output" : stored_output, names_of(arrays)),
                {.file = options.data.path});
  DTR_TRY(check_output(first, judge, options));
  RunStats stats;
  DTR_ASSIGN(const Score score, score_samples(first, judge, arrays, options, stats));
  EvaluationResult evaluation{
      .score = score,
      .output = outputs[output],
      .outputs = outputs.size(),
      .has_labels = !labels.empty(),
      .has_expected = judge.has_expected(),
      .is_int8 = computes_in_int8(first.pte_file()),
      .inference = inference_of(first.pte_file(), stats),
      .warnings = nan_warnings(first.signature(), samples, samples.size(), options.data.path)};
  DTR_TRY(check_finite(evaluation.score, options));
  return evaluation;
}

std::string to_text(const EvaluationResult& evaluation) {
  const Score& score = evaluation.score;
  std::string text = fmt::format("{} samples", score.samples);
  if (evaluation.outputs > 1)
    text += fmt::format(", judged by `{}`, one of {} outputs (--output names another)",
                        evaluation.output, evaluation.outputs);
  text += "\n";
  if (evaluation.has_labels) {
    if (evaluation.has_expected)
      text += fmt::format("  accuracy of the float model   {:.4f}\n",
                          share(evaluation, score.float_right));
    text +=
        fmt::format("  {:<30}{:.4f}\n",
                    evaluation.is_int8 ? "accuracy of the int8 program" : "accuracy of the program",
                    share(evaluation, score.program_right));
  }
  if (evaluation.has_expected)
    text +=
        fmt::format("  {:<30}{:.4f}\n  SQNR against the float model  {}\n",
                    evaluation.has_labels ? "same class as the float model" : "same largest output",
                    share(evaluation, score.agree),
                    score.sqnr.decibels() >= 99 ? std::string("99 dB or more")
                                                : fmt::format("{:.2f} dB", score.sqnr.decibels()));
  return text +
         fmt::format("  {:<30}{}\n", "one inference",
                     inference_text(evaluation.inference.work, evaluation.inference.clock_hz));
}

std::string to_json(const EvaluationResult& evaluation) {
  const Score& score = evaluation.score;
  std::string json = fmt::format("{{\"samples\": {}", score.samples);
  if (evaluation.outputs > 1)
    json += fmt::format(", \"output\": {}", json_quote(evaluation.output));
  if (evaluation.has_labels) {
    if (evaluation.has_expected)
      json += fmt::format(", \"float_accuracy\": {:.6f}", share(evaluation, score.float_right));
    json += fmt::format(", \"accuracy\": {:.6f}", share(evaluation, score.program_right));
  }
  if (evaluation.has_expected)
    json += fmt::format(", \"same_class\": {:.6f}, \"sqnr_db\": {:.4f}",
                        share(evaluation, score.agree), score.sqnr.decibels());
  const TimedWork& work = evaluation.inference.work;
  return json + fmt::format(", \"npu_total_cycles\": {}, \"npu_calls\": {}, {}}}\n",
                            work.npu_cycles, work.npu_calls,
                            inference_json(work, evaluation.inference.clock_hz));
}

}  // namespace dtr
