// deuteron eval
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ir/npz.h"
#include "compiler/ir/samples.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/support/output_file.h"
#include "compiler/support/progress.h"
#include "compiler/support/thread_pool.h"
#include "host/accuracy/compare.h"
#include "host/session/session.h"
#include "tools/print.h"
#include "tools/verbs.h"

namespace dtr::tools {
namespace {

const Tensor* find_array(const std::vector<NamedTensor>& arrays, std::string_view name) {
  for (const NamedTensor& array : arrays)
    if (array.name == name) return &array.tensor;
  return nullptr;
}

size_t argmax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// Class numbers in whatever integer dtype they are stored.
Result<std::vector<int64_t>> class_numbers(const Tensor& labels, size_t samples, const Place& place) {
  std::vector<int64_t> numbers;
  const auto take = [&](const auto& values) { numbers.assign(values.begin(), values.end()); };
  if (labels.dtype() == DType::kInt64) take(labels.values<int64_t>());
  if (labels.dtype() == DType::kInt32) take(labels.values<int32_t>());
  if (labels.dtype() == DType::kUint8) take(labels.values<uint8_t>());
  if (labels.dtype() == DType::kInt8) take(labels.values<int8_t>());
  if (labels.dtype() == DType::kInt16) take(labels.values<int16_t>());
  if (numbers.size() != samples)
    return fail(DiagnosticId::kDataShape,
                fmt::format("{} labels of dtype {} for {} samples", labels.elements(), name(labels.dtype()), samples),
                "give one integer class number a sample", place);
  return numbers;
}

// Class numbers that no sample can have are a mistake in the data, of which the accuracy would tell nothing.
Status check_labels(const std::vector<int64_t>& labels, size_t classes, const Place& place) {
  const auto is_class = [&](int64_t label) { return label >= 0 && static_cast<uint64_t>(label) < classes; };
  const auto bad = std::ranges::find_if_not(labels, is_class);
  if (bad == labels.end()) return {};
  const auto [least, greatest] = std::ranges::minmax(labels);
  return fail(
      DiagnosticId::kDataShape,
      fmt::format("{} of {} labels are no class: the program has the classes 0 to {}, the labels go from {} to {} (sample {} has {})",
                  std::ranges::count_if(labels, std::not_fn(is_class)), labels.size(), classes - 1, least, greatest, bad - labels.begin(),
                  *bad),
      least == 1 && greatest == static_cast<int64_t>(classes) ? "subtract 1: classes are counted from 0"
                                                              : "leave samples without a class out, or name the right array with --labels",
      place);
}

bool has_nan(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return std::isnan(value); });
}

// What the float model says about every sample, one after the other.
struct Expected {
  const Tensor* stored = nullptr;  // float_output of the data
  std::vector<Tensor> computed;    // by --against
  bool any() const { return stored != nullptr || !computed.empty(); }
  std::span<const float> of(size_t sample, size_t elements) const {
    return computed.empty() ? stored->values<float>().subspan(sample * elements, elements) : computed[sample].values<float>();
  }
};

Result<std::vector<Tensor>> run_float_model(const Program& program, const std::vector<NamedTensor>& arrays, const EvalOptions& options,
                                            unsigned threads) {
  DTR_ASSIGN(const Samples samples, Samples::bind(program.forward(), arrays, options.data));
  DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_model_executor(program, program.forward()));
  std::vector<Result<std::vector<Tensor>>> results(samples.size());
  parallel_for(samples.size(), threads, [&](size_t i) { results[i] = executor->run(samples.inputs(i)); });
  std::vector<Tensor> outputs;
  for (Result<std::vector<Tensor>>& result : results) {
    DTR_TRY(result);
    outputs.push_back(std::move(result->front()));
  }
  return outputs;
}

struct Score {
  size_t samples = 0, float_right = 0, int8_right = 0, agree = 0;
  size_t without_class = 0;  // the program gives NaN
  Sqnr sqnr;
};

}  // namespace

Status eval(const CommonOptions& common, const EvalOptions& options) {
  DTR_TRY(check_outputs({options.program, options.data, options.against}, {options.json}));
  DTR_ASSIGN(const std::unique_ptr<Session> first, Session::open(options.program, options.tensor_files));
  note_unused_tensors(options.tensor_files, {&first->image()});
  std::optional<Program> model;
  if (!options.against.empty()) {
    DTR_ASSIGN(model, read_model(options.against));
  }
  const auto is_used = [&](std::string_view array) {  // the inputs of the model may have other names
    return array == options.labels || Samples::wants(first->signature(), array) ||
           (model ? Samples::wants(model->forward(), array) : array == "float_output" || array == "float_output_0");
  };
  DTR_ASSIGN(const std::vector<NamedTensor> arrays, read_tensors(options.data, is_used));
  DTR_ASSIGN(const Samples samples, Samples::bind(first->signature(), arrays, options.data));

  std::vector<int64_t> labels;
  if (const Tensor* array = find_array(arrays, options.labels)) {
    DTR_ASSIGN(labels, class_numbers(*array, samples.size(), {.file = options.data, .node = options.labels}));
  } else if (options.labels != "label") {
    return fail(DiagnosticId::kDataMissingArray, fmt::format("there is no array `{}`", options.labels),
                "name the array of class numbers with --labels", {.file = options.data});
  }
  Expected expected;
  if (model) {
    DTR_ASSIGN(expected.computed, run_float_model(*model, arrays, options, common.threads));
  } else {
    expected.stored = find_array(arrays, "float_output");
    if (expected.stored == nullptr) expected.stored = find_array(arrays, "float_output_0");
  }
  if (labels.empty() && !expected.any())
    return fail(DiagnosticId::kDataMissingArray,
                "the data have neither labels nor outputs of the float model: there is nothing to compare with",
                "add an array `label` or `float_output`, or give the model with --against", {.file = options.data});

  // Samples in as many runs as there are threads, each with a session of its own.
  const unsigned threads = common.threads == 0 ? default_threads() : common.threads;
  const size_t chunks = std::min<size_t>(threads, samples.size());
  std::vector<Result<std::vector<Tensor>>> outputs(samples.size());
  std::vector<Status> failures(chunks);
  TerminalProgress progress("eval");
  std::atomic<size_t> done{0};
  RunStats stats;
  parallel_for(chunks, threads, [&](size_t chunk) {
    Result<std::unique_ptr<Session>> session = Session::open(options.program, options.tensor_files);
    if (!session) {
      failures[chunk] = tl::unexpected(session.error());
      return;
    }
    for (size_t i = chunk; i < samples.size(); i += chunks) {
      outputs[i] = (*session)->run(samples.inputs(i), i == 0 ? &stats : nullptr);
      progress.update(++done, samples.size());
    }
  });
  for (Status& failure : failures) DTR_TRY(failure);

  for (const Result<std::vector<Tensor>>& output : outputs) DTR_TRY(output);
  if (outputs.front()->empty())
    return fail(DiagnosticId::kDataShape, "the program has no output", "give a program that classifies", {.file = options.program});
  if (!labels.empty())
    DTR_TRY(check_labels(labels, static_cast<size_t>(outputs.front()->front().elements()), {.file = options.data, .node = options.labels}));
  Score score;
  size_t nan_samples = 0, first_nan = 0;  // of the float model
  for (size_t i = 0; i < samples.size(); ++i) {
    const Tensor& raw = outputs[i]->front();
    if (raw.dtype() != DType::kFloat32)
      return fail(DiagnosticId::kDataDtype, "the program gives int8 outputs, which have no scale outside of it",
                  "compile with --io float to evaluate", {.file = options.program});
    const auto actual = raw.values<float>();
    ++score.samples;
    const bool has_class = !has_nan(actual);
    if (!has_class) ++score.without_class;
    if (has_class && !labels.empty() && static_cast<int64_t>(argmax(actual)) == labels[i]) ++score.int8_right;
    if (!expected.any()) continue;
    if (expected.stored != nullptr && expected.stored->elements() != static_cast<int64_t>(samples.size() * actual.size()))
      return fail(DiagnosticId::kDataShape,
                  fmt::format("float_output has {} elements, {} outputs of {} are needed", expected.stored->elements(), samples.size(),
                              actual.size()),
                  "store the outputs of all samples", {.file = options.data});
    const auto ideal = expected.of(i, actual.size());
    if (has_nan(ideal) && nan_samples++ == 0) first_nan = i;
    if (!labels.empty() && static_cast<int64_t>(argmax(ideal)) == labels[i]) ++score.float_right;
    if (has_class && argmax(ideal) == argmax(actual)) ++score.agree;
    const Tensor wanted = Tensor::copy_of(DType::kFloat32, raw.shape(), std::as_bytes(ideal));
    score.sqnr.add(wanted.view(), raw.view());
  }

  if (nan_samples > 0)
    return fail(
        DiagnosticId::kDataNotFinite,
        fmt::format("the float model's outputs hold NaN in {} of {} samples, the first is {}", nan_samples, samples.size(), first_nan),
        "leave these samples out, or look for the cause in the float model",
        {.file = options.against.empty() ? options.data : options.against});
  if (score.without_class > 0)
    print_error("note: the program's outputs hold NaN in {} of {} samples, which count as wrong\n", score.without_class, samples.size());

  const double n = static_cast<double>(score.samples);
  std::string json = fmt::format("{{\"samples\": {}", score.samples);
  print("{} samples\n", score.samples);
  if (!labels.empty()) {
    if (expected.any()) print("  accuracy of the float model   {:.4f}\n", static_cast<double>(score.float_right) / n);
    print("  accuracy of the int8 program  {:.4f}\n", static_cast<double>(score.int8_right) / n);
    if (expected.any()) json += fmt::format(", \"float_accuracy\": {:.6f}", static_cast<double>(score.float_right) / n);
    json += fmt::format(", \"accuracy\": {:.6f}", static_cast<double>(score.int8_right) / n);
  }
  if (expected.any()) {
    print("  same class as the float model {:.4f}\n  SQNR against the float model  {:.2f} dB\n", static_cast<double>(score.agree) / n,
          score.sqnr.decibels());
    json += fmt::format(", \"same_class\": {:.6f}, \"sqnr_db\": {:.4f}", static_cast<double>(score.agree) / n, score.sqnr.decibels());
  }
  print("  simulated NPU                 {} cycles in {} calls a sample\n", stats.total_cycles, stats.npu_calls);
  json += fmt::format(", \"npu_total_cycles\": {}, \"npu_calls\": {}}}\n", stats.total_cycles, stats.npu_calls);
  if (!options.json.empty()) DTR_TRY(write_file(options.json, json));
  return {};
}

}  // namespace dtr::tools
