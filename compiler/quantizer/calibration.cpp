#include "compiler/quantizer/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>

#include "compiler/quantizer/loops.h"
#include "compiler/support/thread_pool.h"

namespace dtr {
namespace {

// The channels of one value to observe. Sums of floats depend on their order: each sample has its
// own, added in the samples' order.
struct ChannelObserver {
  int axis = 1;
  size_t first_sum = 0;  // of the sample's sums
  std::vector<float> min, max;
};

// What one thread at a time observes, of the samples that it has run; all by value slot.
struct Observers {
  std::vector<std::optional<ValueStatistics>> values;
  std::vector<std::optional<ChannelObserver>> channels;
  std::vector<size_t> not_finite;  // the first sample with NaN or infinity; SIZE_MAX: none
  size_t sums = 0;                 // of a sample
};

// An empty observer for each value that decides a quantization or is multiplied by weights.
Observers observers_of(const Graph& graph, const Annotation& annotation) {
  Observers observers;
  observers.values.resize(graph.value_slots());
  observers.channels.resize(graph.value_slots());
  observers.not_finite.assign(graph.value_slots(), SIZE_MAX);
  for (const QuantizationGroup& group : annotation.groups)
    for (const ValueId value : group.observed)
      if (!graph.is_constant(value))
        observers.values[value.index].emplace(group.spec.observer != QuantSpec::Observer::kMinMax);
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    const std::optional<int> axis =
        annotation.ops[id.index] ? channel_axis(graph, id) : std::nullopt;
    if (!axis) continue;
    std::optional<ChannelObserver>& observer = observers.channels[op.operands[0].index];
    if (observer) continue;
    const auto channels =
        static_cast<size_t>(graph.type(op.operands[0]).shape[static_cast<size_t>(*axis)]);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    observer = ChannelObserver{*axis, observers.sums, std::vector<float>(channels, kInfinity),
                               std::vector<float>(channels, -kInfinity)};
    observers.sums += channels;
  }
  return observers;
}

// Infinite elements of an output saturate in int8, and no op reads them.
std::vector<float> elements_but_infinite(std::span<const float> elements) {
  std::vector<float> others;
  std::ranges::copy_if(elements, std::back_inserter(others),
                       [](float element) { return !std::isinf(element); });
  return others;
}

// The position of a logical axis of (N, C, H, W) in (N, H, W, C).
size_t axis_in_channels_last(size_t axis) { return axis == 0 ? 0 : axis == 1 ? 3 : axis - 1; }

// The elements with those that readers do not tell from a bound (`ReadWindow`) at that bound. Rows
// that a mask excludes wholly are left out: no element of them counts. They are −9,999 or less, and
// far below other rows: scores may be that small too.
std::vector<float> elements_in_window(const TensorView& tensor, const ReadWindow& window,
                                      std::optional<size_t> axis) {
  constexpr float kMasked = -9999;   // as masks of floats exclude: -10,000, -1e9, the least float
  constexpr float kFarBelow = 5000;  // half of the least mask, for scores of any size
  const std::span<const float> elements = tensor.values<float>();
  const size_t count = axis ? static_cast<size_t>(tensor.shape[*axis]) : elements.size();
  size_t stride = 1;
  for (size_t i = axis ? *axis + 1 : tensor.shape.size(); i < tensor.shape.size(); ++i)
    stride *= static_cast<size_t>(tensor.shape[i]);
  const float sign = window.mirrored ? -1.0F : 1.0F;
  const float most = loops::greatest(elements, sign);
  std::vector<float> inside(elements.size()), gathered(stride > 1 ? count : 0);
  size_t kept = 0;
  for (size_t outer = 0; outer < elements.size(); outer += count * stride)
    for (size_t first = outer; first < outer + stride; ++first) {
      std::span<const float> row = elements.subspan(first, stride > 1 ? 1 : count);
      if (stride > 1) {
        for (size_t i = 0; i < count; ++i) gathered[i] = elements[first + i * stride];
        row = gathered;
      }
      const float greatest = loops::greatest(row, sign);
      const bool masked =
          greatest <= kMasked && std::ranges::none_of(row, [](float x) { return std::isnan(x); });
      if (masked && greatest < most - kFarBelow) continue;
      const float low = std::min(greatest, window.top) - window.below;
      loops::clip(row, sign, low, window.high, &inside[kept]);
      kept += count;
    }
  inside.resize(kept);
  return inside;
}

class Calibrator {
 public:
  Calibrator(const Module& module, const Graph& graph, const Annotation& annotation,
             Executor& executor, const Samples& samples)
      : module_(module),
        graph_(graph),
        annotation_(annotation),
        executor_(executor),
        samples_(samples),
        empty_(observers_of(graph, annotation)),
        sums_(samples.size()) {}

  // Whether all samples are finite but for -inf in inputs that are not observed, such as a mask in
  // front of a softmax: those change no range. What they make of others is checked there.
  bool only_masks_are_infinite() const {
    for (size_t sample = 0; sample < samples_.size(); ++sample) {
      const std::vector<TensorView> views = samples_.inputs(sample);
      for (size_t i = 0; i < views.size(); ++i) {
        if (find_non_finite(views[i]) < 0) continue;
        if (empty_.values[graph_.inputs()[i].index] || views[i].dtype != DType::kFloat32 ||
            std::ranges::any_of(views[i].values<const float>(),
                                [](float x) { return !std::isfinite(x) && !(x < 0); }))
          return false;
      }
    }
    return true;
  }

  Result<CalibrationResult> run(const CalibrationOptions& options) && {
    // Only samples after a failing one are skipped: whichever thread runs what, the first failing
    // sample is reported. Samples of a model with states are a stream, run in their order.
    const unsigned threads = graph_.state_count() > 0 ? 1 : options.threads;
    parallel_for(samples_.size(), threads, [&](size_t sample) {
      if (sample > first_failed_.load(std::memory_order_relaxed)) return;
      Observers observers = take();
      const Result<void> status = run_sample(sample, observers);
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(observers));
      if (!status && sample < first_failed_) {
        first_failed_ = sample;
        failure_ = status.error();
      }
      if (options.progress) options.progress(++done_, samples_.size());
    });
    if (failure_) return tl::unexpected(std::move(*failure_));
    CalibrationResult result{.samples = samples_.size()};
    for (uint32_t i = 0; i < empty_.values.size(); ++i) {
      const std::string& name = graph_.value({i}).name;
      if (empty_.values[i]) {
        // Each part gives up its histogram when it is merged: a thousand of them are 32 MB.
        ValueStatistics merged = *empty_.values[i];
        size_t not_finite = SIZE_MAX;
        for (Observers& part : free_) {
          if (merged.empty()) {
            merged = *std::move(part.values[i]);
          } else {
            merged.merge(*part.values[i]);
          }
          part.values[i].reset();
          not_finite = std::min(not_finite, part.not_finite[i]);
        }
        if (not_finite == SIZE_MAX)
          result.values.emplace(name, std::move(merged));
        else
          result.not_finite.emplace(name, not_finite);
      }
      if (empty_.channels[i] && !result.not_finite.contains(name))
        result.channels.emplace(name, merged_channels(i));
    }
    return result;
  }

 private:
  ChannelStatistics merged_channels(uint32_t value) const {
    const ChannelObserver& empty = *empty_.channels[value];
    ChannelStatistics merged{.axis = empty.axis,
                             .min = empty.min,
                             .max = empty.max,
                             .mean = std::vector<double>(empty.min.size())};
    const auto per_channel =
        graph_.type({value}).elements() / static_cast<int64_t>(merged.mean.size());
    const double scale =
        1.0 / (static_cast<double>(per_channel) * static_cast<double>(samples_.size()));
    for (size_t c = 0; c < merged.mean.size(); ++c) {
      for (const Observers& part : free_) {
        merged.min[c] = std::min(merged.min[c], part.channels[value]->min[c]);
        merged.max[c] = std::max(merged.max[c], part.channels[value]->max[c]);
      }
      double sum = 0;
      for (const std::vector<double>& sums : sums_) sum += sums[empty.first_sum + c];
      merged.mean[c] = sum * scale;
    }
    return merged;
  }

  // The elements of a value that its readers tell apart; empty: all.
  std::vector<float> in_window(ValueId value, const TensorView& tensor, bool logical) const {
    const std::optional<ReadWindow>& window = annotation_.windows[value.index];
    if (!window || tensor.elements() == 0) return {};
    std::optional<size_t> axis;
    if (window->dim)
      axis = static_cast<size_t>(*window->dim < 0
                                     ? *window->dim + static_cast<int64_t>(tensor.shape.size())
                                     : *window->dim);
    if (axis && !logical) axis = axis_in_channels_last(*axis);
    return elements_in_window(tensor, *window, axis);
  }

  Observers take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return empty_;
    Observers observers = std::move(free_.back());
    free_.pop_back();
    return observers;
  }

  // What has NaN or infinity on one sample.
  struct NotFinite {
    ValueId first;                  // of all values that are looked at, in the order of execution
    std::vector<ValueId> observed;  // values inside of the model
    bool everything = false;        // in one of them
    bool outputs = false;           // an output that is read by no operator: infinity counts too
    bool nan = false;               // an output has NaN, or infinity that an operator reads
  };

  // Whether the value has no NaN and no infinity among the elements that its readers tell apart.
  bool observe(ValueId value, const TensorView& tensor, bool logical, Observers& observers,
               NotFinite& found) const {
    std::optional<ValueStatistics>& statistics = observers.values[value.index];
    const bool is_output = graph_.value(value).output_uses > 0;
    const std::vector<float> inside = in_window(value, tensor, logical);
    const std::span<const float> elements =
        inside.empty() ? tensor.values<const float>() : std::span<const float>(inside);
    if (statistics ? statistics->observe(elements) : !is_output || finite_range(elements).finite)
      return true;
    if (!found.first.valid()) found.first = value;
    const std::vector<float> others = elements_but_infinite(tensor.values<float>());
    if (is_output) {
      found.outputs = true;
      found.nan = found.nan || !graph_.value(value).uses.empty() || others.empty() ||
                  !(statistics ? statistics->observe(others) : finite_range(others).finite);
    } else {
      found.observed.push_back(value);
      found.everything = found.everything ||
                         std::ranges::none_of(tensor.values<float>(),
                                              [](float element) { return std::isfinite(element); });
    }
    return false;
  }

  Result<void> run_sample(size_t sample, Observers& observers) {
    NotFinite found;
    std::vector<double>& sums = sums_[sample];
    sums.resize(empty_.sums);
    const auto outputs =
        executor_.run(samples_.inputs(sample), [&](ValueId value, const TensorView& tensor) {
          if (tensor.dtype != DType::kFloat32) return;
          // The executor may hand (N, C, H, W) as (N, H, W, C).
          const bool logical = tensor.shape == graph_.type(value).shape;
          if (!observe(value, tensor, logical, observers, found)) return;
          std::optional<ChannelObserver>& channels = observers.channels[value.index];
          if (channels && tensor.elements() > 0)
            observe_channels(
                tensor, logical ? static_cast<size_t>(channels->axis) : tensor.shape.size() - 1,
                std::span(sums).subspan(channels->first_sum, channels->min.size()), channels->min,
                channels->max);
        });
    if (!outputs) return tl::unexpected(outputs.error());
    // What vanishes before the outputs, as the infinities of a mask do, is meant.
    if (!found.nan && !found.everything && (found.observed.empty() || !found.outputs)) {
      for (const ValueId value : found.observed)
        observers.not_finite[value.index] = std::min(observers.not_finite[value.index], sample);
      return {};
    }
    const OpId producer = graph_.producer(found.first);
    Place place = producer.valid()
                      ? place_of(module_, graph_, producer)
                      : Place{.file = module_.file, .node = graph_.value(found.first).name};
    return fail(
        DiagnosticId::kCalibrationNotFinite,
        fmt::format("the float model computes NaN or infinity on calibration sample {}", sample),
        "check that the samples are preprocessed as the model expects, and the model's weights",
        std::move(place));
  }

  const Module& module_;
  const Graph& graph_;
  const Annotation& annotation_;
  Executor& executor_;
  const Samples& samples_;
  const Observers empty_;
  std::vector<std::vector<double>> sums_;  // of channels, by sample
  std::mutex mutex_;
  std::vector<Observers> free_;        // of all samples that are done
  std::optional<Diagnostic> failure_;  // of sample first_failed_
  std::atomic<size_t> first_failed_{SIZE_MAX};
  size_t done_ = 0;
};

}  // namespace

bool has_statistics(const Graph& graph, const QuantizationGroup& group,
                    const CalibrationResult& calibration) {
  return std::ranges::all_of(group.observed, [&](ValueId value) {
    return graph.is_constant(value) || calibration.values.contains(graph.value(value).name);
  });
}

bool is_complete(const Graph& graph, const Annotation& annotation,
                 const CalibrationResult& calibration) {
  return std::ranges::all_of(annotation.groups, [&](const QuantizationGroup& group) {
    return has_statistics(graph, group, calibration);
  });
}

uint64_t hash_of_weights(const ConstantPool& constants) {
  std::vector<uint64_t> hashes;
  for (uint32_t i = 0; i < constants.size(); ++i)
    if (constants.dtype(ConstantId{i}) == DType::kFloat32)
      hashes.push_back(constants.hash(ConstantId{i}));
  return content_hash(std::as_bytes(std::span(hashes)));
}

Result<CalibrationResult> calibrate(const Module& module, const Graph& graph,
                                    const Annotation& annotation, Executor& executor,
                                    const Samples& samples, const CalibrationOptions& options) {
  if (samples.size() == 0)
    return fail(DiagnosticId::kCalibrationMissing,
                "static quantization needs calibration data and there is not one sample",
                "give samples with --calibrate DATA.npz", {.file = module.file});
  Calibrator calibrator(module, graph, annotation, executor, samples);
  if (!calibrator.only_masks_are_infinite()) DTR_TRY(samples.check_finite());
  return std::move(calibrator).run(options);
}

}  // namespace dtr
