#include "host/commands/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>

#include "compiler/executors/onednn_executor.h"
#include "compiler/support/thread_pool.h"
#include "host/accuracy/labels.h"
#include "host/commands/run_results.h"

namespace dtr {
namespace {

const Tensor* find_array(std::span<const NamedTensor> arrays, std::string_view name) {
  for (const NamedTensor& array : arrays)
    if (array.name == name) return &array.tensor;
  return nullptr;
}

bool has_nan(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return std::isnan(value); });
}

// The float model's outputs for every sample, one after the other.
struct Expected {
  const Tensor* stored = nullptr;  // float_output of the data
  std::vector<Tensor> computed;    // by --against
  bool any() const { return stored != nullptr || !computed.empty(); }
  std::span<const float> of(size_t sample, size_t elements) const {
    return computed.empty() ? stored->values<float>().subspan(sample * elements, elements)
                            : computed[sample].values<float>();
  }
};

Result<std::vector<Tensor>> run_float_model(const Module& module,
                                            std::span<const NamedTensor> arrays,
                                            const EvaluateOptions& options) {
  DTR_ASSIGN(const Samples samples, Samples::bind(module.forward(), arrays, options.data.path));
  DTR_ASSIGN(const std::unique_ptr<Executor> executor,
             make_model_executor(module, module.forward()));
  std::vector<Result<std::vector<Tensor>>> results(samples.size());
  const unsigned threads = module.forward().state_count() > 0 ? 1 : options.threads;
  parallel_for(samples.size(), threads,
               [&](size_t i) { results[i] = executor->run(samples.inputs(i)); });
  std::vector<Tensor> outputs;
  for (Result<std::vector<Tensor>>& result : results) {
    DTR_TRY(result);
    outputs.push_back(std::move(result->front()));
  }
  return outputs;
}

Result<std::vector<int64_t>> read_labels(std::span<const NamedTensor> arrays, size_t samples,
                                         const EvaluateOptions& options) {
  if (const Tensor* array = find_array(arrays, options.labels))
    return class_numbers(*array, samples, {.file = options.data.path, .node = options.labels});
  if (options.labels == "label") return std::vector<int64_t>();
  return fail(DiagnosticId::kDataMissingArray,
              fmt::format("there is no array `{}`", options.labels),
              "name the array of class numbers with --labels", {.file = options.data.path});
}

// `model` is that of --against; null: the data have the float model's outputs.
Result<Expected> read_expected(const Module* model, std::span<const NamedTensor> arrays,
                               const EvaluateOptions& options) {
  Expected expected;
  if (model != nullptr) {
    DTR_ASSIGN(expected.computed, run_float_model(*model, arrays, options));
  } else {
    expected.stored = find_array(arrays, "float_output");
    if (expected.stored == nullptr) expected.stored = find_array(arrays, "float_output_0");
  }
  return expected;
}

// Whether the samples are a stream, each of which depends on those before it.
Result<bool> has_states(const EvaluateOptions& options) {
  DTR_ASSIGN(const std::unique_ptr<Session> session, options.program.open());
  return session->has_states();
}

// The first output of each sample, in as many runs as there are threads, each with a session of its
// own. `stats` of one sample.
Result<std::vector<Tensor>> run_samples(const Samples& samples, const EvaluateOptions& options,
                                        RunStats& stats) {
  DTR_ASSIGN(const bool is_stream, has_states(options));
  const unsigned threads = options.threads == 0 ? default_threads() : options.threads;
  const size_t chunks = is_stream ? 1 : std::min<size_t>(threads, samples.size());
  std::vector<Result<std::vector<Tensor>>> results(samples.size());
  std::vector<Result<void>> failures(chunks);
  std::atomic<size_t> done{0};
  parallel_for(chunks, threads, [&](size_t chunk) {
    Result<std::unique_ptr<Session>> session = options.program.open();
    if (!session) {
      failures[chunk] = tl::unexpected(session.error());
      return;
    }
    for (size_t i = chunk; i < samples.size(); i += chunks) {
      results[i] = (*session)->run(samples.inputs(i), i == 0 ? &stats : nullptr);
      if (options.progress) options.progress(++done, samples.size());
    }
  });
  for (Result<void>& failure : failures) DTR_TRY(failure);
  for (const Result<std::vector<Tensor>>& result : results) DTR_TRY(result);
  std::vector<Tensor> outputs;
  for (Result<std::vector<Tensor>>& result : results) {
    if (result->empty())
      return fail(DiagnosticId::kDataShape, "the program has no output",
                  "give a program that classifies", {.file = options.program.path});
    outputs.push_back(std::move(result->front()));
  }
  return outputs;
}

Result<void> check_output(const Tensor& output, size_t samples, const Expected& expected,
                          const EvaluateOptions& options) {
  if (output.dtype() != DType::kFloat32)
    return fail(DiagnosticId::kDataDtype,
                "the program gives int8 outputs, which have no scale outside of it",
                "compile with --io float to evaluate", {.file = options.program.path});
  const auto needed = static_cast<int64_t>(samples) * output.elements();
  if (expected.stored == nullptr || expected.stored->elements() == needed) return {};
  return fail(DiagnosticId::kDataShape,
              fmt::format("float_output has {} elements, {} outputs of {} are needed",
                          expected.stored->elements(), samples, output.elements()),
              "store the outputs of all samples", {.file = options.data.path});
}

Score score_of(const std::vector<Tensor>& outputs, const std::vector<int64_t>& labels,
               const Expected& expected) {
  Score score;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto actual = outputs[i].values<float>();
    ++score.samples;
    const bool has_class = !has_nan(actual);
    if (!has_class) ++score.without_class;
    if (has_class && !labels.empty() && static_cast<int64_t>(argmax(actual)) == labels[i])
      ++score.program_right;
    if (!expected.any()) continue;
    const auto ideal = expected.of(i, actual.size());
    if (has_nan(ideal) && score.nan_samples++ == 0) score.first_nan = i;
    if (!labels.empty() && static_cast<int64_t>(argmax(ideal)) == labels[i]) ++score.float_right;
    if (has_class && argmax(ideal) == argmax(actual)) ++score.agree;
    const Tensor wanted =
        Tensor::copy_of(DType::kFloat32, outputs[i].shape(), std::as_bytes(ideal));
    score.sqnr.add(wanted.view(), outputs[i].view());
  }
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

Result<EvaluationResult> evaluate(const EvaluateOptions& options, const Session& first) {
  std::optional<Module> model;
  if (options.against.given()) {
    DTR_ASSIGN(model, options.against.read(options.data.sizes()));
  }
  const auto is_used =
      [&](std::string_view array) {  // the inputs of the model may have other names
        return array == options.labels || Samples::is_input_array(first.signature(), array) ||
               (model ? Samples::is_input_array(model->forward(), array)
                      : array == "float_output" || array == "float_output_0");
      };
  std::vector<NamedTensor> read;
  if (!options.data.in_memory()) {
    DTR_ASSIGN(read, read_tensors(options.data.path, is_used));
  }
  const std::span<const NamedTensor> arrays =
      options.data.in_memory() ? options.data.arrays : std::span<const NamedTensor>(read);
  DTR_ASSIGN(const Samples samples, Samples::bind(first.signature(), arrays, options.data.path));
  DTR_ASSIGN(const std::vector<int64_t> labels, read_labels(arrays, samples.size(), options));
  DTR_ASSIGN(const Expected expected, read_expected(model ? &*model : nullptr, arrays, options));
  if (labels.empty() && !expected.any())
    return fail(DiagnosticId::kDataMissingArray,
                "the data have neither labels nor outputs of the float model: there is nothing to "
                "compare with",
                "add an array `label` or `float_output`, or give the model with --against",
                {.file = options.data.path});
  RunStats stats;
  DTR_ASSIGN(const std::vector<Tensor> outputs, run_samples(samples, options, stats));
  const auto classes = static_cast<size_t>(outputs.front().elements());
  if (!labels.empty())
    DTR_TRY(check_labels(labels, classes, {.file = options.data.path, .node = options.labels}));
  DTR_TRY(check_output(outputs.front(), samples.size(), expected, options));
  EvaluationResult evaluation{
      .score = score_of(outputs, labels, expected),
      .has_labels = !labels.empty(),
      .has_expected = expected.any(),
      .is_int8 = computes_in_int8(first.pte_file()),
      .inference = inference_of(first.pte_file(), stats),
      .warnings = nan_warnings(first.signature(), samples, samples.size(), options.data.path)};
  DTR_TRY(check_finite(evaluation.score, options));
  return evaluation;
}

std::string to_text(const EvaluationResult& evaluation) {
  const Score& score = evaluation.score;
  std::string text = fmt::format("{} samples\n", score.samples);
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
