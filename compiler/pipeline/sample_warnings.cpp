#include "compiler/pipeline/sample_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

// Running statistics average over many batches; a few samples of the same kind scatter around them
// by far less than this. Pixels of 0..255 in place of 0..1 are 255 times too large, pixels of 0..1
// in place of normalized ones 4.4 times too small.
constexpr double kMostDeviations = 4;
constexpr double kMostDeviationRatio = 4;
constexpr size_t kNormSamples = 8;
constexpr size_t kIndexSamples = 8;
constexpr double kMostOutside = 0.01;
constexpr double kLeastSpread = 1.0 / 8;

// Mean and deviation of elements, their range, and how many there are.
struct Spread {
  double sum = 0, squares = 0;
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  size_t count = 0;

  void add(std::span<const float> elements) {
    for (const float x : elements) {
      sum += x;
      squares += static_cast<double>(x) * x;
      min = std::min(min, x);
      max = std::max(max, x);
    }
    count += elements.size();
  }
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  double deviation() const {
    return count == 0
               ? 0
               : std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean() * mean()));
  }
};

Spread spread_of(const Samples& samples, size_t input) {
  Spread spread;
  for (size_t i = 0; i < samples.size(); ++i) spread.add(samples.inputs(i)[input].values<float>());
  return spread;
}

bool is_float_input(const Graph& graph, size_t input) {
  const Type& type = graph.type(graph.inputs()[input]);
  return type.dtype == DType::kFloat32 && !type.quantized() && type.elements() > 0;
}

bool all_equal(const Samples& samples) {
  const std::vector<TensorView> first = samples.inputs(0);
  for (size_t i = 1; i < samples.size(); ++i) {
    const std::vector<TensorView> each = samples.inputs(i);
    for (size_t k = 0; k < each.size(); ++k)
      if (each[k].bytes() > 0 && std::memcmp(each[k].data, first[k].data, each[k].bytes()) != 0)
        return false;
  }
  return true;
}

Diagnostic warning(DiagnosticId id, std::string reason, std::string fix, Place place) {
  return {.id = id,
          .reason = std::move(reason),
          .fix = std::move(fix),
          .place = std::move(place),
          .severity = Severity::kWarning};
}

void warn_of_constants(const Compilation& c, const Samples& samples,
                       std::vector<Diagnostic>& warnings) {
  const Graph& graph = c.as_read;
  for (size_t k = 0; k < graph.user_input_count(); ++k) {
    if (!is_float_input(graph, k)) continue;
    const Spread spread = spread_of(samples, k);
    if (spread.min != spread.max) continue;
    warnings.push_back(warning(
        DiagnosticId::kCalibrationConstant,
        fmt::format("every element of every calibration sample is {}", spread.min),
        "check how the samples were made; only an input that never has another value may be so",
        {.file = c.module.file, .node = graph.value(graph.inputs()[k]).name}));
  }
  const bool constant = std::ranges::any_of(warnings, [](const Diagnostic& other) {
    return other.id == DiagnosticId::kCalibrationConstant;
  });
  if (!constant && samples.size() > 1 && graph.user_input_count() > 0 && all_equal(samples))
    warnings.push_back(warning(DiagnosticId::kCalibrationConstant,
                               fmt::format("all {} calibration samples are equal", samples.size()),
                               "give samples of every kind that the model will see",
                               {.file = c.module.file}));
}

// ---- the first batch norm

std::span<const float> constant(const Module& module, const Graph& graph, ValueId value) {
  const auto bytes = module.constants.bytes(graph.value(value).constant);
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// The first batch norm that was trained and whose operand is computed; invalid if there is none.
OpId first_norm(const Module& module, const Graph& graph) {
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def != &ops::kBatchNorm || graph.is_constant(op.operands[0])) continue;
    if (graph.type(op.operands[0]).dtype != DType::kFloat32) return {};
    if (!graph.is_constant(op.operands[3]) || !graph.is_constant(op.operands[4])) return {};
    const std::span<const float> means = constant(module, graph, op.operands[3]);
    const std::span<const float> variances = constant(module, graph, op.operands[4]);
    const bool untrained = std::ranges::all_of(means, [](float x) { return x == 0; }) &&
                           std::ranges::all_of(variances, [](float x) { return x == 1; });
    return untrained ? OpId() : id;
  }
  return {};
}

// The graph up to values.
Graph cut_at(const Graph& whole, const std::vector<ValueId>& values) {
  Graph graph = whole;
  Rewriter rewriter(graph);
  rewriter.set_outputs(values);
  for (OpId id = graph.last_op(), previous; id.valid(); id = previous) {
    previous = graph.op(id).previous;
    if (std::ranges::all_of(graph.op(id).results,
                            [&](ValueId result) { return graph.value(result).unused(); }))
      rewriter.erase(id);
  }
  return graph;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Result<std::optional<Diagnostic>> warn_of_preprocessing(const Compilation& c,
                                                        const Samples& samples) {
  const OpId norm = c.as_read.state_count() == 0 ? first_norm(c.module, c.as_read) : OpId();
  if (!norm.valid()) return std::optional<Diagnostic>();
  const Op& op = c.as_read.op(norm);
  const Graph cut = cut_at(c.as_read, {op.operands[0]});
  DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_model_executor(c.module, cut));
  const auto channels = static_cast<size_t>(cut.type(op.operands[0]).shape[1]);
  std::vector<Spread> spreads(channels);
  const size_t count = std::min(samples.size(), kNormSamples);
  for (size_t i = 0; i < count; ++i) {
    DTR_ASSIGN(const std::vector<Tensor> made,
               executor->run(samples.inputs(i * samples.size() / count)));
    const std::span<const float> values = made[0].values<float>();
    const auto planes = static_cast<size_t>(made[0].shape()[0]) * channels;
    const size_t plane = planes == 0 ? 0 : values.size() / planes;
    for (size_t p = 0; p < planes; ++p) spreads[p % channels].add(values.subspan(p * plane, plane));
  }
  if (channels == 0 || spreads[0].count < 2) return std::optional<Diagnostic>();
  const std::span<const float> means = constant(c.module, c.as_read, op.operands[3]);
  const std::span<const float> variances = constant(c.module, c.as_read, op.operands[4]);
  const double eps = op.attributes.get<double>("eps");
  std::vector<double> ratios, shifts;
  for (size_t channel = 0; channel < channels; ++channel) {
    const double stored = std::sqrt(std::max(0.0, static_cast<double>(variances[channel])) + eps);
    const double seen = std::sqrt(std::pow(spreads[channel].deviation(), 2) + eps);
    ratios.push_back(seen / stored);
    shifts.push_back(std::abs(spreads[channel].mean() - means[channel]) / stored);
  }
  const double ratio = median(std::move(ratios));
  const double shift = median(std::move(shifts));
  if (ratio <= kMostDeviationRatio && ratio >= 1 / kMostDeviationRatio && shift <= kMostDeviations)
    return std::optional<Diagnostic>();
  return std::optional(warning(
      DiagnosticId::kCalibrationUnprepared,
      fmt::format("on the calibration samples the operand has {:.3g} times the standard deviation "
                  "that this batch norm stored in training, and a mean {:.3g} stored deviations "
                  "from the stored mean (medians over {} channels)",
                  ratio, shift, channels),
      "preprocess the samples as in training: scale of the pixels (0 to 1 or 0 to 255), mean and "
      "deviation, order of channels",
      place_of(c.module, c.as_read, norm)));
}

// ---- indices

// The indices that may be outside: from `least` to before `end` are elements.
struct IndexUse {
  OpId op;
  ValueId index;
  int64_t least, end;
};

std::vector<IndexUse> index_uses(const Graph& graph) {
  std::vector<IndexUse> uses;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    const bool puts = op.def == &ops::kIndexPut;
    if ((!puts && op.def != &ops::kIndexSelect) || graph.is_constant(op.operands[1])) continue;
    const Shape& shape = graph.type(op.operands[0]).shape;
    const int64_t dim = puts ? 0 : op.attributes.get<int64_t>("dim");
    const int64_t extent = shape[*ops::normalize_dim(dim, shape.size())];
    uses.push_back({id, op.operands[1], puts ? -extent : 0, extent});
  }
  return uses;
}

std::optional<int64_t> outside(const TensorView& index, const IndexUse& use) {
  const auto find = [&](const auto all) -> std::optional<int64_t> {
    const auto found =
        std::ranges::find_if(all, [&](auto at) { return at < use.least || at >= use.end; });
    return found == all.end() ? std::nullopt : std::optional<int64_t>(*found);
  };
  return index.dtype == DType::kInt32 ? find(index.values<int32_t>())
                                      : find(index.values<int64_t>());
}

// One warning an operator.
Result<void> warn_of_indices(const Compilation& c, const Samples& samples,
                             std::vector<Diagnostic>& warnings) {
  if (c.as_read.state_count() != 0) return {};
  std::vector<IndexUse> uses = index_uses(c.as_read);
  if (uses.empty()) return {};
  std::vector<ValueId> indices;
  for (const IndexUse& use : uses) indices.push_back(use.index);
  const Graph cut = cut_at(c.as_read, indices);
  bool cheap = true;
  for (const OpId id : cut.ops()) cheap = cheap && cut.op(id).def->macs == nullptr;
  const size_t count = cheap ? samples.size() : std::min(samples.size(), kIndexSamples);
  DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_model_executor(c.module, cut));
  for (size_t i = 0; i < count && !uses.empty(); ++i) {
    const size_t sample = i * samples.size() / count;
    DTR_ASSIGN(const std::vector<Tensor> made, executor->run(samples.inputs(sample)));
    for (size_t k = 0; k < uses.size(); ++k) {
      if (!uses[k].op.valid()) continue;
      const std::optional<int64_t> found = outside(made[k].view(), uses[k]);
      if (!found) continue;
      Place place = place_of(c.module, c.as_read, uses[k].op);
      if (std::ranges::none_of(warnings, [&](const Diagnostic& other) {
            return other.id == DiagnosticId::kCalibrationIndex && other.place == place;
          }))
        warnings.push_back(warning(
            DiagnosticId::kCalibrationIndex,
            fmt::format("calibration sample {} has index {} of {} elements: a run of the program "
                        "refuses it",
                        sample, *found, uses[k].end),
            "give samples of indices that exist, or bound them in the model: index.clamp(0, size "
            "- 1)",
            std::move(place)));
      uses[k].op = {};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Diagnostic>> sample_warnings(const Compilation& c) {
  std::vector<Diagnostic> warnings;
  const Samples* samples = c.samples();
  if (samples == nullptr || samples->size() == 0 || c.samples_are_noise) return warnings;
  DTR_TRY(warn_of_indices(c, *samples, warnings));
  if (c.came_quantized) return warnings;
  warn_of_constants(c, *samples, warnings);
  if (c.samples_there > samples->size())
    warnings.push_back({.id = DiagnosticId::kCalibrationPicked,
                        .reason = fmt::format(
                            "{} of {} samples choose the ranges, {}",
                            with_thousands(samples->size()), with_thousands(c.samples_there),
                            c.samples_every == 1 ? std::string("the first of the stream")
                                                 : fmt::format("one of every {}", c.samples_every)),
                        .fix = "take more of them with --calibration-samples",
                        .place = {.file = c.module.file},
                        .severity = Severity::kNote});
  if (samples->size() < kFewSamples)
    warnings.push_back(warning(
        DiagnosticId::kCalibrationFew,
        fmt::format("ranges were chosen on {} sample{}, and other inputs may lie beyond them",
                    samples->size(), samples->size() == 1 ? "" : "s"),
        "give a few dozen samples of every kind that the model will see", {.file = c.module.file}));
  DTR_ASSIGN(std::optional<Diagnostic> unprepared, warn_of_preprocessing(c, *samples));
  if (unprepared) warnings.push_back(*std::move(unprepared));
  return warnings;
}

std::optional<Diagnostic> warn_of_unlike_samples(const Graph& graph, const Samples& calibrated,
                                                 const Samples& others, const std::string& file) {
  for (size_t k = 0; k < graph.user_input_count(); ++k) {
    if (!is_float_input(graph, k) || others.size() == 0) continue;
    const Spread known = spread_of(calibrated, k);
    const Spread other = spread_of(others, k);
    size_t outside = 0;
    for (size_t i = 0; i < others.size(); ++i)
      outside += static_cast<size_t>(
          std::ranges::count_if(others.inputs(i)[k].values<float>(),
                                [&](float x) { return x < known.min || x > known.max; }));
    const double share = static_cast<double>(outside) / static_cast<double>(other.count);
    const bool narrow =
        others.size() >= kFewSamples && other.deviation() < kLeastSpread * known.deviation();
    // Of n calibrated elements of one distribution, about 2/n of others are outside.
    if (share <= std::max(kMostOutside, 10 / static_cast<double>(known.count)) && !narrow) continue;
    return warning(
        DiagnosticId::kCalibrationUnlike,
        fmt::format("the samples go from {:.4g} to {:.4g}, the calibration samples from {:.4g} to "
                    "{:.4g}: {:.1f} % of the elements are outside",
                    other.min, other.max, known.min, known.max, 100 * share),
        "preprocess both alike, and calibrate on samples of the same kind",
        {.file = file, .node = graph.value(graph.inputs()[k]).name});
  }
  return std::nullopt;
}

std::optional<Diagnostic> accuracy_warning(const OutputCheck& check, std::optional<double> accepted,
                                           const std::string& file) {
  if (check.on_noise || check.came_quantized || !check.is_int8) return std::nullopt;
  const std::string samples = fmt::format("against the float model on {} calibration sample{}",
                                          check.samples, check.samples == 1 ? "" : "s");
  std::string reason;
  std::string fix =
      "see which operators lose it with --report-quantization, let --accuracy auto look for "
      "settings that mend it, or accept it with --min-sqnr DB; `deuteron eval` tells what it does "
      "to labelled data";
  const double decibels = check.worst_output_db;
  const OutputCheck::Integers& integers = check.worst_integers;
  if (decibels < std::min(kLowAccuracyDecibels, accepted.value_or(kLowAccuracyDecibels))) {
    reason =
        fmt::format("output `{}` has {:.1f} dB {}: its error is {:.0f} % of the signal",
                    check.worst_output, decibels, samples, 100 * std::pow(10.0, -decibels / 20));
  } else if (integers.differing >= kManyDiffering && integers.part >= kLowAccuracyPart) {
    fix =
        "keep what it compares or rounds in float (--keep-float NODE or OPERATOR), or calibrate "
        "with more samples";
    reason = fmt::format("{} of {} elements of output `{}` differ {}",
                         with_thousands(static_cast<uint64_t>(integers.differing)),
                         with_thousands(static_cast<uint64_t>(integers.elements)), integers.output,
                         samples);
  } else {
    return std::nullopt;
  }
  return Diagnostic{.id = DiagnosticId::kCheckInaccurate,
                    .reason = std::move(reason),
                    .fix = std::move(fix),
                    .place = {.file = file},
                    .severity = Severity::kWarning};
}

}  // namespace dtr
