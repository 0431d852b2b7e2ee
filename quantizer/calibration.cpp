#include "quantizer/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "support/thread_pool.h"

namespace dtr {
namespace {

// Statistics by value slot, of the samples that one thread at a time has run.
using Statistics = std::vector<std::optional<ValueStatistics>>;

// One empty entry for each value to observe.
Statistics observers_of(const Graph& graph, const Annotation& annotation) {
  Statistics statistics(graph.value_slots());
  for (const QuantizationGroup& group : annotation.groups)
    for (const ValueId value : group.observed)
      if (!graph.is_constant(value)) statistics[value.index].emplace(group.spec.observer == QuantSpec::Observer::kHistogram);
  return statistics;
}

class Calibrator {
 public:
  Calibrator(const Program& program, const Graph& graph, const Annotation& annotation, Executor& executor, const Samples& samples)
      : program_(program), graph_(graph), executor_(executor), samples_(samples), empty_(observers_of(graph, annotation)) {}

  Result<CalibrationResult> run(const CalibrationOptions& options) {
    // Only samples after a failing one are skipped: whichever thread runs what, the first failing sample is reported.
    parallel_for(samples_.size(), options.threads, [&](size_t sample) {
      if (sample > first_failed_.load(std::memory_order_relaxed)) return;
      Statistics statistics = take();
      const Status status = run_sample(sample, statistics);
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(statistics));
      if (!status && sample < first_failed_) {
        first_failed_ = sample;
        failure_ = status.error();
      }
      if (options.progress) options.progress(++done_, samples_.size());
    });
    if (failure_) return tl::unexpected(std::move(*failure_));
    CalibrationResult result{.samples = samples_.size()};
    for (size_t i = 0; i < empty_.size(); ++i) {
      if (!empty_[i]) continue;
      ValueStatistics merged = *empty_[i];
      for (const Statistics& part : free_) merged.merge(*part[i]);
      result.values.emplace(graph_.value(ValueId{static_cast<uint32_t>(i)}).name, std::move(merged));
    }
    return result;
  }

 private:
  Statistics take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return empty_;
    Statistics statistics = std::move(free_.back());
    free_.pop_back();
    return statistics;
  }

  Status run_sample(size_t sample, Statistics& statistics) {
    ValueId bad;
    const auto outputs = executor_.run(samples_.inputs(sample), [&](ValueId value, const TensorView& tensor) {
      std::optional<ValueStatistics>& observer = statistics[value.index];
      if (bad.valid() || tensor.dtype != DType::kFloat32) return;
      const bool finite = observer ? observer->observe(tensor.values<float>())
                                   : graph_.value(value).output_uses == 0 || finite_range(tensor.values<float>()).finite;
      if (!finite) bad = value;
    });
    if (!outputs) return tl::unexpected(outputs.error());
    if (!bad.valid()) return {};
    const OpId producer = graph_.producer(bad);
    Place place = producer.valid() ? place_of(program_, graph_, producer) : Place{.file = program_.file, .node = graph_.value(bad).name};
    return fail(DiagnosticId::kCalibrationNotFinite,
                fmt::format("the float model computes NaN or infinity on calibration sample {}", sample),
                "check that the samples are preprocessed as the model expects, and the model's weights", std::move(place));
  }

  const Program& program_;
  const Graph& graph_;
  Executor& executor_;
  const Samples& samples_;
  const Statistics empty_;
  std::mutex mutex_;
  std::vector<Statistics> free_;       // of all samples that are done
  std::optional<Diagnostic> failure_;  // of sample first_failed_
  std::atomic<size_t> first_failed_{SIZE_MAX};
  size_t done_ = 0;
};

}  // namespace

Result<CalibrationResult> calibrate(const Program& program, const Graph& graph, const Annotation& annotation, Executor& executor,
                                    const Samples& samples, const CalibrationOptions& options) {
  if (samples.size() == 0)
    return fail(DiagnosticId::kCalibrationMissing, "static quantization needs calibration data and there is not one sample",
                "give samples with --calibrate DATA.npz", {.file = program.file});
  DTR_TRY(samples.check_finite());
  return Calibrator(program, graph, annotation, executor, samples).run(options);
}

}  // namespace dtr
